//! The window that the header of a frame states.
//!
//! Encoders write the window of their level, however short the data is. The decoder would allocate all of it. A header
//! with a smaller window decodes to the same bytes, unless the frame refers to bytes before it.

use std::ops::RangeInclusive;

/// The flag of the descriptor for a frame whose window is its content, and which has no window descriptor.
pub(super) const SINGLE_SEGMENT: u8 = 1 << 5;

/// The size of the magic and of the descriptor.
const DESCRIPTOR_END: usize = 5;

/// Returns the header with a window of at most `max` bytes, and the window that it states, if that is larger.
/// `None` for other headers: those with a smaller window, with one of more than `limit` bytes, and invalid ones.
pub(super) fn limit(header: &[u8], max: u64, limit: u64) -> Option<(Vec<u8>, u64)> {
    let (head, rest) = header.split_at_checked(DESCRIPTOR_END)?;
    let descriptor = *head.last()?;
    let is_single = descriptor & SINGLE_SEGMENT != 0;
    let claimed = if is_single { content_size(descriptor, rest)? } else { window(*rest.first()?) };
    if !is_too_large(claimed, max..=limit) {
        return None;
    }
    let kept = (0..=u8::MAX).rev().find(|byte| window(*byte) <= max)?;
    let mut limited = head.to_vec();
    *limited.last_mut()? &= !SINGLE_SEGMENT;
    limited.push(kept);
    limited.extend_from_slice(if is_single { rest } else { rest.get(1..)? });
    Some((limited, claimed))
}

fn is_too_large(claimed: u64, range: RangeInclusive<u64>) -> bool {
    claimed > *range.start() && claimed <= *range.end()
}

/// The window of a window descriptor (RFC 8878, 3.1.1.1.2), which ascends with the descriptor.
pub(super) fn window(byte: u8) -> u64 {
    let base = 1u64 << (10 + (byte >> 3));
    base + base / 8 * u64::from(byte & 7)
}

/// The content size at the end of a header (RFC 8878, 3.1.1.1.4). `None` if it has at most one byte, which depends on
/// [`SINGLE_SEGMENT`].
pub(super) fn content_size(descriptor: u8, rest: &[u8]) -> Option<u64> {
    match descriptor >> 6 {
        1 => rest.last_chunk().map(|bytes| u64::from(u16::from_le_bytes(*bytes)) + 256),
        2 => rest.last_chunk().map(|bytes| u32::from_le_bytes(*bytes).into()),
        3 => rest.last_chunk().map(|bytes| u64::from_le_bytes(*bytes)),
        _ => None,
    }
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn only_windows_between_the_limits_are_replaced() {
        let header = |byte: u8| [0x28, 0xb5, 0x2f, 0xfd, 0x04, byte];
        assert_eq!(limit(&header(0x70), 16 * MIB, 128 * MIB), None, "16 MiB");
        assert_eq!(limit(&header(0x89), 16 * MIB, 128 * MIB), None, "more than 128 MiB");
        let (limited, claimed) = limit(&header(0x88), 17 * MIB, 128 * MIB).unwrap();
        assert_eq!((limited, claimed), (header(0x70).to_vec(), 128 * MIB));
        let (limited, _) = limit(&header(0x88), 20 * MIB, 128 * MIB).unwrap();
        assert_eq!(limited, header(0x72));
    }

    #[test]
    fn a_single_segment_gets_a_window() {
        let mut header = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa4];
        header.extend((40u32 << 20).to_le_bytes());
        let (limited, claimed) = limit(&header, 16 * MIB, 128 * MIB).unwrap();
        assert_eq!(claimed, 40 * MIB);
        assert_eq!(limited[..6], [0x28, 0xb5, 0x2f, 0xfd, 0x84, 0x70]);
        assert_eq!(limited[6..], (40u32 << 20).to_le_bytes());
        assert_eq!(limit(&header, 40 * MIB, 128 * MIB), None);
    }
}
