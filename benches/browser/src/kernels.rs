//! `cargo xtask bench --kernels`: measures individual decoders, digests and parsers in a real browser.

use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;
use weightstream_cli::serve::Server;

use crate::measure::median;
use e2e::chromium::Chromium;
use xtask::project::Project;
use xtask::wasm_target::{self, TARGET};
use xtask::{command, workspace};

/// Measures all kernels in interleaved rounds, each for long enough for the coarse clock of the page.
const IN_THE_PAGE: &str = include_str!("kernels.js");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kernel {
    name: String,
    gigabytes_per_second: Vec<f64>,
}

pub(crate) fn run(project: &Project, rounds: usize) -> Result<()> {
    let mut cargo = wasm_target::ready(project)?.cargo()?;
    cargo.args(["rustc", "--lib", "--crate-type", "cdylib", "--target", TARGET]).current_dir(&project.root);
    command::run(cargo.args(["--profile", "web", "-p", "micro-benchmarks"]))?;
    let module = project.target.join(TARGET).join("web/micro_benchmarks.wasm");
    let built = project.target.join("micro-benchmarks");
    let mut bindgen = Command::new(workspace::build(project, "xtask-bindgen")?);
    command::run(bindgen.arg(module).arg("kernels").arg(&built))?;

    let page_folder = project.root.join("benches/page");
    let server = Server::new().mount("/", page_folder).mount("/kernels", &built).bind("127.0.0.1:0")?.spawn();
    let mut browser = Chromium::launch()?;
    let version = browser.version()?;
    let mut page = browser.new_page()?;
    page.open(&format!("{}/", server.url()))?;
    let result = page.evaluate(&format!("({IN_THE_PAGE})({rounds})"))?;
    let kernels: Vec<Kernel> = serde_json::from_value(result).context("cannot parse the result of the page")?;
    println!("{version}, one thread, {rounds} interleaved rounds\n");
    println!("| kernel | GB/s, best | GB/s, median |\n| --- | --- | --- |");
    for Kernel { name, gigabytes_per_second } in kernels {
        let best = gigabytes_per_second.iter().copied().fold(0.0, f64::max);
        println!("| {name} | {best:.2} | {:.2} |", median(gigabytes_per_second).unwrap_or_default());
    }
    Ok(())
}
