//! Files on disk: opens only regular files, and reads them with positioned reads.

use crate::error::{Error, ErrorKind, Result};
use crate::regular_file::{self, Opened};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

/// Opens a regular file for reading.
///
/// # Errors
/// `NOT_FOUND`; `INVALID_ARGUMENT` for a folder, a pipe, a socket or a device; `IO`.
pub(super) fn open(path: &Path) -> Result<(File, Metadata)> {
    let opened = match regular_file::open(path) {
        Ok(Opened::File(file, metadata)) => return Ok((file, metadata)),
        Ok(Opened::Other("a folder")) => Error::new(ErrorKind::InvalidArgument, "this is a folder"),
        Ok(Opened::Other(kind)) => Error::new(ErrorKind::InvalidArgument, format!("this is {kind}, not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, "there is no such file").advise("Check the path.").with_cause(error)
        }
        Err(error) => error.into(),
    };
    Err(opened.in_file(&path.display().to_string()))
}

/// Reads a small regular file, such as a config.json, into memory. Pipes and devices are rejected without blocking.
///
/// # Errors
/// `NOT_FOUND`; `INVALID_ARGUMENT` for a folder, a pipe, a socket or a device; `LIMIT` for more than `max_bytes`; `IO`.
pub fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let place = |error: Error| error.in_file(&path.display().to_string());
    let (file, _) = open(path)?;
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| place(error.into()))?;
    if bytes.len() as u64 > max_bytes {
        let error = Error::new(ErrorKind::Limit, format!("the file is longer than {max_bytes} bytes"));
        return Err(place(error.advise("Choose a smaller file.")));
    }
    Ok(bytes)
}

/// The maximum number of files that stay open: a model may have more shards than a process may have open files. Other
/// files are reopened for each read.
const MAX_OPEN_FILES: usize = 16;

static OPEN_FILES: AtomicUsize = AtomicUsize::new(0);

/// A file that is read with positioned reads, also by several threads at the same time. If another process truncates
/// the file, reads fail with an error; with a mapped file, the process would be terminated.
#[derive(Debug)]
pub(super) struct DiskFile {
    path: PathBuf,
    open_file: Option<OpenFile>,
    byte_length: u64,
    version: Version,
}

/// An open file, counted in `OPEN_FILES`.
#[derive(Debug)]
struct OpenFile(File);

/// Metadata that changes if the path refers to another file, or the file is modified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    byte_length: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    device_and_inode: (u64, u64),
}

impl DiskFile {
    /// Creates a reader of a file that was opened at `path`, with its current length.
    pub(super) fn new(path: &Path, file: File, metadata: &Metadata) -> Self {
        let (byte_length, version) = (metadata.len(), Version::of(metadata));
        DiskFile { path: path.to_owned(), open_file: OpenFile::new(file), byte_length, version }
    }

    pub(super) fn byte_length(&self) -> u64 {
        self.byte_length
    }

    /// Reads the bytes of `range` into a new buffer.
    ///
    /// # Errors
    /// `TRUNCATED` if the file became shorter since it was opened; `IO`; `LIMIT` if memory cannot be allocated.
    pub(super) fn read(&self, range: &Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let length = usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| too_long(range))?;
        bytes.try_reserve_exact(length).map_err(|_| too_long(range))?;
        bytes.resize(length, 0);
        self.with_file(|file| self.read_into(file, range.start, &mut bytes))?;
        Ok(bytes)
    }

    /// Copies the bytes at the offset `start` to all of `bytes`.
    ///
    /// # Errors
    /// `TRUNCATED` if the file became shorter since it was opened; `IO`.
    pub(super) fn read_at(&self, start: u64, bytes: &mut [u8]) -> Result<()> {
        self.with_file(|file| self.read_into(file, start, bytes))
    }

    /// Calls `take` with the bytes of `range` in order, in pieces of at most `piece_bytes`.
    ///
    /// # Errors
    /// As for [`DiskFile::read`]; errors of `take`.
    pub(super) fn read_pieces(
        &self,
        range: &Range<u64>,
        piece_bytes: usize,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let left = |at: u64| usize::try_from(range.end.saturating_sub(at)).unwrap_or(usize::MAX).min(piece_bytes);
        self.with_file(|file| {
            let mut buffer = vec![0; left(range.start)];
            let mut at = range.start;
            while at < range.end {
                buffer.truncate(left(at));
                self.read_into(file, at, &mut buffer)?;
                take(&buffer)?;
                at += buffer.len() as u64;
            }
            Ok(())
        })
    }

    /// Calls `read` with the open file. Reopens the file if necessary, and checks that it has not changed.
    fn with_file(&self, read: impl FnOnce(&File) -> Result<()>) -> Result<()> {
        if let Some(OpenFile(file)) = &self.open_file {
            return read(file);
        }
        let (file, metadata) = open(&self.path)?;
        if Version::of(&metadata) != self.version {
            let error = Error::new(ErrorKind::Changed, "the file changed since it was opened");
            return Err(error.advise("Another process changed the file. Open the model again."));
        }
        read(&file)
    }

    fn read_into(&self, file: &File, start: u64, bytes: &mut [u8]) -> Result<()> {
        let range = start..start.saturating_add(bytes.len() as u64);
        read_exact_at(file, bytes, start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let what = format!("the file had {} bytes when it was opened, and is shorter now", self.byte_length);
                let error = Error::new(ErrorKind::Truncated, what).at(range);
                error.advise("Another process changed the file. Open it again when it is complete.")
            }
            _ => Error::from(error).at(range),
        })
    }
}

impl OpenFile {
    /// Keeps the file open. Returns `None` if too many files are open.
    fn new(file: File) -> Option<Self> {
        let is_free = |open: usize| (open < MAX_OPEN_FILES).then_some(open + 1);
        OPEN_FILES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_free).is_ok().then(|| OpenFile(file))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Version {
    pub(super) fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt;
        Version {
            byte_length: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            device_and_inode: (metadata.dev(), metadata.ino()),
        }
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], start: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut start: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        match file.seek_read(bytes, start) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                start += count as u64;
                bytes = bytes.get_mut(count..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn too_long(range: &Range<u64>) -> Error {
    Error::new(ErrorKind::Limit, "there is not enough memory for these bytes").at(range.clone())
}
