//! Bundles the scripts of the package: one file per entry point with a shared one, so that a page requests few files,
//! one for each kind of worker, and the module with the worker for browsers as the parts of the entry point `inline`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

use crate::project::Project;
use crate::{command, npm};

/// The folder of the bundled scripts in the build folder.
pub const SCRIPTS: &str = "scripts";

const MAIN: &str = "weightstream.js";

const WORKER: &str = "weightstream.worker.js";
const NODE_WORKER: &str = "weightstream.node_worker.js";
const INLINED: &str = "weightstream.inlined.js";

const LIMIT: Duration = Duration::from_secs(60);

/// How a script is bundled. That for browsers runs both as a classic worker and as a module.
const FOR_BROWSERS: [&str; 2] = ["--format=iife", "--define:import.meta.url=undefined"];
const FOR_NODE: [&str; 2] = ["--format=esm", "--platform=node"];

/// Scripts that entry points load later, under these names.
const LOADED_LATER: [&str; 3] = ["weightstream.chain.js", "weightstream.remote.js", "weightstream.signature.js"];

/// Scripts with modules as text, which stay files of their own.
const MODULES: [&str; 3] = [INLINED, "weightstream.certificates_module.js", "weightstream.signatures_module.js"];

/// Writes these files to the build folder, which contains the module and the glue.
pub fn write(project: &Project, built: &Path, module: &str, manifest: &Value) -> Result<()> {
    let sources = sources(project, built)?;
    let worker = bundled(project, sources.path(), WORKER, FOR_BROWSERS)?;
    fs::write(built.join(WORKER), &worker)?;
    fs::write(built.join(NODE_WORKER), bundled(project, sources.path(), NODE_WORKER, FOR_NODE)?)?;

    let module = as_text(&fs::read(built.join(module))?)?;
    let script = serde_json::to_string(&worker)?;
    let parts = format!("export const moduleGzip = \"{module}\";\nexport const workerScript = {script};\n");
    fs::write(built.join(INLINED), parts)?;
    write_entry_points(project, sources.path(), built, manifest)
}

/// Bundles the entry points. All of them import the main one, whose code is thereby in one file that they share.
fn write_entry_points(project: &Project, sources: &Path, built: &Path, manifest: &Value) -> Result<()> {
    let entries = entry_points(manifest)?;
    for entry in entries.iter().filter(|entry| **entry != MAIN) {
        let path = sources.join(entry);
        fs::write(&path, format!("import \"./{MAIN}\";\n{}", fs::read_to_string(&path)?))?;
    }
    let scripts = built.join(SCRIPTS);
    if scripts.exists() {
        fs::remove_dir_all(&scripts)?; // the names of shared files contain their digests
    }
    let mut esbuild = npm::tool(&npm::ready(project)?, "esbuild/bin/esbuild");
    esbuild.args(&entries).args(["--bundle", "--splitting", "--format=esm", "--minify", "--charset=utf8"]);
    esbuild.args(["--log-level=error", "--chunk-names=weightstream.shared.[hash]", "--external:node:*"]);
    esbuild.args(MODULES.map(|module| format!("--external:./{module}")));
    esbuild.arg(format!("--outdir={}", scripts.display())).current_dir(sources);
    command::quiet(&mut esbuild, LIMIT)
}

/// The scripts that pages and other scripts load by name, except those of workers.
fn entry_points(manifest: &Value) -> Result<Vec<&str>> {
    let exports = manifest.get("exports").and_then(Value::as_object).context("pkg.json has no `exports`")?;
    let conditions = exports.values().filter_map(Value::as_object).flat_map(|conditions| conditions.iter());
    let targets = conditions.filter(|(condition, _)| *condition != "types").filter_map(|(_, target)| target.as_str());
    let scripts = targets.filter_map(|target| target.strip_prefix("./").filter(|target| target.ends_with(".js")));
    let mut entries: Vec<_> = scripts.filter(|script| *script != WORKER).chain(LOADED_LATER).collect();
    entries.sort_unstable();
    entries.dedup();
    Ok(entries)
}

/// A module for a string in a script: compressed with gzip, in Base64.
pub fn as_text(module: &[u8]) -> Result<String> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(module)?;
    Ok(data_encoding::BASE64.encode(&gzip.finish()?))
}

/// A folder with the scripts that are bundled, and those with modules as text.
pub fn sources(project: &Project, built: &Path) -> Result<TempDir> {
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
