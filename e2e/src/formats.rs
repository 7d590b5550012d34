//! The real model in every format that is written: through Chromium, and back to SafeTensors, the same tensors.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;
use weightstream::format::Format;
use weightstream::write;
use weightstream_cli::serve::Server;

use crate::chromium::Chromium;
use crate::headless::compare;
use crate::page::Page;
use xtask::expected::{self, ExpectedTensor};
use xtask::project::Project;
use xtask::{command, model, package};

/// Loads all tensors as a web app would and tells what arrived.
const IN_THE_PAGE: &str = include_str!("formats.js");

pub fn run(project: &Project) -> Result<()> {
    let weights = model::original(project)?;
    let program = model::command_line(project)?;
    let expected = expected::tensors(&weights)?;
    // Beside the target folder's other files: a temporary folder may lie in memory, and this is a large model.
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
        let (there, back) = (folder.path().join("model"), folder.path().join("back.safetensors"));
        let options = [vec!["--format", format.name], options(format)].concat();
        convert(&weights, &there, &options).with_context(|| format!("to {}", format.name))?;
        convert(&there, &back, &["--allow-loss"]).with_context(|| format!("back from {}", format.name))?;
        compare(&expected::tensors(&back)?, &expected).with_context(|| format!("back from {}", format.name))?;
        compare(&load(&mut page)?, &expected).with_context(|| format!("{} in Chromium", format.name))?;
        let megabytes = fs::metadata(&there)?.len() as f64 / 1e6;
        let seconds = start.elapsed().as_secs_f64();
        println!("{:<12} {megabytes:>6.1} MB, {} tensors bit-exact, {seconds:.1} s", format.name, expected.len());
    }
    Ok(())
}

/// What makes a format work harder than its defaults: compression, and the strongest digest.
fn options(format: &Format) -> Vec<&'static str> {
    let Some(writer) = format.writer() else { return Vec::new() };
    let mut options = Vec::new();
    options.extend(writer.compressions.first().into_iter().flat_map(|it| ["--compress", it.name()]));
    options.extend(writer.digests.last().into_iter().flat_map(|it| ["--digest", it.name()]));
    if !holds_positions(format) {
        options.push("--allow-loss");
    }
    options
}

/// Whether the format has I64, in which the model has one tensor of positions.
fn holds_positions(format: &Format) -> bool {
    format.name != "embd"
}

fn load(page: &mut Page) -> Result<Vec<ExpectedTensor>> {
    let arrived = page.evaluate(&format!("({IN_THE_PAGE})({})", json!("/model")))?;
    Ok(serde_json::from_str(arrived.as_str().context("the page gave no text")?)?)
}
