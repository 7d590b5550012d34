//! Tests the folder that `cargo xtask demo --out` writes, on a web server that knows nothing of it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};

use crate::page::{LOAD_LIMIT, Page};
use crate::page_test::open_model;
use crate::{python, race_test, visitor_test};
use xtask::demo_folder;
use xtask::project::Project;

/// Opens the folder on Python's web server, which ignores Range requests and sends no header for isolation.
pub fn run(project: &Project, page: &mut Page) -> Result<()> {
    let folder = tempfile::tempdir()?;
    demo_folder::write(project, &folder.path().join("demo"))?;
    let server = PlainServer::start(folder.path())?;
    page.open(&format!("{}demo/", server.url))?;
    ensure!(page.evaluate("crossOriginIsolated")? == false, "the server isolates the page");
    let notes = page.evaluate("document.querySelector('#server-notes').innerText")?;
    let notes = notes.as_str().unwrap_or_default();
    for name in ["Range requests", "Cross-Origin-Opener-Policy: same-origin", "Cross-Origin-Embedder-Policy"] {
        ensure!(notes.contains(name), "the page does not mention {name}, but says {notes}");
    }
    visitor_test::check_links(page)?;

    race_test::choose(page, "#race-rate", "Infinity")?;
    race_test::run(page)?;
    concludes(page, "weightstream received ")?;
    race_test::choose_the_cut(page)?;
    race_test::run(page)?;
    concludes(page, "Both started over after the cut, because this server ignores Range requests.")?;

    open_model(page)?;
    page.click("#load-all")?;
    let verified = "/tensors match SHA-256\\.$/.test(document.querySelector('#status').textContent)";
    page.wait_for("a verified load", LOAD_LIMIT, verified)
}

fn concludes(page: &mut Page, start: &str) -> Result<()> {
    let status = page.evaluate(race_test::STATUS)?;
    ensure!(status.as_str().is_some_and(|text| text.starts_with(start)), "the page concludes {status}");
    Ok(())
}

/// Python's web server for a folder.
struct PlainServer {
    process: Child,
    url: String,
}

impl PlainServer {
    fn start(folder: &Path) -> Result<PlainServer> {
        let mut command = python::ready()?.run(Path::new("-m"), &[])?;
        command.args(["http.server", "0", "--bind", "127.0.0.1", "--directory"]).arg(folder);
        // It prints its port at once, and each request to stderr.
        command.env("PYTHONUNBUFFERED", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let process = command.spawn().context("cannot start Python's web server")?;
        let mut server = PlainServer { process, url: String::new() };
        let mut line = String::new();
        BufReader::new(server.process.stdout.take().context("no output")?).read_line(&mut line)?;
        let url = line.split(['(', ')']).nth(1).with_context(|| format!("Python's web server prints {line:?}"))?;
        url.clone_into(&mut server.url);
        Ok(server)
    }
}

impl Drop for PlainServer {
    fn drop(&mut self) {
        self.process.kill().ok(); // it may have ended already
        self.process.wait().ok();
    }
}
