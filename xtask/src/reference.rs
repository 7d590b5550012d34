//! Builds the reference of the JavaScript API with TypeDoc. Dead links, types that are used but not exported, and
//! exports without documentation are errors.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::project::Project;
use crate::{command, npm, package, public_names, setup};

/// The folder with the configuration and the pinned versions.
const CONFIGURATION: &str = "tests/package/typedoc";

const TYPEDOC_LIMIT: Duration = Duration::from_secs(180);

/// Builds the reference, unless it was built from the same declarations before, and returns its folder.
pub fn build(project: &Project) -> Result<PathBuf> {
    // TypeDoc needs the API of the compiler that TypeScript 7 does not have, so it has its own version.
    let files = ["package.json", "package-lock.json", ".npmrc"];
    let modules = npm::installed(project, "TypeDoc", CONFIGURATION, &files)?;
    let _lock = project.lock()?;
    let configuration = project.root.join(CONFIGURATION);
    let manifest = package::manifest(project)?;
    let declarations = public_names::write_declarations(project, &manifest)?;
    let entries: Vec<_> =
        public_names::declarations_in(&manifest)?.into_iter().map(|name| declarations.join(name)).collect();
    let out = project.target.join("reference");
    let inputs = ["typedoc.json", "tsconfig.json", "package-lock.json"].map(|name| configuration.join(name));
    let fingerprint = setup::fingerprint(inputs.into_iter().chain(entries.iter().cloned()))?;
    let stamp = project.target.join("reference.fingerprint");
    if out.is_dir() && fs::read_to_string(&stamp).is_ok_and(|known| known == fingerprint) {
        return Ok(out);
    }
    let mut typedoc = npm::tool(&modules, "typedoc/bin/typedoc");
    typedoc.arg("--options").arg(configuration.join("typedoc.json"));
    typedoc.arg("--tsconfig").arg(configuration.join("tsconfig.json"));
    typedoc.arg("--out").arg(&out).current_dir(&project.root);
    command::quiet(typedoc.args(entries), TYPEDOC_LIMIT)?;
    fs::write(stamp, fingerprint)?;
    eprintln!("reference: the JavaScript API is in {}", out.join("index.html").display());
    Ok(out)
}
