//! Test cases of the cache, one function each.

use std::fs;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::pages::Storage;
use super::{SCRIPT, Site, load, report};
use crate::chromium::Chromium;
use crate::page::{LOAD_LIMIT, Page, SOON};
use crate::ztensor;
use xtask::expected;

/// Throttled bandwidth, with which a load takes several seconds.
const SLOW_BYTES_PER_SECOND: u32 = 25_000_000;

/// How many bytes an interrupted load may lose: bytes in flight, and those of incomplete chunks.
const IN_FLIGHT_BYTES: u64 = 8 << 20;

/// The loader requests one byte to find out whether a file has changed.
pub(super) const PROBE_BYTES: u64 = 1;

const TENSOR: &str = "embeddings.word_embeddings.weight";

/// 1536 rows of 1.5 KiB.
const ROWS_TENSOR: &str = "encoder.layer.1.intermediate.dense.weight";

pub(super) fn fetches_nothing_twice(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let cold = site.load(browser, &models)?;
    ensure!(cold.stats.cache_error.is_none(), "{:?}", cold.stats.cache_error);
    ensure!(cold.stats.bytes_from_cache == 0 && !cold.from_cache, "the first load reports bytes from the cache");
    let (requests, sent) = models.sent();
    ensure!(cold.stats.requests == requests, "{requests} requests arrived, the stats count {}", cold.stats.requests);
    // When another connection takes over half of the remaining range, part of that half is already in flight.
    let allowed = site.byte_length + PROBE_BYTES + 8 * IN_FLIGHT_BYTES;
    ensure!(sent <= allowed, "{sent} bytes were sent for {}", site.byte_length);
    for _ in 0..2 {
        let warm = site.load(browser, &models)?;
        let (requests, sent) = models.sent();
        ensure!(sent <= PROBE_BYTES && requests <= 1, "{sent} bytes were sent in {requests} requests");
        ensure!(warm.stats.requests == requests && warm.stats.bytes_received == 0, "the stats are wrong");
        ensure!(
            warm.from_cache && warm.stats.bytes_from_cache >= site.byte_length - (64 << 10),
            "{} bytes from the cache, fromCache {}",
            warm.stats.bytes_from_cache,
            warm.from_cache
        );
    }
    Ok(())
}

pub(super) fn keeps_single_tensors(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let call = format!("one({}, {TENSOR:?})", json!(models.url()));
    let expected = site.expected.iter().find(|tensor| tensor.name == TENSOR).context("the model lacks the tensor")?;
    for number in [1, 2] {
        let report = report(&mut site.page(browser)?, &call)?;
        ensure!(report.tensors.get(TENSOR) == Some(&expected.sha256), "{TENSOR} has wrong bytes on load {number}");
        let (_, sent) = models.sent();
        let allowed = if number == 2 { PROBE_BYTES } else { expected.byte_length + 8 * IN_FLIGHT_BYTES };
        ensure!(sent <= allowed, "load {number}: {sent} bytes were sent");
    }
    // A load of all tensors downloads only the rest.
    site.load(browser, &models)?;
    let (_, sent) = models.sent();
    let allowed = site.byte_length - expected.byte_length + (1 << 20) + 8 * IN_FLIGHT_BYTES;
    ensure!(sent <= allowed, "{sent} bytes were sent for the rest");
    Ok(())
}

pub(super) fn resumes_after_kill(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut sent = 0;
    for part in [3, 2] {
        let mut page = site.page(browser)?;
        throttle(&mut page)?;
        page.evaluate(&format!("load({}).catch(() => {{}}), 0", json!(models.url())))?;
        let enough = site.byte_length / part;
        page.wait_for("a part of the file", LOAD_LIMIT, &format!("window.loaded > {enough}"))?;
        page.close()?;
        sent += models.sent().1;
    }
    let report = site.load(browser, &models)?;
    let rest = models.sent().1;
    ensure!(report.stats.bytes_from_cache > site.byte_length / 3, "cached bytes were not used");
    // Each interruption loses the bytes in flight on several connections and those not yet written to disk.
    let allowed = site.byte_length + 6 * IN_FLIGHT_BYTES;
    ensure!(sent + rest <= allowed, "{sent} + {rest} bytes were sent for {}", site.byte_length);
    Ok(())
}

pub(super) fn loads_without_a_server(browser: &mut Chromium, site: &Site) -> Result<()> {
    let mut models = site.models()?;
    site.load(browser, &models)?;
    models.server.stop();
    let report = site.load(browser, &models)?;
    ensure!(report.stats.bytes_received == 0, "bytes were received from a stopped server");
    // No request is made while the browser is offline.
    let mut page = site.page(browser)?;
    page.evaluate("cachedBytes()")?;
    go_offline(&mut page)?;
    let report = load(&mut page, &models.url())?;
    ensure!(report.stats.requests == 0, "{} requests were made offline", report.stats.requests);
    site.compare(&report.tensors, &site.expected)
}

/// Buffers may be transferred to the cache worker, which fills them. The caller's buffers must not be transferred, and
/// no buffer may be used by two loads.
pub(super) fn loads_in_every_way(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    site.load(browser, &models)?;
    models.sent();
    let arguments = format!("{}, {ROWS_TENSOR:?}, [100, 1300]", json!(models.url()));
    let result = site.page(browser)?.evaluate(&format!("({})({arguments})", include_str!("load_in_every_way.js")))?;
    let each = json!([0, true, site.expected.len()]);
    ensure!(result == json!([true, true, each, each, each, each]), "{result}");
    ensure!(models.sent().1 <= 5 * PROBE_BYTES, "cached bytes were downloaded again");
    Ok(())
}

pub(super) fn notices_a_change(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    site.load(browser, &models)?;
    models.sent();
    let file = fs::OpenOptions::new().write(true).open(models.file())?;
    for at in (site.byte_length / 2..site.byte_length).step_by(1 << 20) {
        file.write_all_at(b"changed!", at)?;
    }
    file.sync_all()?;
    let changed = expected::tensors(&models.file())?;
    for is_second in [false, true] {
        let report = load(&mut site.page(browser)?, &models.url())?;
        site.compare(&report.tensors, &changed)?;
        let (_, sent) = models.sent();
        ensure!(!is_second || sent <= PROBE_BYTES, "{sent} bytes were sent for a cached file");
    }
    Ok(())
}

pub(super) fn notices_damage(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    site.load(browser, &models)?;
    models.sent();
    let mut page = site.page(browser)?;
    flip_a_bit(&mut page)?;
    page.close()?;
    site.load(browser, &models)?;
    let (_, sent) = models.sent();
    ensure!(sent > PROBE_BYTES && sent <= 2 << 20, "{sent} bytes were sent for one damaged chunk");
    site.load(browser, &models)?;
    ensure!(models.sent().1 <= PROBE_BYTES, "the damaged chunk was not cached again");
    Ok(())
}

pub(super) fn rejects_corrupt_downloads(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let weights = fs::read(&site.weights)?;
    let path = models.folder.path().join("one.zt");
    ztensor::write(&path, &[("a", weights.get(..5 << 20).context("the model is small")?)])?;
    fs::OpenOptions::new().write(true).open(&path)?.write_all_at(b"wrong", 2 << 20)?;
    let mut page = site.page(browser)?;
    let call = format!("load({}).catch((error) => error.code)", json!(format!("{}/one.zt", models.server.url())));
    for _ in 0..2 {
        let code = page.evaluate(&call)?;
        ensure!(code == "CHECKSUM", "the load fails with {code}");
        let files = page.evaluate("listCached()")?;
        ensure!(files == json!([]), "the cache lists {files}");
    }
    Ok(())
}

pub(super) fn shares_between_tabs(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = site.page(browser)?;
    page.evaluate(&format!("({})({})", include_str!("open_frames.js"), json!(SCRIPT)))?;
    let call = format!(
        "Promise.all(tabs.map((tab) => tab.load({}))).then((reports) => {{ window.reports = reports; }}), 0",
        json!(models.url())
    );
    throttle(&mut page)?;
    page.evaluate(&call)?;
    page.wait_for("both tabs to load", LOAD_LIMIT, "window.reports")?;
    for tab in 0..2 {
        let report = report(&mut page, &format!("window.reports[{tab}]"))?;
        site.compare(&report.tensors, &site.expected)?;
    }
    let (_, sent) = models.sent();
    // As for one tab: half of a remaining range may be in flight when another connection takes it over.
    let allowed = site.byte_length + 4 * IN_FLIGHT_BYTES;
    ensure!(sent <= allowed, "{sent} bytes were sent for {} in two tabs", site.byte_length);
    Ok(())
}

pub(super) fn handles_small_quota(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = site.page(browser)?;
    set_quota(&mut page, site, Some(site.byte_length / 4))?;
    let first = load(&mut page, &models.url())?;
    let second = load(&mut page, &models.url())?;
    set_quota(&mut page, site, None)?;
    site.compare(&first.tensors, &site.expected)?;
    // Chromium updates the usage of a database with a delay, so it may exceed the quota.
    if site.storage == Storage::Files || second.stats.bytes_received > PROBE_BYTES {
        let why = first.stats.cache_error.context("cacheError does not report the full cache")?;
        ensure!(why.contains("quota"), "cacheError of a full cache: {why}");
    }
    site.compare(&second.tensors, &site.expected)?;
    let used = second.stats.bytes_from_cache;
    ensure!(used > site.byte_length / 10, "only {used} cached bytes were used");
    Ok(())
}

pub(super) fn evicts_the_oldest(browser: &mut Chromium, site: &Site) -> Result<()> {
    let (old, new) = (site.models()?, site.models()?);
    site.load(browser, &old)?;
    let mut page = site.page(browser)?;
    // Too small for both models. Chromium reserves twice the size of a growing file.
    set_quota(&mut page, site, Some(site.byte_length * 7 / 4))?;
    let report = load(&mut page, &new.url())?;
    let urls = page.evaluate("listCached().then((files) => files.map(({ url }) => url))")?;
    set_quota(&mut page, site, None)?;
    site.compare(&report.tensors, &site.expected)?;
    ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
    // As above, a database may exceed the quota, so both models may fit.
    let is_left = urls.as_array().is_some_and(|urls| urls.len() == 2) && site.storage == Storage::Database;
    ensure!(is_left || urls == json!([new.url()]), "the cache lists {urls}");
    Ok(())
}

pub(super) fn lists_and_deletes(browser: &mut Chromium, site: &Site) -> Result<()> {
    let (one, other) = (site.models()?, site.models()?);
    site.load(browser, &one)?;
    site.load(browser, &other)?;
    let mut page = site.page(browser)?;
    let holds = |page: &mut Page, what: &str| -> Result<()> {
        let holds = page.evaluate(what)?;
        ensure!(holds == true, "`{what}` is false");
        Ok(())
    };
    let length = site.byte_length;
    holds(&mut page, "listCached().then((files) => files.length === 2)")?;
    holds(&mut page, &format!("listCached().then((files) => files.every((file) => file.byteLength === {length}))"))?;
    holds(&mut page, "listCached().then((files) => files.every((file) => Date.now() - file.lastUsed < 600000))")?;
    holds(&mut page, &format!("cachedBytes().then((bytes) => bytes >= 2 * {length} && bytes < 2.01 * {length})"))?;
    page.evaluate(&format!("deleteCached({})", json!(one.url())))?;
    let left = json!(other.url());
    holds(&mut page, &format!("listCached().then((files) => files.length === 1 && files[0].url === {left})"))?;
    holds(&mut page, &format!("cachedBytes().then((bytes) => bytes >= {length} && bytes < 1.01 * {length})"))?;
    page.close()?;
    one.sent();
    site.load(browser, &one)?;
    ensure!(one.sent().1 >= length, "a deleted file is still used");
    Ok(())
}

pub(super) fn clears_while_a_worker_is_open(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut other = site.page(browser)?;
    other.evaluate("cachedBytes()")?; // starts its worker
    other.close()?;
    for _ in 0..4 {
        let mut page = site.page(browser)?;
        page.evaluate(&format!("load({}).catch(() => {{}}), 0", json!(models.url())))?;
        page.wait_for("a part of the file", LOAD_LIMIT, "window.loaded > 4e6")?;
        page.close()?;
        // The worker of the closed page may finish a write, which the second call deletes.
        let twice = "clearCache().then(() => new Promise((end) => setTimeout(end, 200))).then(clearCache)";
        let left = site.page(browser)?.evaluate(&format!("{twice}.then(cachedBytes)"))?;
        ensure!(left == 0, "{left} bytes are left");
    }
    Ok(())
}

/// Flips a bit in the middle of each cached file.
pub(super) fn flip_a_bit(page: &mut Page) -> Result<()> {
    page.evaluate(concat!("(", include_str!("flip_a_bit.js"), ")()"))?;
    Ok(())
}

fn set_quota(page: &mut Page, site: &Site, bytes: Option<u64>) -> Result<()> {
    let mut params = json!({ "origin": site.pages.origin() });
    if let (Some(bytes), Some(fields)) = (bytes, params.as_object_mut()) {
        fields.insert("quotaSize".into(), bytes.into());
    }
    page.call("Storage.overrideQuotaForOrigin", params)?;
    Ok(())
}

/// Takes the network away from a page.
pub(super) fn go_offline(page: &mut Page) -> Result<()> {
    page.call("Network.enable", json!({}))?;
    let network = json!({ "offline": true, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
    page.call("Network.emulateNetworkConditions", network)?;
    Ok(())
}

pub(super) fn throttle(page: &mut Page) -> Result<()> {
    let network =
        json!({ "offline": false, "latency": 0, "downloadThroughput": SLOW_BYTES_PER_SECOND, "uploadThroughput": -1 });
    page.call("Network.enable", json!({}))?;
    page.call("Network.emulateNetworkConditions", network)?;
    page.wait_for("the page", SOON, "true")
}
