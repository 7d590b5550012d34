//! Folders of the user, and storage buckets. A folder of the origin private file system stands in for one that the user
//! has chosen: no test can answer the dialog of the browser.

use std::fs;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::cases::{PROBE_BYTES, throttle};
use super::{Models, Report, SCRIPT as CACHE_SCRIPT, Site, TestCase, report};
use crate::chromium::Chromium;
use crate::page::{LOAD_LIMIT, Page};
use xtask::expected;

pub(super) const CASES: [(&str, TestCase); 9] = [
    ("a folder has complete files under their names, from which later loads read", complete),
    ("a load into a folder resumes after its page is closed", resumes),
    ("a folder without a permission does not fail a load, and says what to do", without_permission),
    ("a folder that is lost in the middle of a load does not fail it", lost),
    ("a file in a folder that another program has changed is neither used nor replaced", changed),
    ("a new version on the server replaces its file in a folder", replaced),
    ("two tabs that load into a folder download the file once", two_tabs),
    ("a folder is remembered across visits", remembered),
    ("a storage bucket is a cache, which is deleted alone", bucket),
];

/// How many bytes an interrupted load may lose: bytes in flight, and a segment that was not closed.
const LOST_BYTES: u64 = 16 << 20;

pub(super) const SCRIPT: &str = include_str!("folders.js");

/// A new page with the functions of `folders.js`.
fn page<'a>(site: &Site, browser: &'a mut Chromium) -> Result<Page<'a>> {
    let mut page = site.page(browser)?;
    page.evaluate(SCRIPT)?;
    Ok(page)
}

/// A new page, with an empty folder.
fn first_page<'a>(site: &Site, browser: &'a mut Chromium) -> Result<Page<'a>> {
    let mut page = page(site, browser)?;
    page.evaluate("removeFolder().catch(() => {})")?;
    Ok(page)
}

/// The path of the model in a folder.
fn path(models: &Models) -> String {
    format!("{}/model.safetensors", models.server.url().replace("http://", "").replace(':', "%3A"))
}

/// Loads into the folder until it has the complete file, and compares every byte.
fn complete_load(page: &mut Page, site: &Site, models: &Models) -> Result<Report> {
    let report = report(page, &format!("complete({})", json!(models.url())))?;
    site.compare(&report.tensors, &expected::tensors(&models.file())?)?;
    Ok(report)
}

fn sha256_in_folder(page: &mut Page, models: &Models) -> Result<(Value, String)> {
    let stored = page.evaluate(&format!("sha256At({})", json!(path(models))))?;
    let digest = Sha256::digest(fs::read(models.file())?);
    Ok((stored, digest.iter().map(|byte| format!("{byte:02x}")).collect()))
}

fn complete(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    first_page(site, browser)?;
    for is_warm in [false, true] {
        let mut page = page(site, browser)?;
        let report = complete_load(&mut page, site, &models)?;
        ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
        let (_, sent) = models.sent();
        ensure!((sent <= PROBE_BYTES) == is_warm, "{sent} bytes were sent; warm: {is_warm}");
        let (stored, expected) = sha256_in_folder(&mut page, &models)?;
        ensure!(stored == expected, "the file in the folder has other bytes");
        let listed = page.evaluate("folder().then(folderFiles)")?;
        let first = listed.get(0).context("the folder lists no file")?;
        ensure!(first.get("url") == Some(&json!(models.url())), "{listed}");
        ensure!(first.get("path") == Some(&json!(path(&models))), "{listed}");
        let own = page.evaluate("listCached().then((files) => files.length)")?;
        ensure!(own == 0, "the cache of the origin has {own} files");
    }
    let mut page = page(site, browser)?;
    page.evaluate("folder().then((folder) => folder.getFileHandle('mine', { create: true })).then(() => 0)")?;
    let left =
        page.evaluate(&format!("folder().then((f) => deleteFromFolder(f, {})).then(paths)", json!(models.url())))?;
    ensure!(left.as_array().is_some_and(|left| left.iter().all(|path| path != &json!(self::path(&models)))), "{left}");
    let left = page.evaluate("folder().then(clearFolder).then(paths)")?;
    ensure!(left == json!(["mine"]), "{left} is left");
    Ok(())
}

fn resumes(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut sent = 0;
    first_page(site, browser)?;
    for part in [3, 2] {
        let mut page = page(site, browser)?;
        throttle(&mut page)?;
        let load = format!("folder().then((cache) => load({}, {{ cache }})).catch(() => {{}}), 0", json!(models.url()));
        page.evaluate(&load)?;
        let enough = site.byte_length / part;
        page.wait_for("a part of the file", LOAD_LIMIT, &format!("window.loaded > {enough}"))?;
        page.close()?;
        sent += models.sent().1;
    }
    let mut page = page(site, browser)?;
    let report = complete_load(&mut page, site, &models)?;
    ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
    let rest = models.sent().1;
    ensure!(report.stats.bytes_from_cache >= 8 << 20, "{} bytes from the cache", report.stats.bytes_from_cache);
    let allowed = site.byte_length + 2 * LOST_BYTES;
    ensure!(sent + rest <= allowed, "{sent} + {rest} bytes were sent for {}", site.byte_length);
    let (stored, expected) = sha256_in_folder(&mut page, &models)?;
    ensure!(stored == expected, "the file in the folder has other bytes");
    Ok(())
}

fn without_permission(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = first_page(site, browser)?;
    for state in ["prompt", "denied"] {
        let cache = format!("Object.assign(folder, {{ queryPermission: async () => '{state}' }})");
        let load = format!("folder().then((folder) => load({}, {{ cache: {cache} }}))", json!(models.url()));
        let report = report(&mut page, &load)?;
        site.compare(&report.tensors, &site.expected)?;
        let why = report.stats.cache_error.unwrap_or_default();
        ensure!(why.contains("Call allowFolder()"), "cacheError is {why:?}");
        let permission = page.evaluate(&format!("folder().then((folder) => folderPermission({cache}))"))?;
        ensure!(permission == state, "the permission is {permission}");
    }
    let asked = "folder().then((folder) => allowFolder(Object.assign(folder, { requestPermission: async ({ mode }) => \
                 mode === 'readwrite' ? 'granted' : 'denied' })))";
    ensure!(page.evaluate(asked)? == true, "allowFolder() does not ask");
    let paths = page.evaluate("paths()")?;
    ensure!(paths == json!([]), "{paths} was written without a permission");
    Ok(())
}

fn lost(browser: &mut Chromium, site: &Site) -> Result<()> {
    for (name, why) in [("NotAllowedError", "may not write"), ("NotFoundError", "test failure"), ("", "cannot be used")]
    {
        let models = site.models()?;
        let mut page = first_page(site, browser)?;
        let cache = match name {
            "" => "folder", // it is deleted
            _ => &format!("failing(folder, '{name}', () => window.loaded > {})", site.byte_length / 4),
        };
        let remove = if name.is_empty() { "removeFolder()" } else { "undefined" };
        let part = site.byte_length / 4;
        page.evaluate(&format!("window.loaded = 0, until(() => window.loaded > {part}).then(() => {remove}), 0"))?;
        let load = format!("folder().then((folder) => load({}, {{ cache: {cache} }}))", json!(models.url()));
        let report = report(&mut page, &load).with_context(|| format!("lost by {name:?}"))?;
        site.compare(&report.tensors, &site.expected)?;
        let cache_error = report.stats.cache_error.unwrap_or_default();
        // All bytes may have been written before the folder was deleted.
        ensure!(cache_error.contains(why) || name.is_empty(), "{name:?}: cacheError is {cache_error:?}");
    }
    Ok(())
}

fn changed(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = first_page(site, browser)?;
    complete_load(&mut page, site, &models)?;
    models.sent();
    let path = json!(path(&models));
    page.evaluate(&format!("change({path}, 'changed by the user')"))?;
    let load = format!("folder().then((cache) => load({}, {{ cache }}))", json!(models.url()));
    let report_of_changed = report(&mut page, &load)?;
    site.compare(&report_of_changed.tensors, &site.expected)?;
    ensure!(models.sent().1 > PROBE_BYTES, "changed bytes were used");
    let start = format!("fileAt({path}).then((file) => file.getFile()).then((file) => file.slice(0, 19).text())");
    ensure!(page.evaluate(&start)? == "changed by the user", "the user's file was replaced");
    // The pieces that were downloaded again are used, and the reason why they are no file is reported.
    page.evaluate("folder().then(folderFiles)")?;
    let again = report(&mut page, &load)?;
    site.compare(&again.tensors, &site.expected)?;
    ensure!(models.sent().1 <= PROBE_BYTES, "the file was downloaded again");
    let why = again.stats.cache_error.unwrap_or_default();
    ensure!(why.contains("which is not overwritten"), "cacheError is {why:?}");
    let left = page.evaluate("folder().then(clearFolder).then(paths)")?;
    ensure!(left == json!([self::path(&models)]), "{left} is left");
    Ok(())
}

fn replaced(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = first_page(site, browser)?;
    complete_load(&mut page, site, &models)?;
    let file = fs::OpenOptions::new().write(true).open(models.file())?;
    file.write_all_at(b"changed!", site.byte_length / 2)?;
    file.sync_all()?;
    complete_load(&mut page, site, &models)?;
    let (stored, expected) = sha256_in_folder(&mut page, &models)?;
    ensure!(stored == expected, "the file in the folder has other bytes");
    Ok(())
}

fn two_tabs(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = first_page(site, browser)?;
    let script = format!("{CACHE_SCRIPT}.then(() => {SCRIPT})");
    page.evaluate(&format!("({})({})", include_str!("open_frames.js"), json!(script)))?;
    let load = format!(
        "Promise.all(tabs.map((tab) => tab.inFolder({}))).then((reports) => {{ window.reports = reports; }}), 0",
        json!(models.url())
    );
    throttle(&mut page)?;
    page.evaluate(&load)?;
    page.wait_for("both tabs to load", LOAD_LIMIT, "window.reports")?;
    for tab in 0..2 {
        let report = report(&mut page, &format!("window.reports[{tab}]"))?;
        site.compare(&report.tensors, &site.expected)?;
        ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
    }
    let (_, sent) = models.sent();
    let allowed = site.byte_length + LOST_BYTES / 2;
    ensure!(sent <= allowed, "{sent} bytes were sent for {}", site.byte_length);
    Ok(())
}

fn remembered(browser: &mut Chromium, site: &Site) -> Result<()> {
    let mut first = page(site, browser)?;
    first.evaluate("folder().then((folder) => rememberFolder(folder))")?;
    first.evaluate("folder('other').then((folder) => rememberFolder(folder, 'other'))")?;
    first.close()?;
    let mut page = page(site, browser)?;
    let names = "Promise.all([rememberedFolder(), rememberedFolder('other'), rememberedFolder('none')])\
                 .then((folders) => folders.map((folder) => folder?.name ?? null))";
    let found = page.evaluate(names)?;
    ensure!(found == json!(["chosen", "other", null]), "{found}");
    page.evaluate("forgetFolder().then(() => forgetFolder('other'))")?;
    ensure!(page.evaluate(names)? == json!([null, null, null]), "a folder was not forgotten");
    for call in ["rememberFolder('x')", "allowFolder({})", "folderFiles({ storageBucket: 'A' })", "rememberedFolder(1)"]
    {
        let code = page.evaluate(&format!("Promise.resolve().then(() => {call}).catch((error) => error.code)"))?;
        ensure!(code == "INVALID_ARGUMENT", "{call}: {code}");
    }
    Ok(())
}

fn bucket(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let options = "{ cache: { storageBucket: 'whisper-v3' } }";
    let load = format!("load({}, {options})", json!(models.url()));
    for is_warm in [false, true] {
        let mut page = page(site, browser)?;
        let report = report(&mut page, &load)?;
        site.compare(&report.tensors, &site.expected)?;
        ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
        // The last bytes are written after the load.
        let has_all = format!(
            "until(async () => (await folderFiles({{ storageBucket: 'whisper-v3' }}))[0]?.cachedBytes === {})",
            site.byte_length
        );
        page.evaluate(&has_all)?;
        let (_, sent) = models.sent();
        ensure!((sent <= PROBE_BYTES) == is_warm, "{sent} bytes were sent; warm: {is_warm}");
    }
    let mut page = page(site, browser)?;
    page.evaluate("navigator.storageBuckets.delete('whisper-v3')")?;
    let gone = report(&mut page, &load)?;
    ensure!(gone.stats.bytes_from_cache == 0, "the bucket was not deleted");
    page.evaluate("navigator.storageBuckets.delete('whisper-v3')")?;
    // As in other browsers.
    page.evaluate("delete Navigator.prototype.storageBuckets")?;
    let ordinary = report(&mut page, &load)?;
    site.compare(&ordinary.tensors, &site.expected)?;
    let why = ordinary.stats.cache_error.unwrap_or_default();
    ensure!(why.contains("no Storage Buckets"), "cacheError is {why:?}");
    let listed = page.evaluate("listCached().then((files) => files.length)")?;
    ensure!(listed == 1, "the ordinary cache has {listed} files");
    Ok(())
}
