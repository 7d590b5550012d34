//! Tests of bundles and statements. `e2e` tests them against the reference implementation.

use super::*;
use crate::digest::Digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p256::elliptic_curve::Generate;
use p256::pkcs8::{EncodePrivateKey, LineEnding};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;

fn private_key() -> PrivateKey {
    let key = p256::SecretKey::generate();
    PrivateKey::from_pem(&key.to_pkcs8_pem(LineEnding::LF).unwrap()).unwrap()
}

/// A signed folder with a file in a folder of its own.
fn signed(key: &PrivateKey) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("a/b"), "one").unwrap();
    fs::write(folder.path().join("a.c"), "two").unwrap();
    fs::write(folder.path().join(".gitignore"), "not signed").unwrap();
    let bundle = sign_folder(folder.path(), key, &[]).unwrap();
    (folder, bundle)
}

/// Signs any payload.
fn bundle_of(payload: &Value, key: &PrivateKey) -> Vec<u8> {
    let payload = payload.to_string();
    let signature = key.sign(&weightstream_signatures::message_of(payload.as_bytes())).unwrap();
    let public = key.public_key().to_der().unwrap();
    weightstream_signatures::envelope(payload.as_bytes(), &signature, &public).into_bytes()
}

/// A statement about files, which all have the digest of no bytes.
fn statement(is_in_shards: bool, names: &[&str]) -> Value {
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let (method, algorithm) = if is_in_shards { ("shards", "sha256-sharded-4") } else { ("files", "sha256") };
    let serialization = json!({ "method": method, "hash_type": "sha256", "shard_size": 4, "allow_symlinks": false });
    let list: Vec<_> =
        names.iter().map(|name| json!({ "name": name, "algorithm": algorithm, "digest": EMPTY })).collect();
    let mut root = crate::codec::digest::Hasher::new(Digest::Sha256([0; 32]));
    let empty: Digest = format!("sha256:{EMPTY}").parse().unwrap();
    let Digest::Sha256(bytes) = empty else { unreachable!() };
    names.iter().for_each(|_| root.update(&bytes));
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "name": "m", "digest": { "sha256": root.finish().to_string() } }],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": { "serialization": serialization, "resources": list },
    })
}

#[track_caller]
fn refusal(bundle: &[u8], key: &PrivateKey) -> Error {
    verify(bundle, &Trust::Key(key.public_key())).unwrap_err()
}

#[test]
fn verifies_what_it_signs() {
    let key = private_key();
    let (folder, bundle) = signed(&key);
    assert_eq!(bundle, sign_folder(folder.path(), &key, &[]).unwrap(), "equal models have equal signatures");
    let statement = verify(bundle.as_bytes(), &Trust::Key(key.public_key())).unwrap();
    assert_eq!(statement.files.iter().map(|(path, _)| path).collect::<Vec<_>>(), ["a.c", "a/b"]);
    assert_eq!(verify_folder(folder.path(), &statement, &[]), Ok(2));
}

#[test]
fn refuses_files_that_differ_or_are_missing_or_unsigned() {
    let key = private_key();
    let (folder, bundle) = signed(&key);
    let statement = verify(bundle.as_bytes(), &Trust::Key(key.public_key())).unwrap();
    let refused = |expected: &str| {
        let error = verify_folder(folder.path(), &statement, &[]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Signature);
        assert!(error.to_string().contains(expected), "{error}");
    };
    let (extra, file) = (folder.path().join("extra"), folder.path().join("a/b"));
    fs::write(&extra, "").unwrap();
    refused("does not list the file \"extra\"");
    fs::remove_file(&extra).unwrap();
    fs::write(&file, "onE").unwrap();
    refused("another digest");
    fs::remove_file(&file).unwrap();
    refused("\"a/b\" is missing");
}

#[cfg(unix)]
#[test]
fn refuses_to_sign_symbolic_links() {
    let key = private_key();
    let (folder, _) = signed(&key);
    std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link")).unwrap();
    let error = sign_folder(folder.path(), &key, &[]).unwrap_err();
    assert!(error.to_string().contains("a symbolic link"), "{error}");
    sign_folder(folder.path(), &key, &["link".to_owned()]).unwrap();
}

#[test]
fn refuses_statements_with_wrong_paths() {
    let key = private_key();
    for name in ["../a", "/a", "a/../b", "a//b", "", "a/.", "..", "a\0"] {
        let error = refusal(&bundle_of(&statement(false, &[name]), &key), &key);
        assert_eq!(error.kind, ErrorKind::Signature, "{name:?}: {error}");
    }
    let error = refusal(&bundle_of(&statement(false, &["a", "a"]), &key), &key);
    assert!(error.to_string().contains("twice"), "{error}");
}

#[cfg(unix)]
#[test]
fn signs_and_verifies_names_with_a_backslash() {
    let key = private_key();
    let (folder, _) = signed(&key);
    fs::write(folder.path().join("a\\b"), "three").unwrap();
    let bundle = sign_folder(folder.path(), &key, &[]).unwrap();
    let statement = verify(bundle.as_bytes(), &Trust::Key(key.public_key())).unwrap();
    assert_eq!(verify_folder(folder.path(), &statement, &[]), Ok(3));
}

#[test]
fn refuses_shards_that_are_not_consecutive() {
    let key = private_key();
    let trust = Trust::Key(key.public_key());
    for names in [&["a:0:4", "a:8:9"][..], &["a:4:8"], &["a:0:4", "a:0:4"], &["a:0:3", "a:4:8"], &["a"]] {
        let error = refusal(&bundle_of(&statement(true, names), &key), &key);
        assert_eq!(error.kind, ErrorKind::Signature, "{names:?}: {error}");
    }
    verify(&bundle_of(&statement(true, &["a:0:4", "b:0:1", "a:4:6"]), &key), &trust).unwrap();
}

/// The kinds of refusals are those of the crate that parses signatures, and so is their advice.
#[test]
fn an_unsupported_signature_does_not_advise_to_convert_the_model() {
    let key = private_key();
    let (_, bundle) = signed(&key);
    for (from, to) in [("\"tlogEntries\":[]", "\"tlogEntries\":[{}]"), (".bundle.v0.3+json", ".bundle.v0.4+json")] {
        let error = refusal(bundle.replace(from, to).as_bytes(), &key);
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(!error.to_string().contains("Convert") && !error.to_string().contains("--"), "{error}");
    }
    let error = refusal(b"{}", &key);
    assert_eq!((error.kind, error.to_string().contains("weightstream sign")), (ErrorKind::Signature, false));
    let general = Error::new(ErrorKind::Signature, "x").to_string();
    assert!(general.ends_with(weightstream_signatures::Bundle::parse(WITHOUT_MATERIAL).unwrap_err().advice));
}

const WITHOUT_MATERIAL: &[u8] = br#"{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json"}"#;

#[test]
fn refuses_another_key_and_a_changed_statement() {
    let key = private_key();
    let (_, bundle) = signed(&key);
    assert!(refusal(bundle.as_bytes(), &private_key()).to_string().contains("another key"));
    let mut forged: Value = serde_json::from_str(&bundle).unwrap();
    let payload = STANDARD.decode(forged.pointer("/dsseEnvelope/payload").unwrap().as_str().unwrap()).unwrap();
    let payload = String::from_utf8(payload).unwrap().replace("a.c", "a.d");
    *forged.pointer_mut("/dsseEnvelope/payload").unwrap() = json!(STANDARD.encode(payload));
    let error = refusal(forged.to_string().as_bytes(), &key);
    assert_eq!(error.kind, ErrorKind::Signature);
    assert!(error.to_string().contains("was changed"), "{error}");
}

#[test]
fn explains_keys_that_it_cannot_use() {
    for (text, expected) in [
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----\n", "Decrypt it"),
        ("-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n-----END EC PRIVATE KEY-----", "Decrypt it"),
        ("-----BEGIN PUBLIC KEY-----\n", "public key"),
        ("", "openssl genpkey"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "P-521"),
    ] {
        let error = PrivateKey::from_pem(text).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(expected), "{error}");
    }
    let pem = include_str!("../../tests/fixtures/signatures/signing.pem");
    let one_line = pem.replace('\n', "").replace("KEY-----", "KEY-----\r\n").replacen("-----END", "\r\n-----END", 1);
    PublicKey::from_pem(&one_line).unwrap();
    let private = p256::SecretKey::generate().to_pkcs8_pem(LineEnding::LF).unwrap();
    assert!(PublicKey::from_pem(&private).unwrap_err().to_string().contains("-pubout"));
    assert!(Roots::from_pem("").is_err());
    let cut = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nMAA=";
    assert!(Roots::from_pem(cut).unwrap_err().to_string().contains("has no end"));
}

proptest! {
    /// Any split of a file into chunks gives the same result.
    #[test]
    fn compares_pieces_in_chunks_of_any_size(cuts in prop::collection::vec(1usize..40, 1..20), wrong in 0usize..200) {
        let bytes: Vec<u8> = (0..100u8).collect();
        let digest = |bytes: &[u8]| crate::codec::digest::digest_of(bytes, Digest::Sha256([0; 32]));
        let mut files = SignedFiles::default();
        for (start, end) in [(0, 30), (30, 60), (60, 100)] {
            let piece = &bytes[start as usize..end as usize];
            files.add_piece("a", start, Some(end), digest(piece)).unwrap();
        }
        let mut read = bytes;
        if let Some(byte) = read.get_mut(wrong) {
            *byte ^= 1;
        }
        let mut check = files.of("a").unwrap().check();
        let mut rest = &read[..];
        let mut outcome = Ok(());
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at(rest.len().min(*cut));
            outcome = outcome.and_then(|()| check.update(now));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(outcome.and_then(|()| check.finish()).is_ok(), wrong >= 100);
    }

    /// Bundles come from the network.
    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), pem in ".{0,200}") {
        prop_assert!(verify(&bytes, &Trust::Key(private_key().public_key())).is_err());
        prop_assert!(PublicKey::from_pem(&pem).is_err());
    }
}

#[test]
fn refuses_files_that_are_longer_or_shorter_than_their_pieces() {
    let mut files = SignedFiles::default();
    files.add_piece("a", 0, Some(2), crate::codec::digest::digest_of(b"ab", Digest::Sha256([0; 32]))).unwrap();
    let check = |bytes: &[u8]| {
        let mut check = files.of("a").unwrap().check();
        check.update(bytes).and_then(|()| check.finish())
    };
    check(b"ab").unwrap();
    assert!(check(b"abc").unwrap_err().to_string().contains("longer"));
    assert!(check(b"a").unwrap_err().to_string().contains("shorter"));
}

/// What model-signing accepts is accepted, and what it refuses is refused. A test of the npm package has the same
/// cases.
#[test]
fn judges_signatures_as_model_signing_does() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/signatures");
    let model = folder.join("m");
    let code = |bundle: &[u8], key: &PublicKey| {
        let outcome = verify(bundle, &Trust::Key(key.clone()))
            .and_then(|statement| verify_folder(&model, &statement, &[]).map(drop));
        outcome.map_or_else(|error| error.code(), |()| "ok")
    };
    let key = PrivateKey::from_pem(include_str!("../../tests/docs/signing.key")).unwrap().public_key();
    let cases: Vec<Value> = serde_json::from_slice(&fs::read(folder.join("cases.json")).unwrap()).unwrap();
    assert!(cases.len() > 70);
    for case in cases {
        assert_eq!(code(case["bundle"].to_string().as_bytes(), &key), case["code"], "{}", case["name"]);
    }
    let key = PublicKey::from_pem(&fs::read_to_string(folder.join("pub.pem")).unwrap()).unwrap();
    for (name, expected) in
        [("good", "ok"), ("hint", "SIGNATURE"), ("sharded_name", "SIGNATURE"), ("media", "UNSUPPORTED")]
    {
        assert_eq!(code(&fs::read(folder.join(format!("{name}.sig"))).unwrap(), &key), expected, "{name}");
    }
}
