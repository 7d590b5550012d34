//! What is known by its digest, and so found under any URL.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use weightstream::format::aero;
use weightstream::native::Reader;
use weightstream::write::{ConvertOptions, convert};

use super::promises::{PROBE_BYTES, flip_a_bit};
use super::{Models, Report, Site, load, report};
use crate::chromium::Chromium;
use crate::ztensor;

/// Heads, and tensors so small that they are not looked for.
const LITTLE_BYTES: u64 = 256 << 10;

const TENSOR: &str = "embeddings.word_embeddings.weight";

pub(super) fn finds_tensors(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let [a, b] = large(site)?;
    ztensor::write(&models.folder.path().join("one.zt"), &[("a", &a), ("b", &b)])?;
    ztensor::write(&models.folder.path().join("other.zt"), &[("c", b"other"), ("moved", &b), ("d", b"others")])?;
    let one = load(&mut site.page(browser)?, &url(&models, "one.zt"))?;
    models.sent();
    let other = load(&mut site.page(browser)?, &url(&models, "other.zt"))?;
    ensure!(other.tensors.get("moved") == one.tensors.get("b"), "the tensor came out as another");
    let (requests, sent) = models.sent();
    ensure!(sent < LITTLE_BYTES, "{sent} bytes were sent in {requests} requests for what another model has");
    Ok(())
}

/// SafeTensors have no digests: it is the caller who knows.
pub(super) fn finds_pinned_tensors(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let [a, b] = large(site)?;
    write_safetensors(&models.folder.path().join("one.safetensors"), &[("a", &a), ("b", &b)])?;
    write_safetensors(&models.folder.path().join("other.safetensors"), &[("c", b"other"), ("moved", &b)])?;
    let pinned = |name: &str| json!({ "digests": { "tensors": { name: sha256(&b) } } });
    let one = load_with(browser, site, &url(&models, "one.safetensors"), pinned("b"))?;
    models.sent();
    let other = load_with(browser, site, &url(&models, "other.safetensors"), pinned("moved"))?;
    ensure!(other.tensors.get("moved") == one.tensors.get("b"), "the tensor came out as another");
    let (requests, sent) = models.sent();
    ensure!(sent < LITTLE_BYTES, "{sent} bytes were sent in {requests} requests for what another model has");
    Ok(())
}

/// The manifest says what its files are before one of them is asked for.
pub(super) fn finds_files_of_a_manifest(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let folder = models.folder.path();
    let (one, other) = (folder.join("one"), folder.join("other"));
    let options =
        ConvertOptions::default().with_format(Some(&aero::FORMAT)).with_max_shard_bytes(Some(site.byte_length / 3));
    fs::create_dir(&one)?;
    let converted = convert(&Reader::open(&site.weights)?, &one.join("model.aeroset.json"), &options, &())?;
    let manifest = converted.path.file_name().and_then(|name| name.to_str()).context("the manifest has no name")?;
    let manifest_bytes = fs::metadata(&converted.path)?.len();
    // At the other URL there is nothing but the manifest.
    fs::create_dir(&other)?;
    fs::copy(&converted.path, other.join(manifest))?;
    let (one, other) = (url(&models, &format!("one/{manifest}")), url(&models, &format!("other/{manifest}")));

    // A tensor alone does not tell that the rest of its file is right, too.
    report(&mut site.page(browser)?, &format!("one({}, {TENSOR:?})", json!(one)))?;
    let outcome = load(&mut site.page(browser)?, &other);
    ensure!(outcome.is_err(), "files came from the cache of which it had but a part");
    site.compare(&load(&mut site.page(browser)?, &one)?.tensors, &site.expected)?;
    models.sent();
    let report = load(&mut site.page(browser)?, &other)?;
    site.compare(&report.tensors, &site.expected)?;
    let (requests, sent) = models.sent();
    ensure!(requests == 1 && sent <= manifest_bytes, "{sent} bytes were sent in {requests} requests");
    Ok(())
}

pub(super) fn finds_pinned_files(browser: &mut Chromium, site: &Site) -> Result<()> {
    let (models, other) = (site.models()?, site.models()?);
    let pinned = json!({ "digests": { "files": { "model.safetensors": sha256(&fs::read(&site.weights)?) } } });
    fs::write(other.file(), b"something else")?;
    load_with(browser, site, &models.url(), pinned.clone())?;
    models.sent();
    for models in [&models, &other] {
        let report = load_with(browser, site, &models.url(), pinned.clone())?;
        site.compare(&report.tensors, &site.expected)?;
        let (requests, sent) = models.sent();
        ensure!(requests == 0, "{sent} bytes were sent in {requests} requests for what is known and kept");
    }

    // What is missing of it later must not be taken from a file that may be another one.
    flip_a_bit(&mut site.page(browser)?)?;
    let mixed = load_with(browser, site, &other.url(), pinned.clone());
    let refusal = mixed.err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(refusal.contains("Open the model again"), "this is said of a damaged file: {refusal:?}");
    // All of what it has, to compare it, is 14 bytes.
    ensure!(other.sent().1 < 1 << 10, "the server was asked for the rest");
    fs::copy(&site.weights, other.file())?;
    for is_kept in [false, true] {
        let report = load_with(browser, site, &other.url(), pinned.clone())?;
        site.compare(&report.tensors, &site.expected)?;
        let (_, sent) = other.sent();
        ensure!((sent <= PROBE_BYTES) == is_kept, "{sent} bytes were sent");
    }
    Ok(())
}

/// Some of it was handed out when the rest turned out to be gone: the server's file will do if it is the same.
pub(super) fn goes_on_with_the_same_file(browser: &mut Chromium, site: &Site) -> Result<()> {
    let (models, other) = (site.models()?, site.models()?);
    let pinned = json!({ "digests": { "files": { "model.safetensors": sha256(&fs::read(&site.weights)?) } } });
    load_with(browser, site, &models.url(), pinned.clone())?;
    flip_a_bit(&mut site.page(browser)?)?;
    models.sent();
    for is_kept in [false, true] {
        let report = load_with(browser, site, &other.url(), pinned.clone())?;
        site.compare(&report.tensors, &site.expected)?;
        let (_, sent) = other.sent();
        ensure!(is_kept || sent > site.byte_length, "nobody looked whether the server's file is the same");
        let used = report.stats.bytes_from_cache;
        ensure!(used > site.byte_length / 4, "of what was kept {used} bytes are used");
    }
    ensure!(models.sent().1 == 0, "the other URL was asked");
    Ok(())
}

pub(super) fn large(site: &Site) -> Result<[Vec<u8>; 2]> {
    let weights = fs::read(&site.weights)?;
    let large = |from: usize| weights.get(from << 20..(from + 5) << 20).context("the model is small");
    Ok([large(3)?.to_vec(), large(20)?.to_vec()])
}

fn url(models: &Models, name: &str) -> String {
    format!("{}/{name}", models.server.url())
}

fn load_with(browser: &mut Chromium, site: &Site, url: &str, options: Value) -> Result<Report> {
    report(&mut site.page(browser)?, &format!("load({}, {options})", json!(url)))
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(bytes)))
}

/// Tensors of bytes.
pub(super) fn write_safetensors(path: &Path, tensors: &[(&str, &[u8])]) -> Result<()> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, bytes) in tensors {
        let place = [data.len(), data.len() + bytes.len()];
        header.insert((*name).to_owned(), json!({ "dtype": "U8", "shape": [bytes.len()], "data_offsets": place }));
        data.extend(*bytes);
    }
    let header = Value::from(header).to_string();
    Ok(fs::write(path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat())?)
}
