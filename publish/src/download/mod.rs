//! Downloads a model into a folder, or updates a folder with an earlier revision of a published one: files and parts of
//! files that are there are not downloaded again.

mod assembly;
mod existing;
mod folder;
mod local_file;
mod names;
mod plan;
mod receive;
mod version;

use crate::object::ObjectSource;
use assembly::Assembly;
use folder::Folder;
use plan::Plan;
use receive::check_cancelled;
use std::path::{Path, PathBuf};
use tokio::runtime::Builder;
use weightstream::internals::http::block_on;
use weightstream::internals::loader::RemoteFile;
use weightstream::internals::location::is_object;
use weightstream::internals::output::Existing;
use weightstream::internals::progress::Progress;
use weightstream::internals::retry::RetryPolicy;
use weightstream::internals::source::ModelSource;
use weightstream::internals::source::http::HttpSource;
use weightstream::{Error, ErrorKind, Result};

/// How to download a model.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct DownloadOptions {
    /// Whether files in the folder that no earlier revision lists are replaced. Otherwise they are errors.
    pub replace_foreign: bool,
    /// Headers (name and value) of requests to the origin of an http(s) URL. They are sent to no other origin.
    pub headers: Vec<(String, String)>,
}

/// Headers may be secrets, and are left out.
impl std::fmt::Debug for DownloadOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DownloadOptions").field("replace_foreign", &self.replace_foreign).finish_non_exhaustive()
    }
}

impl DownloadOptions {
    /// Sets [`headers`](Self#structfield.headers).
    #[must_use]
    pub fn with_headers(mut self, headers: Vec<(String, String)>) -> Self {
        self.headers = headers;
        self
    }

    /// Sets [`replace_foreign`](Self#structfield.replace_foreign).
    #[must_use]
    pub fn with_replace_foreign(mut self, replace_foreign: bool) -> Self {
        self.replace_foreign = replace_foreign;
        self
    }

    /// What happens to files of others in the folder.
    fn foreign(&self) -> Existing {
        if self.replace_foreign { Existing::Replace } else { Existing::Keep }
    }
}

/// The result of [`download`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Downloaded {
    /// The path of the file that opens the model.
    pub entry: PathBuf,
    /// The number of files, without a document that names the others.
    pub file_count: usize,
    /// The number of these files that were complete before.
    pub existing_files: usize,
    /// The paths of the files that were not compared with a digest, because none is stated. Those that existed have the
    /// bytes that the server sends, or were received from the same URL with the same ETag or date.
    pub unverified_files: Vec<String>,
    /// The total length of these files in bytes.
    pub byte_length: u64,
    /// The number of bytes that were received.
    pub received_bytes: u64,
    /// The number of bytes that were copied from files of the previous revision.
    pub copied_bytes: u64,
    /// The number of bytes that an interrupted call had left.
    pub continued_bytes: u64,
}

/// Downloads the model at `url` into `folder`, which is created if it does not exist: the entry that
/// [`publish`](super::publish) has written, a manifest, or a file of tensors, with the other files of its model. The
/// URL is one of http(s), of an object store, such as `s3://bucket/model.apr`, or an address of the Hugging Face Hub.
/// Of `hf:owner/name`, which names no file, the configuration and the tokenizer are downloaded, too.
///
/// Every file is compared with the digest that the entry, a manifest or the hub states, if there is one. A manifest is
/// written last. Files of earlier revisions are not deleted. Only files that the entry of an earlier revision lists are
/// replaced. The files are regular files of models in the folder: no hidden ones, none that can be executed, and none
/// in folders that are symbolic links.
///
/// An interrupted call has kept complete files, and the start of the next one as `NAME.weightstream.partial`. Another
/// call continues there, if the whole file has a stated digest, or else the same URL and the same ETag or date. These
/// are recorded as `NAME.weightstream.json`, which remains beside a complete file to confirm it.
///
/// # Errors
/// Those of the requests; `UNSUPPORTED` if the file is not one of a model; `INVALID_ARGUMENT` if it lists files that
/// are not written, or for headers with a URL of an object store; `CHECKSUM` if a file has another digest than stated;
/// `IO`.
///
/// ```no_run
/// use weightstream_publish::{DownloadOptions, download};
///
/// # fn main() -> weightstream::Result<()> {
/// let downloaded = download("https://example.org/model.apr", "models", &DownloadOptions::default())?;
/// println!("{} bytes received", downloaded.received_bytes);
/// # Ok(())
/// # }
/// ```
pub fn download(url: &str, folder: impl AsRef<Path>, options: &DownloadOptions) -> Result<Downloaded> {
    let folder = folder.as_ref();
    if !is_object(url) {
        return download_from(HttpSource::new(url, &options.headers)?, folder, options, &());
    }
    if !options.headers.is_empty() {
        let what = "headers apply only to http(s) URLs, not to those of object stores";
        return Err(Error::new(ErrorKind::InvalidArgument, what).in_file(url));
    }
    download_from(ObjectSource::new(url)?, folder, options, &())
}

/// Like [`download`], from any source. Headers are up to the source.
///
/// # Errors
/// Those of [`download`], and of the source; `IO` if `progress` cancels.
#[doc(hidden)]
pub fn download_from<S: ModelSource>(
    entry: S,
    folder: &Path,
    options: &DownloadOptions,
    progress: &dyn Progress,
) -> Result<Downloaded> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    block_on(&runtime, download_files(entry, folder, options, progress), || check_cancelled(progress))
}

async fn download_files<S: ModelSource>(
    entry: S,
    folder: &Path,
    options: &DownloadOptions,
    progress: &dyn Progress,
) -> Result<Downloaded> {
    let file = RemoteFile::open(entry, RetryPolicy::default(), None).await?;
    let entry = file.source();
    let plan = Plan::of(&file).await.map_err(|error| error.in_file(entry.name()))?;
    let folder = Folder::open(folder, &plan, options.foreign())?;
    let mut assembly = Assembly::new(&folder, &plan.publication, progress);
    assembly.expect(plan.files.iter().filter_map(|file| file.byte_length));
    let (mut existing_files, mut byte_length, mut unverified_files) = (0, 0, Vec::new());
    for file in &plan.files {
        if file.digest.is_none() {
            unverified_files.push(file.path.clone());
        }
        let found = match assembly.find(file, || entry.part(&file.path)).await? {
            Some(length) => {
                existing_files += 1;
                length
            }
            None => assembly.write(entry.part(&file.path)?, file).await?,
        };
        byte_length = u64::saturating_add(byte_length, found);
    }
    let received_bytes = assembly.received_bytes + file.stats().bytes_received();
    let (copied_bytes, continued_bytes) = (assembly.copied_bytes, assembly.continued_bytes);
    if let Some(text) = &plan.document {
        folder.write_document(&plan.entry, text)?;
    }
    let (entry, file_count) = (folder.path.join(plan.entry), plan.files.len());
    Ok(Downloaded {
        entry,
        file_count,
        existing_files,
        unverified_files,
        byte_length,
        received_bytes,
        copied_bytes,
        continued_bytes,
    })
}
