//! `cargo xtask demo --out`: writes the demo as a folder that any web server can serve, with a small model.
//!
//! The comparison of sentences is left out: ONNX Runtime Web and the whole model are ten times as large as the rest.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::project::Project;
use crate::{demo, model, package};

/// The extensions of the files of the page.
const PAGE: [&str; 5] = ["css", "html", "js", "png", "svg"];

/// The extensions of the files of the package that a page loads.
const PACKAGE: [&str; 2] = ["js", "wasm"];

/// Writes the folder. One that this task has written before is replaced, any other must be empty.
pub fn write(project: &Project, out: &Path) -> Result<()> {
    clear(out)?;
    let package = package::build(project)?;
    let model = model::small(project)?;
    let models = out.join("models");
    copy_files(&project.root.join("www"), out, |name| has_extension(name, &PAGE) && !name.ends_with(".test.js"))?;
    copy_files(&package, &out.join("pkg"), |name| has_extension(name, &PACKAGE) || name.starts_with("LICENSE"))?;
    fs::create_dir_all(&models)?;
    for path in model.paths()? {
        fs::copy(&path, models.join(path.file_name().context("a file without a name")?))?;
    }
    fs::copy(&model.original, models.join(model.original_name))?;
    Ok(fs::write(out.join(demo::DESCRIPTION), demo::describe(project, &model)?)?)
}

/// Removes what this task has written before.
fn clear(out: &Path) -> Result<()> {
    if !out.exists() {
        return Ok(());
    }
    let is_empty = fs::read_dir(out).with_context(|| format!("cannot write to {}", out.display()))?.next().is_none();
    let is_demo = out.join(demo::DESCRIPTION).is_file();
    ensure!(is_empty || is_demo, "{} has other files: name a folder that does not exist yet", out.display());
    fs::remove_dir_all(out).with_context(|| format!("cannot replace {}", out.display()))
}

fn has_extension(name: &str, extensions: &[&str]) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
}

/// Copies the files of a folder, without those in its folders.
fn copy_files(from: &Path, to: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_file() && name.to_str().is_some_and(&is_wanted) {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_of_this_task_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [foreign, own] = ["foreign", "own"].map(|name| folder.path().join(name));
        fs::create_dir(&foreign).unwrap();
        fs::create_dir(&own).unwrap();
        clear(&foreign).unwrap();
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("thesis.txt"), "").unwrap();
        fs::write(own.join(demo::DESCRIPTION), "{}").unwrap();
        assert!(clear(&foreign).unwrap_err().to_string().contains("has other files"));
        assert!(foreign.join("thesis.txt").exists());
        clear(&own).unwrap();
        assert!(!own.exists());
    }
}
