//! Certificates of signers: what the reference has signed with them is verified natively and in browsers, and both
//! refuse the same.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use data_encoding::BASE64;
use serde_json::{Value, json};
use weightstream::ErrorKind;
use weightstream::internals::signature::{self, Roots, Trust};

use super::{LIMIT, Page, Reference, Signed, check, with};
use crate::engine::Engine;
use xtask::command;
use xtask::project::Project;

/// The chains that are valid.
const VALID: [&str; 18] = [
    "certified",
    "direct",
    "two",
    "reversed",
    "with-root",
    "forged-too",
    "code-signing",
    "p384-signer",
    "p521-signer",
    "p384-chain",
    "rsa",
    "rsa-sha512",
    "rsa-pss",
    "ed25519",
    "itself",
    "root-expired-just-then",
    "root-long-enough",
    "root-direct",
];

/// The chains that are not, and a part of the message.
const INVALID: [(&str, &str); 22] = [
    ("other-usage", "neither `digitalSignature` nor `codeSigning`"),
    ("other-purpose", "not issued by the given root: RequiredEkuNotFound"),
    ("no-ca", "not issued by the given root: EndEntityUsedAsCa"),
    ("incomplete", "not issued by the given root: UnknownIssuer"),
    ("too-long", "not issued by the given root: PathLenConstraintViolated"),
    ("forger", "not issued by the given root: InvalidSignatureForPublicKey"),
    ("forged-beside", "not issued by the given root: InvalidSignatureForPublicKey"),
    ("tampered", "not issued by the given root: InvalidSignatureForPublicKey"),
    ("other-payload", "was not made by this key"),
    ("other-signer", "was not made by this key"),
    ("rsa-pss-salt", "not issued by the given root: UnsupportedSignatureAlgorithm"),
    ("rsa-1024", "not issued by the given root: InvalidSignatureForPublicKey"),
    ("p521-chain", "not issued by the given root: UnsupportedSignatureAlgorithm"),
    ("no-sign", "an intermediate certificate is not for signing certificates"),
    ("expired", "not issued by the given root: CertExpired"),
    ("end-entity", "not issued by the given root: EndEntityUsedAsCa"),
    ("root-expired", "the root certificate had expired"),
    ("root-later", "the root certificate was not yet valid"),
    ("root-no-ca", "the root certificate is not for signing certificates"),
    ("root-no-ca-but-sign", "the root certificate is not that of a CA"),
    ("root-no-sign", "the root certificate is not for signing certificates"),
    ("root-too-short", "the root certificate does not allow a path of this length"),
];

/// The chains that the reference accepts although they are weak or for other purposes, and the one that it refuses
/// because it tries only the first issuer of a name.
const DIFFERENT: [&str; 5] = ["other-purpose", "rsa-pss-salt", "rsa-1024", "p521-chain", "forged-too"];

/// Signs the model with all chains.
pub(super) fn sign(reference: &Reference, signed: &Signed) -> Result<()> {
    let (model, keys) = (signed.path("m"), signed.path("keys"));
    reference.run(&["certify".as_ref(), model.as_ref(), signed.folder.path().as_ref(), keys.as_ref()])?;
    let bundle = |name: &str| anyhow::Ok(serde_json::from_str::<Value>(&signed.text(&format!("{name}.sig"))?)?);
    let forge = |name: &str, pointer: &str, forged: Value| {
        let mut bundle = bundle("certified")?;
        *bundle.pointer_mut(pointer).with_context(|| format!("no {pointer}"))? = forged;
        fs::write(signed.path(&format!("{name}.sig")), bundle.to_string())?;
        fs::copy(keys.join("certified-root.crt"), keys.join(format!("{name}-root.crt")))?;
        anyhow::Ok(())
    };
    let decoded = |pointer: &str| {
        let bundle = bundle("certified")?;
        let text = bundle.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no {pointer}"))?;
        anyhow::Ok(BASE64.decode(text.as_bytes())?)
    };
    // A byte in the signature of the intermediate certificate.
    let intermediate = "/verificationMaterial/x509CertificateChain/certificates/1/rawBytes";
    let mut der = decoded(intermediate)?;
    *der.last_mut().context("an empty certificate")? ^= 1;
    forge("tampered", intermediate, json!(BASE64.encode(&der)))?;
    // Another statement, and the certificates of another signer with the same root.
    let payload = "/dsseEnvelope/payload";
    let statement = String::from_utf8(decoded(payload)?)?.replace("config.json", "konfig.json");
    forge("other-payload", payload, json!(BASE64.encode(statement.as_bytes())))?;
    let material = bundle("code-signing")?.pointer("/verificationMaterial").cloned().context("no material")?;
    forge("other-signer", "/verificationMaterial", material)
}

/// The same chains natively.
pub(super) fn verify_natively(signed: &Signed) -> Result<()> {
    let verify = |name: &str, root: &str| {
        let trust = Trust::Certificates(Roots::from_pem(&signed.text(&format!("keys/{root}.crt"))?)?);
        anyhow::Ok(signature::verify(&fs::read(signed.path(&format!("{name}.sig")))?, &trust))
    };
    for name in VALID {
        let statement = verify(name, &format!("{name}-root"))?.with_context(|| name.to_owned())?;
        signature::verify_folder(&signed.path("m"), &statement, &[], &())?;
    }
    for (name, part) in INVALID {
        let error = verify(name, &format!("{name}-root"))?.err().with_context(|| format!("{name} was accepted"))?;
        ensure!(error.kind == ErrorKind::Signature && error.to_string().contains(part), "{name}: {error}");
    }
    // The chains that the reference has judged; others were made from them.
    let verdicts: BTreeMap<String, bool> = serde_json::from_str(&signed.text("keys/verdicts.json")?)?;
    for (name, is_accepted) in verdicts {
        let is_known = VALID.contains(&&*name) || INVALID.iter().any(|(invalid, _)| *invalid == name);
        let is_same = VALID.contains(&&*name) == is_accepted;
        ensure!(name == "no-root" || (is_known && is_same != DIFFERENT.contains(&&*name)), "{name}: {is_accepted}");
    }
    // No path ends at an intermediate certificate.
    let root = Roots::from_pem(&signed.text("keys/no-root-root.crt")?).err().context("no root was needed")?;
    ensure!(root.kind == ErrorKind::InvalidArgument, "{root}");
    let error = verify("certified", "stranger")?.err().context("a stranger's root was accepted")?;
    ensure!(error.kind == ErrorKind::Signature, "{error}");
    println!("certificates: {} chains are valid, {} are refused", VALID.len(), INVALID.len() + 1);
    Ok(())
}

/// The options for a signature by a chain with this root.
fn options(page: &Page, name: &str, root: &str) -> Result<Value> {
    let root = page.signed.text(&format!("keys/{root}.crt"))?;
    let url = format!("{}/models/{name}.sig", page.site);
    Ok(json!({ "signature": { "url": url, "certificateChain": root, "path": "model.safetensors" } }))
}

pub(super) fn verifies_chains(page: &Page) -> Result<()> {
    for name in VALID {
        let message = page.call("failure", "m/model.safetensors", &options(page, name, &format!("{name}-root"))?)?;
        let text = message.as_str().unwrap_or_default();
        // Not all browsers have the algorithm.
        let is_missing = name == "ed25519" && text.starts_with("UNSUPPORTED: ") && text.contains("Ed25519");
        ensure!(text == "no error" || is_missing, "{name}: {text}");
    }
    for (name, part) in INVALID {
        let options = options(page, name, &format!("{name}-root"))?;
        let parts = ["SIGNATURE: ", &format!("{name}.sig"), part, "Do not use the model"];
        page.refuses("failure", "m/model.safetensors", &options, &parts).context(name)?;
    }
    let stranger = options(page, "certified", "stranger")?;
    let parts = ["SIGNATURE: ", "certified.sig", "not issued by the given root"];
    page.refuses("failure", "m/model.safetensors", &stranger, &parts)
}

pub(super) fn loads_models_signed_with_certificates(page: &Page) -> Result<()> {
    for in_worker in [false, true] {
        let options = with(options(page, "certified", "certified-root")?, "inWorker", in_worker.into());
        check(&page.call("load", "m/model.safetensors", &options)?, "sha256")?;
    }
    let changed = options(page, "certified", "certified-root")?;
    page.refuses("failure", "other/model.safetensors", &changed, &["SIGNATURE: ", "another digest"])?;
    for form in ["list", "der", "buffer", "pemBytes", "several"] {
        let options = with(options(page, "certified", "certified-root")?, "rootForm", form.into());
        page.refuses("failure", "m/model.safetensors", &options, &["no error"]).context(form)?;
    }
    let mut file = options(page, "certified", "certified-root")?;
    *file.pointer_mut("/signature/path").context("no path")? = "config.json".into();
    for (name, expected) in [("m/config.json", "{}"), ("other/config.json", "SIGNATURE")] {
        let found = page.call("text", name, &file)?;
        ensure!(found == expected, "{name}: {found}");
    }
    Ok(())
}

pub(super) fn explains_what_to_trust(page: &Page) -> Result<()> {
    let text = |name: &str| page.signed.text(&format!("keys/{name}"));
    let (root, key) = (text("certified-root.crt")?, text("p256.pem")?);
    let url = |name: &str| format!("{}/models/{name}.sig", page.site);
    let broken = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----";
    for (options, parts) in [
        (json!({ "url": url("certified"), "publicKey": key }), ["SIGNATURE: ", "signed with a certificate", "Chain`"]),
        (json!({ "url": url("p256"), "certificateChain": root }), ["SIGNATURE: ", "signed with a key", "publicKey`"]),
        (json!({ "url": url("p256") }), ["INVALID_ARGUMENT: ", "either `publicKey` or", "certificateChain"]),
        (
            json!({ "url": url("p256"), "certificateChain": root, "publicKey": key }),
            ["INVALID_ARGUMENT: ", "either", ""],
        ),
        (json!({ "url": url("p256"), "certificateChain": [] }), ["INVALID_ARGUMENT: ", "empty list", ""]),
        (json!({ "url": url("p256"), "certificateChain": 1 }), ["INVALID_ARGUMENT: ", "certificateChain", "PEM"]),
        (json!({ "url": url("p256"), "certificateChain": key }), ["INVALID_ARGUMENT: ", "public key", "publicKey`"]),
        (json!({ "url": url("p256"), "publicKey": root }), ["INVALID_ARGUMENT: ", "is a certificate", "Chain`"]),
        (json!({ "url": url("certified"), "certificateChain": broken }), ["INVALID_ARGUMENT: ", "cannot be read", ""]),
    ] {
        page.refuses("failure", "m/model.safetensors", &json!({ "signature": options }), &parts)?;
    }
    Ok(())
}

/// The package as one script.
pub(super) fn verifies_chains_inline(page: &Page) -> Result<()> {
    page.browser.open(&format!("{}/inline.html", page.site))?;
    let options = options(page, "certified", "certified-root")?;
    check(&page.call("load", "m/model.safetensors", &options)?, "sha256")?;
    page.refuses("failure", "m/model.safetensors", &self::options(page, "forger", "forger-root")?, &["SIGNATURE: "])?;
    page.browser.open(&format!("{}/", page.site))
}

/// Entry points that open several files with the same options.
pub(super) fn entry_points_take_signatures(page: &Page) -> Result<()> {
    let root = page.signed.text("keys/certified-root.crt")?;
    fs::copy(page.signed.path("certified.sig"), page.signed.path("m/certified.sig"))?;
    fs::copy(page.signed.path("certified.sig"), page.signed.path("other/certified.sig"))?;
    let signature = |folder: &str| {
        let url = format!("{}/models/{folder}/certified.sig", page.site);
        json!({ "url": url, "certificateChain": root })
    };
    for (function, folder, expected) in [
        ("fetched", "m", "{}"),
        ("fetched", "other", "SIGNATURE"),
        ("blobs", "m", "{}"),
        ("blobs", "other", "SIGNATURE"),
    ] {
        let options = json!({ "signature": signature(folder) });
        let found = page.call(function, &format!("{folder}/config.json"), &options)?;
        ensure!(found == expected, "{function} of {folder}: {found}");
    }
    let url = format!("{}/models/m/missing.sig", page.site);
    let missing = json!({ "signature": { "url": url, "certificateChain": root } });
    let found = page.call("fetched", "m/config.json", &missing)?;
    ensure!(found == "HTTP", "a missing signature: {found}");
    let with_path = json!({ "signature": { "url": url, "certificateChain": root, "path": "a" } });
    for function in ["fetched", "tensorflow", "artifacts", "prefilled"] {
        let found = page.call(function, "m/config.json", &with_path)?;
        let text = found.as_str().unwrap_or_default();
        ensure!(text.starts_with("INVALID_ARGUMENT: ") && text.contains("signature"), "{function}: {text}");
    }
    Ok(())
}

/// A service worker serves signed files, and opens signed models. Automated windows of WebKitGTK have none.
pub(super) fn works_in_service_workers(page: &Page) -> Result<()> {
    if page.engine == Engine::WebKit {
        return Ok(());
    }
    let base = format!("{}/models", page.site);
    let key = json!({ "url": format!("{base}/p256.sig"), "publicKey": page.signed.text("keys/p256.pem")? });
    let (root, by_key) = (page.signed.text("keys/certified-root.crt")?, "m/model.sig");
    fs::copy(page.signed.path("p256.sig"), page.signed.path(by_key))?;
    fs::copy(page.signed.path("p256.sig"), page.signed.path("other/model.sig"))?;
    let parameters = json!({ "publicKey": key.get("publicKey"), "certificateChain": root });
    page.browser.evaluate(&format!("globalThis.startServiceWorker({parameters})"))?;
    for (path, expected) in [
        ("by-key/m/config.json", "{}"),
        ("by-key/other/config.json", "TypeError SIGNATURE"),
        ("by-certificate/m/config.json", "{}"),
        ("by-certificate/other/config.json", "TypeError SIGNATURE"),
    ] {
        let found = page.browser.evaluate(&format!("globalThis.served({})", json!(path)))?;
        ensure!(found == expected, "{path}: {found}");
    }
    for (model, expected) in [("m/model.safetensors", "sha256"), ("other/model.safetensors", "SIGNATURE")] {
        let found =
            page.browser.evaluate(&format!("globalThis.inServiceWorker({})", json!(format!("{base}/{model}"))))?;
        ensure!(found == expected, "{model} in a service worker: {found}");
    }
    page.browser.evaluate("globalThis.endServiceWorker()")?;
    Ok(())
}

/// The same in Node.js.
pub(super) fn verify_in_node(project: &Project, site: &str, signed: &Signed) -> Result<()> {
    let script = project.root.join("tests/signatures/node.mjs");
    for (name, expected) in [("certified", "sha256"), ("ed25519", "sha256"), ("forger", "SIGNATURE")] {
        let mut node = Command::new("node");
        node.arg(&script).arg(project.root.join("pkg/weightstream.node.js"));
        node.arg(format!("{site}/models/m/model.safetensors")).arg(format!("{site}/models/{name}.sig"));
        node.arg(signed.path(&format!("keys/{name}-root.crt")));
        let printed = command::both_outputs(&mut node, LIMIT)?;
        ensure!(printed.trim() == expected, "{name} in Node.js: {printed}");
    }
    println!("Node.js: chains of certificates are verified");
    Ok(())
}
