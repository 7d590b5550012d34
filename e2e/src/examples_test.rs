//! Installs the package into the web examples, builds them and opens them in a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use weightstream_cli::serve::Server;

use crate::chromium::Chromium;
use crate::failures;
use crate::page::{Page, SOON};
use crate::runtime_examples;
use xtask::project::Project;
use xtask::{command, npm, package};

const TOOL_LIMIT: Duration = Duration::from_secs(300);

const MODEL: &str = "/models/basic.safetensors";

/// Evaluates to the first three cells of each row of the table of tensors.
const ROWS: &str = "[...document.querySelectorAll('tbody tr')].map(({ cells }) => [...cells].slice(0, 3) \
                    .map((cell) => cell.textContent))";

pub fn run(project: &Project) -> Result<()> {
    // The examples are copied, so that nothing is written to the repository.
    let copy = tempfile::tempdir()?;
    let package = package::build(project)?;
    copy_folder(&package, &copy.path().join("pkg"))?;
    let examples = copy.path().join("examples");
    copy_folder(&project.root.join("examples/html"), &examples.join("html"))?;
    copy_folder(&project.root.join("examples/vite-ts"), &examples.join("vite-ts"))?;

    let tools = npm::ready(project)?;
    let html = examples.join("html");
    npm(&html, &["install", "--no-save", "--install-links", "../../pkg"])?;
    let vite_ts = examples.join("vite-ts");
    // Fails if the lock file does not match the manifest. The tools of the suite are used instead of devDependencies.
    npm(&vite_ts, &["ci", "--omit=dev"])?;
    has_the_pinned_tools(&vite_ts, &project.root.join("tests/package"))?;
    command::quiet(npm::tool(&tools, "typescript/bin/tsc").current_dir(&vite_ts), TOOL_LIMIT)?;
    let mut vite = npm::tool(&tools, "vite/bin/vite.js");
    command::quiet(vite.args(["build", "--base", "./"]).current_dir(&vite_ts), TOOL_LIMIT)?;
    shows_tensors(project, &[("html", html), ("vite-ts", vite_ts.join("dist"))])?;
    runtime_examples::run(project, &project.root.join("examples"), &package)
}

fn npm(folder: &Path, arguments: &[&str]) -> Result<()> {
    let mut npm = Command::new("npm");
    npm.args(arguments).args(["--offline", "--no-audit", "--no-fund"]).current_dir(folder);
    command::quiet(&mut npm, TOOL_LIMIT)
}

/// Checks that the example depends on the tool versions of `tests/package`, which this test uses.
fn has_the_pinned_tools(example: &Path, pins: &Path) -> Result<()> {
    let tools_of = |folder: &Path| -> Result<Value> {
        let manifest: Value = serde_json::from_slice(&fs::read(folder.join("package.json"))?)?;
        manifest.get("devDependencies").cloned().context("package.json has no devDependencies")
    };
    let (own, pinned) = (tools_of(example)?, tools_of(pins)?);
    for (name, version) in own.as_object().context("devDependencies is not an object")? {
        ensure!(pinned.get(name) == Some(version), "the example uses {name} {version}, unlike tests/package");
    }
    Ok(())
}

/// Opens each page with a small model and checks that it lists every tensor.
fn shows_tensors(project: &Project, pages: &[(&str, PathBuf)]) -> Result<()> {
    let fixtures = project.root.join("tests/fixtures/safetensors");
    let expected: Expected = serde_json::from_slice(&fs::read(fixtures.join("basic.safetensors.expected.json"))?)?;
    let expected = expected.rows();
    let mut server = Server::new().mount("/models", &fixtures);
    for (name, folder) in pages {
        server = server.mount(&format!("/{name}"), folder);
    }
    let server = server.bind("127.0.0.1:0")?.spawn();
    let mut browser = Chromium::launch()?;
    for (name, _) in pages {
        let mut page = browser.new_page()?;
        page.open(&format!("{}/{name}/?model={MODEL}", server.url()))?;
        failures::keep(lists(&mut page, &expected), &mut page, "Chromium", &format!("examples/{name}"))?;
        println!("examples/{name} shows {} tensors", expected.len());
    }
    Ok(())
}

fn lists(page: &mut Page, expected: &[[String; 3]]) -> Result<()> {
    page.wait_for("the list of tensors", SOON, "/\\d+ tensors|:/.test(document.querySelector('#status').textContent)")?;
    let mut rows: Vec<[String; 3]> = serde_json::from_value(page.evaluate(ROWS)?)?;
    rows.sort();
    let status = page.evaluate("document.querySelector('#status').textContent")?;
    ensure!(rows == expected, "the page shows {status} and lists {rows:?} instead of {expected:?}");
    let console_errors = page.take_console_errors()?;
    ensure!(console_errors.is_empty(), "the console shows: {}", console_errors.join("; "));
    Ok(())
}

#[derive(Deserialize)]
struct Expected {
    tensors: Vec<ExpectedTensor>,
}

#[derive(Deserialize)]
struct ExpectedTensor {
    name: String,
    dtype: String,
    shape: Vec<u64>,
}

impl Expected {
    fn rows(self) -> Vec<[String; 3]> {
        let shape = |shape: Vec<u64>| shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" × ");
        let mut rows: Vec<_> = self.tensors.into_iter().map(|t| [t.name, t.dtype, shape(t.shape)]).collect();
        rows.sort();
        rows
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        // Skips local installations and builds.
        if name == "node_modules" || name == "dist" {
            continue;
        }
        let target = to.join(name);
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
