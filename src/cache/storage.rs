//! The file of a log, with the operations of an OPFS `FileSystemSyncAccessHandle`.

use crate::error::Result;

/// A file with random access.
pub(crate) trait Storage {
    /// Reads bytes at the offset `at` and returns their number, which is smaller than `into` only at the end of the
    /// file.
    ///
    /// # Errors
    /// `IO` if the disk fails.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<usize>;

    /// Writes all of `bytes` at the offset `at`, and extends the file if necessary.
    ///
    /// # Errors
    /// `IO` if the disk fails, `LIMIT` if it is full. A part of the bytes may have been written.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Waits until all writes are durable.
    ///
    /// # Errors
    /// `IO` if the disk fails.
    fn flush(&mut self) -> Result<()>;

    /// The length of the file in bytes.
    ///
    /// # Errors
    /// `IO` if the disk fails.
    fn byte_length(&mut self) -> Result<u64>;

    /// Truncates the file.
    ///
    /// # Errors
    /// `IO` if the disk fails.
    fn truncate(&mut self, byte_length: u64) -> Result<()>;
}
