//! The memory of the renderer while 1 GiB is moved to buffers of a GPU.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use weightstream_cli::serve::Server;

use super::graph;
use super::models::{self, Model};
use super::report::Row;
use crate::cases::PageFunction;
use crate::measure::{Run, median, run};
use e2e::chromium::Chromium;
use xtask::package;
use xtask::project::Project;

/// The name of the case on the command line.
pub(super) const NAME: &str = "webgpu";

const URL: &str = "/models/large/raw/onnx/model.apr";
const SMALL_URL: &str = "/models/large/raw/onnx/model.onnx";

/// The pieces of `tensors({ device })`.
const PIECE_BYTES: u32 = 2 << 20;

const GOAL_MIB: f64 = 64.0;

/// Measures one load in each round, after one to warm up, and the same with bare reads into one buffer.
pub(super) fn row(project: &Project, rounds: usize) -> Result<Option<Row>> {
    let models = models::ready(project, Model::Large)?;
    let server = Server::new().mount("/bench", project.root.join("benches/page"));
    let server = server.mount("/pkg", package::build(project)?).mount("/models", &models).isolated(true);
    let server = server.bind("127.0.0.1:0")?.spawn();
    let (mut peaks, mut bare_peaks) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let gpu = |names| ("gpu", json!({ "url": URL, "names": names }));
        // The first call loads the module and requests the device.
        let ours = measure(&server.url(), &gpu(json!([])), &gpu(Value::Null))?;
        let discard = ("discard", json!({ "url": URL, "byteLength": PIECE_BYTES }));
        let bare =
            measure(&server.url(), &("discard", json!({ "url": SMALL_URL, "byteLength": PIECE_BYTES })), &discard)?;
        ensure!(ours.count == graph::BYTES, "the buffers have {} bytes", ours.count);
        let peak = |run: &Run| run.memory.map(|memory| memory.grown() as f64 / f64::from(1 << 20));
        eprintln!("bench: {NAME}, round {}: {:?} MiB, bare reads {:?} MiB", round + 1, peak(&ours), peak(&bare));
        peaks.extend(peak(&ours));
        bare_peaks.extend(peak(&bare));
    }
    Ok(median(peaks).map(|ours| Row {
        case: NAME.to_owned(),
        title: "1 GiB to buffers of a GPU, loopback; beside it, bare reads into one buffer".to_owned(),
        quantity: "peak, MiB",
        theirs: median(bare_peaks),
        ours,
        ratio: None,
        goal: Some(GOAL_MIB),
    }))
}

fn measure(server: &str, first: &PageFunction, way: &PageFunction) -> Result<Run> {
    let mut browser = Chromium::launch_with_gpu()?;
    let mut page = browser.new_page()?;
    page.open(&format!("{server}/bench/index.html"))?;
    run(&mut page, first)?;
    run(&mut page, way)
}
