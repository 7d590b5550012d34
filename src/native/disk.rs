//! Files on a disk, opened so that nothing else than a regular file is ever read.

use crate::error::{Error, ErrorKind, Result};
use crate::regular_file::{self, Opened};
use std::fs::{File, Metadata};
use std::io::{self, Read};
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
            Error::new(ErrorKind::NotFound, "there is no such file").advise("Check the path.")
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
