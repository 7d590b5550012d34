//! The module that verifies certificates, as a script of the package. It contains the module, so that bundlers and
//! platforms need no configuration for another file. Only apps that verify certificates load it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use sha2::{Digest, Sha256};

use crate::call_graph::CallGraph;
use crate::project::Project;
use crate::wasm_target::{self, TARGET};
use crate::{bundle, command, package};

const SCRIPT: &str = "weightstream.certificates_module.js";

const GLUE: &str = "weightstream_certificates_glue";

/// What the script exports: the glue without its search for a file, which bundlers would try to resolve.
const ENTRY: &str = "export { default as start, Chain, Refusal } from \"./weightstream_certificates_glue.js\";\n";

/// Writes the script to the build folder.
pub fn write(project: &Project, built: &Path) -> Result<()> {
    let compiled = compile(project)?;
    let mut fingerprint = Sha256::new_with_prefix(fs::read(&compiled)?);
    for source in [include_str!("certificates.rs"), include_str!("../bindgen/src/main.rs")] {
        fingerprint.update(source);
    }
    let fingerprint = data_encoding::HEXLOWER.encode(&fingerprint.finalize());
    let folder = project.target.join("certificates");
    let (script, stamp) = (folder.join(SCRIPT), folder.join("made.txt"));
    if fs::read_to_string(&stamp).ok().as_deref() != Some(&fingerprint) {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let (text, is_optimised) = made(project, &compiled)?;
        fs::write(&script, text)?;
        if is_optimised {
            fs::write(stamp, fingerprint)?;
        }
    }
    fs::copy(script, built.join(SCRIPT))?;
    Ok(())
}

fn compile(project: &Project) -> Result<PathBuf> {
    let mut cargo = wasm_target::ready(project)?.cargo()?;
    cargo.args(["rustc", "--package", "weightstream-certificates", "--features", "module", "--lib"]);
    cargo.args(["--crate-type", "cdylib", "--target", TARGET, "--profile", "web"]).env("CARGO_INCREMENTAL", "0");
    command::run(cargo.current_dir(&project.root))?;
    Ok(project.target.join(TARGET).join("web/weightstream_certificates.wasm"))
}

/// The script, and whether its module is optimised.
fn made(project: &Project, compiled: &Path) -> Result<(String, bool)> {
    let folder = tempfile::tempdir()?;
    package::bindgen(project, compiled, GLUE, folder.path())?;
    let module = folder.path().join(format!("{GLUE}_bg.wasm"));
    let is_optimised = package::optimise(project, &module, &["-Oz"])?;
    let module = CallGraph::read(&fs::read(module)?)?.without_names();

    let glue = folder.path().join(format!("{GLUE}.js"));
    let text = fs::read_to_string(&glue)?;
    let search = format!("new URL('{GLUE}_bg.wasm', import.meta.url)");
    ensure!(text.contains(&search), "the glue that wasm-bindgen wrote does not contain `{search}`");
    fs::write(glue, text.replace(&search, "undefined"))?;
    let parts = format!("{ENTRY}export const moduleGzip = \"{}\";\n", bundle::as_text(&module)?);
    fs::write(folder.path().join(SCRIPT), parts)?;
    let script = bundle::bundled(project, folder.path(), SCRIPT, ["--format=esm"])?;
    let kib = |bytes: usize| bytes as f64 / 1024.0;
    let compressed = package::brotli(script.as_bytes())?.len();
    eprintln!("build: {SCRIPT} {:.1} KiB, brotli {:.1} KiB", kib(script.len()), kib(compressed));
    Ok((script, is_optimised))
}
