//! What is compressed in one piece.

use crate::codec;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Encoding;

/// What is compressed in one piece is decoded in one piece. `apr-format` has the same limit.
/// Stops a length that would fill the memory.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// The encoding of what is compressed with Zstandard.
///
/// # Errors
/// `UNSUPPORTED` where weightstream was built without it.
pub(super) fn zstd() -> Result<Encoding> {
    #[cfg(feature = "zstd")]
    return Ok(Encoding::Zstd);
    #[cfg(not(feature = "zstd"))]
    {
        let error = Error::new(ErrorKind::Unsupported, "the file is compressed with zstd");
        Err(error.advise("Use a build of weightstream that has the feature `zstd`."))
    }
}

/// Checks how long something of `stored` bytes, compressed in one piece, claims to be once it is decoded.
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
