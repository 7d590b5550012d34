//! The project as cargo knows it, and the folders that the chores work in.

use std::env;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command;

/// All paths are absolute.
pub struct Project {
    /// The repository.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Tools and models that the chores fetch: outside git, and shared by every clone.
    pub tools: PathBuf,
    /// The version of the library.
    pub version: String,
    /// The oldest Rust that the library supports, from Cargo.toml.
    pub rust_version: String,
    /// The URL of the repository, from Cargo.toml; empty while it is not decided.
    pub repository: String,
    /// The features of the library.
    pub features: Vec<String>,
}

impl Project {
    pub fn at(root: PathBuf) -> Result<Project> {
        let mut cargo = Command::new("cargo");
        cargo.args(["metadata", "--no-deps", "--format-version=1"]).current_dir(&root);
        let metadata: Value = serde_json::from_str(&command::output(&mut cargo)?)?;
        let text = |value: Option<&Value>| Some(value?.as_str()?.to_owned());
        let target = text(metadata.get("target_directory")).context("cargo metadata names no target folder")?;
        let packages = metadata.get("packages").and_then(Value::as_array).context("cargo metadata lists no package")?;
        let library = packages.iter().find(|package| package.get("name").is_some_and(|name| name == "weightstream"));
        let version = text(library.and_then(|library| library.get("version"))).context("there is no weightstream")?;
        let rust_version = text(library.and_then(|library| library.get("rust_version")));
        let rust_version = rust_version.context("Cargo.toml has no `rust-version`")?;
        let repository = text(library.and_then(|library| library.get("repository"))).unwrap_or_default();
        let features = library.and_then(|library| library.get("features")).and_then(Value::as_object);
        let features = features.into_iter().flatten().map(|(name, _)| name.clone()).collect();
        Ok(Project { root, target: target.into(), tools: tools_folder()?, version, rust_version, repository, features })
    }

    /// Holds off other chores that would make the same things in the target folder; they find them made.
    pub fn alone(&self) -> Result<File> {
        fs::create_dir_all(&self.target)?;
        let file = File::create(self.target.join("xtask.lock"))?;
        file.lock()?;
        Ok(file)
    }
}

fn tools_folder() -> Result<PathBuf> {
    if let Some(own) = env::var_os("WEIGHTSTREAM_HOME") {
        return Ok(std::path::absolute(own)?);
    }
    let cache = match env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => env::home_dir().context("there is no home folder: set WEIGHTSTREAM_HOME")?.join(".cache"),
    };
    Ok(cache.join("weightstream"))
}
