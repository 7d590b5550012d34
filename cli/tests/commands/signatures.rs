//! `sign`, and `verify --signature`. `e2e` tests them against the reference implementation.

use super::Folder;
use super::bytes::{noise, safetensors};
use super::command::{fail, succeed};
use weightstream_cli::serve;

const KEY: &str = include_str!("../../../tests/docs/signing.key");
const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEDIpD8ip1rholHcZHruDEfkSkf+/4
mq3CTg3rbP83ErR23ZhxBreqW85rJI656x8c47JcabXRWyhOMTqowbny3A==
-----END PUBLIC KEY-----
";

/// A folder with a model of two shards, and its signature.
fn signed() -> Folder {
    let folder = Folder::new();
    let model = |name, seed| safetensors(None, &[(name, "U8", &[3000][..], noise(seed, 3000))]);
    folder.write("m/a.safetensors", &model("a", 1));
    folder.write("m/b.safetensors", &model("b", 2));
    let index = br#"{"metadata":{},"weight_map":{"a":"a.safetensors","b":"b.safetensors"}}"#;
    folder.write("m/model.safetensors.index.json", index);
    folder.write("m/.gitattributes", b"not signed");
    folder.write("key.pem", KEY.as_bytes());
    folder.write("public.pem", PUBLIC_KEY.as_bytes());
    let printed = succeed(&folder, &["sign", "m", "--key", "key.pem", "--signature", "m/model.sig"]);
    assert_eq!(printed, "signed: m/model.sig\n");
    folder
}

const VERIFY: [&str; 6] = ["verify", "m", "--signature", "m/model.sig", "--public-key", "public.pem"];

#[test]
fn verify_compares_a_folder_with_its_signature() {
    let folder = signed();
    let printed = succeed(&folder, &VERIFY);
    assert!(printed.starts_with("ok: 3 files, as signed\n"), "{printed}");
    folder.write("m/b.safetensors", &noise(3, 3000));
    let error = fail(&folder, &VERIFY);
    assert!(error.contains("error[SIGNATURE]") && error.contains("b.safetensors: "), "{error}");
}

#[test]
fn verify_compares_a_model_at_a_url_with_its_signature() {
    let folder = signed();
    let server = serve::Server::new().mount("/", folder.0.path()).bind("127.0.0.1:0").unwrap().spawn();
    let model = format!("{}/m/model.safetensors.index.json", server.url());
    let signature = format!("{}/m/model.sig", server.url());
    let verify = ["verify", &model, "--signature", &signature, "--public-key", "public.pem"];
    assert!(succeed(&folder, &verify).ends_with("sha256\n"));
    folder.write("m/b.safetensors", &safetensors(None, &[("b", "U8", &[3000][..], noise(3, 3000))]));
    let error = fail(&folder, &verify);
    assert!(error.contains("error[SIGNATURE]") && error.contains("m/b.safetensors: "), "{error}");
    let other = ["--signed-path", "model.safetensors"];
    let error = fail(&folder, &[&verify[..], &other[..]].concat());
    assert!(error.contains("does not list the file \"model.safetensors\""), "{error}");
}

#[test]
fn sign_leaves_out_what_it_is_told_to() {
    let folder = signed();
    folder.write("m/notes/draft.md", b"");
    assert!(fail(&folder, &VERIFY).contains("does not list the file \"notes/draft.md\""));
    let sign = ["sign", "m", "--key", "key.pem", "--signature", "m/model.sig", "--ignore"];
    succeed(&folder, &[&sign[..], &["notes/"]].concat());
    succeed(&folder, &VERIFY);
    assert!(fail(&folder, &[&sign[..], &["note"]].concat()).contains("`--ignore note` is not in the folder"));
}

#[test]
fn sign_refuses_to_publish_the_private_key() {
    let folder = signed();
    folder.write("m/key.pem", KEY.as_bytes());
    let error = fail(&folder, &["sign", "m", "--key", "m/key.pem"]);
    assert!(error.contains("the private key is in the folder") && error.contains("--ignore key.pem"), "{error}");
}

#[test]
fn verify_asks_whom_to_trust_and_for_what_was_signed() {
    let folder = signed();
    for (arguments, expected) in [
        (&VERIFY[..4], "`--public-key` or `--certificate-chain`"),
        (
            &["verify", "m/a.safetensors", "--signature", "m/model.sig", "--public-key", "public.pem"],
            "a folder was signed",
        ),
        (&["verify", "m", "--signature", "m/model.sig", "--public-key", "key.pem"], "This is a private key"),
        (&["verify", "m", "--signature", "public.pem", "--public-key", "public.pem"], "not a Sigstore bundle"),
        (&["verify", "m", "--signature", "m/model.sig", "--certificate-chain", "public.pem"], "This is a public key"),
        (&["verify", "m", "--signature", "none.sig", "--public-key", "public.pem"], "none.sig"),
        (&["sign", "https://example.org/m", "--key", "key.pem"], "this is a URL"),
    ] {
        let error = fail(&folder, arguments);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn sign_replaces_only_signatures() {
    let folder = signed();
    let weights = std::fs::read(folder.path("m/a.safetensors")).unwrap();
    for (output, message) in [
        ("m/a.safetensors", "already exists"),
        ("public.pem", "already exists"),
        ("key.pem", "overwritten while it is read"),
    ] {
        let error = fail(&folder, &["sign", "m", "--key", "key.pem", "--signature", output]);
        assert!(error.contains(output) && error.contains(message), "{error}");
    }
    for output in ["key.pem", "m/a.safetensors"] {
        let forced = ["sign", "m/a.safetensors", "--key", "key.pem", "--signature", output, "--force"];
        assert!(fail(&folder, &forced).contains("overwritten while it is read"));
    }
    assert_eq!(std::fs::read_to_string(folder.path("key.pem")).unwrap(), KEY);
    assert_eq!(std::fs::read(folder.path("m/a.safetensors")).unwrap(), weights);
    succeed(&folder, &["sign", "m", "--key", "key.pem", "--signature", "public.pem", "--force"]);
    succeed(&folder, &["sign", "m", "--key", "key.pem", "--signature", "public.pem"]);
}
