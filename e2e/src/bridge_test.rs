//! Runs the examples of candle and burn in a browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use weightstream_cli::serve::Server;

use crate::chromium::Chromium;
use crate::failures;
use crate::page::{LOAD_LIMIT, Page, SOON};
use xtask::linted::linted;
use xtask::project::Project;
use xtask::wasm_target::{self, TARGET};
use xtask::{command, demo, model, workspace};

/// The profile of cargo in `bridges/Cargo.toml` with which the examples are built.
const PROFILE: &str = "page-test";

/// F32 computations that differ only in the order of their sums agree to about 1e-12.
const MIN_COSINE: f64 = 0.99999;

/// The largest difference of outputs that differ only in the order of sums.
const MAX_DIFFERENCE: f64 = 1e-5;

pub fn run(project: &Project) -> Result<()> {
    let temporary = tempfile::tempdir()?;
    let mut browser = Chromium::launch()?;
    let candle = build(project, "candle", temporary.path())?;
    let embedded = embeds_sentences_with_candle(project, &mut browser, &candle);
    failures::keep(embedded, &mut browser, "Chromium", "candle")?;
    let burn = build(project, "burn", temporary.path())?;
    let computed = computes_with_burn(project, &mut browser, &burn);
    failures::keep(computed, &mut browser, "Chromium", "burn")
}

/// Compiles an example. Returns the folder with its module and glue.
fn build(project: &Project, name: &str, temporary: &Path) -> Result<PathBuf> {
    let folder = project.root.join("bridges");
    let mut cargo = wasm_target::ready(project)?.cargo()?;
    cargo.args(["build", "--lib", "--locked", "--profile", PROFILE, "--target", TARGET]);
    cargo.args(["--package", &format!("{name}-example")]);
    command::run(linted(cargo.current_dir(&folder)))?;
    let module = folder.join(format!("target/{TARGET}/{PROFILE}/{name}_example.wasm"));
    let built = temporary.join(name);
    let mut bindgen = Command::new(workspace::build(project, "xtask-bindgen")?);
    command::run(bindgen.arg(module).arg(format!("{name}_example")).arg(&built))?;
    Ok(built)
}

/// The weights are the files of the demo page, and the reference is that of the demo page.
fn embeds_sentences_with_candle(project: &Project, browser: &mut Chromium, built: &Path) -> Result<()> {
    let model = model::ready(project)?;
    let server = Server::new()
        .mount("/", project.root.join("bridges/examples/candle"))
        .mount("/pkg", built)
        .mount("/npm", demo::node_modules(project)?.join("@huggingface/tokenizers/dist"))
        .mount("/model", &model.folder)
        .mount("/model/config.json", model.original.with_file_name("config.json"))
        .mount("/model/tokenizer.json", model.tokenizer.context("the model has no tokenizer")?);
    let server = server.bind("127.0.0.1:0")?.spawn();
    let mut page = browser.new_page()?;
    page.open(&format!("{}/?weights={}", server.url(), model::MANIFEST))?;
    finished(&mut page)?;
    let reference = std::fs::read_to_string(project.root.join("www/minilm/reference.json"))?;
    let reference: Reference = serde_json::from_str(&reference)?;
    for Sentence { text, embedding } in &reference.sentences {
        let computed: Vec<f64> = serde_json::from_value(page.evaluate(&format!("embed({})", json!(text)))?)?;
        ensure!(computed.len() == embedding.len(), "the embedding of {text:?} has {} values", computed.len());
        let cosine = cosine(&computed, embedding);
        ensure!(cosine > MIN_COSINE, "the embedding of {text:?} has a cosine of {cosine} with the reference");
    }
    let rows = page.evaluate("document.querySelectorAll('tbody tr').length")?;
    ensure!(rows == 3, "the page shows {rows} sentences");
    println!("candle: {} embeddings equal the reference. {}", reference.sentences.len(), status(&mut page)?);
    page.open(&format!("{}/?weights={}&again", server.url(), model::MANIFEST))?;
    finished(&mut page)?;
    let status = status(&mut page)?;
    ensure!(status.contains("MB from the cache"), "the second visit shows {status:?}");
    println!("candle, the second visit: {status}");
    Ok(())
}

/// A native program writes the weights, and prints what burn computes with them.
fn computes_with_burn(project: &Project, browser: &mut Chromium, built: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--locked", "--package", "burn-example", "--bin", "make_weights", "--"]);
    let printed = command::output(cargo.arg(folder.path()).current_dir(project.root.join("bridges")))?;
    let expected: Vec<f64> = serde_json::from_str(printed.trim()).context("the outputs of burn")?;
    ensure!(expected.iter().any(|output| output.abs() > 0.01), "the outputs {expected:?} are too small to compare");
    let server = Server::new()
        .mount("/", project.root.join("bridges/examples/burn"))
        .mount("/pkg", built)
        .mount("/weights", folder.path());
    let server = server.bind("127.0.0.1:0")?.spawn();
    for name in ["mlp.bpk", "mlp.safetensors"] {
        let mut page = browser.new_page()?;
        page.open(&format!("{}/?weights=weights/{name}", server.url()))?;
        finished(&mut page)?;
        let status = status(&mut page)?;
        let outputs = status.strip_prefix("Outputs: ").with_context(|| status.clone())?;
        let outputs: Vec<f64> = outputs.split(", ").map(str::parse).collect::<Result<_, _>>()?;
        let is_near = |(one, other): (&f64, &f64)| (one - other).abs() <= MAX_DIFFERENCE;
        let is_equal = outputs.len() == expected.len() && outputs.iter().zip(&expected).all(is_near);
        ensure!(is_equal, "{name}: the page computes {outputs:?}, and burn computes {expected:?} natively");
        println!("burn: the outputs with {name} equal those of burn");
    }
    Ok(())
}

/// Waits until the page shows a result.
fn finished(page: &mut Page) -> Result<()> {
    page.wait_for("the model", LOAD_LIMIT, "document.querySelector('#status').textContent !== 'Loading …'")?;
    page.wait_for("the end of the script", SOON, "document.readyState === 'complete'")?;
    let status = status(page)?;
    if status.starts_with("Error") {
        bail!("the page shows {status:?}");
    }
    let errors = page.take_console_errors()?;
    ensure!(errors.is_empty(), "the console shows: {}", errors.join("; "));
    Ok(())
}

fn status(page: &mut Page) -> Result<String> {
    let status: Value = page.evaluate("document.querySelector('#status').textContent")?;
    Ok(status.as_str().unwrap_or_default().to_owned())
}

fn cosine(one: &[f64], other: &[f64]) -> f64 {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    product(one, other) / (product(one, one) * product(other, other)).sqrt()
}

#[derive(Deserialize)]
struct Reference {
    sentences: Vec<Sentence>,
}

#[derive(Deserialize)]
struct Sentence {
    text: String,
    embedding: Vec<f64>,
}
