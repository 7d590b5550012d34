//! URLs that differ, and name the same file.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use weightstream::format::aero;
use weightstream::native::Reader;
use weightstream::write::{ConvertOptions, convert};

use super::promises::PROBE_BYTES;
use super::{Promise, Site, report};
use crate::chromium::Chromium;

pub(super) const PROMISES: [(&str, Promise); 3] = [
    ("three signatures of one file are one download", three_signatures),
    ("`cacheKey` names what is cached", names_by_cache_key),
    ("a `cacheKey` that gives no name is told of", tells_of_a_bad_cache_key),
];

fn three_signatures(browser: &mut Chromium, site: &Site) -> Result<()> {
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
        ensure!(urls == json!([models.url()]), "these are listed: {urls}");
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
        ensure!(n == 1 || sent <= PROBE_BYTES, "{sent} bytes were sent the {n}. time");
    }
    let name = format!("{}?a b", models.url());
    let mut page = site.page(browser)?;
    let urls = page.evaluate("listCached().then((files) => files.map(({ url }) => url))")?;
    ensure!(urls == json!([name]), "these are listed: {urls}");
    let left = page.evaluate(&format!("deleteCached({}).then(cachedBytes)", json!(name)))?;
    ensure!(left == 0, "{left} bytes are left");
    Ok(())
}

fn tells_of_a_bad_cache_key(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let options =
        ConvertOptions::default().with_format(Some(&aero::FORMAT)).with_max_shard_bytes(Some(site.byte_length / 3));
    let folder = models.folder.path();
    let converted = convert(&Reader::open(&site.weights)?, &folder.join("model.aeroset.json"), &options, &())?;
    let manifest = converted.path.file_name().and_then(|name| name.to_str()).context("the manifest has no name")?;
    let url = json!(format!("{}/{manifest}", models.server.url()));
    let mut page = site.page(browser)?;
    let bad = [
        "() => { throw Error('no such luck'); }",
        "() => 42",
        "() => ''",
        "() => 'a\\nb'",
        "'text'",
        "(url) => { if (url.endsWith('.json')) return url; throw Error('no such luck'); }",
    ];
    for function in bad {
        let call = format!(
            "load({url}, {{ cacheKey: {function} }}).then(() => 'loaded', (error) => \
             error instanceof LoadError ? error.code + error.message : String(error))"
        );
        let told = page.evaluate(&call)?;
        let told = told.as_str().unwrap_or_default();
        ensure!(told.starts_with("INVALID_ARGUMENT") && told.contains("cacheKey"), "{function} gives {told:?}");
        ensure!(!function.contains("luck") || told.contains("no such luck"), "nor is it said why: {told:?}");
    }
    let told = page.evaluate(&format!(
        "StreamingLoader.open({url}, {{ inWorker: true, cacheKey: String }})
            .then(() => 'opened', (error) => error.code)"
    ))?;
    ensure!(told == "INVALID_ARGUMENT", "in a worker it gives {told}");
    Ok(())
}
