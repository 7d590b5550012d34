//! Tests the npm package as users get it: packed, installed, type-checked, bundled and run in a browser.

mod bundlers;
mod contexts;
pub(crate) mod dev_server;
mod extension;
mod next;
mod pages;
mod processes;
mod report;
mod restricted;
mod sample;
pub(crate) mod servers;
mod types;
mod workerd;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum as _;
use serde_json::Value;

use crate::engine::Engine;
use crate::timed::timed;
use crate::webdriver::Browser;
use xtask::model;
use xtask::project::Project;
use xtask::{bundle, command, links, npm, package, sources};

/// The size budget of what every page loads: the main part of the module and the scripts of the main entry point, each
/// compressed with brotli. Raise it in the commit that needs it, and give the reason there.
const MAX_FIRST_BYTES: usize = 300 << 10;

/// The number of these files.
const MAX_FIRST_FILES: usize = 3;

/// The same with the files of the default cache.
const MAX_CACHED_BYTES: usize = 370 << 10;

/// The size budget of the whole module, uncompressed.
const MAX_RAW_BYTES: usize = 2288 << 10; // last raised for mirrors and Cross-Origin Storage, which few pages load

const TOOL_LIMIT: Duration = Duration::from_secs(300);

/// The manifests of the tools.
const NOT_OF_THE_APP: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

/// A small tensor.
const TENSOR: &str = "embeddings.LayerNorm.weight";

/// The environments in which the package is loaded.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub enum Part {
    /// Bundled apps and one without a bundler, in three browsers.
    Pages,
    /// Dedicated, shared and service workers of an app.
    Workers,
    /// Content-Security-Policies, cross-origin isolation and sandboxed frames.
    Restricted,
    /// An extension of Chromium.
    Extension,
    /// The development servers of Vite.
    DevServers,
    Next,
    Workerd,
    /// Node.js, Deno and Bun.
    Servers,
}

/// Tests the package, with `only` in one of the environments.
pub fn run(project: &Project, only: Option<Part>) -> Result<()> {
    let package = package::build(project)?;
    let tools = npm::ready(project)?;
    let app = tempfile::tempdir()?;
    let app = app.path();
    let tarball = packs_all_files(&package, app)?;
    install(app, &tarball, &project.root.join("tests/package"))?;
    let installed = app.join("node_modules/weightstream");
    has_no_dead_links(&installed)?;
    timed("types", || types::are_valid(app, &tools, &project.root.join("tests/package"), &tarball))?;
    stays_within_size_budget(&package)?;
    has_reviewed_entries(project)?;
    timed("bundlers", || bundlers::build(app, &tools))?;
    let sample = sample::write()?;
    for part in Part::value_variants().iter().filter(|part| only.is_none_or(|only| only == **part)) {
        let name = part.to_possible_value().context("a part has no name")?;
        timed(name.get_name(), || match part {
            Part::Pages => pages::load_everywhere(project, app, &sample),
            Part::Workers => contexts::load_in_workers(project, app, &sample),
            Part::Restricted => restricted::load_where_not_all_is_allowed(project, app, &sample),
            Part::Extension => extension::load_in_extension(project, app, &sample),
            Part::DevServers => pages::load_in_dev_servers(project, app, &tools, &sample),
            Part::Next => next::load_in_next(project, &installed, &sample),
            Part::Workerd => workerd::load_in_workerd(project, app, &tools, &sample),
            Part::Servers => servers::load_without_a_page(project, app, &model::ready(project)?),
        })?;
    }
    Ok(())
}

/// Runs a check in three browsers at the same time, because pages spend most of it waiting.
fn with_each_browser(project: &Project, check: impl Fn(Engine, &Browser) -> Result<()> + Sync) -> Result<()> {
    let check = &check;
    thread::scope(|scope| {
        let run = |engine| scope.spawn(move || check(engine, &Browser::launch(project, engine)?));
        let threads = Engine::ALL.map(run);
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("the test panicked")))
    })
}

/// A page with a Content-Security-Policy forbids it. It is easily called by accident: `Default` of `js_sys::Function`.
fn evaluates_no_text(package: &Path) -> Result<()> {
    for file in fs::read_dir(package)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "js") {
            ensure!(!fs::read_to_string(&path)?.contains("new Function("), "{} evaluates a text", path.display());
        }
    }
    Ok(())
}

fn stays_within_size_budget(package: &Path) -> Result<()> {
    evaluates_no_text(package)?;
    let raw = package::measure(package)?.raw;
    ensure!(raw <= MAX_RAW_BYTES, "{} has {raw} bytes, {MAX_RAW_BYTES} are allowed", package::MODULE);
    let mut first = scripts_of(package, "weightstream.js")?;
    first.push(package::MAIN.to_owned());
    let mut bytes = 0;
    for name in &first {
        bytes += brotli_length(package, name)?;
    }
    ensure!(first.len() <= MAX_FIRST_FILES, "a page first loads {first:?}, {MAX_FIRST_FILES} files are allowed");
    ensure!(bytes <= MAX_FIRST_BYTES, "a page first loads {bytes} bytes in brotli, {MAX_FIRST_BYTES} are allowed");
    for name in ["weightstream_cache.wasm", bundle::WORKER] {
        bytes += brotli_length(package, name)?;
    }
    ensure!(bytes <= MAX_CACHED_BYTES, "with a cache, a page loads {bytes} bytes, {MAX_CACHED_BYTES} are allowed");
    Ok(())
}

fn brotli_length(package: &Path, name: &str) -> Result<usize> {
    let length = package::brotli(&fs::read(package.join(name))?)?.len();
    println!("brotli: {name} {:.1} KiB", length as f64 / 1024.0);
    Ok(length)
}

/// Which functions call functions of other parts of the module, or have their addresses. Each must be called only after
/// its part is loaded: review new ones before `UPDATE_SNAPSHOTS=1` records them. The compiler merges equal functions,
/// so that a function can have the name of another type.
fn has_reviewed_entries(project: &Project) -> Result<()> {
    let without_hash = |name: &str| name.rsplit_once("::h").map_or(name, |(path, _)| path).to_owned();
    let calls = fs::read_to_string(project.target.join("pkg").join(package::ENTRIES))?;
    let calls = calls.lines().filter_map(|call| call.split_once(" -> "));
    let calls = calls.map(|(from, to)| format!("{} -> {}", without_hash(from), without_hash(to)));
    let calls: BTreeSet<_> = calls.collect();
    let snapshot = project.root.join("tests/package/entries.txt");
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        let found: String = calls.iter().flat_map(|call| [call, "\n"]).collect();
        return Ok(fs::write(snapshot, found)?);
    }
    let known = fs::read_to_string(&snapshot)?;
    let new: Vec<_> = calls.iter().filter(|call| known.lines().all(|line| line != **call)).collect();
    ensure!(
        new.is_empty(),
        "functions call other parts of the module: {new:?}. See that these are loaded before, and run \
         `UPDATE_SNAPSHOTS=1 cargo xtask test package`"
    );
    Ok(())
}

/// The names of a script and of all scripts that it imports statically, as `from"./NAME"` or `import"./NAME"`.
fn scripts_of(package: &Path, script: &str) -> Result<Vec<String>> {
    let mut names = vec![script.to_owned()];
    let mut at = 0;
    while let Some(name) = names.get(at) {
        let text = fs::read_to_string(package.join(name))?;
        let imports = ["from\"./", "import\"./"].into_iter().flat_map(|start| text.split(start).skip(1));
        for (name, _) in imports.filter_map(|rest| rest.split_once('"')) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        at += 1;
    }
    Ok(names)
}

/// Creates the tarball to publish and checks that it has all files of the package.
fn packs_all_files(package: &Path, folder: &Path) -> Result<PathBuf> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--json", "--pack-destination"]).arg(folder).current_dir(package);
    let packed: Value = serde_json::from_str(&command::output(&mut npm)?)?;
    let files = packed.pointer("/0/files").and_then(Value::as_array).context("npm pack lists no files")?;
    let packed_names: BTreeSet<_> = files.iter().filter_map(|file| file.get("path")?.as_str()).collect();
    let built = sources::files(package)?;
    let built: BTreeSet<_> = built.iter().map(String::as_str).collect();
    ensure!(packed_names == built, "npm packs {packed_names:?}, the package has {built:?}");
    let name = packed.pointer("/0/filename").and_then(Value::as_str).context("npm pack names no file")?;
    Ok(folder.join(name))
}

/// Creates an app that depends on the package.
fn install(app: &Path, tarball: &Path, sources: &Path) -> Result<()> {
    fs::write(app.join("package.json"), r#"{ "private": true, "type": "module" }"#)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--offline", "--no-audit", "--no-fund"]).arg(tarball).current_dir(app);
    command::quiet(&mut npm, TOOL_LIMIT)?;
    fs::create_dir_all(app.join("app/restricted"))?;
    for folder in ["", "app", "app/restricted"] {
        for entry in fs::read_dir(sources.join(folder))? {
            let path = entry?.path();
            let name = path.file_name().context("a file without a name")?;
            if path.is_file() && !NOT_OF_THE_APP.iter().any(|other| *other == name) {
                fs::copy(&path, app.join(folder).join(name)).with_context(|| path.display().to_string())?;
            }
        }
    }
    Ok(())
}

/// npm and CDNs show the documents of the package. Their links must lead to files of the package.
fn has_no_dead_links(installed: &Path) -> Result<()> {
    let mut documents = sources::files(installed)?;
    documents.retain(|name| name.ends_with(".md"));
    links::check(installed, &documents)
}

/// Copies a folder, with hard links where the file system allows, because some have hundreds of megabytes.
fn link_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            link_all(&source, &target)?;
        } else if fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}
