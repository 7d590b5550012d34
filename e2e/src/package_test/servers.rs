//! Runs the installed package without a page: in Node.js, Deno and Bun.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weightstream::blocking;
use weightstream::write::{self, Compression, ConvertOptions, DigestAlgorithm};
use weightstream_cli::serve::Server;
use xtask::expected;
use xtask::model::{self, Model};
use xtask::project::Project;
use xtask::synthetic::{self, Size};
use xtask::{command, npm};

use super::TENSOR;
use super::processes::{Runtime, Scripts};
use crate::timed::timed;

/// The runtimes besides that of the system, with the program and its arguments. There are none for other platforms.
const PINNED: [(&str, &str, &[&str]); 4] = [
    ("Node.js 22", "node22/bin/node", &[]),
    ("Node.js 24", "node24/bin/node", &[]),
    ("Deno", "@deno/linux-x64-glibc/deno", &["run", "--allow-all", "--node-modules-dir=manual"]),
    ("Bun", "@oven/bun-linux-x64-baseline/bin/bun", &[]),
];

pub(super) fn load_without_a_page(project: &Project, app: &Path, model: &Model) -> Result<()> {
    timed("Node.js", || load_in(&|| Command::new("node"), project, app, model).context("in Node.js"))?;
    let folder = tempfile::tempdir()?;
    let model = &small_model(folder.path())?;
    for (name, program, arguments) in pinned_runtimes(project)? {
        let runtime = || {
            let mut command = Command::new(&program);
            command.args(arguments);
            command
        };
        timed(name, || load_in(&runtime, project, app, model).with_context(|| format!("in {name}")))?;
    }
    Ok(())
}

/// The names, programs and arguments of the runtimes that the repository pins.
pub(crate) fn pinned_runtimes(project: &Project) -> Result<Vec<(&'static str, PathBuf, &'static [&'static str])>> {
    let modules = installed(project)?;
    let all = PINNED.into_iter().map(|(name, program, arguments)| (name, modules.join(program), arguments));
    let (found, missing): (Vec<_>, Vec<_>) = all.partition(|(_, program, _)| program.is_file());
    for (name, ..) in missing {
        eprintln!("package: {name} is not tested: there is no program of it for this platform");
    }
    Ok(found)
}

/// Runs all scripts in a runtime.
fn load_in(runtime: Runtime<'_>, project: &Project, app: &Path, model: &Model) -> Result<()> {
    let server = Server::new().mount("/models", &model.folder).bind("127.0.0.1:0")?.spawn();
    let url = format!("{}/models/{}", server.url(), model::MANIFEST);
    loads(runtime(), app, model, &url)?;
    Scripts::new(project, app, model)?.run(runtime)
}

/// A model with files and tensors like those of the demo model. One runtime loads that one; the others would take most
/// of the time for its digests.
fn small_model(folder: &Path) -> Result<Model> {
    synthetic::write(folder, &Size::SMALL)?;
    let original = folder.join("model.safetensors");
    let options = ConvertOptions::new().compression(Compression::Auto).digest(Some(DigestAlgorithm::Sha256));
    let options = options.max_shard_bytes(8 << 20);
    write::convert(&blocking::Model::open(&original)?, folder.join(model::MANIFEST), &options)?;
    let expected = expected::tensors(&original)?;
    let (name, manifest, original_name) = ("synthetic weights", model::MANIFEST, model::ORIGINAL);
    Ok(Model { name, manifest, folder: folder.to_owned(), original, original_name, expected, tokenizer: None })
}

/// The folder with the packages of the runtimes.
pub(super) fn installed(project: &Project) -> Result<PathBuf> {
    let pins = ["package.json", "package-lock.json", ".npmrc"];
    npm::installed(project, "JavaScript runtimes", "tests/package/servers", &pins)
}

fn loads(mut command: Command, app: &Path, model: &Model, url: &str) -> Result<()> {
    let cache = tempfile::tempdir()?;
    command.arg("app/server.mjs").arg(model.folder.join(model::MANIFEST)).args([url, TENSOR]);
    command.env("WEIGHTSTREAM_CACHE", cache.path().join("new folder")).current_dir(app);
    let printed = command::output(&mut command)?;
    let report: Value = serde_json::from_str(printed.trim()).with_context(|| printed.clone())?;
    let expected = model.expected.iter().find(|tensor| tensor.name == TENSOR).context("the model lacks the tensor")?;
    let whole: u64 = model.expected.iter().map(|tensor| tensor.byte_length).sum();
    let at = |path: &str| report.pointer(path).unwrap_or(&Value::Null);
    for load in ["path", "file", "folder", "workers", "cold", "warm"] {
        let is_loaded = at(&format!("/{load}/sha256")) == expected.sha256.as_str();
        let is_whole = *at(&format!("/{load}/byteLength")) == whole;
        ensure!(is_loaded && is_whole && at(&format!("/{load}/cacheError")).is_null(), "{load}: {printed}");
    }
    ensure!(*at("/path/isSame") == true, "an entry of the index does not name its tensor: {printed}");
    let misspelled = at("/path/misspelled").as_str().unwrap_or_default();
    ensure!(misspelled.contains(&format!("Did you mean \"{TENSOR}\"")), "{misspelled}");
    ensure!(*at("/inWorker") == expected.sha256.as_str(), "in a worker: {printed}");
    ensure!(at("/warm/bytesReceived").as_u64() < Some(1000), "cached bytes are fetched again: {printed}");
    ensure!(at("/listed").as_array().is_some_and(|listed| listed.iter().any(|listed| listed == url)), "{printed}");
    ensure!(at("/cachedBytes").as_u64() > Some(whole / 2) && *at("/bytesAfterClear") == 0, "{printed}");
    ensure!(*at("/text") == true && *at("/missing/code") == "NOT_FOUND", "{printed}");
    Ok(())
}
