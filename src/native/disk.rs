//! Files on disk: only regular files are opened, and their bytes are read at their positions.

use crate::error::{Error, ErrorKind, Result};
use crate::regular_file::{self, Opened};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

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

/// Reads the whole of a small regular file, such as a config.json. Pipes and devices are refused at once, not waited
/// for.
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
        return Err(place(error.advise("Name a smaller file.")));
    }
    Ok(bytes)
}

/// A file that is read with positioned reads, also by several threads at the same time. A file that another process cuts
/// short is an error, where a mapped one would end the process.
#[derive(Debug)]
pub(super) struct DiskFile {
    file: File,
    byte_length: u64,
}

impl DiskFile {
    /// Takes an open file, as long as it is now.
    pub(super) fn new(file: File, metadata: &Metadata) -> Self {
        DiskFile { file, byte_length: metadata.len() }
    }

    pub(super) fn byte_length(&self) -> u64 {
        self.byte_length
    }

    /// The bytes of `range`, in a buffer of their own.
    ///
    /// # Errors
    /// `TRUNCATED` where the file became shorter since it was opened; `IO`; `LIMIT` where there is no memory for them.
    pub(super) fn read(&self, range: &Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let length = usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| too_long(range))?;
        bytes.try_reserve_exact(length).map_err(|_| too_long(range))?;
        bytes.resize(length, 0);
        self.read_into(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// Calls `take` with the bytes of `range` in order, in pieces of at most `piece_bytes`.
    ///
    /// # Errors
    /// As for [`DiskFile::read`], and those of `take`.
    pub(super) fn read_pieces(
        &self,
        range: &Range<u64>,
        piece_bytes: usize,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let left = |at: u64| usize::try_from(range.end.saturating_sub(at)).unwrap_or(usize::MAX).min(piece_bytes);
        let mut buffer = vec![0; left(range.start)];
        let mut at = range.start;
        while at < range.end {
            buffer.truncate(left(at));
            self.read_into(at, &mut buffer)?;
            take(&buffer)?;
            at += buffer.len() as u64;
        }
        Ok(())
    }

    fn read_into(&self, start: u64, bytes: &mut [u8]) -> Result<()> {
        let range = start..start.saturating_add(bytes.len() as u64);
        read_exact_at(&self.file, bytes, start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let what = format!("the file had {} bytes when it was opened, and is shorter now", self.byte_length);
                let error = Error::new(ErrorKind::Truncated, what).at(range);
                error.advise("Another process changed the file: open it again once it is complete.")
            }
            _ => Error::from(error).at(range),
        })
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
