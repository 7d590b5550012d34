//! Makes an app with the code of the README in Rust.

use std::fs;

use anyhow::{Result, ensure};
use xtask::command;

use super::World;

pub(super) fn follows_the_readme(world: &World<'_>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let app = folder.path();
    let root = &world.project.root;
    command::run(world.command("cargo", app).args(["init", "--quiet", "--name", "app", "--vcs", "none"]))?;
    // The versions that the repository pins: the app would get the newest ones, from the network.
    fs::copy(root.join("Cargo.lock"), app.join("Cargo.lock"))?;
    let mut add = world.command("cargo", app);
    command::run(add.args(["add", "--quiet", "--offline", "weightstream", "--path"]).arg(root))?;
    fs::write(app.join("src/main.rs"), world.code("README.md", "rust,no_run", "blocking::Model")?)?;
    fs::copy(world.models.path().join("model.safetensors"), app.join("model.safetensors"))?;
    let mut run = world.command("cargo", app);
    run.args(["run", "--quiet", "--offline"]).env("CARGO_TARGET_DIR", &world.project.target);
    let printed = command::output(&mut run)?;
    ensure!(printed.contains("encoder.bias F32 [512]"), "the app prints {printed}");
    ensure!(printed.contains("-0.5"), "the app prints no elements: {printed}");
    Ok(())
}
