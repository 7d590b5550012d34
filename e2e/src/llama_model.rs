//! A small Llama model in GGUF, and the same model as weightstream writes it.

use std::path::Path;

use anyhow::{Result, ensure};
use weightstream::internals::format::{apr, gguf};
use weightstream::internals::native::Reader;
use weightstream::internals::write::{self, Compression, ConvertOptions};

use crate::runtime_examples::write_model;
use xtask::project::Project;

/// Gives the number of files that `tests/runtimes/wllama.js` expects.
const SHARD_BYTES: u64 = 1_500_000;
const FILES: usize = 3;

/// Writes a model of `tests/runtimes/gguf.js` to the folder.
const SCRIPT: &str = r#"
    const [module, folder] = process.argv.slice(1);
    const { llamaModel } = await import(module);
    const { writeFileSync } = await import("node:fs");
    writeFileSync(`${folder}/original.gguf`, llamaModel({ width: 128, layers: 4 })[0]);
"#;

/// Writes `original.gguf`, and the same model through APR: `whole.gguf`, and `split-00001-of-00003.gguf` and so on, the
/// first of which has only metadata.
pub fn write(project: &Project, folder: &Path) -> Result<()> {
    write_model(project, "gguf", SCRIPT, folder)?;
    let packed = folder.join("model.apr");
    let to_apr = ConvertOptions::default().format(&apr::FORMAT).compression(Compression::Lz4);
    write::convert(&Reader::open(folder.join("original.gguf"))?, &packed, &to_apr, &())?;
    let packed = Reader::open(packed)?;
    let to_gguf = ConvertOptions::default().format(&gguf::FORMAT);
    write::convert(&packed, &folder.join("whole.gguf"), &to_gguf, &())?;
    let split = to_gguf.max_shard_bytes(Some(SHARD_BYTES)).metadata_first(true);
    let written = write::convert(&packed, &folder.join("split.gguf"), &split, &())?;
    ensure!(written.files.len() == FILES, "{} files instead of {FILES}", written.files.len());
    Ok(())
}
