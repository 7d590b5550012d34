//! The files of a local model as a source of a loader.

use super::file::FileBytes;
use super::folder;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use crate::source::{Body, CacheHints, Host, ModelSource, RangeResponse, Source};
use futures::FutureExt;
use futures::future::{self, LocalBoxFuture};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;

/// The number of bytes that are read before other calls of the same thread continue: a millisecond's worth.
const STEP_BYTES: u64 = 1 << 20;

/// The files of a local model. Clones share them.
#[derive(Debug, Clone)]
pub(crate) enum ModelFiles {
    /// The path of a file or a folder.
    Disk(PathBuf),
    /// The path of the first file of a model, and all of its files by their paths.
    Opened(PathBuf, Arc<HashMap<PathBuf, Arc<FileBytes>>>),
    /// Names and contents. The first file is opened; the others are in the same folder.
    Memory(Arc<Vec<(String, Arc<Vec<u8>>)>>),
}

/// A local file, which is read with positioned reads.
#[derive(Debug)]
pub(crate) struct FileSource {
    files: ModelFiles,
    file: Arc<FileBytes>,
}

impl FileSource {
    /// Opens the file, or the model in the folder.
    ///
    /// # Errors
    /// Those of [`Reader::open`](super::Reader::open); `CHANGED` if a file of an open model is opened again and has
    /// another version.
    pub(crate) fn open(files: ModelFiles) -> Result<Self> {
        let file = match &files {
            ModelFiles::Disk(path) => Arc::new(FileBytes::open(&folder::model_path(path)?)?),
            ModelFiles::Opened(path, opened) => shared(path, opened)?,
            ModelFiles::Memory(files) => {
                let (name, bytes) =
                    files.first().ok_or_else(|| Error::new(ErrorKind::NotFound, "no file was given"))?;
                Arc::new(FileBytes::in_memory(name.clone(), Arc::clone(bytes)))
            }
        };
        Ok(FileSource { files, file })
    }
}

/// The file of an open model. It is opened again if the model has unpacked it.
fn shared(path: &Path, opened: &HashMap<PathBuf, Arc<FileBytes>>) -> Result<Arc<FileBytes>> {
    let file = opened.get(path);
    if let Some(file) = file.filter(|file| !file.is_unpacked()) {
        return Ok(Arc::clone(file));
    }
    let again = FileBytes::open(path)?;
    if file.is_some_and(|file| file.version == again.version) {
        return Ok(Arc::new(again));
    }
    let error = Error::new(ErrorKind::Changed, "the file changed since the model was opened");
    Err(error.advise("Another process changed the file. Open the model again.").in_file(&again.name))
}

impl CacheHints for FileSource {}

impl Source for FileSource {
    type Body = FileBody;

    fn name(&self) -> &str {
        &self.file.name
    }

    async fn read(&self, range: Range<u64>) -> Result<RangeResponse<FileBody>> {
        let length = self.file.byte_length();
        if range.start >= length && (length > 0 || range.start > 0) {
            let what = format!("the file has {length} bytes, none of them in the requested range");
            return Err(Error::new(ErrorKind::Truncated, what).at(range));
        }
        let end = range.end.min(length);
        let body = FileBody { file: Arc::clone(&self.file), left: range.start..end, without_yield: 0 };
        let mut response = RangeResponse::new(range.start, body);
        (response.end, response.file_length) = (Some(end), Some(length));
        response.identity = Identity { length: Some(length), ..Identity::default() };
        Ok(response)
    }

    /// Reads of a file that another process replaced fail, as far as that can be detected.
    fn is_immutable(&self) -> bool {
        true
    }

    fn host(&self) -> &dyn Host {
        &Disk
    }
}

impl ModelSource for FileSource {
    fn file_name(&self) -> Option<String> {
        self.file.file_name().map(str::to_owned)
    }

    fn part(&self, path: &str) -> Result<Self> {
        let file = match &self.files {
            ModelFiles::Disk(_) => Arc::new(FileBytes::open(&self.folder().join(path))?),
            ModelFiles::Opened(_, opened) => shared(&self.folder().join(path), opened)?,
            ModelFiles::Memory(files) => {
                let missing = || Error::new(ErrorKind::NotFound, "this file of the model was not given").in_file(path);
                let (name, bytes) = files.iter().find(|(name, _)| name == path).ok_or_else(missing)?;
                Arc::new(FileBytes::in_memory(name.clone(), Arc::clone(bytes)))
            }
        };
        Ok(FileSource { files: self.files.clone(), file })
    }
}

impl FileSource {
    fn folder(&self) -> &Path {
        self.file.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""))
    }
}

/// The host of reads from disk.
struct Disk;

impl Host for Disk {
    /// Reads do not stall, and their errors are not retried: only a yield to other calls ends.
    fn pause(&self, delay_ms: u64) -> LocalBoxFuture<'static, ()> {
        if delay_ms > 0 { future::pending().boxed_local() } else { future::ready(()).boxed_local() }
    }

    /// The clock stands still: a disk is not faster with several connections.
    fn now_ms(&self) -> u64 {
        0
    }

    fn random(&self) -> f64 {
        0.5
    }
}

/// A range of a [`FileSource`].
#[derive(Debug)]
pub(crate) struct FileBody {
    file: Arc<FileBytes>,
    left: Range<u64>,
    /// The number of bytes that were read since other futures could continue.
    without_yield: u64,
}

impl Body for FileBody {
    type Buffer = Vec<u8>;

    async fn read(&mut self, into: &mut Vec<u8>, at: Range<u64>) -> Result<u64> {
        if self.without_yield >= STEP_BYTES {
            self.without_yield = 0;
            yield_now().await;
        }
        let length = (self.left.end - self.left.start).min(at.end.saturating_sub(at.start)).min(STEP_BYTES);
        self.without_yield += length;
        let slot = usize::try_from(at.start).ok().and_then(|start| into.get_mut(start..)?.get_mut(..length as usize));
        let slot = slot.ok_or_else(|| Error::new(ErrorKind::Internal, "a read is out of bounds of a buffer"))?;
        self.file.storage.read_into(self.left.start, slot).map_err(|e| e.in_file(&self.file.name))?;
        self.left.start += length;
        Ok(length)
    }
}

/// Lets other futures of the thread continue.
async fn yield_now() {
    let mut is_first = true;
    std::future::poll_fn(|context| {
        if std::mem::take(&mut is_first) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}
