//! Receives ranges of files, until the caller cancels.

use std::ops::Range;
use weightstream::internals::loader::RemoteFile;
use weightstream::internals::progress::Progress;
use weightstream::internals::source::{Buffer, ModelSource};
use weightstream::{Error, ErrorKind, Result};

/// The error after the caller has cancelled.
///
/// # Errors
/// `IO`.
pub(super) fn check_cancelled(progress: &dyn Progress) -> Result<()> {
    match progress.is_cancelled() {
        true => Err(Error::new(ErrorKind::Io, "the download was interrupted").advise("Run it again.")),
        false => Ok(()),
    }
}

/// Passes the bytes of a range on as they arrive.
pub(super) async fn receive<S: ModelSource>(
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
