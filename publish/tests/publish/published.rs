//! A model to publish, and what a folder contains afterwards.

use crate::model::{Folder, Given, noise, safetensors_file};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use weightstream::Result;
use weightstream::internals::native::Reader;
use weightstream::internals::write::ConvertOptions;
use weightstream_publish::{PublishOptions, Published};

/// The bytes of a tensor.
pub(crate) const TENSOR_BYTES: u64 = 4096;

/// Layers of one tensor each. The bytes of a layer depend only on its name and version.
pub(crate) fn layers(versions: &[(u64, u64)]) -> Vec<u8> {
    let names: Vec<_> = versions.iter().map(|(layer, _)| format!("layers.{layer}.weight")).collect();
    let bytes = |(layer, version): &(u64, u64)| noise(1000 * layer + version, TENSOR_BYTES as usize);
    let tensors = names.iter().zip(versions).map(|(name, version)| (&**name, "F32", &[32, 32][..], bytes(version)));
    safetensors_file(json!({ "format": "pt" }), &tensors.collect::<Vec<Given>>())
}

/// Seven layers, of which two fit into a file.
pub(crate) fn seven_layers(folder: &Folder) -> Reader {
    folder.write("input.safetensors", &layers(&[(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)]));
    folder.open("input.safetensors")
}

/// 16 MiB of F32 whose exponents have few values: of the streams, more than 8 MiB would have to be kept.
pub(crate) fn large_floats(folder: &Folder) -> Reader {
    let mut data = noise(1, 16 << 20);
    data.chunks_exact_mut(4).for_each(|number| number[3] = 60 + (number[3] & 3));
    folder.write("large.safetensors", &safetensors_file(json!({}), &[("t", "F32", &[4 << 10, 1 << 10], data)]));
    folder.open("large.safetensors")
}

/// Options for files of two layers each.
pub(crate) fn options() -> PublishOptions {
    let options = PublishOptions::default();
    let convert = options.convert.clone();
    options.with_convert(convert.max_shard_bytes(Some(2 * TENSOR_BYTES + 1500)))
}

pub(crate) fn with_conversion(change: impl FnOnce(ConvertOptions) -> ConvertOptions) -> PublishOptions {
    let options = options();
    let convert = change(options.convert.clone());
    options.with_convert(convert)
}

pub(crate) fn publish(input: &Reader, destination: &Path, options: &PublishOptions) -> Result<Published> {
    weightstream_publish::publish_with(input, destination.to_str().unwrap(), options, &())
}

/// All files of a folder, by name.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(std::result::Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// The names of the files of tensors, sorted.
pub(crate) fn tensor_files(folder: &Path) -> Vec<String> {
    files(folder).into_keys().filter(|name| name.starts_with("model-") && name.ends_with(".apr")).collect()
}

/// The key of the entry that readers of weightstream know.
pub(crate) fn stated(entry: &Path) -> Value {
    let document: Value = serde_json::from_slice(&fs::read(entry).unwrap()).unwrap();
    document["weightstream"].clone()
}
