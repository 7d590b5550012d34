//! Builds the reference of the JavaScript API with TypeDoc. Dead links, types that are used but not exported, and
//! exports without documentation are errors.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::project::Project;
use crate::{command, npm, package};

/// The folder with the configuration and the pinned versions.
const CONFIGURATION: &str = "tests/package/typedoc";

const TYPEDOC_LIMIT: Duration = Duration::from_secs(180);

pub fn build(project: &Project) -> Result<()> {
    // TypeDoc needs the API of the compiler that TypeScript 7 does not have, so it has its own version.
    let files = ["package.json", "package-lock.json", ".npmrc"];
    let modules = npm::installed(project, "TypeDoc", CONFIGURATION, &files)?;
    let configuration = project.root.join(CONFIGURATION);
    let mut typedoc = npm::tool(&modules, "typedoc/bin/typedoc");
    typedoc.arg("--options").arg(configuration.join("typedoc.json"));
    typedoc.arg("--tsconfig").arg(configuration.join("tsconfig.json"));
    let out = project.target.join("reference");
    typedoc.arg("--out").arg(&out).current_dir(&project.root);
    for declarations in entry_points(&package::manifest(project)?)? {
        typedoc.arg(format!("src/js/{declarations}"));
    }
    command::quiet(&mut typedoc, TYPEDOC_LIMIT)?;
    eprintln!("reference: the JavaScript API is in {}", out.join("index.html").display());
    Ok(())
}

/// The declarations of each entry point of the package.
fn entry_points(manifest: &Value) -> Result<Vec<String>> {
    let exports = manifest.get("exports").and_then(Value::as_object).context("pkg.json has no exports")?;
    let types = exports.values().filter_map(|export| export.get("types")?.as_str());
    Ok(types.map(|path| path.trim_start_matches("./").to_owned()).collect())
}
