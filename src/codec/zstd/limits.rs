//! Limits of decoded data and of windows, which keep small files from exhausting memory.

use crate::error::{Result, malformed};

/// The maximum window size. The decoder keeps the window in memory. This is the limit of the reference decoder, so that
/// the output of all levels up to 22 can be read. Prevents a frame from claiming a window of terabytes.
pub const MAX_WINDOW_BYTES: u64 = 128 << 20;

/// The bytes that are kept of frames of any length: levels up to 19 need 8 MiB. The decoder keeps the window in memory.
/// Of a frame with a larger window, at least as much is kept as data of its stored length needs: see [`WINDOW_RATIO`].
pub const SMALL_WINDOW_BYTES: u64 = 16 << 20;

/// The additional bytes that are kept for each stored byte. Levels 20 to 22 use windows as long as the data, and rarely
/// compress better than this ratio. Prevents a frame of a few kilobytes from allocating [`MAX_WINDOW_BYTES`]: it fails
/// only if it refers to bytes that were not kept.
pub const WINDOW_RATIO: u64 = 16;

/// The maximum decoded size of data without a stated length. Prevents a file of a few kilobytes from exhausting memory.
pub const MAX_UNSTATED_BYTES: u64 = 1 << 30;

/// The decoded size that data of any stored length may have without a stated length.
pub const SMALL_UNSTATED_BYTES: u64 = 16 << 20;

/// The additional decoded size for each stored byte of data without a stated length. Indices of sparse tensors, which
/// compress best, take an eighth of their size. Prevents a file of a few kilobytes from decoding to
/// [`MAX_UNSTATED_BYTES`].
pub const UNSTATED_RATIO: u64 = 16;

/// The maximum decoded size of a block (RFC 8878, 3.1.1.2.4).
pub(super) const MAX_BLOCK_BYTES: usize = 128 << 10;

/// The maximum compression ratio: an RLE block of 4 bytes (a header and a byte) can decode to a full block.
const MAX_RATIO: u64 = (MAX_BLOCK_BYTES / 4) as u64;

/// Checks a claimed decoded length against the stored length.
///
/// # Errors
/// `FORMAT` if no `stored` bytes of Zstandard can decode to `decoded` bytes.
pub fn check_lengths(stored: u64, decoded: u64) -> Result<()> {
    if decoded / MAX_RATIO > stored {
        return Err(malformed(format!("{stored} bytes of zstd cannot decode to {decoded}")));
    }
    Ok(())
}

/// Returns the maximum decoded size of `stored` bytes without a stated length.
pub fn max_unstated(stored: u64) -> u64 {
    SMALL_UNSTATED_BYTES.saturating_add(stored.saturating_mul(UNSTATED_RATIO)).min(MAX_UNSTATED_BYTES)
}

/// Returns the largest window that is kept for `stored` bytes.
pub(super) fn max_window(stored: u64) -> u64 {
    SMALL_WINDOW_BYTES.saturating_add(stored.saturating_mul(WINDOW_RATIO)).min(MAX_WINDOW_BYTES)
}
