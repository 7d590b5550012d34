//! The modules that verify signatures and certificates, each as a script of the package. The script contains the
//! module, so that bundlers need no configuration for another file. Only apps that open signed models load them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use sha2::{Digest, Sha256};

use crate::call_graph::CallGraph;
use crate::project::Project;
use crate::wasm_target::{self, TARGET};
use crate::{bundle, command, package};

/// A module with a script of its own.
struct OnDemand {
    package: &'static str,
    script: &'static str,
    /// What the script exports besides the function that starts the module.
    exports: &'static str,
    /// The name of the module as a file of the package, for platforms that compile no WebAssembly while they run.
    module: Option<&'static str>,
}

const MODULES: [OnDemand; 2] = [
    OnDemand {
        package: "weightstream-signatures",
        script: "weightstream.signatures_module.js",
        exports: "Bundle, PemCertificates, Refusal, publicKeyInPem",
        module: Some("weightstream_signatures.wasm"),
    },
    OnDemand {
        package: "weightstream-certificates",
        script: "weightstream.certificates_module.js",
        exports: "Chain, Refusal",
        module: None,
    },
];

/// Writes the scripts to the build folder.
pub fn write(project: &Project, built: &Path) -> Result<()> {
    MODULES.iter().try_for_each(|module| module.write(project, built))
}

impl OnDemand {
    fn write(&self, project: &Project, built: &Path) -> Result<()> {
        let compiled = self.compile(project)?;
        let mut fingerprint = Sha256::new_with_prefix(fs::read(&compiled)?);
        for source in [include_str!("on_demand.rs"), include_str!("../bindgen/src/main.rs")] {
            fingerprint.update(source);
        }
        let fingerprint = data_encoding::HEXLOWER.encode(&fingerprint.finalize());
        let folder = project.target.join("on_demand").join(self.package);
        let (script, stamp) = (folder.join(self.script), folder.join("made.txt"));
        if fs::read_to_string(&stamp).ok().as_deref() != Some(&fingerprint) {
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
            fs::create_dir_all(&folder)?;
            let (text, module, is_optimised) = self.made(project, &compiled)?;
            fs::write(&script, text)?;
            if let Some(name) = self.module {
                fs::write(folder.join(name), module)?;
            }
            if is_optimised {
                fs::write(stamp, fingerprint)?;
            }
        }
        fs::copy(script, built.join(self.script))?;
        if let Some(name) = self.module {
            fs::copy(folder.join(name), built.join(name))?;
        }
        Ok(())
    }

    fn compile(&self, project: &Project) -> Result<PathBuf> {
        let mut cargo = wasm_target::ready(project)?.cargo()?;
        cargo.args(["rustc", "--package", self.package, "--features", "module", "--lib"]);
        cargo.args(["--crate-type", "cdylib", "--target", TARGET, "--profile", "web"]).env("CARGO_INCREMENTAL", "0");
        command::run(cargo.current_dir(&project.root))?;
        Ok(project.target.join(TARGET).join("web").join(format!("{}.wasm", self.package.replace('-', "_"))))
    }

    /// The script, its module, and whether the module is optimised.
    fn made(&self, project: &Project, compiled: &Path) -> Result<(String, Vec<u8>, bool)> {
        let folder = tempfile::tempdir()?;
        let name = format!("{}_glue", self.package.replace('-', "_"));
        package::bindgen(project, compiled, &name, folder.path())?;
        let module = folder.path().join(format!("{name}_bg.wasm"));
        let is_optimised = package::optimise(project, &module, &["-Oz"])?;
        let module = CallGraph::read(&fs::read(module)?)?.without_names();

        // The glue without its search for a file, which bundlers would try to resolve.
        let glue = folder.path().join(format!("{name}.js"));
        let text = fs::read_to_string(&glue)?;
        let search = format!("new URL('{name}_bg.wasm', import.meta.url)");
        ensure!(text.contains(&search), "the glue that wasm-bindgen wrote does not contain `{search}`");
        fs::write(glue, text.replace(&search, "undefined"))?;
        let exported = format!("export {{ default as start, {} }} from \"./{name}.js\";\n", self.exports);
        let parts = format!("{exported}export const moduleGzip = \"{}\";\n", bundle::as_text(&module)?);
        fs::write(folder.path().join(self.script), parts)?;
        let script = bundle::bundled(project, folder.path(), self.script, ["--format=esm"])?;
        let kib = |bytes: usize| bytes as f64 / 1024.0;
        let compressed = package::brotli(script.as_bytes())?.len();
        eprintln!("build: {} {:.1} KiB, brotli {:.1} KiB", self.script, kib(script.len()), kib(compressed));
        Ok((script, module, is_optimised))
    }
}
