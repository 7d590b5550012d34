//! Different URLs of the same file.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use weightstream::internals::format::aero;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{ConvertOptions, convert};

use super::cases::PROBE_BYTES;
use super::{Site, TestCase, report};
use crate::chromium::Chromium;

pub(super) const CASES: [(&str, TestCase); 3] = [
    ("signed URLs of one file share a cache entry", shares_signed_urls),
    ("`cacheKey` names the cache entry", names_by_cache_key),
    ("an invalid `cacheKey` is rejected", rejects_invalid_cache_key),
];

fn shares_signed_urls(browser: &mut Chromium, site: &Site) -> Result<()> {
    let signatures = [
        |n: u32| format!("X-Amz-Algorithm=A&X-Amz-Date={n}&X-Amz-Signature=a{n}"),
        |n: u32| format!("sv=2024-11-04&se=2026-11-{n}&sr=b&sp=r&sig=a{n}"),
        |n: u32| format!("Expires={n}&Signature=a{n}&Key-Pair-Id=K"),
    ];
    for signature in signatures {
        let models = site.models()?;
        for n in 1..=3 {
            let url = format!("{}?{}", models.url(), signature(n));
            let report = report(&mut site.page(browser)?, &format!("load({})", json!(url)))?;
            site.compare(&report.tensors, &site.expected)?;
            let (_, sent) = models.sent();
            ensure!(n == 1 || sent <= PROBE_BYTES, "{sent} bytes were sent for {url}");
        }
        let mut page = site.page(browser)?;
        let urls = page.evaluate("listCached().then((files) => files.map(({ url }) => url))")?;
        ensure!(urls == json!([models.url()]), "the cache lists {urls}");
        let signed = format!("{}?{}", models.url(), signature(4));
        let left = page.evaluate(&format!("deleteCached({}).then(cachedBytes)", json!(signed)))?;
        ensure!(left == 0, "{left} bytes are left");
    }
    Ok(())
}

fn names_by_cache_key(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    for n in 1..=3 {
        let call =
            format!("load('{}?token={n}', {{ cacheKey: (url) => url.split('token')[0] + 'a b' }})", models.url());
        let report = report(&mut site.page(browser)?, &call)?;
        site.compare(&report.tensors, &site.expected)?;
        let (_, sent) = models.sent();
        ensure!(n == 1 || sent <= PROBE_BYTES, "{sent} bytes were sent by load {n}");
    }
    let name = format!("{}?a b", models.url());
    let mut page = site.page(browser)?;
    let urls = page.evaluate("listCached().then((files) => files.map(({ url }) => url))")?;
    ensure!(urls == json!([name]), "the cache lists {urls}");
    let left = page.evaluate(&format!("deleteCached({}).then(cachedBytes)", json!(name)))?;
    ensure!(left == 0, "{left} bytes are left");
    Ok(())
}

fn rejects_invalid_cache_key(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let options = ConvertOptions::default().format(&aero::FORMAT).max_shard_bytes(site.byte_length / 3);
    let folder = models.folder.path();
    let converted = convert(&Reader::open(&site.weights)?, &folder.join("model.aeroset.json"), &options, &())?;
    let manifest = converted.path.file_name().and_then(|name| name.to_str()).context("the manifest has no name")?;
    let url = json!(format!("{}/{manifest}", models.server.url()));
    let mut page = site.page(browser)?;
    let bad = [
        "() => { throw Error('test failure'); }",
        "() => 42",
        "() => ''",
        "() => 'a\\nb'",
        "'text'",
        "(url) => { if (url.endsWith('.json')) return url; throw Error('test failure'); }",
    ];
    for function in bad {
        let call = format!(
            "load({url}, {{ cacheKey: {function} }}).then(() => 'loaded', (error) => \
             error instanceof LoadError ? error.code + error.message : String(error))"
        );
        let result = page.evaluate(&call)?;
        let result = result.as_str().unwrap_or_default();
        ensure!(result.starts_with("INVALID_ARGUMENT") && result.contains("cacheKey"), "{function} returns {result:?}");
        let has_cause = !function.contains("failure") || result.contains("test failure");
        ensure!(has_cause, "the message lacks the cause: {result:?}");
    }
    let result = page.evaluate(&format!(
        "StreamingLoader.open({url}, {{ inWorker: true, cacheKey: String }})
            .then(() => 'opened', (error) => error.code)"
    ))?;
    ensure!(result == "INVALID_ARGUMENT", "for a loader in a worker, the result is {result}");
    Ok(())
}
