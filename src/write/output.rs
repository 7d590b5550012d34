//! Writes small files beside models, in the same way as models.

use crate::error::Result;
use crate::output::destination::{self, Existing};
use crate::output::file;
use std::path::Path;

/// Checks that a file may be written to `path`, before it is computed.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is one of `inputs`, is not a regular file (a folder, a device, a symbolic link), or exists
/// and must be kept.
pub fn check_output(path: &Path, inputs: &[&Path], existing: Existing) -> Result<()> {
    destination::check(path, inputs, existing)
}

/// Writes a file, completely or not at all. It keeps the permissions of a file that it replaces.
///
/// # Errors
/// Those of [`check_output`]; `IO`.
pub fn write_output(path: &Path, bytes: &[u8], inputs: &[&Path], existing: Existing) -> Result<()> {
    check_output(path, inputs, existing)?;
    file::write(path, bytes, existing)
}
