//! Cached content that is identified by its digest and therefore found under any URL.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use weightstream::internals::format::aero;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{Compression, ConvertOptions, convert};
use weightstream_publish::PublishOptions;

use super::cases::{PROBE_BYTES, flip_a_bit};
use super::revisions::{Noise, bf16};
use super::{Models, Report, Site, clear_cache, load, report};
use crate::chromium::Chromium;
use crate::ztensor;

/// Upper bound of headers and of tensors that are too small to be looked up by digest.
const SMALL_BYTES: u64 = 256 << 10;

const TENSOR: &str = "embeddings.word_embeddings.weight";

pub(super) fn finds_tensors(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let [a, b] = large(site)?;
    ztensor::write(&models.folder.path().join("one.zt"), &[("a", &a), ("b", &b)])?;
    ztensor::write(&models.folder.path().join("other.zt"), &[("c", b"other"), ("moved", &b), ("d", b"others")])?;
    let one = load(&mut site.page(browser)?, &url(&models, "one.zt"))?;
    models.sent();
    let other = load(&mut site.page(browser)?, &url(&models, "other.zt"))?;
    ensure!(other.tensors.get("moved") == one.tensors.get("b"), "the tensor has other bytes");
    let (requests, sent) = models.sent();
    ensure!(sent < SMALL_BYTES, "{sent} bytes were sent in {requests} requests for a tensor that is already cached");
    Ok(())
}

/// SafeTensors files contain no digests; the caller passes them.
pub(super) fn finds_pinned_tensors(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let [a, b] = large(site)?;
    write_safetensors(&models.folder.path().join("one.safetensors"), &[("a", &a), ("b", &b)])?;
    write_safetensors(&models.folder.path().join("other.safetensors"), &[("c", b"other"), ("moved", &b)])?;
    let pinned = |name: &str| json!({ "digests": { "tensors": { name: sha256(&b) } } });
    let one = load_with(browser, site, &url(&models, "one.safetensors"), pinned("b"))?;
    models.sent();
    let other = load_with(browser, site, &url(&models, "other.safetensors"), pinned("moved"))?;
    ensure!(other.tensors.get("moved") == one.tensors.get("b"), "the tensor has other bytes");
    let (requests, sent) = models.sent();
    ensure!(sent < SMALL_BYTES, "{sent} bytes were sent in {requests} requests for a tensor that is already cached");
    Ok(())
}

/// The manifest lists the digest of each file before any of them is requested.
pub(super) fn finds_files_of_a_manifest(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let folder = models.folder.path();
    let (one, other) = (folder.join("one"), folder.join("other"));
    let options = ConvertOptions::default().format(&aero::FORMAT).max_shard_bytes(site.byte_length / 3);
    fs::create_dir(&one)?;
    let converted = convert(&Reader::open(&site.weights)?, &one.join("model.aeroset.json"), &options, &())?;
    let manifest = converted.path.file_name().and_then(|name| name.to_str()).context("the manifest has no name")?;
    let manifest_bytes = fs::metadata(&converted.path)?.len();
    // The other URL has only the manifest.
    fs::create_dir(&other)?;
    fs::copy(&converted.path, other.join(manifest))?;
    let (one, other) = (url(&models, &format!("one/{manifest}")), url(&models, &format!("other/{manifest}")));

    // After a single tensor is loaded, its file is cached only in part and cannot be verified.
    report(&mut site.page(browser)?, &format!("one({}, {TENSOR:?})", json!(one)))?;
    let outcome = load(&mut site.page(browser)?, &other);
    ensure!(outcome.is_err(), "a partially cached file was used without its rest");
    site.compare(&load(&mut site.page(browser)?, &one)?.tensors, &site.expected)?;
    models.sent();
    let report = load(&mut site.page(browser)?, &other)?;
    site.compare(&report.tensors, &site.expected)?;
    let (requests, sent) = models.sent();
    ensure!(requests == 1 && sent <= manifest_bytes, "{sent} bytes were sent in {requests} requests");
    Ok(())
}

/// A file in which one tensor has changed has another name. Its other tensors are those of the previous revision.
pub(super) fn finds_unchanged_tensors_of_a_revision(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let folder = models.folder.path().join("published");
    let (input, destination) = (models.folder.path().join("input.safetensors"), folder.to_str().context("UTF-8")?);
    let entry = url(&models, "published/model.apr");
    let [a, mut b] = large(site)?;
    let publish = |b: &[u8]| -> Result<()> {
        write_safetensors(&input, &[("a", &a), ("b", b)])?;
        weightstream_publish::publish_with(&Reader::open(&input)?, destination, &PublishOptions::default(), &())?;
        Ok(())
    };
    publish(&b)?;
    let first = load(&mut site.page(browser)?, &entry)?;
    if let Some(byte) = b.last_mut() {
        *byte ^= 1;
    }
    publish(&b)?;
    models.sent();
    let second = load(&mut site.page(browser)?, &entry)?;
    ensure!(second.tensors.get("a") == first.tensors.get("a"), "the unchanged tensor has other bytes");
    ensure!(
        second.tensors.get("b") != first.tensors.get("b"),
        "the changed tensor has the bytes of the first revision"
    );
    let (requests, sent) = models.sent();
    let changed = b.len() as u64;
    ensure!((changed..changed + SMALL_BYTES).contains(&sent), "{sent} bytes were sent in {requests} requests");
    Ok(())
}

/// Of a tensor in which some bytes have changed, only the chunks around them are downloaded.
pub(super) fn copies_unchanged_parts_of_a_tensor(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let folder = models.folder.path().join("published");
    let (input, destination) = (models.folder.path().join("input.safetensors"), folder.to_str().context("UTF-8")?);
    let (entry, from) = (url(&models, "published/model.apr"), format!("{destination}/model.apr"));
    let [a, mut b] = large(site)?;
    let publish = |b: &[u8], options: &PublishOptions| -> Result<()> {
        write_safetensors(&input, &[("a", &a), ("b", b)])?;
        weightstream_publish::publish_with(&Reader::open(&input)?, destination, options, &())?;
        Ok(())
    };
    publish(&b, &PublishOptions::default())?;
    load(&mut site.page(browser)?, &entry)?;
    for is_damaged in [false, true] {
        // Inserted bytes shift all that follow.
        b.splice(1 << 20..1 << 20, [1, 2, 3]);
        b.get_mut((4 << 20)..(4 << 20) + 1000).context("the tensor is small")?.fill(7);
        publish(&b, &PublishOptions::default().with_previous(Some(from.clone())))?;
        if is_damaged {
            flip_a_bit(&mut site.page(browser)?)?;
        }
        models.sent();
        for is_warm in [false, true] {
            let report = load(&mut site.page(browser)?, &entry)?;
            ensure!(report.tensors.get("b").map(String::as_str) == Some(&*hex(&b)), "the tensor has other bytes");
            ensure!(report.tensors.get("a").map(String::as_str) == Some(&*hex(&a)), "the other tensor has other bytes");
            let (requests, sent) = models.sent();
            let limit = match (is_damaged, is_warm) {
                (true, _) => (a.len() + b.len()) as u64, // what was in the damaged file
                (false, true) => SMALL_BYTES,
                (false, false) => 1 << 20,
            };
            ensure!(sent < limit, "{sent} bytes were sent in {requests} requests (warm: {is_warm})");
        }
    }
    Ok(())
}

/// Where all elements have changed a little, differences are downloaded: also to a base that was itself computed so. A
/// base that is damaged in the cache is not used.
pub(super) fn computes_tensors_from_differences(browser: &mut Chromium, site: &Site) -> Result<()> {
    for is_damaged in [false, true] {
        let models = site.models()?;
        let folder = models.folder.path().join("published");
        let (input, destination) = (models.folder.path().join("input.safetensors"), folder.to_str().context("UTF-8")?);
        let (entry, from) = (url(&models, "published/model.apr"), format!("{destination}/model.apr"));
        let mut tensors = large(site)?;
        let publish = |[a, b]: &[Vec<u8>; 2], options: &PublishOptions| -> Result<()> {
            write_safetensors(&input, &[("a", a), ("b", b)])?;
            weightstream_publish::publish_with(&Reader::open(&input)?, destination, options, &())?;
            Ok(())
        };
        publish(&tensors, &PublishOptions::default())?;
        load(&mut site.page(browser)?, &entry)?;
        if is_damaged {
            flip_a_bit(&mut site.page(browser)?)?;
        }
        for revision in 2..5 {
            for (at, byte) in tensors.iter_mut().flatten().enumerate() {
                *byte = byte.wrapping_add((at * 7 / 3 % 3) as u8);
            }
            publish(&tensors, &PublishOptions::default().with_previous(Some(from.clone())))?;
            models.sent();
            let report = load(&mut site.page(browser)?, &entry)?;
            for (name, bytes) in ["a", "b"].iter().zip(&tensors) {
                ensure!(report.tensors.get(*name).map(String::as_str) == Some(&*hex(bytes)), "{name} has other bytes");
            }
            let ((requests, sent), all) = (models.sent(), tensors.iter().map(Vec::len).sum::<usize>() as u64);
            ensure!(
                is_damaged || sent < all / 2,
                "{sent} of {all} bytes of revision {revision} in {requests} requests"
            );
        }
    }
    Ok(())
}

/// A model is published again in an encoding that takes less: its tensors are cached as they were before. The reverse
/// needs the differences to the previous revision, which are all zero. What is damaged in the cache is downloaded.
pub(super) fn finds_tensors_in_another_encoding(browser: &mut Chromium, site: &Site) -> Result<()> {
    let kinds = [(false, false), (false, true), (true, false), (true, true)];
    for (number, (is_damaged, is_reverse)) in kinds.into_iter().enumerate() {
        clear_cache(browser, site)?; // so that the tensor is damaged, and not another one
        let models = site.models()?;
        let (folder, input) = (models.folder.path(), models.folder.path().join("input.safetensors"));
        let mut noise = Noise(number as u64);
        let weights: Vec<_> = (0..1 << 20).flat_map(|_| bf16(0.05 * noise.next()).to_le_bytes()).collect();
        let header =
            json!({ "weight": { "dtype": "BF16", "shape": [1024, 1024], "data_offsets": [0, weights.len()] } });
        let header = header.to_string();
        fs::write(&input, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &weights].concat())?;
        let raw = ConvertOptions::default();
        let small = raw.clone().compression(Compression::Auto);
        let mut revisions = [("published/model.apr", raw), ("published/model.zt.index.json", small)];
        if is_reverse {
            revisions.reverse();
        }
        let (mut previous, mut loaded) = (None, Vec::new());
        for (name, convert) in &revisions {
            let options = PublishOptions::default().with_convert(convert.clone());
            let options = options.with_previous(previous.take().filter(|_| is_reverse));
            let destination = folder.join(name).to_str().context("the path is not UTF-8")?.to_owned();
            let published = weightstream_publish::publish_with(&Reader::open(&input)?, &destination, &options, &())?;
            previous = published.entry;
            models.sent();
            loaded.push(load(&mut site.page(browser)?, &url(&models, name))?.tensors);
            if is_damaged {
                flip_a_bit(&mut site.page(browser)?)?;
            }
        }
        let expected = BTreeMap::from([("weight".to_owned(), hex(&weights))]);
        ensure!(loaded.iter().all(|tensors| *tensors == expected), "the tensor has other bytes");
        let (requests, sent) = models.sent();
        let is_downloaded = sent > weights.len() as u64 / 2;
        let kind = format!("damaged: {is_damaged}, in reverse: {is_reverse}");
        ensure!(is_downloaded == is_damaged, "{sent} bytes were sent in {requests} requests ({kind})");
    }
    Ok(())
}

/// The first load finds wrong bytes, and deletes what they were copied from.
pub(super) fn recovers_from_wrong_copies(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let folder = models.folder.path().join("published");
    let (input, destination) = (models.folder.path().join("input.safetensors"), folder.to_str().context("UTF-8")?);
    let entry = format!("{destination}/model.apr");
    let [a, mut b] = large(site)?;
    let publish = |b: &[u8], options: &PublishOptions| -> Result<()> {
        write_safetensors(&input, &[("a", &a), ("b", b)])?;
        weightstream_publish::publish_with(&Reader::open(&input)?, destination, options, &())?;
        Ok(())
    };
    publish(&b, &PublishOptions::default())?;
    load(&mut site.page(browser)?, &url(&models, "published/model.apr"))?;
    b.get_mut(1 << 20..(1 << 20) + 1000).context("the tensor is small")?.fill(7);
    publish(&b, &PublishOptions::default().with_previous(Some(entry.clone())))?;
    let mut document: Value = serde_json::from_str(&fs::read_to_string(&entry)?)?;
    // With differences, the tensors are not read from their file.
    document.pointer_mut("/weightstream").and_then(Value::as_object_mut).map(|stated| stated.remove("differences"));
    let files = document.pointer_mut("/weightstream/copies").and_then(Value::as_object_mut).context("no copies")?;
    let starts = files.values_mut().filter_map(Value::as_object_mut).flat_map(|file| file.values_mut());
    for start in starts.filter_map(Value::as_array_mut).flatten().filter_map(|range| range.get_mut(1)) {
        *start = json!(start.as_u64().context("an offset is not a number")? + 1);
    }
    fs::write(&entry, document.to_string())?;
    let (mut page, address) = (site.page(browser)?, url(&models, "published/model.apr"));
    let code = page.evaluate(&format!("load({}).catch((error) => error.code)", json!(address)))?;
    ensure!(code == "CHECKSUM", "the load of wrong bytes fails with {code}");
    let files = page.evaluate("listCached().then((files) => files.map(({ url }) => url))")?;
    ensure!(files == json!([address]), "the cache lists {files}");
    let report = load(&mut page, &address)?;
    ensure!(report.tensors.get("b").map(String::as_str) == Some(&*hex(&b)), "the tensor has other bytes");
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
        ensure!(requests == 0, "{sent} bytes were sent in {requests} requests for a cached file");
    }

    // A damaged part must not be replaced with bytes of a file that may differ.
    flip_a_bit(&mut site.page(browser)?)?;
    let mixed = load_with(browser, site, &other.url(), pinned.clone());
    let refusal = mixed.err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(refusal.contains("Open the model again"), "unexpected error for a damaged file: {refusal:?}");
    // The file on the server has only 14 bytes, which are fetched to compare it.
    ensure!(other.sent().1 < 1 << 10, "the rest was requested from the server");
    fs::copy(&site.weights, other.file())?;
    for is_cached in [false, true] {
        let report = load_with(browser, site, &other.url(), pinned.clone())?;
        site.compare(&report.tensors, &site.expected)?;
        let (_, sent) = other.sent();
        ensure!((sent <= PROBE_BYTES) == is_cached, "{sent} bytes were sent");
    }
    Ok(())
}

/// The damage is found after some cached bytes were already delivered. The server's file may replace the rest if it is
/// the same file.
pub(super) fn falls_back_to_the_server(browser: &mut Chromium, site: &Site) -> Result<()> {
    let (models, other) = (site.models()?, site.models()?);
    let pinned = json!({ "digests": { "files": { "model.safetensors": sha256(&fs::read(&site.weights)?) } } });
    load_with(browser, site, &models.url(), pinned.clone())?;
    flip_a_bit(&mut site.page(browser)?)?;
    models.sent();
    for is_cached in [false, true] {
        let report = load_with(browser, site, &other.url(), pinned.clone())?;
        site.compare(&report.tensors, &site.expected)?;
        let (_, sent) = other.sent();
        ensure!(is_cached || sent > site.byte_length, "the server's file was not compared with the digest");
        let used = report.stats.bytes_from_cache;
        ensure!(used > site.byte_length / 4, "only {used} cached bytes were used");
    }
    ensure!(models.sent().1 == 0, "the other URL was requested");
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
    format!("sha256:{}", hex(bytes))
}

fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// Writes a SafeTensors file with tensors of dtype U8.
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
