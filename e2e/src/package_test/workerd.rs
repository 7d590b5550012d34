//! Loads the sample in workerd, the runtime of Cloudflare Workers.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use xtask::project::Project;
use xtask::{command, npm};

use super::TOOL_LIMIT;
use super::dev_server::DevServer;
use super::report::{self, Lacks};
use super::sample::{self, Sample};
use super::servers;
use crate::chromium::Chromium;
use crate::failures;

const PROGRAM: &str = "@cloudflare/workerd-linux-64/bin/workerd";

/// A worker cannot start workers, and has no storage of its own.
const LACKS: Lacks =
    Lacks { cache: Some("has no storage"), workers: Some("workers cannot be started: Worker is not available") };

const CONFIGURATION: &str = r#"using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "app", worker = .app), (name = "internet", network = (allow = ["private", "public"]))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "app")],
);
const app :Workerd.Worker = (
  modules = [
    (name = "workerd.js", esModule = embed "workerd.js"),
    (name = "weightstream/weightstream_bg.wasm", wasm = embed "weightstream_bg.wasm"),
  ],
  compatibilityDate = "2026-11-01",
);
"#;

pub(super) fn load_in_workerd(project: &Project, app: &Path, tools: &Path, sample: &Sample) -> Result<()> {
    let program = servers::installed(project)?.join(PROGRAM);
    if !program.is_file() {
        eprintln!("package: workerd is not tested: there is no program of it for this platform");
        return Ok(());
    }
    let folder = app.join("workerd");
    let mut esbuild = npm::tool(tools, "esbuild/bin/esbuild");
    esbuild.args(["app/workerd.js", "--bundle", "--format=esm", "--conditions=workerd,worker,browser"]);
    esbuild.args(["--external:*.wasm", "--outdir=workerd"]).current_dir(app);
    command::quiet(&mut esbuild, TOOL_LIMIT)?;
    let module = "weightstream_bg.wasm";
    fs::copy(app.join("node_modules/weightstream").join(module), folder.join(module))?;
    fs::write(folder.join("config.capnp"), CONFIGURATION)?;

    let mut workerd = Command::new(program);
    workerd.args(["serve", "config.capnp", "--socket-addr"]);
    let server = DevServer::start(workerd, &folder, "workerd", |port| format!("http=127.0.0.1:{port}"))?;
    let mut browser = Chromium::launch()?;
    let mut page = browser.new_page()?;
    page.open(&format!("{}?url={}&matrix={}", server.url(), sample.url(), sample::MATRIX))?;
    let report = page.evaluate("JSON.parse(document.body.innerText)");
    let checked = report.and_then(|report| report::check(report, sample, LACKS));
    failures::keep(checked, &mut page, "Chromium", "workerd")
}
