//! Signed models (OpenSSF Model Signing): with the reference implementation in both directions, and in three browsers.
//! The page and the reference are in `tests/signatures`.

mod certificates;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use weightstream::ErrorKind;
use weightstream::internals::signature::{self, PrivateKey, PublicKey, Roots, Trust};
use weightstream_cli::serve::Server;

use crate::cases;
use crate::engine::Engine;
use crate::failures;
use crate::python::{self, Python};
use crate::webdriver::Browser;
use xtask::package;
use xtask::project::Project;
use xtask::{command, setup};

const LIMIT: Duration = Duration::from_secs(60);

/// A test of a page.
type Check = fn(&Page) -> Result<()>;

const CHECKS: [(&str, Check); 13] = [
    ("verdicts of the reference", has_the_verdicts_of_the_reference),
    ("signed models", loads_signed_models),
    ("forms of a key", accepts_keys_in_every_form),
    ("models that are not what was signed", refuses_what_was_not_signed),
    ("invalid signatures", refuses_invalid_signatures),
    ("a server that changes the file", refuses_bytes_that_change_after_the_check),
    ("other files", opens_signed_files),
    ("chains of certificates", certificates::verifies_chains),
    ("models signed with certificates", certificates::loads_models_signed_with_certificates),
    ("keys and certificates", certificates::explains_what_to_trust),
    ("entry points", certificates::entry_points_take_signatures),
    ("service workers", certificates::works_in_service_workers),
    ("the package as one script", certificates::verifies_chains_inline),
];

/// The tensors of the model, which spans several blocks.
fn tensors() -> [(&'static str, Vec<u8>); 2] {
    let noise = |seed: usize, length: usize| (0..length).map(|at| ((at * 7 + seed) % 251) as u8).collect();
    [("first", noise(1, 700_000)), ("second", noise(2, 500_000))]
}

pub fn run(project: &Project) -> Result<()> {
    let reference = Reference::ready(project)?;
    let signed = Signed::new(&reference)?;
    exchanges_signatures(&reference, &signed)?;
    certificates::verify_natively(&signed)?;
    let package = package::build(project)?;
    let site = Server::new().mount("/", project.root.join("tests/signatures")).mount("/pkg", package);
    let site = site.mount("/fixtures", project.root.join("tests/fixtures/signatures"));
    let site = site.mount("/models", signed.folder.path()).bind("127.0.0.1:0")?.spawn();
    certificates::verify_in_node(project, &site.url(), &signed)?;
    has_the_verdicts_in_node(project)?;
    for engine in Engine::ALL {
        let page = Page { browser: Browser::launch(project, engine)?, engine, site: site.url(), signed: &signed };
        page.browser.open(&format!("{}/", page.site))?;
        for (name, check) in CHECKS.into_iter().filter(|(name, _)| cases::is_wanted(name)) {
            failures::keep(check(&page), &page.browser, engine, name)?;
        }
        // Automated windows of WebKitGTK have no cache that lasts.
        if engine != Engine::WebKit {
            failures::keep(verifies_what_is_cached(&page), &page.browser, engine, "a cached model")?;
        }
        println!("{engine}: {} tests of signed models passed", CHECKS.len());
    }
    Ok(())
}

/// model-signing from PyPI.
struct Reference {
    python: Python,
    script: PathBuf,
    packages: PathBuf,
}

impl Reference {
    fn ready(project: &Project) -> Result<Self> {
        let python = python::ready()?;
        let folder = project.root.join("tests/signatures");
        let requirements = folder.join("requirements.txt");
        let name = format!("signatures-{}", setup::fingerprint([requirements.clone()])?);
        let packages = python.installed(project, &name, &[OsStr::new("--requirement"), requirements.as_os_str()])?;
        Ok(Reference { python, script: folder.join("reference.py"), packages })
    }

    fn run(&self, arguments: &[&OsStr]) -> Result<()> {
        let mut python = self.python.run(&self.script, std::slice::from_ref(&self.packages))?;
        command::quiet(python.args(arguments), LIMIT)
    }

    fn sign(&self, place: &Path, signature: &Path, key: &Path, how: [&str; 2]) -> Result<()> {
        let [method, algorithm] = how.map(OsStr::new);
        self.run(&["sign".as_ref(), place.as_ref(), signature.as_ref(), key.as_ref(), method, algorithm])
    }
}

/// Keys, and models that the reference has signed.
struct Signed {
    folder: TempDir,
}

impl Signed {
    fn new(reference: &Reference) -> Result<Self> {
        let signed = Signed { folder: tempfile::tempdir()? };
        let keys = signed.path("keys");
        fs::create_dir_all(&keys)?;
        reference.run(&["keys".as_ref(), keys.as_ref()])?;
        let model = signed.path("m");
        fs::create_dir_all(model.join("parts"))?;
        let [first, second] = tensors();
        fs::write(model.join("model.safetensors"), safetensors(&[&first, &second]))?;
        fs::write(model.join("parts/a.safetensors"), safetensors(&[&first]))?;
        fs::write(model.join("parts/b.safetensors"), safetensors(&[&second]))?;
        let map = json!({ "first": "a.safetensors", "second": "b.safetensors" });
        let index = json!({ "metadata": {}, "weight_map": map });
        fs::write(model.join("parts/model.safetensors.index.json"), index.to_string())?;
        fs::write(model.join("config.json"), "{}")?;
        for curve in ["p256", "p384", "p521"] {
            let key = keys.join(format!("{curve}.key"));
            reference.sign(&model, &signed.path(&format!("{curve}.sig")), &key, ["files", "sha256"])?;
        }
        let key = keys.join("p256.key");
        for how in [["shards", "sha256"], ["files", "blake3"], ["files", "blake2"]] {
            reference.sign(&model, &signed.path(&format!("{}.sig", how.join("-"))), &key, how)?;
        }
        let single = signed.path("single.sig");
        reference.sign(&model.join("model.safetensors"), &single, &key, ["files", "sha256"])?;
        certificates::sign(reference, &signed)?;
        // A file that came later, and a model whose last bytes are others.
        let other = signed.path("other");
        fs::create_dir_all(&other)?;
        let mut changed = fs::read(model.join("model.safetensors"))?;
        let at = changed.len().checked_sub(1000).context("a short model")?;
        changed.get_mut(at..).unwrap_or_default().fill(1);
        fs::write(other.join("model.safetensors"), changed)?;
        fs::write(other.join("unsigned.safetensors"), safetensors(&[&first]))?;
        fs::write(other.join("config.json"), "{ }")?;
        Ok(signed)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.path(name)).with_context(|| name.to_owned())
    }
}

fn safetensors(tensors: &[&(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        // Rows of 1000 bytes.
        let entry = json!({ "dtype": "U8", "shape": [bytes.len() / 1000, 1000], "data_offsets": [start, data.len()] });
        header.insert((*name).to_owned(), entry);
    }
    let header = Value::from(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

/// What the reference signs is verified here, and the other way round.
fn exchanges_signatures(reference: &Reference, signed: &Signed) -> Result<()> {
    let model = signed.path("m");
    let single = model.join("model.safetensors");
    let key =
        |curve: &str| PublicKey::from_pem(&signed.text(&format!("keys/{curve}.pem"))?).map_err(anyhow::Error::from);
    let verify = |place: &Path, name: &str, trust: Trust| -> Result<usize> {
        let statement = signature::verify(&fs::read(signed.path(name))?, &trust)?;
        Ok(signature::verify_folder(place, &statement, &[], &())?)
    };
    for (name, curve) in [
        ("p256.sig", "p256"),
        ("p384.sig", "p384"),
        ("p521.sig", "p521"),
        ("shards-sha256.sig", "p256"),
        ("files-blake3.sig", "p256"),
    ] {
        let files = verify(&model, name, Trust::Key(key(curve)?)).context(name)?;
        ensure!(files == 5, "{name}: {files} files");
    }
    ensure!(verify(&single, "single.sig", Trust::Key(key("p256")?))? == 1);
    let roots = Roots::from_pem(&signed.text("keys/certified-root.crt")?)?;
    for (name, trust, kind) in [
        ("certified.sig", Trust::Key(key("p256")?), ErrorKind::Signature),
        ("p256.sig", Trust::Certificates(roots), ErrorKind::Signature),
        ("p384.sig", Trust::Key(key("p256")?), ErrorKind::Signature),
        ("files-blake2.sig", Trust::Key(key("p256")?), ErrorKind::Unsupported),
    ] {
        let outcome = signature::verify(&fs::read(signed.path(name))?, &trust);
        let error = outcome.err().with_context(|| format!("{name} was accepted"))?;
        ensure!(error.kind == kind, "{name}: {error}");
    }
    for curve in ["p256", "p384", "p521"] {
        let private = PrivateKey::from_pem(&signed.text(&format!("keys/{curve}.key"))?)?;
        for place in [&model, &single] {
            let ours = signed.path("ours.sig");
            fs::write(&ours, signature::sign_folder(place, &private, &[], &())?)?;
            let public = signed.path(&format!("keys/{curve}.pem"));
            reference.run(&["verify".as_ref(), place.as_ref(), ours.as_ref(), public.as_ref()])?;
        }
    }
    println!("model-signing: signatures were exchanged in both directions");
    Ok(())
}

struct Page<'a> {
    browser: Browser,
    engine: Engine,
    site: String,
    signed: &'a Signed,
}

impl Page<'_> {
    fn call(&self, function: &str, file: &str, options: &Value) -> Result<Value> {
        let address = format!("{}/models/{file}", self.site);
        self.browser.evaluate(&format!("globalThis.{function}({}, {options})", json!(address)))
    }

    /// The options for a signature outside the signed folder, by a key of this curve.
    fn options(&self, signature: &str, curve: &str, path: &str) -> Result<Value> {
        let key = self.signed.text(&format!("keys/{curve}.pem"))?;
        let url = format!("{}/models/{signature}", self.site);
        Ok(json!({ "signature": { "url": url, "publicKey": key, "path": path } }))
    }

    fn refuses(&self, function: &str, file: &str, options: &Value, parts: &[&str]) -> Result<()> {
        let message = self.call(function, file, options)?;
        let text = message.as_str().unwrap_or_default();
        ensure!(parts.iter().all(|part| text.contains(part)), "{file}: {text:?} instead of {parts:?}");
        Ok(())
    }
}

fn with(mut options: Value, name: &str, value: Value) -> Value {
    if let Some(options) = options.as_object_mut() {
        options.insert(name.to_owned(), value);
    }
    options
}

fn check(loaded: &Value, algorithm: &str) -> Result<()> {
    let hex = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let expected: Map<String, Value> =
        tensors().iter().map(|(name, bytes)| ((*name).to_owned(), hex(bytes).into())).collect();
    for way in ["single", "streamed"] {
        ensure!(loaded.get(way).and_then(Value::as_object) == Some(&expected), "{way}: {loaded}");
    }
    ensure!(loaded.get("verified") == Some(&json!([algorithm])), "verified: {loaded}");
    ensure!(loaded.get("workersError").is_some_and(Value::is_null), "{loaded}");
    Ok(())
}

fn loads_signed_models(page: &Page) -> Result<()> {
    for (signature, curve, algorithm) in [
        ("p256.sig", "p256", "sha256"),
        ("p384.sig", "p384", "sha256"),
        ("p521.sig", "p521", "sha256"),
        ("shards-sha256.sig", "p256", "sha256"),
        ("files-blake3.sig", "p256", "blake3"),
    ] {
        let options = page.options(signature, curve, "model.safetensors")?;
        check(&page.call("load", "m/model.safetensors", &options)?, algorithm).context(signature)?;
    }
    let manifest = "parts/model.safetensors.index.json";
    for in_worker in [false, true] {
        let options = with(page.options("p256.sig", "p256", manifest)?, "inWorker", in_worker.into());
        check(&page.call("load", &format!("m/{manifest}"), &options)?, "sha256")?;
    }
    let single = page.options("single.sig", "p256", ".")?;
    check(&page.call("load", "m/model.safetensors", &single)?, "sha256")?;
    // The path follows from the URLs, or from the name of a File.
    let key = page.signed.text("keys/p256.pem")?;
    let options =
        |name: &str| json!({ "signature": { "url": format!("{}/models/{name}", page.site), "publicKey": key } });
    check(&page.call("loadFile", "m/model.safetensors", &options("p256.sig"))?, "sha256")?;
    fs::copy(page.signed.path("p256.sig"), page.signed.path("m/model.sig"))?;
    check(&page.call("load", &format!("m/{manifest}"), &options("m/model.sig"))?, "sha256")
}

/// The cases that `judges_signatures_as_model_signing_does` has natively.
fn has_the_verdicts_of_the_reference(page: &Page) -> Result<()> {
    let wrong = page.browser.evaluate("globalThis.wrongVerdictsOfCases()")?;
    ensure!(wrong == json!([]), "{wrong}");
    Ok(())
}

/// The same in Node.js.
fn has_the_verdicts_in_node(project: &Project) -> Result<()> {
    let mut node = Command::new("node");
    node.arg(project.root.join("tests/signatures/verdicts.mjs")).arg(project.root.join("pkg/weightstream.node.js"));
    node.arg(project.root.join("tests/fixtures/signatures"));
    let printed = command::both_outputs(&mut node, LIMIT)?;
    ensure!(printed.trim().ends_with("verdicts are right"), "{printed}");
    println!("Node.js: {}", printed.trim());
    Ok(())
}

fn accepts_keys_in_every_form(page: &Page) -> Result<()> {
    for form in ["pem", "bytes", "buffer", "cryptoKey", "notExtractable", "jwk"] {
        let options = with(page.options("p256.sig", "p256", "model.safetensors")?, "form", form.into());
        check(&page.call("load", "m/model.safetensors", &options)?, "sha256").context(form)?;
    }
    Ok(())
}

fn refuses_what_was_not_signed(page: &Page) -> Result<()> {
    for signature in ["p256.sig", "shards-sha256.sig", "files-blake3.sig"] {
        let options = page.options(signature, "p256", "model.safetensors")?;
        let parts = ["SIGNATURE: ", "other/model.safetensors", "another digest"];
        page.refuses("failure", "other/model.safetensors", &options, &parts)?;
    }
    let unsigned = page.options("p256.sig", "p256", "unsigned.safetensors")?;
    let parts = ["SIGNATURE: ", "does not list the file \"unsigned.safetensors\""];
    page.refuses("failure", "other/unsigned.safetensors", &unsigned, &parts)?;
    // The file was signed, but as another one.
    let swapped = page.options("p256.sig", "p256", "parts/b.safetensors")?;
    page.refuses("failure", "m/parts/a.safetensors", &swapped, &["SIGNATURE: ", "another digest"])
}

fn refuses_invalid_signatures(page: &Page) -> Result<()> {
    refuses_forged_signatures(page)?;
    refuses_other_keys(page)?;
    refuses_invalid_options(page)
}

fn refuses_forged_signatures(page: &Page) -> Result<()> {
    let bundle: Value = serde_json::from_str(&page.signed.text("p256.sig")?)?;
    let payload = bundle.pointer("/dsseEnvelope/payload").and_then(Value::as_str).context("no payload")?;
    let statement = String::from_utf8(BASE64.decode(payload.as_bytes())?)?;
    let forge = |pointer: &str, value: Value| {
        let mut changed = bundle.clone();
        if let Some(place) = changed.pointer_mut(pointer) {
            *place = value;
        }
        changed
    };
    let forged = BASE64.encode(statement.replace("config.json", "konfig.json").as_bytes());
    let encoded = |bytes: &[u8]| json!(BASE64.encode(bytes));
    let signature = "/dsseEnvelope/signatures/0/sig";
    for (name, bundle, parts) in [
        ("payload", forge("/dsseEnvelope/payload", json!(forged)), ["SIGNATURE: ", "was not made by this key"]),
        ("log", forge("/verificationMaterial/tlogEntries", json!([{}])), ["UNSUPPORTED: ", "keyless"]),
        ("fulcio", forge("/verificationMaterial", json!({ "certificate": {} })), ["UNSUPPORTED: ", "keyless"]),
        ("media", forge("/mediaType", json!("text/plain")), ["SIGNATURE: ", "not a Sigstore bundle"]),
        ("type", forge("/dsseEnvelope/payloadType", json!("text/plain")), ["SIGNATURE: ", "in-toto"]),
        ("base64", forge(signature, json!("*")), ["SIGNATURE: ", "base64"]),
        ("short", forge(signature, encoded(&[0x30, 1, 2])), ["SIGNATURE: ", "was not made by this key"]),
        ("none", forge("/dsseEnvelope/signatures", json!([])), ["SIGNATURE: ", "one signature"]),
        ("array", json!([]), ["SIGNATURE: ", "not a Sigstore bundle"]),
    ] {
        fs::write(page.signed.path("forged.sig"), bundle.to_string())?;
        let options = page.options("forged.sig", "p256", "model.safetensors")?;
        page.refuses("failure", "m/model.safetensors", &options, &parts).context(name)?;
    }
    Ok(())
}

fn refuses_other_keys(page: &Page) -> Result<()> {
    for (signature, curve, parts) in [
        ("p256.sig", "other", ["SIGNATURE: ", "signed with another key"]),
        ("p256.sig", "p384", ["SIGNATURE: ", "signed with another key"]),
        ("files-blake2.sig", "p256", ["UNSUPPORTED: ", "blake2b"]),
        ("missing.sig", "p256", ["HTTP: ", "missing.sig"]),
    ] {
        let options = page.options(signature, curve, "model.safetensors")?;
        page.refuses("failure", "m/model.safetensors", &options, &parts).context(signature)?;
    }
    Ok(())
}

fn refuses_invalid_options(page: &Page) -> Result<()> {
    let url = format!("{}/models/p256.sig", page.site);
    let private = page.signed.text("keys/p256.key")?;
    for (options, parts) in [
        (json!({ "url": url }), ["INVALID_ARGUMENT: ", "publicKey"]),
        (json!({ "publicKey": "" }), ["INVALID_ARGUMENT: ", "url"]),
        (json!({ "url": url, "publicKey": "abc" }), ["INVALID_ARGUMENT: ", "PEM"]),
        (json!({ "url": url, "publicKey": private }), ["INVALID_ARGUMENT: ", "private key"]),
        (json!({ "url": url, "publicKey": {} }), ["INVALID_ARGUMENT: ", "publicKey"]),
        (json!({ "url": url, "pubicKey": "" }), ["INVALID_ARGUMENT: ", "did you mean"]),
        (json!({ "url": url, "certificateChain": "" }), ["INVALID_ARGUMENT: ", "certificateChain"]),
        (json!("model.sig"), ["INVALID_ARGUMENT: ", "signature"]),
    ] {
        page.refuses("failure", "m/model.safetensors", &json!({ "signature": options }), &parts)?;
    }
    Ok(())
}

fn refuses_bytes_that_change_after_the_check(page: &Page) -> Result<()> {
    let options = page.options("p256.sig", "p256", "model.safetensors")?;
    page.refuses("changedLater", "m/model.safetensors", &options, &["SIGNATURE: ", "have changed since"])
}

fn opens_signed_files(page: &Page) -> Result<()> {
    for (file, path, expected) in [
        ("m/config.json", "config.json", "{}"),
        ("other/config.json", "config.json", "SIGNATURE"),
        ("m/config.json", "generation_config.json", "SIGNATURE"),
    ] {
        let found = page.call("text", file, &page.options("p256.sig", "p256", path)?)?;
        ensure!(found == expected, "{file}: {found}");
    }
    Ok(())
}

/// A later load compares the cached bytes with the signature, and requests almost nothing.
fn verifies_what_is_cached(page: &Page) -> Result<()> {
    page.browser.evaluate("clearCache()")?;
    let options = with(page.options("p256.sig", "p256", "model.safetensors")?, "cache", "auto".into());
    let model = fs::read(page.signed.path("m/model.safetensors"))?;
    let length = model.len() as u64;
    for is_first in [true, false] {
        let loaded = page.call("load", "m/model.safetensors", &options)?;
        check(&loaded, "sha256")?;
        let received = loaded.get("bytesReceived").and_then(Value::as_u64).context("no bytesReceived")?;
        let is_once = received >= length && received < length + 1000;
        ensure!(if is_first { is_once } else { received < 1000 }, "first: {is_first}, {received} of {length} bytes");
    }
    Ok(())
}
