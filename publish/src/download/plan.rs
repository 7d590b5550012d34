//! Which files a download consists of: those that an entry of `publish` lists, or those of any other model.

use super::names::{is_beside, is_part, is_published};
use super::receive::receive;
use weightstream::internals::format::{self, MAX_MANIFEST_BYTES};
use weightstream::internals::index::Digest;
use weightstream::internals::loader::{Loader, Options, RemoteFile};
use weightstream::internals::publication::{Publication, part_path};
use weightstream::internals::source::ModelSource;
use weightstream::{Error, ErrorKind, Result};

/// The number of bytes from which a JSON document is recognised.
const HEAD_BYTES: u64 = 16;

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
}

/// A file, by its path relative to the entry.
#[derive(Debug)]
pub(super) struct PlannedFile {
    pub(super) path: String,
    pub(super) byte_length: Option<u64>,
    /// The digest that the entry, a manifest or the hub states.
    pub(super) digest: Option<Digest>,
    /// Whether the file may have such a name.
    pub(super) accepts: fn(&str) -> bool,
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
            accepts: is_published,
        };
        let mut files: Vec<_> = publication.files().map(planned).collect();
        files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Plan { entry, document, publication, files }
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
            let digest = stronger(part.and_then(|part| part.digest), source.part(&path)?.stated_digest());
            let byte_length = part.and_then(|part| part.byte_length);
            files.push(PlannedFile { path, byte_length, digest, accepts: is_part });
        }
        for path in source.files_beside().into_iter().filter(|path| is_beside(path)) {
            let (path, byte_length) = (part_path(&path)?, None);
            if files.iter().all(|file| file.path != path) {
                let digest = source.part(&path)?.stated_digest();
                files.push(PlannedFile { path, byte_length, digest, accepts: is_beside });
            }
        }
        Ok(Plan { entry, document, publication: Publication::default(), files })
    }
}

/// The digest to compare. A CRC does not identify the bytes; that of APR also leaves out the footer.
fn stronger(of_manifest: Option<Digest>, of_host: Option<Digest>) -> Option<Digest> {
    of_manifest.into_iter().chain(of_host).find(Digest::is_strong)
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
