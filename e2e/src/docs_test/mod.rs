//! Runs the JavaScript of the documentation, unchanged, in Chromium. The files at its URLs are small models.

pub(crate) mod fences;
pub(crate) mod site;
mod types;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weightstream_cli::serve::Server;
use xtask::project::Project;
use xtask::{package, sources};

use crate::chromium::Chromium;
use crate::failures;
use crate::page::SOON;
use fences::{Example, Fence, Kind};

/// Imports an example. Returns what fails.
const RUN: &str = include_str!("run.js");

pub fn run(project: &Project) -> Result<()> {
    let (mut examples, mut copies, mut unchecked) = (Vec::new(), 0, 0);
    for page in pages(&project.root)? {
        let fences = fences::fences(&page, &fs::read_to_string(project.root.join(&page))?)?;
        examples.extend(fences::examples(&page, &fences)?);
        for fence in &fences {
            match &fence.kind {
                Kind::Script { .. } => {}
                Kind::Copy(path) => {
                    is_copy(&project.root, path, fence).with_context(|| format!("{page}:{}", fence.line))?;
                    copies += 1;
                }
                Kind::Unchecked => unchecked += 1,
            }
        }
    }
    let package = package::build(project)?;
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    types::check(project, &package, folder, &examples)?;
    site::write(folder, &project.root.join("tests/fixtures"))?;
    let ran = run_all(project, &package, folder, &examples)?;

    let (run, not_run): (Vec<_>, Vec<_>) = examples.iter().partition(|example| example.is_run);
    let blocks = |examples: &[&Example]| examples.iter().map(|example| example.blocks).sum::<usize>();
    ensure!(ran == run.len(), "{ran} of {} examples were run", run.len());
    println!("{} examples of {} code blocks run", run.len(), blocks(&run));
    println!("{} examples of {} code blocks have valid types, and are not run:", not_run.len(), blocks(&not_run));
    for Example { page, line, .. } in not_run {
        println!("    {page}:{line}");
    }
    println!("{copies} code blocks are parts of files of other tests; {unchecked} of other languages are not checked");
    Ok(())
}

/// The Markdown files with documentation for users.
fn pages(root: &Path) -> Result<Vec<String>> {
    let is_page = |name: &str| name == "README.md" || name.starts_with("docs/") && name.ends_with(".md");
    Ok(sources::files(root)?.into_iter().filter(|name| is_page(name)).collect())
}

/// What a code block has instead of lines that it leaves out.
const ELLIPSIS: &str = "// …";

/// Checks that the lines of a code block follow each other in a file that another test uses, except at an ellipsis: the
/// interoperability test for Python, and the test of the package for other languages.
fn is_copy(root: &Path, path: &str, fence: &Fence) -> Result<()> {
    let is_python = path.ends_with(".py");
    let path = format!("{}/{path}", if is_python { "tests/interop/python" } else { "tests/package" });
    let file = fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
    let trimmed = if is_python { str::trim_end } else { str::trim };
    let lines: Vec<_> = file.lines().map(trimmed).collect();
    let code: Vec<_> = fence.code.iter().map(|line| trimmed(line)).collect();
    let mut rest = lines.as_slice();
    for part in code.split(|line| *line == ELLIPSIS).filter(|part| !part.is_empty()) {
        let at = rest.windows(part.len()).position(|lines| lines == part);
        rest = at.and_then(|at| rest.get(at + part.len()..)).with_context(|| {
            format!("{path}, which another test uses, does not have these lines: {}", part.join("\n"))
        })?;
    }
    Ok(())
}

/// Runs each example in a page of its own. Returns their number.
fn run_all(project: &Project, package: &Path, folder: &Path, examples: &[Example]) -> Result<usize> {
    for name in ["index.html", "names.js", "answer.js"] {
        fs::copy(project.root.join("tests/docs").join(name), folder.join(name))?;
    }
    let server = Server::new()
        .mount("/", folder)
        .mount("/sites/cdn.example.org/weightstream@0.1.0", package)
        .mount("/assets", package)
        .mount("/pkg", package);
    let server = server.bind("127.0.0.1:0")?.spawn();
    let mut browser = Chromium::launch_with_gpu()?;
    let (mut count, mut failures) = (0, Vec::new());
    for example in examples.iter().filter(|example| example.is_run) {
        let file = example.file();
        let mut page = browser.new_page()?;
        page.open(&format!("{}/index.html", server.url()))?;
        page.wait_for("the files of the documentation", SOON, "globalThis.isReady")?;
        let failed = page.evaluate(&format!("({RUN})({})", json!(format!("/examples/{file}"))));
        let failed = failures::keep(failed, &mut page, "Chromium", &file)?;
        for failure in failed.as_array().context("the page returned no list of failures")? {
            let text = failure.get("text").and_then(Value::as_str).unwrap_or_default();
            let line = failure.get("line").and_then(Value::as_u64).unwrap_or(example.line as u64);
            failures.push(format!("{}:{line}: {text}", example.page));
        }
        count += 1;
    }
    ensure!(failures.is_empty(), "{} examples fail:\n{}", failures.len(), failures.join("\n"));
    Ok(count)
}
