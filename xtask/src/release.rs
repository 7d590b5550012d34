//! Checks before a release, and dry runs of publishing to npm and crates.io.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::project::Project;
use crate::{command, links, package};

const NPM_LIMIT: Duration = Duration::from_secs(120);

/// A registry URL that is not reachable, so that nothing is published accidentally. A dry run needs no network.
const NO_REGISTRY: &str = "http://127.0.0.1:9/";

/// A sentence that SECURITY.md contains until it has an address for private reports.
const NO_ADDRESS: &str = "there is no address for private reports";

/// Checks that both registries would accept the packages. Only prints what [`check`] would reject.
pub fn dry_run(project: &Project) -> Result<()> {
    let crates = crates(project)?;
    for package in &crates {
        package.check(project)?;
    }
    let mut cargo = Command::new("cargo");
    // The step `bridges` compiles the packages.
    cargo.args(["package", "--allow-dirty", "--offline", "--no-verify"]);
    cargo.args(crates.iter().flat_map(|package| ["--package", &package.name]));
    command::run(cargo.current_dir(&project.root))?;
    crate_has_no_dead_links(project)?;

    let folder = package::build(project)?;
    let mut npm = Command::new("npm");
    npm.args(["publish", "--dry-run", "--fetch-retries=0", "--registry", NO_REGISTRY]);
    let output = command::both_outputs(npm.current_dir(folder), NPM_LIMIT)?;
    ensure!(!output.contains("auto-corrected"), "npm would change package.json:\n{output}");
    println!("publish: npm and cargo would accept version {}", project.version);
    if let Err(error) = check(project, None) {
        println!("publish: not ready for a release: {error:#}");
    }
    Ok(())
}

/// Fails if a release is not ready. `tag` is the tag that triggers the release.
pub fn check(project: &Project, tag: Option<&str>) -> Result<()> {
    let mut missing = Vec::new();
    if project.repository.is_empty() {
        missing.push("set `repository` in [workspace.package] of Cargo.toml".to_owned());
    }
    if fs::read_to_string(project.root.join("SECURITY.md"))?.contains(NO_ADDRESS) {
        missing.push("add the address for private reports to SECURITY.md".to_owned());
    }
    let heading = format!("## [{}]", project.version);
    if !fs::read_to_string(project.root.join("CHANGELOG.md"))?.lines().any(|line| line.starts_with(&heading)) {
        missing.push(format!("rename [Unreleased] to {heading} in CHANGELOG.md, with the date"));
    }
    if let Some(tag) = tag.filter(|tag| *tag != format!("v{}", project.version)) {
        missing.push(format!("the tag is {tag}, but the version is {}", project.version));
    }
    match missing.is_empty() {
        true => Ok(()),
        false => bail!("{}", missing.join("; ")),
    }
}

/// The names of the crates that are published.
pub fn published(project: &Project) -> Result<Vec<String>> {
    Ok(crates(project)?.into_iter().map(|package| package.name).collect())
}

/// The names and descriptions of the crates that are published.
pub fn described(project: &Project) -> Result<Vec<(String, String)>> {
    let description = |fields: &Value| fields.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(crates(project)?.into_iter().map(|package| (package.name, description(&package.fields))).collect())
}

/// A crate of the workspace that is published.
struct Published {
    name: String,
    fields: Value,
}

impl Published {
    /// Checks the required fields, and that common fields are inherited from the workspace.
    fn check(&self, project: &Project) -> Result<()> {
        let field = |name: &str| self.fields.get(name).and_then(Value::as_str);
        let name = &self.name;
        ensure!(field("version") == Some(&project.version), "{name} does not have version {}", project.version);
        ensure!(
            field("repository") == Some(&project.repository),
            "{name} does not have `repository.workspace = true` in its Cargo.toml"
        );
        for required in ["description", "license", "readme"] {
            ensure!(field(required).is_some_and(|value| !value.is_empty()), "{name} has no {required}");
        }
        Ok(())
    }
}

fn crates(project: &Project) -> Result<Vec<Published>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--no-deps", "--format-version=1"]).current_dir(&project.root);
    let metadata: Value = serde_json::from_str(&command::output(&mut cargo)?)?;
    let packages = metadata.get("packages").and_then(Value::as_array).context("cargo metadata returned no packages")?;
    let is_published = |package: &&Value| !package.get("publish").is_some_and(|registries| registries.is_array());
    let published = packages.iter().filter(is_published).map(|fields| {
        let name = fields.get("name").and_then(Value::as_str).context("a package has no name")?;
        Ok(Published { name: name.to_owned(), fields: fields.clone() })
    });
    published.collect()
}

/// Checks the documents of the library's crate, which docs.rs and crates.io show.
fn crate_has_no_dead_links(project: &Project) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["package", "--list", "--allow-dirty", "--package", "weightstream"]).current_dir(&project.root);
    let listed = command::output(&mut cargo)?;
    let unpacked = tempfile::tempdir()?;
    let names: BTreeSet<_> = listed.lines().filter(|name| project.root.join(name).is_file()).collect();
    for name in &names {
        let copy = unpacked.path().join(name);
        fs::create_dir_all(copy.parent().unwrap_or(unpacked.path()))?;
        fs::copy(project.root.join(name), copy)?;
    }
    let documents = names.iter().filter(|name| name.ends_with(".md")).map(|name| (*name).to_owned());
    links::check(unpacked.path(), &documents.collect::<Vec<_>>())
}
