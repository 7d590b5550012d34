//! The memory of the renderer while 1 GiB is moved to buffers of a GPU.

use anyhow::{Result, ensure};
use serde_json::json;
use weightstream_cli::serve::Server;

use super::graph;
use super::models::{self, Model};
use super::report::Row;
use crate::measure::{median, run};
use e2e::chromium::Chromium;
use xtask::package;
use xtask::project::Project;

/// The name of the case on the command line.
pub(super) const NAME: &str = "webgpu";

const GOAL_MIB: f64 = 64.0;

/// Measures one load in each round, after one to warm up.
pub(super) fn row(project: &Project, rounds: usize) -> Result<Option<Row>> {
    let models = models::ready(project, Model::Large)?;
    let server = Server::new().mount("/bench", project.root.join("benches/page"));
    let server = server.mount("/pkg", package::build(project)?).mount("/models", &models).isolated(true);
    let server = server.bind("127.0.0.1:0")?.spawn();
    let mut peaks = Vec::new();
    for round in 0..rounds {
        eprintln!("bench: {NAME}, round {}", round + 1);
        let mut browser = Chromium::launch_with_gpu()?;
        let mut page = browser.new_page()?;
        page.open(&format!("{}/bench/index.html", server.url()))?;
        // Loads the module and requests the device.
        run(&mut page, &("gpu", json!({ "url": "/models/large/raw/onnx/model.apr", "names": [] })))?;
        let run = run(&mut page, &("gpu", json!({ "url": "/models/large/raw/onnx/model.apr" })))?;
        ensure!(run.count == graph::BYTES, "the buffers have {} bytes", run.count);
        let peak = run.memory.map(|memory| memory.grown() as f64 / f64::from(1 << 20));
        eprintln!("       {:.0} ms, {peak:?} MiB", run.ms);
        peaks.extend(peak);
    }
    Ok(median(peaks).map(|ours| Row {
        case: NAME.to_owned(),
        title: "1 GiB to buffers of a GPU, loopback".to_owned(),
        quantity: "peak, MiB",
        theirs: None,
        ours,
        ratio: None,
        goal: Some(GOAL_MIB),
    }))
}
