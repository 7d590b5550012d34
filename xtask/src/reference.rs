//! Builds the reference of the JavaScript API with TypeDoc. Dead links, types that are used but not exported, and
//! exports without documentation are errors.

use std::time::Duration;

use anyhow::Result;

use crate::project::Project;
use crate::{command, npm, package, public_names};

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
    let manifest = package::manifest(project)?;
    let declarations = public_names::write_declarations(project, &manifest)?;
    typedoc.args(public_names::declarations_in(&manifest)?.into_iter().map(|name| declarations.join(name)));
    command::quiet(&mut typedoc, TYPEDOC_LIMIT)?;
    eprintln!("reference: the JavaScript API is in {}", out.join("index.html").display());
    Ok(())
}
