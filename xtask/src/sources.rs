//! Lists the source files of the repository, for checks of all files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// Folders with built, installed or generated files.
const EXCLUDED: [&str; 6] = [".git", "artifacts", "corpus", "node_modules", "pkg", "target"];

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The paths of all files below `root`, separated by slashes.
pub fn files(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_folder = entry.file_type()?.is_dir();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            match is_folder {
                // The tests of the formats have a folder of this name.
                true if EXCLUDED.contains(&name.as_str()) && path != "tests/corpus" => {}
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    Ok(files)
}
