//! The metadata of a model in a folder of Hugging Face: a model with its `config.json` and its tokenizer.

mod tokenizer;

use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::index::Metadata;
use crate::native::read_file;
use serde_json::Value;
use std::path::{Component, Path};

/// The maximum size of a file of JSON. A `tokenizer.json` of 260,000 tokens has 35 MB.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Returns the metadata for a file of `format` that is converted from a model in `folder`:
///
/// - the keys of `config.json`;
/// - `model_name`: the name of the folder or, in the cache of Hugging Face, of the repository; there also
///   `model_version`, the commit;
/// - `embedding_dim` of a sentence transformer, from the folders of its modules;
/// - for formats with a place for it, the vocabulary, from `tokenizer.json`, `vocab.txt` or `vocab.json`;
/// - for GGUF, `general.architecture` and `general.name`.
///
/// Files that do not exist are skipped. The result is empty without a `config.json`.
///
/// # Errors
/// `INVALID_ARGUMENT` if a file is not the JSON that it should be; `LIMIT` for files of more than 256 MiB; `IO`.
pub fn folder_metadata(folder: &Path, format: &Format) -> Result<Metadata> {
    let Some(mut metadata) = read_object(&folder.join("config.json"))? else { return Ok(Metadata::new()) };
    let (name, version) = name_and_version(folder);
    let architecture = metadata.get("model_type").filter(|kind| kind.is_string()).cloned();
    if let Some(dim) = embedding_dim(folder)? {
        metadata.entry("embedding_dim").or_insert(dim);
    }
    if format.name == "gguf" {
        metadata.extend(architecture.map(|architecture| ("general.architecture".to_owned(), architecture)));
        metadata.extend(name.clone().map(|name| ("general.name".to_owned(), name.into())));
    }
    for (key, value) in [("model_name", name), ("model_version", version)] {
        if let Some(value) = value {
            metadata.entry(key).or_insert_with(|| value.into());
        }
    }
    if format.writer().is_some_and(|writer| writer.vocabulary)
        && let Some(vocabulary) = tokenizer::read(folder)?
    {
        vocabulary.insert(&mut metadata);
    }
    Ok(metadata)
}

/// The name of the folder; in the cache of Hugging Face, `models--owner--name/snapshots/commit`, those of the
/// repository and the commit.
fn name_and_version(folder: &Path) -> (Option<String>, Option<String>) {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let parts = whole.components().rev().filter_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    let mut parts = parts.take(3);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(commit), Some("snapshots"), Some(repository)) => match repository.strip_prefix("models--") {
            Some(name) => (Some(name.replacen("--", "/", 1)), Some(commit.to_owned())),
            None => (Some(commit.to_owned()), None),
        },
        (name, ..) => (name.map(str::to_owned), None),
    }
}

/// The output dimension of a sentence transformer: that of its dense layer or, without one, of its pooling.
fn embedding_dim(folder: &Path) -> Result<Option<Value>> {
    for (module, key) in [("2_Dense", "out_features"), ("1_Pooling", "word_embedding_dimension")] {
        let config = read_object(&folder.join(module).join("config.json"))?;
        if let Some(dim) = config.and_then(|mut config| config.remove(key)).filter(Value::is_u64) {
            return Ok(Some(dim));
        }
    }
    Ok(None)
}

/// Reads a file of JSON; `None` if it does not exist.
fn read_object(path: &Path) -> Result<Option<Metadata>> {
    let Some(bytes) = read_if_exists(path)? else { return Ok(None) };
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(invalid(path, "it is JSON, but not an object".to_owned())),
        Err(error) => Err(invalid(path, format!("it is not valid JSON: {error}"))),
    }
}

fn read_if_exists(path: &Path) -> Result<Option<Vec<u8>>> {
    match read_file(path, MAX_FILE_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn invalid(path: &Path, what: String) -> Error {
    let advice = "Repair the file, or convert the model file instead of its folder.";
    Error::new(ErrorKind::InvalidArgument, what).advise(advice).in_file(&path.display().to_string())
}
