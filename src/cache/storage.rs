//! A file that a log lies in: what the origin private file system's sync handles can do.

use crate::error::Result;

/// A file that is read and written in place.
pub(crate) trait Storage {
    /// Reads bytes that begin at `at`, and says how many: fewer than fit where the file ends.
    ///
    /// # Errors
    /// `IO` where the disk fails.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<usize>;

    /// Writes all of `bytes`, which begin at `at`; a file that is too short grows.
    ///
    /// # Errors
    /// `IO` where the disk fails, `LIMIT` where there is no room. Some of the bytes may be written then.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Waits until what was written would survive a power failure.
    ///
    /// # Errors
    /// `IO` where the disk fails.
    fn flush(&mut self) -> Result<()>;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// `IO` where the disk fails.
    fn byte_length(&mut self) -> Result<u64>;

    /// Cuts the file off.
    ///
    /// # Errors
    /// `IO` where the disk fails.
    fn truncate(&mut self, byte_length: u64) -> Result<()>;
}
