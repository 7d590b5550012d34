//! Converts the real model to every format that has a writer, loads it in Chromium and converts it back to SafeTensors.
//! The tensors must be identical.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;
use weightstream::internals::format::Format;
use weightstream::internals::write;
use weightstream_cli::serve::Server;

use crate::chromium::Chromium;
use crate::failures;
use crate::headless::compare;
use crate::page::Page;
use xtask::expected::{self, ExpectedTensor};
use xtask::project::Project;
use xtask::{command, model, package};

/// Loads all tensors as a web app would and returns them with their hashes.
const IN_THE_PAGE: &str = include_str!("formats.js");

pub fn run(project: &Project) -> Result<()> {
    let weights = model::original(project)?;
    let program = model::command_line(project)?;
    let expected = expected::tensors(&weights)?;
    // In the target folder, because the system's temporary folder may be in memory and this model is large.
    let folder = tempfile::tempdir_in(&project.target)?;
    let package = package::build(project)?;
    let server = Server::new().mount("/", folder.path()).mount("/pkg", &package).bind("127.0.0.1:0")?.spawn();
    let mut browser = Chromium::launch()?;
    let mut page = browser.new_page()?;
    page.open(&format!("{}/", server.url()))?;

    let convert = |from: &Path, to: &Path, options: &[&str]| {
        let mut convert = Command::new(&program);
        command::quiet(convert.args(["convert", "--force"]).arg(from).arg(to).args(options), model::CONVERT_LIMIT)
    };
    for format in write::formats() {
        let holds = |tensor: &&ExpectedTensor| holds_positions(format) || tensor.dtype != "I64";
        let expected: Vec<_> = expected.iter().filter(holds).cloned().collect();
        let start = Instant::now();
        let (converted, back) = (folder.path().join("model"), folder.path().join("back.safetensors"));
        let options = [vec!["--format", format.name], options(format)].concat();
        convert(&weights, &converted, &options).with_context(|| format!("to {}", format.name))?;
        convert(&converted, &back, &["--allow-loss"]).with_context(|| format!("back from {}", format.name))?;
        compare(&expected::tensors(&back)?, &expected).with_context(|| format!("back from {}", format.name))?;
        let loaded = load(&mut page).and_then(|loaded| compare(&loaded, &expected));
        failures::keep(loaded, &mut page, "Chromium", format.name)?;
        let megabytes = fs::metadata(&converted)?.len() as f64 / 1e6;
        let seconds = start.elapsed().as_secs_f64();
        println!("{:<12} {megabytes:>6.1} MB, {} tensors bit-exact, {seconds:.1} s", format.name, expected.len());
    }
    Ok(())
}

/// Non-default options: compression and the strongest digest.
fn options(format: &Format) -> Vec<&'static str> {
    let Some(writer) = format.writer() else { return Vec::new() };
    let mut options = Vec::new();
    options.extend(writer.compressions.first().into_iter().flat_map(|it| ["--compress", it.name()]));
    options.extend(writer.digests.last().into_iter().flat_map(|it| ["--digest", it.name()]));
    // EMBD and TensorFlow.js have no I64, and GGUF requires metadata that the model does not have.
    if !holds_positions(format) || format.name == "gguf" {
        options.push("--allow-loss");
    }
    options
}

/// Whether the format supports I64, the dtype of one tensor of the model (positions).
fn holds_positions(format: &Format) -> bool {
    !matches!(format.name, "embd" | "tfjs")
}

fn load(page: &mut Page) -> Result<Vec<ExpectedTensor>> {
    let arrived = page.evaluate(&format!("({IN_THE_PAGE})({})", json!("/model")))?;
    Ok(serde_json::from_str(arrived.as_str().context("the page returned no text")?)?)
}
