//! Errors for responses that end too early.

use crate::error::{Error, ErrorKind};

/// The error for a response that started at `start` and ended before anything after `position` could be compared.
pub(crate) fn too_limited(start: u64, position: u64) -> Error {
    let what = "the server limits the length of its responses, and this one has too few bytes to prove that they are \
                of the version that was read before";
    let error = Error::new(ErrorKind::Truncated, what).at(start..position.max(start)).transient();
    error.advise("Let the server send at least 512 KiB at once, or, unless the model is signed, a strong ETag.")
}

/// The error for a body that ended early.
pub(crate) fn truncated_error(start: u64, end: u64, wanted_end: u64) -> Error {
    let what = format!("the transfer ended at byte {end}, before byte {wanted_end}");
    let error = Error::new(ErrorKind::Truncated, what).at(start..wanted_end).transient();
    error.advise("The connection was closed early, or the file is incomplete: try again, then check the file.")
}
