//! Tests of the parser and of the policy. `tests/signatures` compares them with the reference implementation.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The SHA-256 of no bytes.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn statement(serialization: Value, algorithm: &str, names: &[&str]) -> Value {
    use sha2::Digest as _;
    let list: Vec<_> =
        names.iter().map(|name| json!({ "name": name, "algorithm": algorithm, "digest": EMPTY })).collect();
    let mut root = sha2::Sha256::new();
    names.iter().for_each(|_| root.update(sha2::Sha256::digest("")));
    let root: String = root.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "name": "m", "digest": { "sha256": root } }],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": { "serialization": serialization, "resources": list },
    })
}

fn files(names: &[&str]) -> Value {
    statement(json!({ "method": "files", "hash_type": "sha256", "allow_symlinks": false }), "sha256", names)
}

fn shards(names: &[&str]) -> Value {
    let serialization = json!({ "method": "shards", "hash_type": "sha256", "shard_size": 4, "allow_symlinks": false });
    statement(serialization, "sha256-sharded-4", names)
}

fn bundle(payload: &Value) -> Value {
    json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": { "publicKey": { "hint": "" }, "tlogEntries": [] },
        "dsseEnvelope": {
            "payload": STANDARD.encode(payload.to_string()),
            "payloadType": "application/vnd.in-toto+json",
            "signatures": [{ "sig": "MAA=", "keyid": "" }],
        },
    })
}

fn parsed(bundle: &Value) -> Result<Bundle, Refusal> {
    Bundle::parse(bundle.to_string().as_bytes())
}

fn stated(payload: &Value) -> Result<Statement, Refusal> {
    parsed(&bundle(payload)).unwrap().statement(true)
}

/// A value with a change at a JSON pointer. The parent of a new field must exist.
fn changed(mut value: Value, pointer: &str, change: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match value.pointer_mut(parent).unwrap() {
        Value::Array(list) => list[name.parse::<usize>().unwrap()] = change,
        parent => parent[name] = change,
    }
    value
}

fn without(mut value: Value, pointer: &str) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
    value
}

/// No refusal advises to convert the model, or names an option of the command line.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Refusal>, code: &str, part: &str) {
    let refusal = result.unwrap_err();
    let text = refusal.to_string();
    assert!(refusal.kind.code() == code && text.contains(part), "{} {text}", refusal.kind.code());
    assert!(!refusal.advice.contains("Convert") && !refusal.advice.contains("--"), "{text}");
}

#[test]
fn returns_what_a_statement_lists() {
    let resource = |path: &str, start, end| Resource {
        path: path.to_owned(),
        start,
        end,
        algorithm: "sha256",
        digest: sha2::Digest::finalize(<sha2::Sha256 as sha2::Digest>::new()).into(),
    };
    let expected = [resource("a/b", 0, None), resource("c\\d", 0, None)];
    assert_eq!(stated(&files(&["a/b", "c\\d"])).unwrap().resources, expected);
    let expected = [resource("a", 0, Some(4)), resource("b", 0, Some(1)), resource("a", 4, Some(6))];
    assert_eq!(stated(&shards(&["a:0:4", "b:0:1", "a:4:6"])).unwrap().resources, expected);
}

#[test]
fn reads_what_it_writes() {
    let digest = [7; 32];
    let payload = payload("m", vec![("a.c", digest), ("a/b", digest)], &["x".to_owned()], true);
    let bundle = envelope(payload.as_bytes(), b"signature", b"key");
    let bundle = Bundle::parse(bundle.as_bytes()).unwrap();
    assert_eq!(bundle.signature(), b"signature");
    assert!(bundle.message().ends_with(payload.as_bytes()));
    let statement = bundle.statement(true).unwrap();
    assert_eq!(statement.resources.iter().map(|resource| &*resource.path).collect::<Vec<_>>(), ["a/b", "a.c"]);
    assert_eq!((statement.ignored, statement.allows_symlinks), (vec!["x".to_owned()], true));
    bundle.check_key(Some(b"key")).unwrap();
    bundle.check_key(None).unwrap();
    refused(bundle.check_key(Some(b"other")), "SIGNATURE", "another key");
    refused(bundle.certificates(), "SIGNATURE", "signed with a key");
}

#[test]
fn refuses_bundles_that_model_signing_refuses() {
    let good = bundle(&files(&["a"]));
    parsed(&good).unwrap();
    for (pointer, value, code, part) in [
        ("/mediaType", json!("text/plain"), "SIGNATURE", "not a Sigstore bundle"),
        ("/mediaType", json!("application/vnd.dev.sigstore.bundle+json;version=0.2"), "UNSUPPORTED", "other version"),
        ("/mediaType", json!("application/vnd.dev.sigstore.bundle+json;version=0.3"), "UNSUPPORTED", "other version"),
        ("/extra", json!(1), "SIGNATURE", "unknown field `extra`"),
        ("/verificationMaterial", json!(null), "SIGNATURE", "no object `verificationMaterial`"),
        ("/verificationMaterial", json!({}), "SIGNATURE", "either a public key or certificates"),
        ("/verificationMaterial/extra", json!(1), "SIGNATURE", "unknown field `verificationMaterial.extra`"),
        ("/verificationMaterial/tlogEntries", json!([{}]), "UNSUPPORTED", "keyless"),
        ("/verificationMaterial/tlogEntries", json!({}), "SIGNATURE", "no list"),
        ("/verificationMaterial/tlogEntries", json!(null), "SIGNATURE", "no list"),
        ("/verificationMaterial/certificate", json!({ "rawBytes": "" }), "UNSUPPORTED", "keyless"),
        ("/verificationMaterial/x509CertificateChain", json!({ "certificates": [] }), "SIGNATURE", "either"),
        ("/verificationMaterial/publicKey/extra", json!(1), "SIGNATURE", "unknown field"),
        ("/verificationMaterial/publicKey/hint", json!(1), "SIGNATURE", "no text"),
        ("/messageSignature", json!({}), "SIGNATURE", "over a message"),
        ("/dsseEnvelope/extra", json!(1), "SIGNATURE", "unknown field `dsseEnvelope.extra`"),
        ("/dsseEnvelope/payload", json!("*"), "SIGNATURE", "base64"),
        ("/dsseEnvelope/payloadType", json!("text/plain"), "SIGNATURE", "in-toto"),
        ("/dsseEnvelope/signatures", json!([]), "SIGNATURE", "exactly one signature"),
        ("/dsseEnvelope/signatures/0/extra", json!(1), "SIGNATURE", "unknown field"),
        ("/dsseEnvelope/signatures/0/sig", json!("*"), "SIGNATURE", "base64"),
    ] {
        refused(parsed(&changed(good.clone(), pointer, value)), code, part);
    }
    for pointer in ["/mediaType", "/verificationMaterial", "/dsseEnvelope", "/dsseEnvelope/payload"] {
        refused(parsed(&without(good.clone(), pointer)), "SIGNATURE", "");
    }
    for text in ["", "[]", "{", "\u{feff}{}"] {
        refused(Bundle::parse(text.as_bytes()), "SIGNATURE", "not a Sigstore bundle");
    }
    refused(Bundle::parse(&vec![b' '; MAX_BUNDLE_BYTES as usize + 1]), "LIMIT", "more than 64 MiB");
}

#[test]
fn accepts_bundles_that_model_signing_accepts() {
    let good = bundle(&files(&["a"]));
    for (pointer, value) in [
        ("/messageSignature", json!(null)),
        ("/verificationMaterial/certificate", json!(null)),
        ("/verificationMaterial/publicKey", json!({})),
        ("/verificationMaterial/publicKey", json!({ "rawBytes": "AA==", "keyDetails": "PKIX_ECDSA_P256_SHA_256" })),
        ("/verificationMaterial/timestampVerificationData", json!({ "rfc3161Timestamps": [] })),
        ("/dsseEnvelope/signatures/0/sig", json!("MA\nA=")),
    ] {
        parsed(&changed(good.clone(), pointer, value)).unwrap().check_key(Some(b"key")).unwrap();
    }
    for pointer in ["/verificationMaterial/tlogEntries", "/dsseEnvelope/signatures/0/keyid"] {
        parsed(&without(good.clone(), pointer)).unwrap();
    }
    let chain = json!({ "certificates": [{ "rawBytes": "AAA=" }, { "rawBytes": "AQ==" }] });
    let certified = changed(good, "/verificationMaterial", json!({ "x509CertificateChain": chain }));
    let certified = parsed(&certified).unwrap();
    assert_eq!(certified.certificates().unwrap(), [vec![0, 0], vec![1]]);
    refused(certified.check_key(None), "SIGNATURE", "signed with a certificate");
}

#[test]
fn refuses_statements_that_model_signing_refuses() {
    let resource = "/predicate/resources/0";
    for (pointer, value, code) in [
        ("/subject/0/digest/sha256".to_owned(), json!("00"), "SIGNATURE"),
        ("/subject".to_owned(), json!([]), "SIGNATURE"),
        ("/_type".to_owned(), json!("x"), "UNSUPPORTED"),
        ("/predicateType".to_owned(), json!("https://model_signing/Digests/v0.1"), "UNSUPPORTED"),
        ("/predicate/serialization/method".to_owned(), json!("folders"), "UNSUPPORTED"),
        ("/predicate/serialization/method".to_owned(), json!("shards"), "SIGNATURE"),
        ("/predicate/serialization/hash_type".to_owned(), json!("blake3"), "SIGNATURE"),
        ("/predicate/serialization/hash_type".to_owned(), json!(null), "SIGNATURE"),
        ("/predicate/serialization/allow_symlinks".to_owned(), json!(null), "SIGNATURE"),
        ("/predicate/serialization/ignore_paths".to_owned(), json!([1]), "SIGNATURE"),
        ("/predicate/resources".to_owned(), json!({}), "SIGNATURE"),
        (format!("{resource}/algorithm"), json!("blake2b"), "UNSUPPORTED"),
        (format!("{resource}/algorithm"), json!("crc32"), "UNSUPPORTED"),
        (format!("{resource}/algorithm"), json!("sha256-sharded-1000000"), "SIGNATURE"),
        (format!("{resource}/algorithm"), json!("blake3"), "SIGNATURE"),
        (format!("{resource}/digest"), json!("zz"), "SIGNATURE"),
        (format!("{resource}/name"), json!(1), "SIGNATURE"),
    ] {
        refused(stated(&changed(files(&["a"]), &pointer, value)), code, "");
    }
    let upper = changed(files(&["a"]), "/predicate/resources/0/digest", json!(EMPTY.to_uppercase()));
    assert_eq!(stated(&upper), stated(&files(&["a"])));
}

#[test]
fn refuses_names_that_are_no_shards() {
    for name in [
        "a",
        "a:0",
        "a:0:0",
        "a:4:0",
        "a:1:4",
        "a:0:5",
        "b:c:0:1",
        "a:+0:4",
        "a: 0:4",
        "a:0:99999999999999999999",
        "a:9007199254740992:9007199254740996",
    ] {
        refused(stated(&shards(&[name])), "SIGNATURE", "which is no shard");
    }
    for (pointer, value) in [
        ("/predicate/serialization/shard_size", json!(0)),
        ("/predicate/serialization/shard_size", json!(8)),
        ("/predicate/serialization/method", json!("files")),
    ] {
        refused(stated(&changed(shards(&["a:0:4"]), pointer, value)), "SIGNATURE", "");
    }
}

#[test]
fn a_wrong_signature_is_refused_before_its_statement_is_read() {
    refused(parsed(&bundle(&json!("x"))).unwrap().statement(false), "SIGNATURE", "was not made by this key");
    let old = json!({ "predicateType": "https://model_signing/Digests/v0.1" });
    refused(parsed(&bundle(&old)).unwrap().statement(false), "UNSUPPORTED", "before 1.0");
}

#[test]
fn converts_signatures_from_der() {
    let zeros = vec![0; 31];
    let raw = Curve::P256.raw_signature(&[0x30, 7, 2, 1, 5, 2, 2, 0, 0x80]).unwrap();
    assert_eq!(raw, [&zeros[..], &[5], &zeros, &[0x80]].concat());
    let long = [&[0x30, 0x81, 0x88, 2, 66][..], &[1; 66], &[2, 66], &[1; 66]].concat();
    assert_eq!(Curve::P521.raw_signature(&long), Some(vec![1; 132]));
    assert_eq!(Curve::P256.raw_signature(&long), None);
    for der in [
        &[][..],
        &[0x30, 0],
        &[0x30, 6, 2, 1, 0, 2, 1, 1],       // zero
        &[0x30, 6, 2, 1, 0x80, 2, 1, 1],    // negative
        &[0x30, 7, 2, 2, 0, 1, 2, 1, 1],    // an unnecessary zero
        &[0x30, 6, 2, 1, 1, 2, 1, 1, 0],    // a byte after the end
        &[0x30, 7, 2, 1, 1, 2, 1, 1, 0],    // a byte after the integers
        &[0x30, 0x81, 6, 2, 1, 1, 2, 1, 1], // an unnecessary byte of the length
        &[0x31, 6, 2, 1, 1, 2, 1, 1],
    ] {
        assert_eq!(Curve::P256.raw_signature(der), None, "{der:?}");
    }
}

proptest! {
    /// Bundles come from the network.
    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), name in ".{0,40}") {
        prop_assert!(Bundle::parse(&bytes).is_err());
        let _ = (stated(&shards(&[&name])), stated(&files(&[&name])));
        let _ = Curve::P256.raw_signature(&bytes);
    }
}
