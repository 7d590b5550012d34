//! `cargo run -p e2e -- revisions`: how much of all-MiniLM-L6-v2 a client with the previous revision downloads after
//! changes of every weight, in headless Chromium and natively. The tests of the cache only check that it works.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use weightstream::internals::native::Reader;
use weightstream::internals::write::{Compression, ConvertOptions};
use weightstream::{OpenOptions, StreamRequest};
use weightstream_publish::{PublishOptions, publish_with};
use xtask::project::Project;
use xtask::{expected, model, package};

use super::pages::Storage;
use super::{Site, clear_cache, load};
use crate::chromium::Chromium;

/// How weights change.
struct Change {
    name: &'static str,
    /// The deviation of the normal noise of which 1 plus it multiplies a weight.
    deviation: f32,
    /// The distance of the rows of a matrix that change. If it is more than 1, other tensors do not change.
    interval: usize,
}

const CHANGES: [Change; 4] = [
    Change { name: "1e-4", deviation: 1e-4, interval: 1 },
    Change { name: "1e-3", deviation: 1e-3, interval: 1 },
    Change { name: "1e-2", deviation: 1e-2, interval: 1 },
    Change { name: "1e-2 in a tenth of the rows", deviation: 1e-2, interval: 10 },
];

/// The names in the folder of a case.
const BASE: &str = "base.safetensors";
const CHANGED: &str = "changed.safetensors";
const PUBLISHED: &str = "published";
const ENTRY: &str = "model.zt.index.json";

pub fn run(project: &Project) -> Result<()> {
    let package = package::build(project)?;
    let original = model::original(project)?;
    let weights = Reader::open(&original)?;
    let site = Site::new(&package, &original, Storage::Files)?;
    let mut browser = Chromium::launch()?;
    println!("Bytes relative to the uncompressed model. The differences are those that are published.");
    println!("| dtype | change | whole model | differences | in Chromium | natively |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for dtype in ["BF16", "F32"] {
        for change in &CHANGES {
            let models = site.models()?;
            let folder = models.folder.path();
            write(&weights, dtype, None, &folder.join(BASE))?;
            write(&weights, dtype, Some(change), &folder.join(CHANGED))?;
            let destination = folder.join(PUBLISHED).join(ENTRY);
            let destination = destination.to_str().context("the path is not UTF-8")?;
            // As the command line publishes floats.
            let convert = ConvertOptions::default().compression(Compression::Auto);
            let options = PublishOptions::default().with_convert(convert);
            let entry = publish_with(&Reader::open(folder.join(BASE))?, destination, &options, &())?.entry;
            let url = format!("{}/{PUBLISHED}/{ENTRY}", models.server.url());
            load(&mut site.page(&mut browser)?, &url)?;
            let (_, whole) = models.sent();
            let published =
                publish_with(&Reader::open(folder.join(CHANGED))?, destination, &options.with_previous(entry), &())?;
            let report = load(&mut site.page(&mut browser)?, &url)?;
            site.compare(&report.tensors, &expected::tensors(&folder.join(CHANGED))?)?;
            let (_, in_chromium) = models.sent();
            load_natively(folder, &url)?;
            let (_, natively) = models.sent();
            clear_cache(&mut browser, &site)?;
            let all = fs::metadata(folder.join(CHANGED))?.len() as f64;
            let differences = published.difference_bytes.context("no differences are published")?;
            let [whole, differences, in_chromium, natively] =
                [whole, differences, in_chromium, natively].map(|bytes| bytes as f64 / all);
            println!(
                "| {dtype} | {} | {whole:.3} | {differences:.3} | {in_chromium:.3} | {natively:.3} |",
                change.name
            );
        }
    }
    Ok(())
}

/// Loads the new revision with the folder of the previous one, and compares it.
fn load_natively(folder: &Path, url: &str) -> Result<()> {
    let expected = Reader::open(folder.join(CHANGED))?;
    let model = OpenOptions::new().previous(folder.join(BASE))?.open_blocking(url)?;
    for tensor in model.stream(StreamRequest::new()) {
        let tensor = tensor?;
        let is_same = *tensor.bytes()? == *expected.tensor_slice(tensor.name())?;
        ensure!(is_same, "{} has other bytes", tensor.name());
    }
    Ok(())
}

/// Writes the model with its floats in another dtype, and changed.
fn write(weights: &Reader, dtype: &str, change: Option<&Change>, path: &Path) -> Result<()> {
    let (mut header, mut data, mut noise) = (Map::new(), Vec::new(), Noise(1));
    for tensor in weights.tensors() {
        let (start, bytes) = (data.len(), weights.tensor_slice(&tensor.name)?);
        let stated = match tensor.dtype.to_string().as_str() {
            "F32" => {
                let mut floats: Vec<_> = bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
                change.iter().for_each(|change| change.apply(&mut floats, &tensor.shape, &mut noise));
                match dtype {
                    "BF16" => data.extend(floats.iter().flat_map(|float| bf16(*float).to_le_bytes())),
                    _ => data.extend(floats.iter().flat_map(|float| float.to_le_bytes())),
                }
                dtype.to_owned()
            }
            other => {
                data.extend_from_slice(bytes);
                other.to_owned()
            }
        };
        let shape = tensor.shape.to_vec();
        header.insert(
            tensor.name.clone(),
            json!({ "dtype": stated, "shape": shape, "data_offsets": [start, data.len()] }),
        );
    }
    let header = Value::from(header).to_string();
    Ok(fs::write(path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat())?)
}

impl Change {
    fn apply(&self, floats: &mut [f32], shape: &[u64], noise: &mut Noise) {
        let is_matrix = shape.len() == 2;
        if self.interval > 1 && !is_matrix {
            return;
        }
        let columns = if is_matrix { shape.last().map_or(1, |columns| *columns as usize) } else { floats.len() };
        for row in floats.chunks_mut(columns.max(1)).step_by(self.interval) {
            row.iter_mut().for_each(|float| *float *= 1.0 + self.deviation * noise.next());
        }
    }
}

/// The nearest value.
pub(super) fn bf16(float: f32) -> u16 {
    let bits = float.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Numbers that are normally distributed, as far as the sum of 12 uniform ones is.
pub(super) struct Noise(pub(super) u64);

impl Noise {
    pub(super) fn next(&mut self) -> f32 {
        let uniform = |_| {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f32 / (1_u64 << 24) as f32
        };
        (0..12).map(uniform).sum::<f32>() - 6.0
    }
}
