//! Downloads a published model into a folder, or updates a folder with an earlier revision: files and parts of files
//! that are there are not downloaded again.

mod assembly;
mod folder;

use crate::object::ObjectSource;
use assembly::Assembly;
use folder::Folder;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tokio::runtime::Builder;
use weightstream::internals::format::{self, MAX_MANIFEST_BYTES};
use weightstream::internals::http::block_on;
use weightstream::internals::loader::RemoteFile;
use weightstream::internals::location::is_object;
use weightstream::internals::progress::Progress;
use weightstream::internals::publication::{Publication, part_path};
use weightstream::internals::retry::RetryPolicy;
use weightstream::internals::source::http::HttpSource;
use weightstream::internals::source::{Buffer, ModelSource};
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
}

/// The result of [`download`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Downloaded {
    /// The path of the entry.
    pub entry: PathBuf,
    /// The number of files beside the entry.
    pub file_count: usize,
    /// The number of these files that were complete before.
    pub existing_files: usize,
    /// The total length of these files in bytes.
    pub byte_length: u64,
    /// The number of bytes that were received.
    pub received_bytes: u64,
    /// The number of bytes that were copied from files of the previous revision.
    pub copied_bytes: u64,
}

/// Downloads the model of the entry at `url`, which [`publish`](super::publish) has written, into `folder`, which is
/// created if it does not exist. The URL is one of http(s) or of an object store, such as `s3://bucket/model.apr`.
/// Every file is compared with its SHA-256. The entry is written last. Files of earlier revisions are not deleted.
/// Only files that the entry of an earlier revision lists are replaced. The files are regular files of models in the
/// folder: no hidden ones, none that can be executed, and none in folders that are symbolic links.
///
/// An interrupted call has kept complete files; the next one downloads the others.
///
/// # Errors
/// Those of the requests; `INVALID_ARGUMENT` if the file is not such an entry, if it lists files that are not written,
/// or for headers with a URL of an object store; `CHECKSUM` if a file has another digest than the entry states; `IO`.
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
    let mut text = Vec::new();
    let limit = MAX_MANIFEST_BYTES;
    receive(&file, 0..limit + 1, &mut |bytes| {
        text.extend_from_slice(bytes);
        Ok(())
    })
    .await?;
    let (name, publication) = parse(entry, &text, limit).map_err(|error| error.in_file(entry.name()))?;

    let folder = Folder::open(folder, &name, &publication, options.replace_foreign)?;
    let mut files: Vec<_> = publication.files().collect();
    files.sort_unstable_by_key(|(path, ..)| *path);
    let byte_length = files.iter().map(|(_, length, _)| *length).fold(0, u64::saturating_add);
    progress.expects(byte_length);
    let mut assembly = Assembly::new(&folder, &publication, progress);
    let mut existing_files = 0;
    for &(path, length, digest) in &files {
        if assembly.exists(path, length, digest)? {
            existing_files += 1;
            progress.advanced(length);
        } else {
            assembly.write(entry.part(path)?, path, length, digest).await?;
        }
    }
    let received_bytes = assembly.received_bytes + file.stats().bytes_received();
    let copied_bytes = assembly.copied_bytes;
    let mut written = folder.create(&name)?;
    written.write(&text)?;
    folder.publish(&name, written.finish()?)?;
    let (entry, file_count) = (folder.path.join(name), files.len());
    Ok(Downloaded { entry, file_count, existing_files, byte_length, received_bytes, copied_bytes })
}

/// Returns the file name of an entry, and what it states about the files.
fn parse(entry: &impl ModelSource, text: &[u8], limit: u64) -> Result<(String, Publication)> {
    let not_an_entry = || {
        let error = Error::new(ErrorKind::InvalidArgument, "this is not an entry that lists the files of a model");
        error.advise("`publish` writes such entries. Other models can be converted from their URL.")
    };
    if !format::is_json_object(text) {
        return Err(not_an_entry());
    }
    if text.len() as u64 > limit {
        return Err(Error::new(ErrorKind::Limit, format!("the entry has more than {limit} bytes")));
    }
    let name = part_path(&entry.file_name().unwrap_or_default()).map_err(|_| not_an_entry())?;
    let publication = Publication::of_entry(text)?.filter(|publication| publication.files().len() > 0);
    Ok((name, publication.ok_or_else(not_an_entry)?))
}

fn check_cancelled(progress: &dyn Progress) -> Result<()> {
    match progress.is_cancelled() {
        true => Err(Error::new(ErrorKind::Io, "the download was interrupted").advise("Run it again.")),
        false => Ok(()),
    }
}

/// Passes the bytes of a range on as they arrive.
async fn receive<S: ModelSource>(
    file: &RemoteFile<S>,
    range: Range<u64>,
    take: &mut impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut reader = file.read(range);
    while let Some(taken) = reader.chunk(|buffer, length| buffer.inspect(0..length, take)).await? {
        taken?;
    }
    Ok(())
}
