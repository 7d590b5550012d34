//! Loads models from a mock of the Hugging Face Hub in three browsers. The page, the hub and its storage have different
//! origins, and the page sees only the headers that the hub exposes.

use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use weightstream_cli::serve::Server as Site;

use crate::cases;
use crate::engine::Engine;
use crate::failures;
use crate::trap_test::traps::hub::{Api, MockHub, TOKEN};
use crate::trap_test::traps::model::{FILE, TENSORS};
use crate::webdriver::Browser;
use xtask::package;
use xtask::project::Project;

/// A test of a page.
type Check = fn(&Page) -> Result<()>;

const CHECKS: [(&str, Check); 5] = [
    ("a pinned and verified model", loads_a_pinned_model),
    ("expired signatures", renews_expired_signatures),
    ("errors", explains_refusals),
    ("other files", opens_any_file),
    ("without a hub", loads_ordinary_urls_without_a_hub),
];

/// These need a cache. Automated windows of WebKitGTK have none that lasts.
const CACHE_CHECKS: [(&str, Check); 2] = [
    ("a copy in another repository", finds_a_copy_in_the_cache),
    ("no connection to the hub", loads_from_the_cache_without_a_hub),
];

struct Page {
    browser: Browser,
}

pub fn run(project: &Project) -> Result<()> {
    let package = package::build(project)?;
    let site = Site::new().mount("/", project.root.join("tests/hub")).mount("/pkg", package);
    let site = site.bind("127.0.0.1:0")?.spawn();
    for engine in Engine::ALL {
        let page = Page { browser: Browser::launch(project, engine)? };
        page.browser.open(&format!("{}/", site.url()))?;
        let with_cache = if engine == Engine::WebKit { &[][..] } else { &CACHE_CHECKS };
        for (name, check) in CHECKS.iter().chain(with_cache).filter(|(name, _)| cases::is_wanted(name)) {
            failures::keep(check(&page), &page.browser, engine, name)?;
        }
        let counts = (CHECKS.len(), with_cache.len());
        println!("{engine}: {} tests of models on a hub passed, {} with a cache", counts.0, counts.1);
    }
    Ok(())
}

impl Page {
    fn call(&self, function: &str, address: &str, options: &Value) -> Result<Value> {
        self.browser.evaluate(&format!("globalThis.{function}({}, {options})", json!(address)))
    }
}

fn options(mock: &MockHub) -> Value {
    json!({ "hub": { "endpoint": mock.hub.url(""), "token": TOKEN } })
}

fn with(mut options: Value, name: &str, value: Value) -> Value {
    if let Some(options) = options.as_object_mut() {
        options.insert(name.to_owned(), value);
    }
    options
}

/// Checks the digest of every tensor, and that the hub's digest was verified.
fn check(loaded: &Value) -> Result<()> {
    let hex = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let expected: Map<String, Value> =
        TENSORS.iter().map(|(name, bytes)| ((*name).to_owned(), hex(bytes).into())).collect();
    for way in ["single", "streamed"] {
        ensure!(loaded.get(way).and_then(Value::as_object) == Some(&expected), "{way}: {loaded}");
    }
    ensure!(loaded.get("verified").is_some_and(|verified| verified == "sha256"), "verified: {loaded}");
    Ok(())
}

fn loads_a_pinned_model(page: &Page) -> Result<()> {
    for api in [Api::Full, Api::FileInfo, Api::Pointers] {
        for in_worker in [false, true] {
            let mock = MockHub::new(api, &[("m.safetensors", &FILE)]);
            let options = with(options(&mock), "inWorker", in_worker.into());
            let address = match api {
                Api::Full => "hf:owner/name".to_owned(),
                Api::FileInfo => "hf:owner/name/m.safetensors".to_owned(),
                _ => mock.hub.url("/owner/name/resolve/main/m.safetensors"),
            };
            let loaded = page.call("load", &address, &options)?;
            // After a redirect, a page cannot see the commit: nothing is pinned without a list or a description.
            let expected =
                if api == Api::Pointers { with(loaded.clone(), "verified", "sha256".into()) } else { loaded };
            check(&expected).with_context(|| format!("{address}, in a worker: {in_worker}"))?;
            let (hub, storage) = (mock.hub.requests(), mock.storage.requests());
            ensure!(hub.iter().any(|request| request.header("authorization") == Some("Bearer hf_s3cret")));
            ensure!(
                storage.iter().all(|request| request.header("authorization").is_none()),
                "the storage got the token"
            );
            let asked = mock.resolved();
            ensure!(api == Api::Pointers || asked == 1, "the hub was asked {asked} times for {} ranges", storage.len());
        }
    }
    Ok(())
}

fn renews_expired_signatures(page: &Page) -> Result<()> {
    let mock = MockHub::new(Api::Full, &[("m.safetensors", &FILE)]);
    mock.uses.store(2, Ordering::Relaxed);
    check(&page.call("load", "hf:owner/name/m.safetensors", &options(&mock))?)?;
    ensure!(mock.resolved() > 1, "no signature was renewed");
    Ok(())
}

fn explains_refusals(page: &Page) -> Result<()> {
    let mock = MockHub::new(Api::Full, &[("q4.gguf", b"x"), ("q8.gguf", b"y")]);
    for (address, parts) in [
        ("hf:owner/gated", ["HTTP: ", "owner/gated is gated"]),
        ("hf:owner/missing/m.gguf", ["HTTP: ", "there is no repository owner/missing"]),
        ("hf:owner/name", ["NOT_FOUND: ", "q4.gguf, q8.gguf"]),
        ("hf:owner/name/q6.gguf", ["NOT_FOUND: ", "Did you mean \"q4.gguf\" or \"q8.gguf\"?"]),
        ("hf:owner", ["INVALID_ARGUMENT: ", "hf:owner/name@revision/path"]),
    ] {
        let message = page.call("failure", address, &options(&mock))?;
        let text = message.as_str().unwrap_or_default();
        ensure!(parts.iter().all(|part| text.contains(part)) && !text.contains(TOKEN), "{address}: {text}");
    }
    Ok(())
}

fn opens_any_file(page: &Page) -> Result<()> {
    let mock = MockHub::new(Api::Full, &[("config.json", b"{}"), ("m.safetensors", &FILE)]);
    let length = page.call("bytes", "hf:owner/name/m.safetensors", &options(&mock))?;
    ensure!(length == FILE.len(), "{length} bytes");
    let wrong = MockHub::stating(Api::Full, &[("config.json", b"{}")], |_| "ab".repeat(32));
    match page.call("bytes", "hf:owner/name/config.json", &options(&wrong)) {
        Ok(length) => bail!("{length} bytes with another digest were accepted"),
        Err(error) => ensure!(error.to_string().contains("says the hub"), "{error}"),
    }
    Ok(())
}

fn loads_ordinary_urls_without_a_hub(page: &Page) -> Result<()> {
    let mock = MockHub::new(Api::Full, &[("m.safetensors", &FILE)]);
    let url = mock.hub.url("/owner/name/resolve/main/m.safetensors");
    let loaded = page.call("load", &url, &json!({ "hub": null }))?;
    ensure!(loaded.get("verified").is_some_and(Value::is_null), "verified without a digest: {loaded}");
    let requests = mock.hub.requests();
    ensure!(requests.iter().all(|request| request.path.contains("/resolve/main/")), "the hub was asked: {requests:?}");
    Ok(())
}

/// A file with the same digest in another repository is not fetched again.
fn finds_a_copy_in_the_cache(page: &Page) -> Result<()> {
    let mock = MockHub::new(Api::Full, &[("m.safetensors", &FILE)]);
    // Bytes for which a token was sent are used only after the hub has confirmed the permission to read them.
    let options = json!({ "hub": { "endpoint": mock.hub.url("") }, "cache": "auto" });
    page.browser.evaluate("clearCache()")?;
    let first = page.call("load", "hf:owner/name/m.safetensors", &options)?;
    check(&first)?;
    ensure!(first.get("cacheError").is_some_and(Value::is_null), "there is no cache: {first}");
    let needed = page.call("neededStorage", "hf:owner/name/m.safetensors", &options)?;
    ensure!(needed == 0, "{needed} bytes are still needed");
    let before = mock.storage.requests().len();
    check(&page.call("load", "hf:other/copy/m.safetensors", &options)?)?;
    let requests = mock.storage.requests().len() - before;
    ensure!(requests == 0, "{requests} requests for bytes that are cached");
    Ok(())
}

fn loads_from_the_cache_without_a_hub(page: &Page) -> Result<()> {
    let mock = MockHub::new(Api::Full, &[("m.safetensors", &FILE)]);
    let options = json!({ "hub": { "endpoint": mock.hub.url("") }, "cache": "auto" });
    page.browser.evaluate("clearCache()")?;
    let address = "hf:owner/name/m.safetensors";
    check(&page.call("load", address, &options)?)?;
    drop(mock);
    let offline = page.call("load", address, &options)?;
    check(&with(offline, "verified", "sha256".into()))
}
