//! Bundles the script of the workers into one file, and the module with it into the parts of the entry point `inline`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::project::Project;
use crate::{command, npm};

const WORKER: &str = "weightstream.worker.js";
const INLINED: &str = "weightstream.inlined.js";

const LIMIT: Duration = Duration::from_secs(60);

/// Writes both files to the build folder, which contains the module and the glue.
pub fn write(project: &Project, built: &Path, module: &str) -> Result<()> {
    let worker = bundled_worker(project, built)?;
    fs::write(built.join(WORKER), &worker)?;

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&fs::read(built.join(module))?)?;
    let module = data_encoding::BASE64.encode(&gzip.finish()?);
    let script = serde_json::to_string(&worker)?;
    let parts = format!("export const moduleGzip = \"{module}\";\nexport const workerScript = {script};\n");
    Ok(fs::write(built.join(INLINED), parts)?)
}

/// The worker with all scripts that it imports, as a script that runs both as a classic worker and as a module.
fn bundled_worker(project: &Project, built: &Path) -> Result<String> {
    let sources = tempfile::tempdir()?;
    for folder in [&project.root.join("src/js"), built] {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "js") && !path.ends_with(INLINED) {
                let name = path.file_name().context("a script without a name")?;
                // The worker in the build folder is that of an earlier build.
                if !(path.ends_with(WORKER) && folder == built) {
                    fs::copy(&path, sources.path().join(name))?;
                }
            }
        }
    }
    let mut esbuild = npm::tool(&npm::ready(project)?, "esbuild/bin/esbuild");
    esbuild.arg(WORKER).args(["--bundle", "--format=iife", "--minify", "--charset=utf8", "--log-level=error"]);
    esbuild.args(["--define:import.meta.url=undefined", "--outfile=bundled.js"]).current_dir(sources.path());
    command::quiet(&mut esbuild, LIMIT)?;
    Ok(fs::read_to_string(sources.path().join("bundled.js"))?)
}
