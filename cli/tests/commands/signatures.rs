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
    assert_eq!(printed, "signed: m; the signature is in m/model.sig\n");
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

/// As `StreamingLoader.open` does.
#[test]
fn verify_compares_the_files_of_one_model_in_a_signed_folder() {
    let folder = signed();
    folder.write("m/notes.md", b"not signed, and not of the model");
    let verify = |model, others: &[&'static str]| {
        let signature = ["verify", model, "--signature", "m/model.sig", "--public-key", "public.pem"];
        [&signature[..], others].concat()
    };
    let (index, shard) = ("m/model.safetensors.index.json", "m/a.safetensors");
    assert!(succeed(&folder, &verify(index, &[])).starts_with("ok: 3 files, as signed\n"));
    assert!(succeed(&folder, &verify(shard, &[])).starts_with("ok: 1 file, as signed\n"));
    succeed(&folder, &verify(shard, &["--signed-path", "a.safetensors"]));
    let error = fail(&folder, &verify(shard, &["--signed-path", "b.safetensors"]));
    assert!(error.contains("error[SIGNATURE]") && error.contains("another digest"), "{error}");
    // A signature outside of the folder: the path is the name of the file.
    let moved = ["verify", index, "--signature", "model.sig", "--public-key", "public.pem"];
    std::fs::copy(folder.0.path().join("m/model.sig"), folder.0.path().join("model.sig")).unwrap();
    succeed(&folder, &moved);
    folder.write("m/b.safetensors", &safetensors(None, &[("b", "U8", &[3000][..], noise(3, 3000))]));
    let error = fail(&folder, &verify(index, &[]));
    assert!(error.contains("error[SIGNATURE]") && error.contains("b.safetensors: "), "{error}");
    succeed(&folder, &verify(shard, &[]));
}

#[test]
fn verify_refuses_files_of_the_model_that_are_not_signed() {
    let folder = signed();
    let sign = ["sign", "m", "--key", "key.pem", "--signature", "m/model.sig", "--ignore", "b.safetensors"];
    succeed(&folder, &sign);
    let index = ["verify", "m/model.safetensors.index.json"];
    for verify in [VERIFY.to_vec(), [&index, &VERIFY[2..]].concat()] {
        let error = fail(&folder, &verify);
        assert!(error.contains("error[SIGNATURE]") && error.contains("not list the file \"b.safetensors\""), "{error}");
    }
    // A manifest that was signed alone says nothing about its files.
    succeed(&folder, &["sign", "m/model.safetensors.index.json", "--key", "key.pem", "--signature", "m/model.sig"]);
    let error = fail(&folder, &[&index, &VERIFY[2..]].concat());
    assert!(error.contains("error[SIGNATURE]") && error.contains("not list the file \"a.safetensors\""), "{error}");
}

#[test]
fn verify_compares_the_entry_of_a_published_folder() {
    let folder = signed();
    succeed(&folder, &["publish", "m/a.safetensors", "p/"]);
    succeed(&folder, &["sign", "p", "--key", "key.pem", "--signature", "p/model.sig"]);
    let verify = ["verify", "p/model.apr", "--signature", "p/model.sig", "--public-key", "public.pem"];
    let printed = succeed(&folder, &verify);
    assert!(printed.contains(" files, as signed\n"), "{printed}");
}

/// The same verdicts as in a page and in Node.js: `tests/signatures/verdicts.js`.
#[test]
fn verify_has_the_verdicts_of_model_signing() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/signatures");
    let folder = Folder::new();
    for name in ["m/model.safetensors", "pub.pem", "good.sig", "hint.sig", "sharded_name.sig", "media.sig"] {
        folder.write(name, &std::fs::read(fixtures.join(name)).unwrap());
    }
    let verify = |signature| ["verify", "m", "--signature", signature, "--public-key", "pub.pem"];
    succeed(&folder, &verify("good.sig"));
    for (name, code) in [("hint.sig", "SIGNATURE"), ("sharded_name.sig", "SIGNATURE"), ("media.sig", "UNSUPPORTED")] {
        let error = fail(&folder, &verify(name));
        assert!(error.contains(&format!("error[{code}]")) && !error.contains("Convert"), "{name}: {error}");
    }
}

#[test]
fn sign_leaves_out_what_it_is_told_to() {
    let folder = signed();
    folder.write("m/notes/draft.md", b"");
    assert!(fail(&folder, &VERIFY).contains("does not list the file \"notes/draft.md\""));
    let sign = ["sign", "m", "--key", "key.pem", "--signature", "m/model.sig", "--ignore"];
    succeed(&folder, &[&sign[..], &["notes/"]].concat());
    succeed(&folder, &VERIFY);
    for missing in ["note", "..", ".", "../key.pem"] {
        let error = fail(&folder, &[&sign[..], &[missing]].concat());
        assert!(error.contains(&format!("`--ignore {missing}` is not in the folder")), "{error}");
    }
    let absolute = folder.0.path().join("m/notes").display().to_string();
    for same in ["./notes", "notes/.", "notes/../notes", ".//notes", &absolute] {
        succeed(&folder, &[&sign[..], &[same]].concat());
        succeed(&folder, &VERIFY);
    }
    let file = ["sign", "m/a.safetensors", "--key", "key.pem", "--ignore", "notes"];
    assert!(fail(&folder, &file).contains("`--ignore` applies only to folders"));
}

#[test]
fn sign_refuses_to_publish_the_private_key() {
    let folder = signed();
    folder.write("m/key.pem", KEY.as_bytes());
    let error = fail(&folder, &["sign", "m", "--key", "m/key.pem"]);
    assert!(error.contains("the private key is in the folder") && error.contains("--ignore key.pem"), "{error}");
    folder.write("m/private/key.pem", KEY.as_bytes());
    let sign = ["sign", "m", "--key", "m/private/key.pem", "--ignore", "./private", "--ignore", "key.pem"];
    succeed(&folder, &sign);
}

#[test]
fn verify_asks_whom_to_trust_and_for_what_was_signed() {
    let folder = signed();
    for (arguments, expected) in [
        (&VERIFY[..4], "`--public-key` or `--certificate-chain`"),
        (&[&VERIFY[..], &["--signed-path", "a.safetensors"]].concat(), "`--signed-path` is the path of a file"),
        (&["verify", "m", "--signature", "m/model.sig", "--public-key", "key.pem"], "This is a private key"),
        (&["verify", "m", "--signature", "public.pem", "--public-key", "public.pem"], "not a Sigstore bundle"),
        (&["verify", "m", "--signature", "m/model.sig", "--certificate-chain", "public.pem"], "this is a public key"),
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
        ("m/a.safetensors", "in the folder to sign, and is no signature"),
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
    let forced = ["sign", "m", "--key", "key.pem", "--signature", "m/a.safetensors", "--force"];
    assert!(fail(&folder, &forced).contains("in the folder to sign, and is no signature"));
    succeed(&folder, &["sign", "m", "--key", "key.pem", "--signature", "public.pem", "--force"]);
    succeed(&folder, &["sign", "m", "--key", "key.pem", "--signature", "public.pem"]);
}
