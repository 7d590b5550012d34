//! Tests of bundles and statements. `e2e` tests them against the reference implementation.

use super::*;
use crate::index::Digest;
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
    let bundle = sign_folder(folder.path(), key, &[], &()).unwrap();
    (folder, bundle)
}

/// Signs any payload.
fn bundle_of(payload: &Value, key: &PrivateKey) -> Vec<u8> {
    let payload = payload.to_string();
    let head = format!("DSSEv1 28 application/vnd.in-toto+json {} ", payload.len());
    let signature = key.sign(&[head.as_bytes(), payload.as_bytes()].concat()).unwrap();
    let envelope = json!({
        "payload": STANDARD.encode(payload),
        "payloadType": "application/vnd.in-toto+json",
        "signatures": [{ "sig": STANDARD.encode(signature) }],
    });
    let media_type = "application/vnd.dev.sigstore.bundle.v0.3+json";
    json!({ "mediaType": media_type, "verificationMaterial": {}, "dsseEnvelope": envelope }).to_string().into_bytes()
}

/// A statement about files, which all have the digest of no bytes.
fn statement(method: &str, names: &[&str]) -> Value {
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let list: Vec<_> =
        names.iter().map(|name| json!({ "name": name, "algorithm": "sha256", "digest": EMPTY })).collect();
    let mut root = crate::codec::digest::Hasher::new(Digest::Sha256([0; 32]));
    let empty: Digest = format!("sha256:{EMPTY}").parse().unwrap();
    let Digest::Sha256(bytes) = empty else { unreachable!() };
    names.iter().for_each(|_| root.update(&bytes));
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "name": "m", "digest": { "sha256": root.finish().to_string() } }],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": { "serialization": { "method": method }, "resources": list },
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
    assert_eq!(bundle, sign_folder(folder.path(), &key, &[], &()).unwrap(), "equal models have equal signatures");
    let statement = verify(bundle.as_bytes(), &Trust::Key(key.public_key())).unwrap();
    assert_eq!(statement.files.iter().map(|(path, _)| path).collect::<Vec<_>>(), ["a.c", "a/b"]);
    assert_eq!(verify_folder(folder.path(), &statement, &[], &()), Ok(2));
}

#[test]
fn refuses_files_that_differ_or_are_missing_or_unsigned() {
    let key = private_key();
    let (folder, bundle) = signed(&key);
    let statement = verify(bundle.as_bytes(), &Trust::Key(key.public_key())).unwrap();
    let refused = |expected: &str| {
        let error = verify_folder(folder.path(), &statement, &[], &()).unwrap_err();
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
    let error = sign_folder(folder.path(), &key, &[], &()).unwrap_err();
    assert!(error.to_string().contains("a symbolic link"), "{error}");
    sign_folder(folder.path(), &key, &["link".to_owned()], &()).unwrap();
}

#[test]
fn refuses_statements_with_wrong_paths() {
    let key = private_key();
    for name in ["../a", "/a", "a/../b", "a//b", "", "a\\b", "a/.", "..", "a\0"] {
        let error = refusal(&bundle_of(&statement("files", &[name]), &key), &key);
        assert_eq!(error.kind, ErrorKind::Signature, "{name:?}: {error}");
    }
    let error = refusal(&bundle_of(&statement("files", &["a", "a"]), &key), &key);
    assert!(error.to_string().contains("twice"), "{error}");
}

#[test]
fn refuses_shards_that_are_not_consecutive() {
    let key = private_key();
    for names in [
        &["a:0:4", "a:5:6"][..],
        &["a:1:4"],
        &["a:0:4", "a:0:4"],
        &["a:0:0"],
        &["a:4:0"],
        &["a:0:99999999999999999999"],
        &["a"],
    ] {
        let error = refusal(&bundle_of(&statement("shards", names), &key), &key);
        assert_eq!(error.kind, ErrorKind::Signature, "{names:?}: {error}");
    }
    verify(&bundle_of(&statement("shards", &["a:0:4", "b:c:0:1", "a:4:6"]), &key), &Trust::Key(key.public_key()))
        .unwrap();
}

#[test]
fn refuses_statements_that_contradict_themselves_or_are_of_other_types() {
    let key = private_key();
    for (pointer, value, kind) in [
        ("/subject/0/digest/sha256", json!("00"), ErrorKind::Signature),
        ("/subject", json!([]), ErrorKind::Signature),
        ("/_type", json!("x"), ErrorKind::Unsupported),
        ("/predicateType", json!("https://model_signing/Digests/v0.1"), ErrorKind::Unsupported),
        ("/predicate/serialization/method", json!("folders"), ErrorKind::Unsupported),
        ("/predicate/resources", json!({}), ErrorKind::Signature),
        ("/predicate/resources/0/algorithm", json!("blake2b"), ErrorKind::Unsupported),
        ("/predicate/resources/0/algorithm", json!("crc32"), ErrorKind::Unsupported),
        ("/predicate/resources/0/digest", json!("zz"), ErrorKind::Signature),
    ] {
        let mut statement = statement("files", &["a"]);
        *statement.pointer_mut(pointer).unwrap() = value;
        let error = refusal(&bundle_of(&statement, &key), &key);
        assert_eq!(error.kind, kind, "{pointer}: {error}");
    }
}

#[test]
fn refuses_the_keyless_mode_by_name() {
    let key = private_key();
    let (_, bundle) = signed(&key);
    for material in [json!({ "tlogEntries": [{}] }), json!({ "certificate": { "rawBytes": "" } })] {
        let mut bundle: Value = serde_json::from_str(&bundle).unwrap();
        *bundle.pointer_mut("/verificationMaterial").unwrap() = material;
        let error = refusal(bundle.to_string().as_bytes(), &key);
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.to_string().contains("keyless"), "{error}");
    }
}

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
    let private = p256::SecretKey::generate().to_pkcs8_pem(LineEnding::LF).unwrap();
    assert!(PublicKey::from_pem(&private).unwrap_err().to_string().contains("-pubout"));
    assert!(Roots::from_pem("").is_err());
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
