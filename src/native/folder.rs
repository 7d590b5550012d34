//! Finds the model in a folder, such as a clone of a repository of Hugging Face.

use super::file::FileBytes;
use crate::error::{Error, ErrorKind, Result};
use crate::format;
use crate::index::Parsed;
use crate::model::finder::{self, Content, Found};
use std::borrow::Cow;
use std::fs;
use std::path::Path;

/// How deep the files of a model are in its folder: those of a pipeline in a folder of their own, and those in a cache
/// of Hugging Face below `snapshots/COMMIT`.
const MAX_DEPTH: usize = 3;

/// The number of files that are looked at. A folder with more is not that of a model.
const MAX_FILES: usize = 100_000;

/// Returns the path of the model in a folder; any other path as it is.
///
/// # Errors
/// `INVALID_ARGUMENT` if the folder contains no model, or several; `LIMIT` for too many files; `IO`.
pub(crate) fn model_path(path: &Path) -> Result<Cow<'_, Path>> {
    if !path.is_dir() {
        return Ok(path.into());
    }
    let place = |error: Error| error.in_file(&path.display().to_string());
    let mut tree = Tree::default();
    tree.add(path, "", 0).map_err(place)?;
    tree.files.sort_unstable();
    let names: Vec<_> = tree.files.iter().map(String::as_str).collect();
    let found = finder::find(&names, &|name| content(&path.join(name)));
    let invalid =
        |what: String, advice: String| Err(place(Error::new(ErrorKind::InvalidArgument, what).advise(advice)));
    match found {
        Found::One(one) => Ok(path.join(one).into()),
        Found::Several(several) => invalid(
            format!("{} models are in this folder", several.len()),
            format!("Specify one of {}.", finder::list(&several)),
        ),
        Found::Part(_) | Found::Nothing => {
            let entries: Vec<_> = tree.entries.iter().map(String::as_str).collect();
            let contains = format!("contains {}", finder::list(&entries));
            let contains = if entries.is_empty() { "is empty".to_owned() } else { contains };
            let usual = || "Specify a model file, the manifest of its files, or their folder.".to_owned();
            let advice = finder::advice(&found, &names).unwrap_or_else(usual);
            invalid(format!("no model is in this folder, which {contains}"), advice)
        }
    }
}

/// The files in a folder and in the folders in it.
#[derive(Default)]
struct Tree {
    /// The paths of the files, relative to the folder, with `/`.
    files: Vec<String>,
    /// The names in the folder itself: those of files, and then those of folders, which end with a slash.
    entries: Vec<String>,
}

impl Tree {
    /// Adds a folder. Files of the Hugging Face cache are links; links to folders are not followed, because they may
    /// lead back.
    fn add(&mut self, folder: &Path, prefix: &str, depth: usize) -> Result<()> {
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(name);
            } else if kind.is_file() || fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_file()) {
                files.push(name);
            }
        }
        files.sort_unstable();
        folders.sort_unstable();
        if depth == 0 {
            self.entries.extend(files.iter().cloned());
            self.entries.extend(folders.iter().map(|name| format!("{name}/")));
        }
        self.files.extend(files.into_iter().map(|name| format!("{prefix}{name}")));
        if self.files.len() > MAX_FILES {
            let what = format!("the folder has more than {MAX_FILES} files");
            return Err(Error::new(ErrorKind::Limit, what).advise("Specify the file of the model."));
        }
        for name in folders.iter().filter(|name| depth < MAX_DEPTH && !name.starts_with('.')) {
            match self.add(&folder.join(name), &format!("{prefix}{name}/"), depth + 1) {
                Err(error) if error.kind == ErrorKind::Io => {} // a folder that may not be read has no model
                added => added?,
            }
        }
        Ok(())
    }
}

/// What a file contains that may be a manifest. A damaged manifest still counts as one: opening it says what is wrong.
fn content(path: &Path) -> Content {
    let Ok(file) = FileBytes::open(path) else { return Content::Other };
    let head = 0..file.byte_length().min(format::SNIFF_BYTES);
    match file.parse(|window| Ok(format::is_json_object(window.get(head.clone())?))) {
        Ok(true) => match file.parse(format::parse) {
            Ok(Parsed::Manifest(manifest)) => Content::Manifest(manifest.parts.into_iter().map(|p| p.path).collect()),
            _ => Content::Unknown,
        },
        _ => Content::Other,
    }
}
