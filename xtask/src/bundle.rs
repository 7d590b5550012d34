//! Bundles the scripts of the workers into one file each, and the module with that for browsers into the parts of the
//! entry point `inline`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::project::Project;
use crate::{command, npm};

const WORKER: &str = "weightstream.worker.js";
const NODE_WORKER: &str = "weightstream.node_worker.js";
const INLINED: &str = "weightstream.inlined.js";

const LIMIT: Duration = Duration::from_secs(60);

/// How a script is bundled. That for browsers runs both as a classic worker and as a module.
const FOR_BROWSERS: [&str; 2] = ["--format=iife", "--define:import.meta.url=undefined"];
const FOR_NODE: [&str; 2] = ["--format=esm", "--platform=node"];

/// Writes these files to the build folder, which contains the module and the glue.
pub fn write(project: &Project, built: &Path, module: &str) -> Result<()> {
    let sources = sources(project, built)?;
    let worker = bundled(project, sources.path(), WORKER, FOR_BROWSERS)?;
    fs::write(built.join(WORKER), &worker)?;
    fs::write(built.join(NODE_WORKER), bundled(project, sources.path(), NODE_WORKER, FOR_NODE)?)?;

    let module = as_text(&fs::read(built.join(module))?)?;
    let script = serde_json::to_string(&worker)?;
    let parts = format!("export const moduleGzip = \"{module}\";\nexport const workerScript = {script};\n");
    Ok(fs::write(built.join(INLINED), parts)?)
}

/// A module for a string in a script: compressed with gzip, in Base64.
pub fn as_text(module: &[u8]) -> Result<String> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(module)?;
    Ok(data_encoding::BASE64.encode(&gzip.finish()?))
}

/// A folder with the scripts of the package, besides those that are bundled.
fn sources(project: &Project, built: &Path) -> Result<TempDir> {
    let sources = tempfile::tempdir()?;
    for folder in [&project.root.join("src/js"), built] {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().context("a script without a name")?;
            // The bundles in the build folder are those of an earlier build.
            let is_bundle = folder == built && [WORKER, NODE_WORKER, INLINED].iter().any(|bundle| *bundle == name);
            if path.extension().is_some_and(|extension| extension == "js") && !is_bundle {
                fs::copy(&path, sources.path().join(name))?;
            }
        }
    }
    Ok(sources)
}

/// A script with all scripts that it imports.
pub fn bundled<const N: usize>(project: &Project, sources: &Path, script: &str, how: [&str; N]) -> Result<String> {
    let mut esbuild = npm::tool(&npm::ready(project)?, "esbuild/bin/esbuild");
    esbuild.arg(script).args(["--bundle", "--minify", "--charset=utf8", "--log-level=error"]).args(how);
    esbuild.arg("--outfile=bundled/script.js").current_dir(sources);
    command::quiet(&mut esbuild, LIMIT)?;
    Ok(fs::read_to_string(sources.join("bundled/script.js"))?)
}
