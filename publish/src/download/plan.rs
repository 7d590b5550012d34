//! Which files a download consists of: those that an entry of `publish` lists, or those of any other model.

use super::receive::receive;
use std::path::Path;
use weightstream::internals::format::{self, MAX_MANIFEST_BYTES};
use weightstream::internals::index::Digest;
use weightstream::internals::loader::{Loader, Options, RemoteFile};
use weightstream::internals::publication::{Publication, part_path};
use weightstream::internals::source::ModelSource;
use weightstream::internals::write::format_of_name;
use weightstream::{Error, ErrorKind, Result};

/// The number of bytes from which a JSON document is recognised.
const HEAD_BYTES: u64 = 16;

/// The extensions of files without a format of their own that belong to models: of raw data, tokenizers and templates.
const RAW_EXTENSIONS: [&str; 4] = [".bin", ".data", ".onnx_data", ".weight"];

/// The extensions of the files that programs read beside the model of a repository.
const BESIDE_EXTENSIONS: [&str; 4] = [".json", ".txt", ".model", ".jinja"];

/// The end of the names of indexes. One beside the model is that of another model.
const INDEX: &str = ".index.json";

/// What to download.
pub(super) struct Plan {
    /// The name of the file that opens the model.
    pub(super) entry: String,
    /// Its content, if it is a document that names the others. It is written last.
    pub(super) document: Option<Vec<u8>>,
    /// What the entry states, if `publish` has written it.
    pub(super) publication: Publication,
    /// The files, without such a document.
    pub(super) files: Vec<PlannedFile>,
    /// Whether a name is one that the files may have.
    pub(super) accepts: fn(&str) -> bool,
}

/// A file, by its path relative to the entry.
#[derive(Debug)]
pub(super) struct PlannedFile {
    pub(super) path: String,
    pub(super) byte_length: Option<u64>,
    /// The digest that the entry, a manifest or the hub states.
    pub(super) digest: Option<Digest>,
}

impl Plan {
    /// Finds the files of the model of an open file.
    ///
    /// # Errors
    /// Those of the source; `INVALID_ARGUMENT` and `UNSUPPORTED` if it is not that of a model.
    pub(super) async fn of<S: ModelSource>(file: &RemoteFile<S>) -> Result<Self> {
        let source = file.source();
        let name = source.file_name().and_then(|name| part_path(&name).ok()).ok_or_else(no_model)?;
        let document = match format::is_json_object(&file.head(HEAD_BYTES).await?) {
            true => Some(read_document(file).await?),
            false => None,
        };
        let publication = document.as_deref().map(Publication::of_entry).transpose()?.flatten();
        match publication.filter(|publication| publication.files().len() > 0) {
            Some(publication) => Ok(Plan::of_entry(name, document, publication)),
            None => Plan::of_model(name, document, source).await,
        }
    }

    fn of_entry(entry: String, document: Option<Vec<u8>>, publication: Publication) -> Self {
        let planned = |(path, byte_length, digest): (&str, u64, Digest)| PlannedFile {
            path: path.to_owned(),
            byte_length: Some(byte_length),
            digest: Some(digest),
        };
        let mut files: Vec<_> = publication.files().map(planned).collect();
        files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Plan { entry, document, publication, files, accepts: is_published }
    }

    async fn of_model<S: ModelSource>(entry: String, document: Option<Vec<u8>>, source: &S) -> Result<Self> {
        let loader = Loader::open(source.part(&entry)?, Options::default()).await?;
        let mut files = Vec::new();
        for part in loader.parts() {
            let path = part.map_or(&entry, |part| &part.path).clone();
            if path.is_empty() {
                let what = "the manifest names a file only by a URL, so that a copy could not be opened";
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            let stated = part.and_then(|part| part.digest).or(source.part(&path)?.stated_digest());
            files.push(PlannedFile { path, byte_length: part.and_then(|part| part.byte_length), digest: stated });
        }
        for path in source.files_beside().into_iter().filter(|path| is_beside(path)) {
            let (path, byte_length) = (part_path(&path)?, None);
            if files.iter().all(|file| file.path != path) {
                let digest = source.part(&path)?.stated_digest();
                files.push(PlannedFile { path, byte_length, digest });
            }
        }
        Ok(Plan { entry, document, publication: Publication::default(), files, accepts: is_of_model })
    }
}

async fn read_document<S: ModelSource>(file: &RemoteFile<S>) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    receive(file, 0..MAX_MANIFEST_BYTES + 1, &mut |bytes| {
        text.extend_from_slice(bytes);
        Ok(())
    })
    .await?;
    match text.len() as u64 > MAX_MANIFEST_BYTES {
        true => Err(Error::new(ErrorKind::Limit, format!("the entry has more than {MAX_MANIFEST_BYTES} bytes"))),
        false => Ok(text),
    }
}

fn no_model() -> Error {
    let error = Error::new(ErrorKind::InvalidArgument, "by its name, this is not a file of a model");
    error.advise("`download` takes the URL of a model: an entry, a manifest, or a file of tensors.")
}

/// Whether `publish` gives a file such a name.
fn is_published(name: &str) -> bool {
    !name.ends_with(".json") && format_of_name(Path::new(name)).is_some()
}

/// Whether a file of a model has such a name. Shells, build tools and others run files with other names.
fn is_of_model(name: &str) -> bool {
    let name = name.to_lowercase();
    let has = |extension: &&str| name.len() > extension.len() && name.ends_with(extension);
    let own = format::formats().iter().flat_map(|format| format.extensions);
    own.chain(&RAW_EXTENSIONS).any(has) || is_beside(&name)
}

/// Whether a file beside the model of a repository is one that programs read with it.
fn is_beside(path: &str) -> bool {
    let is_hidden = path.split('/').any(|name| name.starts_with('.'));
    !is_hidden && !path.ends_with(INDEX) && BESIDE_EXTENSIONS.iter().any(|extension| path.ends_with(extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_belong_to_models_are_downloaded() {
        for name in ["m.gguf", "model-00001-of-00002.safetensors", "model.onnx_data", "w.bin", "config.json"] {
            assert!(is_of_model(name), "{name}");
        }
        for name in ["run.sh", "Makefile", "setup.py", ".gguf", "a.gguf.exe", "pytorch_model.bin.index.json"] {
            assert!(!is_of_model(name), "{name}");
        }
        assert!(is_beside("1_Pooling/config.json") && is_beside("tokenizer.model") && !is_beside(".x/config.json"));
    }
}
