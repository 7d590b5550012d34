//! The project's metadata from cargo, and the folders that tasks use.

use std::env;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command;

/// The project. All paths are absolute.
pub struct Project {
    /// The root of the repository.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Downloaded tools and models: outside of the repository, shared by all clones.
    pub tools: PathBuf,
    /// The version of the library.
    pub version: String,
    /// The oldest Rust that the library supports, from Cargo.toml.
    pub rust_version: String,
    /// The URL of the repository from Cargo.toml, empty if it is not set.
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
        let target = text(metadata.get("target_directory")).context("cargo metadata returned no target folder")?;
        let packages =
            metadata.get("packages").and_then(Value::as_array).context("cargo metadata lists no packages")?;
        let library = packages.iter().find(|package| package.get("name").is_some_and(|name| name == "weightstream"));
        let version = text(library.and_then(|library| library.get("version"))).context("weightstream is not listed")?;
        let rust_version = text(library.and_then(|library| library.get("rust_version")));
        let rust_version = rust_version.context("Cargo.toml has no `rust-version`")?;
        let repository = text(library.and_then(|library| library.get("repository"))).unwrap_or_default();
        let features = library.and_then(|library| library.get("features")).and_then(Value::as_object);
        let features = features.into_iter().flatten().map(|(name, _)| name.clone()).collect();
        Ok(Project { root, target: target.into(), tools: tools_folder()?, version, rust_version, repository, features })
    }

    /// Locks the target folder. Other tasks that would build the same files wait and then use them.
    pub fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.target)?;
        let file = File::create(self.target.join("xtask.lock"))?;
        file.lock()?;
        Ok(file)
    }
}

fn tools_folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("WEIGHTSTREAM_HOME") {
        return Ok(std::path::absolute(folder)?);
    }
    let cache = match env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => env::home_dir().context("no home folder found: set WEIGHTSTREAM_HOME")?.join(".cache"),
    };
    // Not `weightstream`, which is the cache of the package in Node.js.
    Ok(cache.join("weightstream-xtask"))
}
