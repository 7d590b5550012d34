//! Builds the reference of the Rust API with rustdoc. Warnings are errors.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::project::Project;
use crate::{command, release};

/// Builds the reference of the published crates and returns its folder. Its search finds no other crates, because they
/// have a folder of their own.
pub fn published(project: &Project) -> Result<PathBuf> {
    let mut cargo = cargo_doc(project, "published");
    for name in release::published(project)? {
        cargo.args(["--package", &name]);
    }
    command::run(&mut cargo)?;
    Ok(folder(project, "published").join("doc"))
}

/// Builds the documentation of the other crates of the workspace, to check it.
pub fn internal(project: &Project) -> Result<()> {
    let mut cargo = cargo_doc(project, "internal");
    cargo.arg("--workspace");
    for name in release::published(project)? {
        cargo.args(["--exclude", &name]);
    }
    command::run(&mut cargo)
}

/// Only the pages are in a folder of their own. What cargo compiles for them is that of other tasks.
fn cargo_doc(project: &Project, name: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(["doc", "--no-deps", "--target-dir"]).arg(folder(project, name)).current_dir(&project.root);
    cargo.env("CARGO_BUILD_BUILD_DIR", &project.target).env("RUSTDOCFLAGS", "-D warnings");
    cargo
}

fn folder(project: &Project, name: &str) -> PathBuf {
    project.target.join("rustdoc").join(name)
}
