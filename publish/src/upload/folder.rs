//! Files in a folder. They are written as those of a conversion: completely or not at all.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use weightstream::Result;
use weightstream::internals::output::{Existing, PartialFile, publish};

/// The number of bytes that are copied at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Copies a file.
pub(super) fn copy(path: &Path, from: &Path, existing: Existing) -> Result<()> {
    let (mut from, mut file) = (File::open(from)?, PartialFile::create(path)?);
    let mut piece = vec![0; PIECE_BYTES];
    while let Some(piece) = Some(from.read(&mut piece)?).and_then(|length| piece.get(..length)) {
        if piece.is_empty() {
            break;
        }
        file.write(piece)?;
    }
    publish(vec![file.finish()?], existing)
}
