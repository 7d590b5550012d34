//! Where things lie: the repository, its target folder, and the folder of the tools that we install.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command;

/// The folders that the chores work in. All paths are absolute.
pub(crate) struct Places {
    /// The repository.
    pub(crate) root: PathBuf,
    /// Cargo's target folder.
    pub(crate) target: PathBuf,
    /// Tools and models that the chores fetch: outside git, and shared by every clone.
    pub(crate) tools: PathBuf,
}

impl Places {
    pub(crate) fn find() -> Result<Places> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
        let root = PathBuf::from(manifest)
            .parent()
            .context("xtask lies in no folder")?
            .to_path_buf();
        let metadata = command::output(
            Command::new("cargo")
                .args(["metadata", "--no-deps", "--format-version=1"])
                .current_dir(&root),
        )?;
        let metadata: serde_json::Value =
            serde_json::from_str(&metadata).context("cargo metadata")?;
        let target = metadata
            .pointer("/target_directory")
            .and_then(|target| target.as_str())
            .context("cargo metadata names no target folder")?
            .into();
        Ok(Places {
            root,
            target,
            tools: tools_folder()?,
        })
    }
}

fn tools_folder() -> Result<PathBuf> {
    if let Some(own) = env::var_os("WEIGHTSTREAM_HOME") {
        return Ok(std::path::absolute(own)?);
    }
    let cache = match env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => env::home_dir()
            .context("there is no home folder: set WEIGHTSTREAM_HOME")?
            .join(".cache"),
    };
    Ok(cache.join("weightstream"))
}
