//! Reads files of the folder.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use weightstream::internals::regular_file::{self, Opened};

/// The number of bytes that are read from a file at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// Opens a regular file. Returns its length, too; `None` if it cannot be opened.
pub(super) fn open(path: &Path) -> Option<(File, u64)> {
    match regular_file::open(path) {
        Ok(Opened::File(file, metadata)) => Some((file, metadata.len())),
        Ok(Opened::Other(_)) | Err(_) => None,
    }
}

/// Reads a range of a file in pieces.
pub(super) fn pieces(mut file: &File, start: u64, length: u64) -> impl Iterator<Item = io::Result<Vec<u8>>> {
    let mut rest = start..start.saturating_add(length);
    std::iter::from_fn(move || {
        let count = (rest.end - rest.start).min(PIECE_BYTES);
        if count == 0 {
            return None;
        }
        let mut piece = vec![0; count as usize];
        let read = file.seek(SeekFrom::Start(rest.start)).and_then(|_| file.read_exact(&mut piece));
        rest.start += count;
        Some(read.map(|()| piece))
    })
}
