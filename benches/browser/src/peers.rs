//! `cargo xtask bench --peers`: compares with other libraries, which load the same bytes from the same server.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use weightstream::internals::native::Reader;
use weightstream_cli::serve::Server;

use crate::cases::{Case, PageFunction, TIME, ratio, tensors};
use crate::measure::{Rounds, Run, call, median, run as run_way, run_and_keep};
use crate::models::{self, PAYLOAD_BYTES, RAW, TENSORS, TOKENS, VOCABULARY, header_end};
use crate::report::{self, Report, Row};
use e2e::chromium::Chromium;
use e2e::page::Page;
use xtask::project::Project;
use xtask::{command, npm, package};

const PINS: &str = "benches/peers";
const FILES: [&str; 5] = ["package.json", "package-lock.json", ".npmrc", "unused/package.json", "unused/index.js"];

/// `loadWeights` requests all files at once and waits for all responses before it reads one. With more files than the
/// browser opens connections to a host, it never ends.
const TENSORS_PER_SHARD: usize = 16;

const BUNDLE_LIMIT: Duration = Duration::from_secs(120);

/// A library that loads the raw model, or plain `fetch()`.
struct Contender {
    name: String,
    is_ours: bool,
    state: State,
    way: PageFunction,
    runs: Vec<Run>,
}

/// The state of the cache.
#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Uncached,
    Cold,
    Warm,
}

pub(crate) fn run(project: &Project, rounds: usize) -> Result<()> {
    let models = models::ready(project)?;
    let bundle = bundle(project)?;
    let package = package::build(project)?;
    let server = Server::new().mount("/bench", project.root.join("benches/page")).mount("/pkg", package);
    let server = server.mount("/models", &models).mount("/peers.js", bundle.path().join("peers.js"));
    let server = server.isolated(true).bind("127.0.0.1:0")?.spawn();
    // The browser's HTTP cache is disabled, because it would serve only some of the libraries.
    let mut browser = Chromium::launch_with(&["--disk-cache-size=1"])?;
    let version = browser.version()?;
    let mut page = browser.new_page()?;
    let before = crate::browser::load();

    let mut all = contenders(project, &models)?;
    let sha256 = sha256_of_data(&models)?;
    open(&mut page, &server.url())?;
    for contender in &all {
        eprintln!("bench: {}, {:?}", contender.name, contender.state);
        check(&mut page, &contender.way, &sha256).with_context(|| contender.name.clone())?; // also warms up
    }
    for round in 0..rounds {
        eprintln!("bench: round {}", round + 1);
        for at in 0..all.len() {
            let at = (at + round) % all.len(); // rotates the order
            let Some(contender) = all.get_mut(at) else { continue };
            contender.runs.push(run_way(&mut page, &contender.way)?);
        }
    }
    let mut rows = rows(&all)?;
    for case in pairs(project, &models)? {
        eprintln!("bench: {}", case.name);
        open(&mut page, &server.url())?;
        let mut measured = Rounds::warm_up(&mut page, &case)?;
        if case.count == PAYLOAD_BYTES {
            let sums = [&case.run, &case.against].map(|way| sha256_of(&mut page, way));
            let [ours, theirs] = sums;
            ensure!(ours? == theirs?, "{}: the loaded bytes differ", case.name);
        }
        (0..rounds).try_for_each(|_| measured.add(&mut page, &case))?;
        rows.extend(report::rows(&case, &measured.measured()?));
    }
    let report = Report {
        browser: version,
        cores: thread::available_parallelism()?.get(),
        load: [before, crate::browser::load()],
        rounds,
        rows,
        scaling: Vec::new(),
    };
    report.print();
    report.write(&project.root.join("benches/peers.json"))
}

/// Bundles the other libraries as one module for the page.
fn bundle(project: &Project) -> Result<tempfile::TempDir> {
    let node_modules = npm::installed(project, "peers of the benchmark", PINS, &FILES)?;
    let folder = node_modules.with_file_name("");
    // Copied next to the packages, because it imports some of their files by path.
    fs::copy(project.root.join(PINS).join("ways.js"), folder.join("ways.js"))?;
    let built = tempfile::tempdir()?;
    let mut esbuild = npm::tool(&npm::ready(project)?, "esbuild/bin/esbuild");
    esbuild.args(["ways.js", "--bundle", "--format=esm"]);
    esbuild.args(["fs", "path", "url"].map(|name| format!("--alias:node:{name}=./unused/index.js")));
    esbuild.arg(format!("--outfile={}", built.path().join("peers.js").display()));
    command::quiet(esbuild.current_dir(&folder), BUNDLE_LIMIT)?;
    Ok(built)
}

fn open(page: &mut Page, server: &str) -> Result<()> {
    page.open("about:blank")?;
    page.open(&format!("{server}/bench/index.html"))?;
    call(page, r#"add("/peers.js")"#).map(drop)
}

/// Everything that loads the tensors of the raw model. Plain `fetch()` comes first.
fn contenders(project: &Project, models: &Path) -> Result<Vec<Contender>> {
    let url = format!("/models/{RAW}");
    let skip = header_end(&models.join(RAW))?;
    let version = |package: &str| version(project, package);
    let contender = |name: &str, state, way: &'static str, mut parameters: Value| {
        let before = match state {
            State::Uncached => None,
            State::Cold => Some("forget"),
            State::Warm => Some("keep"),
        };
        parameters.as_object_mut().map(|fields| fields.insert("before".to_owned(), json!(before)));
        let is_ours = way == "tensors";
        Contender { name: name.to_owned(), is_ours, state, way: (way, parameters), runs: Vec::new() }
    };
    let ours = |state, cache| {
        contender("weightstream", state, "tensors", json!({ "url": url, "options": { "cache": cache } }))
    };
    let transformers = version("@huggingface/transformers")?;
    let transformers = |state, cache| {
        let parameters = json!({ "model": "models", "file": RAW, "cache": cache, "skip": skip });
        contender(&transformers, state, "transformers", parameters)
    };
    let wllama = version("@wllama/wllama")?;
    let wllama = |state| contender(&wllama, state, "wllama", json!({ "url": url, "skip": skip }));
    let tfjs = json!({ "folder": "/models/", "manifest": tfjs_manifest(models)? });
    Ok(vec![
        contender("fetch().arrayBuffer()", State::Uncached, "plain", json!({ "url": url, "skip": skip })),
        ours(State::Uncached, "none"),
        transformers(State::Uncached, false),
        contender(&version("@tensorflow/tfjs-core")?, State::Uncached, "tfjs", tfjs),
        ours(State::Cold, "auto"),
        ours(State::Warm, "auto"),
        transformers(State::Cold, true),
        transformers(State::Warm, true),
        wllama(State::Cold),
        wllama(State::Warm),
    ])
}

/// The name of a package and its version in the lock file.
fn version(project: &Project, package: &str) -> Result<String> {
    let lock: Value = serde_json::from_slice(&fs::read(project.root.join(PINS).join("package-lock.json"))?)?;
    let locked = lock.get("packages").and_then(|packages| packages.get(format!("node_modules/{package}")));
    let version = locked.and_then(|package| package.get("version")?.as_str());
    Ok(format!("{package} {}", version.with_context(|| format!("{package} is not in the lock file"))?))
}

fn tfjs_manifest(models: &Path) -> Result<Value> {
    let reader = Reader::open(models.join(RAW))?;
    let weights = reader.tensors().iter();
    let weights = weights.map(|tensor| json!({ "name": tensor.name, "shape": tensor.shape, "dtype": "float32" }));
    let weights: Vec<_> = weights.collect();
    Ok(json!([{ "paths": models::bare_shards(models, TENSORS_PER_SHARD)?, "weights": weights }]))
}

/// Cases that are each compared with one other library.
fn pairs(project: &Project, models: &Path) -> Result<Vec<Case>> {
    let vocabulary = json!({ "url": format!("/models/{VOCABULARY}") });
    let gguf = Case {
        run: ("metadata", vocabulary.clone()),
        against: ("gguf", vocabulary),
        quantity: "time against its own reader",
        count: TOKENS.into(),
        ..tensors(
            "gguf",
            &format!("GGUF header with 150,000 tokens, {}", version(project, "@huggingface/gguf")?),
            Value::Null,
            ratio(0.10),
        )
    };
    let file = models.join("q8.zt");
    let reader = Reader::open(&file)?;
    let components = reader.tensors().iter().flat_map(|tensor| &tensor.components);
    let frames = components.map(|part| json!([part.range.start, part.range.end, part.decoded_length]));
    let frames: Vec<_> = frames.collect();
    ensure!(frames.len() == TENSORS, "{} does not have a component for each tensor", file.display());
    let peer = version(project, "zstddec")?;
    let zstd = |name, how: &str, options, goals| Case {
        against: ("zstddec", json!({ "url": "/models/q8.zt", "frames": frames })),
        quantity: "time against zstddec on one thread",
        ..tensors(
            name,
            &format!("Zstandard, 8-bit quanta, {how}, {peer}"),
            json!({ "url": "/models/q8.zt", "options": options }),
            goals,
        )
    };
    Ok(vec![
        gguf,
        zstd("zstd", "1 thread", json!({ "workers": 0 }), ratio(0.9)),
        zstd("zstd-4", "4 workers", json!({ "workers": 4 }), ratio(1.0 / 3.0)),
    ])
}

fn sha256_of_data(models: &Path) -> Result<String> {
    let path = models.join(RAW);
    let start = usize::try_from(header_end(&path)?)?;
    let file = fs::read(path)?;
    let digest = Sha256::digest(file.get(start..).context("the raw model has no data")?);
    Ok(data_encoding::HEXLOWER.encode(&digest))
}

/// Checks that a function of the page loads the expected bytes.
fn check(page: &mut Page, way: &PageFunction, sha256: &str) -> Result<()> {
    let found = sha256_of(page, way)?;
    ensure!(found == sha256, "wrong bytes: the SHA-256 is {found} instead of {sha256}");
    Ok(())
}

fn sha256_of(page: &mut Page, way: &PageFunction) -> Result<String> {
    run_and_keep(page, way)?;
    let sha256 = call(page, "sha256()")?;
    call(page, "release()")?;
    Ok(sha256.as_str().context("the page returned no digest")?.to_owned())
}

fn rows(all: &[Contender]) -> Result<Vec<Row>> {
    let (plain, others) = all.split_first().context("there are no contenders")?;
    let mut rows = Vec::new();
    for state in [State::Uncached, State::Cold, State::Warm] {
        let state_name = match state {
            State::Uncached => "no cache",
            State::Cold => "cold, fills the cache",
            State::Warm => "warm",
        };
        let mut best_peer: [Option<f64>; 2] = [None, None];
        let mut ours = [None, None];
        let these = || others.iter().filter(|contender| contender.state == state);
        for contender in these() {
            let values = [contender.ratio(plain), contender.peak()];
            let quantities = [TIME, "renderer's peak against the payload"];
            for ((at, value), quantity) in values.into_iter().enumerate().zip(quantities) {
                let Some(value) = value else { continue };
                let place = if contender.is_ours { ours.get_mut(at) } else { best_peer.get_mut(at) };
                if let Some(place) = place {
                    *place = Some(place.unwrap_or(f64::INFINITY).min(value));
                }
                rows.push(row(format!("{}, {state_name}", contender.name), quantity, value, None));
            }
        }
        let compared = ["time against the fastest peer", "peak against the peer with the lowest"];
        for ((ours, peer), quantity) in ours.into_iter().zip(best_peer).zip(compared) {
            if let Some((ours, peer)) = ours.zip(peer) {
                rows.push(row(format!("weightstream, {state_name}"), quantity, ours / peer, Some(1.0)));
            }
        }
    }
    Ok(rows)
}

fn row(title: String, quantity: &'static str, value: f64, goal: Option<f64>) -> Row {
    Row { case: "peers".to_owned(), title, quantity, value, goal, best: None, ms: None, plain_ms: None }
}

impl Contender {
    /// The median ratio of the time to that of plain `fetch()` in the same round.
    fn ratio(&self, plain: &Contender) -> Option<f64> {
        median(self.runs.iter().zip(&plain.runs).map(|(run, plain)| run.ms / plain.ms).collect())
    }

    fn peak(&self) -> Option<f64> {
        let peaks = self.runs.iter().filter_map(|run| Some(run.memory?.grown() as f64 / PAYLOAD_BYTES as f64));
        median(peaks.collect())
    }
}
