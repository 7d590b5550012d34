//! Time and memory of the renderer while 1 GiB is moved to buffers of a GPU.

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

/// The largest ratio of the time to that of bare reads into buffers of the GPU.
const GOAL_TIME: f64 = 1.11;

/// Measures one load in each round, after one to warm up, and the same with bare reads.
pub(super) fn rows(project: &Project, rounds: usize) -> Result<Vec<Row>> {
    let models = models::ready(project, Model::Large)?;
    let server = Server::new().mount("/bench", project.root.join("benches/page"));
    let server = server.mount("/pkg", package::build(project)?).mount("/models", &models).isolated(true);
    let server = server.bind("127.0.0.1:0")?.spawn();
    let (mut ours, mut bare, mut bare_on_gpu) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let gpu = |names| ("gpu", json!({ "url": URL, "names": names }));
        // The first call loads the module and requests the device.
        let loaded = measure(&server.url(), &gpu(json!([])), &gpu(Value::Null))?;
        ensure!(loaded.count == graph::BYTES, "the buffers have {} bytes", loaded.count);
        ours.push(loaded);
        let reads = |url| json!({ "url": url, "byteLength": PIECE_BYTES, "bufferBytes": graph::MATRIX_BYTES });
        for (way, runs) in [("discard", &mut bare), ("discardOnGpu", &mut bare_on_gpu)] {
            runs.push(measure(&server.url(), &(way, reads(SMALL_URL)), &(way, reads(URL)))?);
        }
        let last = |runs: &[Run]| runs.last().map(|run| (run.ms.round(), peak_mib(run)));
        eprintln!(
            "bench: {NAME}, round {}: {:?}, bare {:?}, {:?}",
            round + 1,
            last(&ours),
            last(&bare),
            last(&bare_on_gpu)
        );
    }
    let peaks = |runs: &[Run]| median(runs.iter().filter_map(peak_mib).collect());
    let times = |runs: &[Run]| median(runs.iter().map(|run| run.ms).collect());
    let ratios = ours.iter().zip(&bare_on_gpu).map(|(ours, bare)| ours.ms / bare.ms);
    let row = |quantity, theirs, ours, ratio, goal| Row {
        case: NAME.to_owned(),
        title: "1 GiB to buffers of a GPU, loopback; beside it, bare reads".to_owned(),
        quantity,
        theirs,
        ours,
        ratio,
        goal: Some(goal),
    };
    let time = times(&ours).map(|ms| row("time, ms", times(&bare_on_gpu), ms, median(ratios.collect()), GOAL_TIME));
    let peak = peaks(&ours).map(|peak| row("peak, MiB", peaks(&bare), peak, None, GOAL_MIB));
    Ok(time.into_iter().chain(peak).collect())
}

fn peak_mib(run: &Run) -> Option<f64> {
    run.memory.map(|memory| memory.grown() as f64 / f64::from(1 << 20))
}

fn measure(server: &str, first: &PageFunction, way: &PageFunction) -> Result<Run> {
    let mut browser = Chromium::launch_with_gpu()?;
    let mut page = browser.new_page()?;
    page.open(&format!("{server}/bench/index.html"))?;
    run(&mut page, first)?;
    run(&mut page, way)
}
