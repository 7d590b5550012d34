//! Tests the npm package as users get it: packed, installed, type-checked, bundled and run in a browser.

mod bundlers;
mod dev_server;
mod servers;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weightstream_cli::serve::Server;

use crate::chromium::Chromium;
use crate::page::Page;
use dev_server::DevServer;
use xtask::model::{self, Model};
use xtask::project::Project;
use xtask::{command, links, npm, package, package_contents};

/// The size budget of the module. Raise it in the commit that needs it, and give the reason there.
const MAX_RAW_BYTES: usize = 1848 << 10; // last raised for conversions to floats, dense tensors and positions of blocks
const MAX_BROTLI_BYTES: usize = 554 << 10;

const TOOL_LIMIT: Duration = Duration::from_secs(300);

/// A small tensor.
const TENSOR: &str = "embeddings.LayerNorm.weight";

pub fn run(project: &Project) -> Result<()> {
    let package = package::build(project)?;
    let tools = npm::ready(project)?;
    stays_within_size_budget(&package)?;
    let app = tempfile::tempdir()?;
    let tarball = packs_listed_files(project, &package, app.path())?;
    install(app.path(), &tarball, &project.root.join("tests/package"))?;
    has_no_dead_links(project, &app.path().join("node_modules/weightstream"))?;
    has_valid_types(app.path(), &tools)?;
    bundlers::build(app.path(), &tools)?;
    let model = model::ready(project)?;
    runs_bundled(app.path(), &model)?;
    runs_in_dev_servers(app.path(), &tools, &model)?;
    servers::load_without_a_page(project, app.path(), &model)
}

fn stays_within_size_budget(package: &Path) -> Result<()> {
    let package::Sizes { raw, brotli, .. } = package::measure(package)?;
    ensure!(raw <= MAX_RAW_BYTES, "{} has {raw} bytes, {MAX_RAW_BYTES} are allowed", package::MODULE);
    ensure!(
        brotli <= MAX_BROTLI_BYTES,
        "{} has {brotli} bytes in brotli, {MAX_BROTLI_BYTES} are allowed",
        package::MODULE
    );
    Ok(())
}

/// Creates the tarball to publish and checks that it has exactly the listed files.
fn packs_listed_files(project: &Project, package: &Path, folder: &Path) -> Result<PathBuf> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--json", "--pack-destination"]).arg(folder).current_dir(package);
    let packed: Value = serde_json::from_str(&command::output(&mut npm)?)?;
    let files = packed.pointer("/0/files").and_then(Value::as_array).context("npm pack lists no files")?;
    let packed_names: BTreeSet<_> = files.iter().filter_map(|file| file.get("path")?.as_str()).collect();
    let manifest = package::manifest(project)?;
    let mut listed: BTreeSet<_> = package_contents::listed(&manifest)?.into_iter().collect();
    listed.insert("package.json");
    ensure!(packed_names == listed, "npm packs {packed_names:?}, pkg.json lists {listed:?}");
    let name = packed.pointer("/0/filename").and_then(Value::as_str).context("npm pack names no file")?;
    Ok(folder.join(name))
}

/// Creates an app that depends on the package.
fn install(app: &Path, tarball: &Path, sources: &Path) -> Result<()> {
    fs::write(app.join("package.json"), r#"{ "private": true, "type": "module" }"#)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--offline", "--no-audit", "--no-fund"]).arg(tarball).current_dir(app);
    command::quiet(&mut npm, TOOL_LIMIT)?;
    fs::create_dir(app.join("app"))?;
    let types = ["sample.ts", "tsconfig.json", "oldest.ts", "tsconfig.oldest.json", "rollup.config.js"];
    for name in types.into_iter().chain([
        "app/index.html",
        "app/main.js",
        "app/explicit.js",
        "app/inline.js",
        "app/digest.js",
        "app/server.mjs",
    ]) {
        fs::copy(sources.join(name), app.join(name)).with_context(|| name.to_owned())?;
    }
    Ok(())
}

/// npm and CDNs show the documents of the package. Their links must lead to files of the package.
fn has_no_dead_links(project: &Project, installed: &Path) -> Result<()> {
    let manifest = package::manifest(project)?;
    let documents = package_contents::listed(&manifest)?.into_iter().filter(|name| name.ends_with(".md"));
    links::check(installed, &documents.map(str::to_owned).collect::<Vec<_>>())
}

fn has_valid_types(app: &Path, tools: &Path) -> Result<()> {
    for (compiler, config) in [("typescript", "tsconfig.json"), ("typescript-oldest", "tsconfig.oldest.json")] {
        let mut tsc = npm::tool(tools, &format!("{compiler}/bin/tsc"));
        command::quiet(tsc.args(["--project", config]).current_dir(app), TOOL_LIMIT)?;
    }
    Ok(())
}

fn runs_bundled(app: &Path, model: &Model) -> Result<()> {
    let server =
        bundlers::APPS.iter().fold(Server::new(), |server, name| server.mount(&format!("/{name}"), app.join(name)));
    let server = server.mount("/models", &model.folder).bind("127.0.0.1:0")?.spawn();
    let mut browser = Chromium::launch()?;
    for bundler in bundlers::APPS {
        let mut page = browser.new_page()?;
        page.open(&format!("{}/{bundler}/", server.url()))?;
        loads_a_tensor(&mut page, model, "/models").with_context(|| format!("bundled by {bundler}"))?;
    }
    Ok(())
}

/// Without a configuration, although these versions move the scripts of dependencies away from their other files.
fn runs_in_dev_servers(app: &Path, tools: &Path, model: &Model) -> Result<()> {
    let models = Server::new().mount("/models", &model.folder).bind("127.0.0.1:0")?.spawn();
    let mut browser = Chromium::launch()?;
    for vite in ["vite5", "vite", "vite7"] {
        let server = DevServer::start(app, tools, vite)?;
        let mut page = browser.new_page()?;
        page.open(&server.url())?;
        let models = format!("{}/models", models.url());
        loads_a_tensor(&mut page, model, &models).with_context(|| format!("in the development server of {vite}"))?;
    }
    Ok(())
}

/// Detects a loader that silently runs on the page because it could not start a worker.
const COUNT_LOADERS_IN_WORKERS: &str = include_str!("../count_loaders.js");

/// `models` is the URL of the folder of the model.
fn loads_a_tensor(page: &mut Page, model: &Model, models: &str) -> Result<()> {
    let expected = model.expected.iter().find(|tensor| tensor.name == TENSOR).context("the model lacks the tensor")?;
    let sha256 = page.evaluate(&format!("sha256OfTensor('{models}/{}', '{TENSOR}')", model::MANIFEST))?;
    ensure!(sha256 == expected.sha256.as_str(), "the SHA-256 of {TENSOR} is {sha256} instead of {}", expected.sha256);
    // The bundle must also contain the workers, of loaders and of the cache.
    page.evaluate(COUNT_LOADERS_IN_WORKERS)?;
    let in_worker = format!("sha256OfTensor('{models}/{}', '{TENSOR}', {{ inWorker: true }})", model::MANIFEST);
    let sha256 = page.evaluate(&in_worker)?;
    ensure!(sha256 == expected.sha256.as_str(), "in a worker, the SHA-256 of {TENSOR} is {sha256}");
    ensure!(page.evaluate("loadersInWorkers")? == 1, "the loader was not in a worker");
    let cached = page.evaluate("cachedBytes()")?;
    ensure!(cached.as_f64().is_some_and(|cached| cached > expected.byte_length as f64), "{cached} bytes are cached");
    let console_errors = page.take_console_errors()?;
    ensure!(console_errors.is_empty(), "the console shows: {}", console_errors.join("; "));
    Ok(())
}
