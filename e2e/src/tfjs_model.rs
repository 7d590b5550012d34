//! A graph model of TensorFlow.js, converted to one file.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{self, Compression, ConvertOptions};
use xtask::{command, project::Project};

/// Writes the model of `graphModel` in `tests/runtimes/tfjs_models.js` as `model.json`, with its files of weights, and
/// as `model.zt`, compressed as docs/tfjs.md says.
pub fn write(project: &Project, folder: &Path) -> Result<()> {
    let mut node = Command::new("node");
    command::run(node.arg(project.root.join("tests/runtimes/write_tfjs_model.js")).arg(folder))?;
    let options = ConvertOptions::default().compression(Compression::Auto);
    write::convert(&Reader::open(folder.join("model.json"))?, &folder.join("model.zt"), &options, &())?;
    Ok(())
}
