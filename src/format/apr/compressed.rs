//! Data that is compressed as one frame or block.

use crate::codec;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Encoding;

/// The maximum decoded length of data that is compressed in one piece, which is also decoded in one piece. Prevents a
/// length from exhausting memory. `apr-format` has the same limit.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// Returns the encoding for Zstandard.
///
/// # Errors
/// `UNSUPPORTED` if weightstream was built without the feature `zstd`.
pub(super) fn zstd() -> Result<Encoding> {
    #[cfg(feature = "zstd")]
    return Ok(Encoding::Zstd);
    #[cfg(not(feature = "zstd"))]
    {
        let error = Error::new(ErrorKind::Unsupported, "the file is compressed with zstd");
        Err(error.advise("Use a build of weightstream with the feature `zstd`."))
    }
}

/// Checks the claimed decoded length of `stored` bytes that are compressed in one piece.
pub(super) fn check_unpacked_length(encoding: Encoding, stored: u64, decoded: u64) -> Result<()> {
    if decoded > MAX_UNPACKED_BYTES {
        let what = format!(
            "it claims to decode to {decoded} bytes; weightstream decodes at most {MAX_UNPACKED_BYTES} in one piece"
        );
        return Err(Error::new(ErrorKind::Limit, what));
    }
    match encoding {
        Encoding::Lz4Block => codec::lz4::check_lengths(stored, decoded),
        #[cfg(feature = "zstd")]
        Encoding::Zstd => codec::zstd::check_lengths(stored, decoded),
        _ => Ok(()),
    }
}
