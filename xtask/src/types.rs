//! Type-checks the JavaScript sources: the package against its public declarations, the demo page against the package.
//! The public declarations have a snapshot, so that every change of the API is visible in review.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::project::Project;
use crate::{bundle, command, npm, package, public_names};

/// One project for each kind of global scope, because pages and workers have different APIs.
const PROJECTS: [&str; 5] = [
    "src/js/tsconfig.json",
    "src/js/tsconfig.node.json",
    "src/js/tsconfig.worker.json",
    "www/tsconfig.json",
    "www/tsconfig.worker.json",
];

const SNAPSHOT: &str = "tests/package/api.txt";

const CHECK_LIMIT: Duration = Duration::from_secs(120);

pub fn run(project: &Project) -> Result<()> {
    let tools = npm::ready(project)?;
    public_names::write_declarations(project, &package::manifest(project)?)?;
    for config in PROJECTS {
        let mut tsc = npm::tool(&tools, "typescript/bin/tsc");
        tsc.args(["--project", config, "--typeRoots"]).arg(tools.join("@types")).current_dir(&project.root);
        command::quiet(&mut tsc, CHECK_LIMIT).with_context(|| format!("{config} has type errors"))?;
    }
    compare_api(project, &tools)
}

/// Checks that the declarations of the glue have the names and numbers of parameters that wasm-bindgen has generated.
/// It generates them for a module, so the build does this.
pub fn check_glue(project: &Project, built: &Path) -> Result<()> {
    let generated = project.root.join("target/glue");
    fs::create_dir_all(&generated)?;
    fs::copy(built.join(bundle::GLUE_DECLARATIONS), generated.join(bundle::GLUE_DECLARATIONS))?;
    let mut tsc = npm::tool(&npm::ready(project)?, "typescript/bin/tsc");
    tsc.args(["--project", "tests/package/glue/tsconfig.json"]).current_dir(&project.root);
    command::quiet(&mut tsc, CHECK_LIMIT).context("src/js/module/glue.d.ts differs from the exports of the module")
}

/// Compares the public declarations with their snapshot, or rewrites it if `UPDATE_SNAPSHOTS` is set.
fn compare_api(project: &Project, tools: &Path) -> Result<()> {
    let mut node = Command::new("node");
    node.arg("tests/package/api.mjs").arg(tools).arg("src/js/tsconfig.json").current_dir(&project.root);
    let api = command::output(&mut node)?;
    let snapshot = project.root.join(SNAPSHOT);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        return Ok(fs::write(snapshot, api)?);
    }
    let known = fs::read_to_string(snapshot).context(SNAPSHOT)?;
    let first = api.lines().zip(known.lines()).find(|(now, before)| now != before);
    let difference = first.map(|(now, before)| format!(" at `{now}`, before `{before}`")).unwrap_or_default();
    ensure!(
        api == known,
        "the public API differs from {SNAPSHOT}{difference}. \
         To accept the change, run: UPDATE_SNAPSHOTS=1 cargo xtask test types"
    );
    Ok(())
}
