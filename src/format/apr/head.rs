//! What the heads of all layouts have in common.

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::format::checksum::{Stated, StretchChecksum};

/// The name of the format in the registry.
pub(super) const NAME: &str = "apr";

/// Metadata and index together: a model of 100,000 tensors with a vocabulary of 250,000 tokens has some 30 MB.
/// Stops an offset that would make the reader fetch the tensors as if they were an index, and JSON that would take
/// many times its own size once it is parsed.
pub(crate) const MAX_HEAD_BYTES: u64 = 64 << 20;

/// The footer's CRC32 at `start`, of all bytes before it.
pub(super) fn crc32_before(start: u64) -> StretchChecksum {
    StretchChecksum { over: 0..start, stated: Stated::Crc32At(start), by: "the footer".to_owned() }
}

/// A dtype of a code that is in no table: its tensors load as raw bytes.
pub(super) fn unknown_dtype(code: u8) -> Dtype {
    Dtype::Other(format!("APR_{code}").into())
}

/// Refuses a head that is longer than one can be, before it is fetched.
pub(super) fn check_head_length(byte_length: u64) -> Result<()> {
    if byte_length <= MAX_HEAD_BYTES {
        return Ok(());
    }
    let what =
        format!("the tensors begin at byte {byte_length}; weightstream reads at most {MAX_HEAD_BYTES} before them");
    Err(Error::new(ErrorKind::Limit, what))
}
