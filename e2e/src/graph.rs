//! Checks that the ONNX graph of the demo page finds the weights of the demo model.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::protobuf::message;
use xtask::demo::Demo;
use xtask::project::Project;
use xtask::{command, model};

/// The field numbers of ONNX that are read: <https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3>.
mod field {
    pub(super) const GRAPH: u64 = 7;
    pub(super) const INITIALIZER: u64 = 5;
    pub(super) const DIMS: u64 = 1;
    pub(super) const NAME: u64 = 8;
    pub(super) const EXTERNAL_DATA: u64 = 13;
    pub(super) const KEY: u64 = 1;
    pub(super) const VALUE: u64 = 2;
}

/// `graph.json`.
#[derive(Deserialize)]
struct Graph {
    location: String,
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    name: String,
    weights: BTreeMap<String, [u64; 2]>,
}

/// A weight: its shape, and its range in the file with the weights.
#[derive(Debug, PartialEq, Eq)]
struct Weight {
    shape: Vec<u64>,
    range: [u64; 2],
}

/// Converts the demo model to one SafeTensors file, and compares its header with the graph.
pub fn check(project: &Project, demo: &Demo) -> Result<()> {
    let folder = project.root.join("www/minilm");
    let graph = fs::read(folder.join("graph.json"))?;
    let graph: Graph = serde_json::from_slice(&graph).context("graph.json")?;
    let in_file = weights_of_the_model(project, demo)?;
    let mut count = 0;
    for Part { name: part, weights } in &graph.parts {
        let file = fs::read(folder.join(format!("{part}.onnx")))?;
        let in_graph = weights_of_the_graph(&file, &graph.location).with_context(|| format!("{part}.onnx"))?;
        let names: Vec<_> = in_graph.keys().collect();
        ensure!(names == weights.keys().collect::<Vec<_>>(), "{part}.onnx has the weights {names:?}");
        for (name, weight) in &in_graph {
            let listed = weights.get(name);
            ensure!(listed == Some(&weight.range), "graph.json has {name} at {listed:?}, {part}.onnx {weight:?}");
            let found = in_file.get(name);
            ensure!(found == Some(weight), "{part}.onnx has {name} as {weight:?}, the demo model {found:?}");
        }
        count += in_graph.len();
    }
    println!("{count} weights of the graph are where the demo model has them");
    Ok(())
}

/// The F32 tensors in the header of the demo model as one SafeTensors file.
fn weights_of_the_model(project: &Project, demo: &Demo) -> Result<BTreeMap<String, Weight>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("model.safetensors");
    let mut convert = Command::new(model::command_line(project)?);
    convert.arg("convert").arg(demo.model.folder.join(model::MANIFEST)).arg(&file).arg("--no-metadata");
    command::quiet(&mut convert, model::CONVERT_LIMIT)?;
    header_of(&file)
}

fn header_of(file: &Path) -> Result<BTreeMap<String, Weight>> {
    #[derive(Deserialize)]
    struct Entry {
        dtype: String,
        shape: Vec<u64>,
        data_offsets: [u64; 2],
    }
    let file = fs::read(file)?;
    let (length, rest) = file.split_first_chunk().context("the file is too short")?;
    let length = usize::try_from(u64::from_le_bytes(*length))?;
    let header: BTreeMap<String, Entry> = serde_json::from_slice(rest.get(..length).context("no header")?)?;
    let data = 8 + length as u64;
    let is_float = |(_, entry): &(String, Entry)| entry.dtype == "F32";
    let weight = |Entry { shape, data_offsets, .. }| Weight { shape, range: data_offsets.map(|offset| data + offset) };
    Ok(header.into_iter().filter(is_float).map(|(name, entry)| (name, weight(entry))).collect())
}

/// The weights of an ONNX file that are at `location`.
fn weights_of_the_graph(file: &[u8], location: &str) -> Result<BTreeMap<String, Weight>> {
    let graph = message(file)?.bytes(field::GRAPH).next().context("it has no graph")?.to_vec();
    let mut weights = BTreeMap::new();
    for initializer in message(&graph)?.bytes(field::INITIALIZER) {
        let tensor = message(initializer)?;
        let mut place = BTreeMap::new();
        for entry in tensor.bytes(field::EXTERNAL_DATA) {
            let entry = message(entry)?;
            place.insert(entry.text(field::KEY)?, entry.text(field::VALUE)?);
        }
        if place.is_empty() {
            continue;
        }
        let name = tensor.text(field::NAME)?;
        ensure!(place.get("location").is_some_and(|found| found == location), "{name} is not at {location}");
        let number = |key| place.get(key).with_context(|| format!("{name} has no {key}"))?.parse::<u64>().context(key);
        let start = number("offset")?;
        let weight = Weight { shape: tensor.numbers(field::DIMS)?, range: [start, start + number("length")?] };
        weights.insert(name, weight);
    }
    Ok(weights)
}
