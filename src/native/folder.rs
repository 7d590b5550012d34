//! Finds the model in a folder, such as a clone of a repository of Hugging Face.

use crate::error::{Error, ErrorKind, Result};
use crate::format;
use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::Path;

/// What transformers reads, in this order.
const USUAL_NAMES: [&str; 2] = ["model.safetensors.index.json", "model.safetensors"];

/// The extensions of PyTorch checkpoints.
const PYTORCH: [&str; 3] = [".bin", ".pt", ".pth"];

/// The number of names that an error lists.
const MAX_NAMES: usize = 12;

/// Returns the path of the model in a folder; any other path as it is.
///
/// The model is `model.safetensors.index.json` or `model.safetensors`, as in repositories of Hugging Face, or the only
/// manifest, or the only file of a model. A GGUF model in several files is represented by the first.
///
/// # Errors
/// `INVALID_ARGUMENT` if the folder contains no model, or several; `IO`.
pub(super) fn model_path(path: &Path) -> Result<Cow<'_, Path>> {
    if !path.is_dir() {
        return Ok(path.into());
    }
    let place = |error: Error| error.in_file(&path.display().to_string());
    let names = file_names(path).map_err(|error| place(error.into()))?;
    let choices = match USUAL_NAMES.iter().find(|usual| names.iter().any(|name| name == *usual)) {
        Some(usual) => vec![*usual],
        None => models(&names),
    };
    match choices.as_slice() {
        [one] => Ok(path.join(one).into()),
        [] => {
            let folders = folder_names(path).map_err(|error| place(error.into()))?;
            let all: Vec<_> = names.iter().chain(&folders).collect();
            let what = if all.is_empty() { "is empty".to_owned() } else { format!("contains {}", list(&all)) };
            let error = Error::new(ErrorKind::InvalidArgument, format!("no model is in this folder, which {what}"));
            Err(place(error.advise(advice(&names))))
        }
        several => {
            let what = format!("{} models are in this folder", several.len());
            let error = Error::new(ErrorKind::InvalidArgument, what);
            Err(place(error.advise(format!("Specify one of {}.", list(several)))))
        }
    }
}

/// What to do about a folder without a model.
fn advice(names: &[String]) -> String {
    if let Some(part) = names.iter().find(|name| has_extension(name) && shard_number(name).is_some()) {
        return format!("{part} is a part of a model: also download the others, and the manifest that names them.");
    }
    if let Some(name) = names.iter().find(|name| PYTORCH.iter().any(|extension| name.ends_with(extension))) {
        return format!("{name} may be a PyTorch checkpoint: convert it with `save_file` of `safetensors.torch`.");
    }
    "Specify a model file, the manifest of its files, or their folder.".to_owned()
}

/// The names of the files in a folder, sorted. Files of the Hugging Face cache are links.
fn file_names(folder: &Path) -> io::Result<Vec<String>> {
    names(folder, |metadata| metadata.is_file())
}

/// The names of the folders in a folder, sorted, each with a slash at its end.
fn folder_names(folder: &Path) -> io::Result<Vec<String>> {
    let names = names(folder, |metadata| metadata.is_dir())?;
    Ok(names.into_iter().map(|name| name + "/").collect())
}

fn names(folder: &Path, is_wanted: impl Fn(&fs::Metadata) -> bool) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && fs::metadata(entry.path()).is_ok_and(|metadata| is_wanted(&metadata))
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The manifests, if there are any; otherwise the files that are whole models; otherwise the first files of models
/// without a manifest.
fn models(names: &[String]) -> Vec<&str> {
    let of_models = names.iter().map(String::as_str).filter(|name| has_extension(name));
    let (manifests, files): (Vec<_>, Vec<_>) = of_models.partition(|name| name.ends_with(".json"));
    if !manifests.is_empty() {
        return manifests;
    }
    let (shards, whole): (Vec<_>, Vec<_>) = files.into_iter().partition(|name| shard_number(name).is_some());
    if !whole.is_empty() {
        return whole;
    }
    let is_first = |name: &&str| name.ends_with(".gguf") && shard_number(name) == Some(1);
    shards.into_iter().filter(is_first).collect()
}

/// Whether the name is that of a model or of its manifest: `model.apr`, `model.safetensors.index.json`.
fn has_extension(name: &str) -> bool {
    let name = name.strip_suffix(".index.json").or(name.strip_suffix(".json")).unwrap_or(name);
    format::formats().iter().any(|format| format.extensions.iter().any(|extension| name.ends_with(extension)))
}

/// The number in a name such as `model-00001-of-00003.gguf`.
fn shard_number(name: &str) -> Option<u32> {
    let (before, count) = name.rsplit_once("-of-")?;
    let (_, number) = before.rsplit_once('-')?;
    count.split_once('.')?.0.parse::<u32>().ok()?;
    number.parse().ok()
}

fn list<T: AsRef<str>>(names: &[T]) -> String {
    let shown = names.iter().take(MAX_NAMES).map(|name| name.as_ref()).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(MAX_NAMES) {
        Some(more @ 1..) => format!("{shown} and {more} more"),
        _ => shown,
    }
}
