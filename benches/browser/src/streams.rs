//! Models of trained floats, which `--compress auto` splits into streams of bytes, against the same models without
//! compression.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use weightstream::Dtype;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{self, Compression, ConvertOptions};

use crate::cases::{Case, Goals, TIME_VS_FETCH, TIME_VS_RAW, ratio, tensors};
use crate::content::TENSOR_BYTES;
use crate::models::{FIRST_TENSOR, TENSORS, begin_safetensors, write_if_missing};
use xtask::model;
use xtask::project::Project;

/// The names of the dtypes, and of the models without and with compression.
const MODELS: [(&str, &str, &str); 2] =
    [("BF16", "weights-bf16.safetensors", "weights-bf16.zt"), ("F32", "weights-f32.safetensors", "weights-f32.zt")];

/// Generates missing models: the weights of all-MiniLM-L6-v2, repeated with shifts, so that no tensor equals another.
pub(super) fn ready(project: &Project, folder: &Path) -> Result<()> {
    for (dtype, raw, split) in MODELS {
        write_if_missing(&folder.join(raw), |path| write_weights(project, path, dtype))?;
        let raw = Reader::open(folder.join(raw))?;
        let options = ConvertOptions::default().compression(Compression::Auto);
        let options = options.format(Some(write::format_named("ztensor").context("no writer of zTensor")?));
        write_if_missing(&folder.join(split), |path| {
            write::convert(&raw, path, &options, &())?;
            Ok(())
        })?;
    }
    Ok(())
}

/// Loads on one thread and with the default workers, and over slow lines, against `fetch()` of the uncompressed model.
pub(super) fn cases(line: &str, mobile_line: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for ((dtype, raw, split), slow) in MODELS.into_iter().zip([0.70, 0.85]) {
        let mut add = |name: &str, title: &str, origin: &str, options, goals| {
            // The streams that arrive before the last one of a tensor are kept.
            let goals = Goals { wasm_memory_bytes: Some(16 << 20), ..goals };
            let url = |file| format!("{origin}/models/{file}");
            let case = tensors(
                &format!("{}-{name}", dtype.to_ascii_lowercase()),
                &format!("{dtype} of MiniLM in streams of bytes, {title}"),
                json!({ "url": url(split), "options": options }),
                goals,
            );
            // A run over a line takes 15 to 110 s, limited by the line and not by the machine.
            let max_rounds = if origin.is_empty() { usize::MAX } else { 1 };
            let against = ("plain", json!({ "url": url(raw) }));
            cases.push(Case { against, quantity: TIME_VS_FETCH, max_rounds, ..case });
        };
        add("streams", "1 thread", "", json!({ "workers": 0 }), Goals::default());
        add("streams-default", "default workers", "", json!({}), ratio(1.15));
        add("streams-line", "100 Mb/s and 40 ms", line, json!({}), ratio(slow));
        add("streams-mobile", "20 Mb/s and 40 ms", mobile_line, json!({}), ratio(slow));
        cases.push(first_tensor(dtype, raw, split, line));
    }
    cases
}

/// From `open` to the first tensor, against that of the uncompressed model.
fn first_tensor(dtype: &str, raw: &str, split: &str, line: &str) -> Case {
    let run = |file| ("firstTensor", json!({ "url": format!("{line}/models/{file}"), "name": FIRST_TENSOR }));
    let name = format!("{}-streams-first", dtype.to_ascii_lowercase());
    let title = format!("{dtype} of MiniLM in streams of bytes, first tensor of 4 MiB, 100 Mb/s and 40 ms");
    let case = tensors(&name, &title, Value::Null, ratio(1.0));
    Case { run: run(split), against: run(raw), quantity: TIME_VS_RAW, count: TENSOR_BYTES as u64, ..case }
}

fn write_weights(project: &Project, path: &Path, dtype: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cast = folder.path().join("m.safetensors");
    let original = Reader::open(model::original(project)?)?;
    let dtype: Dtype = dtype.parse()?;
    write::convert(&original, &cast, &ConvertOptions::default().dtype(Some(dtype.clone())), &())?;
    let cast = Reader::open(&cast)?;
    let mut weights = Vec::new();
    for tensor in cast.tensors().iter().filter(|tensor| tensor.dtype == dtype && tensor.shape.len() == 2) {
        weights.extend_from_slice(cast.tensor_slice(&tensor.name)?);
    }
    let element_bytes = dtype.block().context("the dtype has elements")?.bytes as usize;
    let names = (0..TENSORS).map(|at| format!("layers.{at}.weight"));
    let shape = [TENSOR_BYTES / 1024 / element_bytes, 1024];
    let mut file: BufWriter<File> = begin_safetensors(path, names, dtype.name(), &shape, TENSOR_BYTES)?;
    for tensor in 0..TENSORS {
        // Another start each time the weights are used up.
        let start = (tensor * (TENSOR_BYTES + 1024 * element_bytes)) % (weights.len() - TENSOR_BYTES);
        let start = start - start % element_bytes;
        file.write_all(weights.get(start..start + TENSOR_BYTES).context("the model is too small")?)?;
    }
    file.flush()?;
    Ok(())
}
