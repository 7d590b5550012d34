//! Shared code for the heads of all layouts.

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::format::checksum::{Expected, RangeChecksum};

/// The name of the format in the registry.
pub(super) const NAME: &str = "apr";

/// The maximum size of metadata and index together. A model of 100,000 tensors with a vocabulary of 250,000 tokens has
/// about 30 MB. Prevents an invalid offset from making the reader fetch tensor data as the index. Also bounds the
/// memory of parsed JSON, which can take many times its encoded size.
pub(crate) const MAX_HEAD_BYTES: u64 = 64 << 20;

/// Describes the footer's CRC32 at `start`, which covers all bytes before it.
pub(super) fn crc32_before(start: u64) -> RangeChecksum {
    RangeChecksum { over: 0..start, stated: Expected::Crc32At(start), by: "the footer".to_owned() }
}

/// Returns the dtype of an unknown code. Tensors of it load as raw bytes.
pub(super) fn unknown_dtype(code: u8) -> Dtype {
    Dtype::Other(format!("APR_{code}").into())
}

/// Rejects metadata and index that exceed the limit together, before they are fetched.
pub(super) fn check_head_length(byte_length: u64) -> Result<()> {
    if byte_length <= MAX_HEAD_BYTES {
        return Ok(());
    }
    let what = format!("metadata and index have {byte_length} bytes; weightstream reads at most {MAX_HEAD_BYTES}");
    Err(Error::new(ErrorKind::Limit, what))
}
