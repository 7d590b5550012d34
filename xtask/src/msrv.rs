//! Checks that the crates compile with the `rust-version` of their Cargo.toml: those of the workspace natively, the
//! library also with each feature alone and for wasm32, and the crates in `bridges/`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::project::Project;
use crate::wasm_target::TARGET;
use crate::{command, release, setup};

const INSTALL_LIMIT: Duration = Duration::from_secs(300);

/// Checks with the oldest supported toolchains.
pub fn run(project: &Project) -> Result<()> {
    library(project)?;
    bridges(project)
}

/// If rustup cannot install the toolchain, only a lint of clippy checks the version.
fn library(project: &Project) -> Result<()> {
    let toolchain = toolchain(&project.rust_version);
    if let Err(error) = ready(&toolchain) {
        println!("msrv: {error:#}");
        println!("msrv: WARNING: only functions of the standard library are checked, by clippy::incompatible_msrv");
        lint(project)?;
        return features(project, Command::new("cargo"));
    }
    let published = release::published(project)?;
    let (root, target) = (&project.root, project.target.join("msrv"));
    // Each alone: together, a crate has the features of the library that another one asks for.
    for name in &published {
        check(&toolchain, root, &target, &["--package", name])?;
    }
    check(&toolchain, root, &target, &["--package", "weightstream", "--lib", "--features", "js", "--target", TARGET])?;
    features(project, in_toolchain(&toolchain, "cargo", &[]))
}

/// Features for encodings and digests. Only the features of formats enable them, and are checked with them.
const INTERNAL: [&str; 7] = ["cbor", "crc32c", "lz4", "msgpack", "xxh3", "zip", "zstd"];

/// Checks the library with each single feature, and without features. A warning is an error.
fn features(project: &Project, cargo: Command) -> Result<()> {
    let public = project.features.iter().map(String::as_str).filter(|feature| !INTERNAL.contains(feature));
    for feature in public.chain([""]) {
        let mut check = Command::new(cargo.get_program());
        check.args(cargo.get_args()).args(["rustc", "--locked", "--package", "weightstream", "--lib"]);
        check.args(["--profile", "check", "--no-default-features", "--features", feature, "--target-dir"]);
        check.arg(project.target.join("msrv")).args(["--", "-D", "warnings"]).current_dir(&project.root);
        run_without_flags(&mut check)?;
    }
    Ok(())
}

/// candle and burn need a newer compiler than the library.
fn bridges(project: &Project) -> Result<()> {
    let folder = project.root.join("bridges");
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--no-deps", "--format-version=1"]).current_dir(&folder);
    let metadata: Value = serde_json::from_str(&command::output(&mut cargo)?)?;
    let version = metadata.pointer("/packages/0/rust_version").and_then(Value::as_str);
    let toolchain = toolchain(version.context("bridges/Cargo.toml has no `rust-version`")?);
    let current = command::output(Command::new("rustc").arg("--version"))?;
    if current.starts_with(&format!("rustc {toolchain} ")) {
        println!("msrv: the tests of `bridges/` run with its oldest supported compiler, {toolchain}");
        return Ok(());
    }
    if let Err(error) = ready(&toolchain) {
        println!("msrv: {error:#}");
        println!("msrv: WARNING: the `rust-version` of `bridges/` is not checked");
        return Ok(());
    }
    check(&toolchain, &folder, &project.target.join("msrv-bridges"), &["--workspace", "--lib"])
}

/// The toolchain for a `rust-version`, which may lack the patch level.
fn toolchain(rust_version: &str) -> String {
    match rust_version.split('.').count() {
        2 => format!("{rust_version}.0"),
        _ => rust_version.to_owned(),
    }
}

fn ready(toolchain: &str) -> Result<String> {
    let find = || {
        let libraries = command::output(&mut in_toolchain(toolchain, "rustc", &["--print", "target-libdir"])).ok()?;
        let mut for_wasm = in_toolchain(toolchain, "rustc", &["--print", "target-libdir", "--target", TARGET]);
        let has_wasm = std::fs::exists(command::output(&mut for_wasm).ok()?.trim()).ok()?;
        has_wasm.then(|| libraries.trim().to_owned())
    };
    let install = || {
        let mut rustup = Command::new("rustup");
        rustup.args(["toolchain", "install", toolchain, "--profile", "minimal", "--no-self-update"]);
        command::quiet(rustup.args(["--target", TARGET]), INSTALL_LIMIT)
    };
    setup::ready(&format!("Rust {toolchain}"), find, install)
}

fn check(toolchain: &str, folder: &Path, target: &Path, what: &[&str]) -> Result<()> {
    let mut cargo = in_toolchain(toolchain, "cargo", &["check", "--locked", "--target-dir"]);
    cargo.arg(target).args(what).current_dir(folder);
    run_without_flags(&mut cargo)
}

/// The older compiler may not support the flags of the current one.
fn run_without_flags(cargo: &mut Command) -> Result<()> {
    command::run(cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS"))
}

fn lint(project: &Project) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["clippy", "--workspace", "--all-targets", "--", "-D", "clippy::incompatible_msrv"]);
    command::run(cargo.current_dir(&project.root))
}

fn in_toolchain(toolchain: &str, program: &str, arguments: &[&str]) -> Command {
    let mut rustup = Command::new("rustup");
    rustup.args(["run", toolchain, program]).args(arguments);
    rustup
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_version_without_a_patch_level_selects_its_first_toolchain() {
        assert_eq!(super::toolchain("1.92"), "1.92.0");
        assert_eq!(super::toolchain("1.92.1"), "1.92.1");
    }
}
