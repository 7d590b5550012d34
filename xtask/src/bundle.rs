//! Bundles the scripts of the package: one file per entry point with a shared one, so that a page requests few files,
//! one for each kind of worker, and the module with the worker for browsers as the parts of the entry point `inline`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use tempfile::TempDir;

use crate::project::Project;
use crate::public_names::{self, Sources};
use crate::{command, npm};

/// The folder of the bundled scripts in the build folder.
pub const SCRIPTS: &str = "scripts";

/// The glue and its declarations in the build folder, and the glue as a source.
pub const GLUE: &str = "glue.js";
pub const GLUE_DECLARATIONS: &str = "glue.d.ts";
const GLUE_SOURCE: &str = "module/glue.js";

const MAIN: &str = "weightstream.js";

pub const WORKER: &str = "weightstream.worker.js";
const NODE_WORKER: &str = "weightstream.node_worker.js";
const INLINED: &str = "weightstream.inlined.js";

const LIMIT: Duration = Duration::from_secs(60);

/// How a script is bundled. That for browsers runs both as a classic worker and as a module.
const FOR_BROWSERS: [&str; 2] = ["--format=iife", "--define:import.meta.url=undefined"];
const FOR_NODE: [&str; 2] = ["--format=esm", "--platform=node"];

/// Scripts that entry points load later, under these names.
const LOADED_LATER: [&str; 6] = [
    "weightstream.chain.js",
    "weightstream.cross_origin.js",
    "weightstream.folder_files.js",
    "weightstream.pieces.js",
    "weightstream.remote.js",
    "weightstream.signature.js",
];

/// Scripts with modules as text, which stay files of their own. Sources import them by these names, as if they were in
/// the same folder.
const MODULES: [&str; 3] = [INLINED, "weightstream.certificates_module.js", "weightstream.signatures_module.js"];

/// Writes these files to the build folder, which contains the module and the glue.
pub fn write(project: &Project, built: &Path, module: &str, manifest: &Value) -> Result<()> {
    let bundler = Bundler::new(project, built)?;
    let worker = bundler.worker()?;
    fs::write(built.join(WORKER), &worker)?;
    fs::write(built.join(NODE_WORKER), bundler.bundled(NODE_WORKER, FOR_NODE)?)?;

    let module = as_text(&fs::read(built.join(module))?)?;
    let script = serde_json::to_string(&worker)?;
    let parts = format!("export const moduleGzip = \"{module}\";\nexport const workerScript = {script};\n");
    fs::write(built.join(INLINED), parts)?;

    let scripts = built.join(SCRIPTS);
    if scripts.exists() {
        fs::remove_dir_all(&scripts)?; // the names of shared files contain their digests
    }
    bundler.write_entry_points(manifest, &[], &scripts)
}

/// Bundles the sources with the glue of a module.
pub struct Bundler<'a> {
    project: &'a Project,
    sources: Sources,
    /// A copy of the sources, with the glue.
    folder: TempDir,
}

impl<'a> Bundler<'a> {
    /// Of the glue in the build folder.
    pub fn new(project: &'a Project, built: &Path) -> Result<Self> {
        let sources = Sources::list(project)?;
        let folder = tempfile::tempdir()?;
        sources.copy_scripts(folder.path())?;
        fs::copy(built.join(GLUE), folder.path().join(GLUE_SOURCE))?;
        Ok(Self { project, sources, folder })
    }

    /// The script of the workers in browsers.
    pub fn worker(&self) -> Result<String> {
        self.bundled(WORKER, FOR_BROWSERS)
    }

    fn bundled<const N: usize>(&self, public: &str, how: [&str; N]) -> Result<String> {
        bundled(self.project, self.folder.path(), self.sources.of(public)?, how)
    }

    /// Bundles the entry points, and `others`: pairs of a public name and a source. All of them import the main one,
    /// whose code is thereby in one file that they share.
    pub fn write_entry_points(&self, manifest: &Value, others: &[(&str, &str)], to: &Path) -> Result<()> {
        let public = public_names::scripts_in(manifest)?.into_iter().filter(|name| *name != WORKER);
        let entries = public.chain(LOADED_LATER).map(|name| Ok((name, self.sources.of(name)?)));
        let mut entries: Vec<_> = entries.chain(others.iter().copied().map(Ok)).collect::<Result<_>>()?;
        entries.sort_unstable();
        for (_, source) in entries.iter().filter(|(name, _)| *name != MAIN) {
            let path = self.folder.path().join(source);
            let root = "../".repeat(source.matches('/').count());
            fs::write(&path, format!("import \"./{root}{MAIN}\";\n{}", fs::read_to_string(&path)?))?;
        }
        let mut esbuild = npm::tool(&npm::ready(self.project)?, "esbuild/bin/esbuild");
        esbuild.args(entries.iter().map(|(name, source)| format!("{}={source}", name.trim_end_matches(".js"))));
        esbuild.args(["--bundle", "--splitting", "--format=esm", "--minify", "--charset=utf8", "--log-level=error"]);
        esbuild.args(["--chunk-names=weightstream.shared.[hash]", "--external:node:*"]);
        esbuild.args(MODULES.map(|module| format!("--external:./{module}")));
        esbuild.arg(format!("--outdir={}", to.display())).current_dir(self.folder.path());
        command::quiet(&mut esbuild, LIMIT)
    }
}

/// The glue as an entry point, for tests that call the module themselves.
pub const GLUE_ENTRY: (&str, &str) = ("weightstream.glue.js", GLUE_SOURCE);

/// A module for a string in a script: compressed with gzip, in Base64.
pub fn as_text(module: &[u8]) -> Result<String> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(module)?;
    Ok(data_encoding::BASE64.encode(&gzip.finish()?))
}

/// A script with all scripts that it imports.
pub fn bundled<const N: usize>(project: &Project, sources: &Path, script: &str, how: [&str; N]) -> Result<String> {
    let mut esbuild = npm::tool(&npm::ready(project)?, "esbuild/bin/esbuild");
    esbuild.arg(script).args(["--bundle", "--minify", "--charset=utf8", "--log-level=error"]).args(how);
    esbuild.arg("--outfile=bundled/script.js").current_dir(sources);
    command::quiet(&mut esbuild, LIMIT)?;
    Ok(fs::read_to_string(sources.join("bundled/script.js"))?)
}
