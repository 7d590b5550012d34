//! Writes small files beside models, in the same way as models.

use crate::error::Result;
use crate::output::{destination, file};
use std::path::Path;

/// Checks that a file may be written to `path`, before it is computed.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is one of `inputs`, is not a regular file (a folder, a device, a symbolic link), or exists
/// and `keep_existing` is set.
pub fn check_output(path: &Path, inputs: &[&Path], keep_existing: bool) -> Result<()> {
    destination::check(path, inputs, keep_existing)
}

/// Writes a file, completely or not at all. It keeps the permissions of a file that it replaces.
///
/// # Errors
/// Those of [`check_output`]; `IO`.
pub fn write_output(path: &Path, bytes: &[u8], inputs: &[&Path], keep_existing: bool) -> Result<()> {
    check_output(path, inputs, keep_existing)?;
    file::write(path, bytes, keep_existing)
}
