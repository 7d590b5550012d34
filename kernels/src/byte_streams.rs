//! Joins and splits the bytes of numbers: a stream has the bytes of one significance of all numbers.
//!
//! The loops have a form that compilers turn into vector instructions, on x86-64, AArch64 and wasm32.

/// The numbers that are joined at once, so that all passes over them find them in the cache.
const BLOCK_NUMBERS: usize = 1 << 10;

/// Whether numbers of this many bytes can be joined and split.
pub const fn is_width(bytes: u64) -> bool {
    matches!(bytes, 2 | 4 | 8 | 16)
}

/// Writes byte `i` of each stream to number `i` of `numbers`. That of stream 0 is the least significant.
///
/// Returns false if there is no such [width](is_width), or if the lengths differ.
#[must_use]
pub fn join(streams: &[&[u8]], numbers: &mut [u8]) -> bool {
    match streams.len() {
        2 => join_2(streams, numbers),
        4 => join_4(streams, numbers),
        8 => join_8(streams, numbers),
        16 => join_16(streams, numbers),
        _ => false,
    }
}

/// Writes the bytes of `numbers` to streams, as [`join`] joins them.
///
/// Returns false if there is no such [width](is_width), or if the lengths differ.
#[must_use]
pub fn split(numbers: &[u8], streams: &mut [&mut [u8]]) -> bool {
    match streams.len() {
        2 => split_2(numbers, streams),
        4 => split_4(numbers, streams),
        8 => split_8(numbers, streams),
        16 => split_16(numbers, streams),
        _ => false,
    }
}

/// Defines the functions for one width. With an integer of another width, the loops are not vectorized.
macro_rules! width {
    ($width:literal, $number:ty, $join:ident, $split:ident) => {
        #[inline(never)]
        fn $join(streams: &[&[u8]], numbers: &mut [u8]) -> bool {
            let (numbers, rest) = numbers.as_chunks_mut::<$width>();
            if !rest.is_empty() || streams.iter().any(|stream| stream.len() != numbers.len()) {
                return false;
            }
            for (block, numbers) in numbers.chunks_mut(BLOCK_NUMBERS).enumerate() {
                let start = block * BLOCK_NUMBERS;
                for (at, stream) in streams.iter().enumerate() {
                    let bytes = stream.get(start..).unwrap_or_default().iter();
                    let numbers = numbers.iter_mut().zip(bytes);
                    match at {
                        0 => numbers.for_each(|(number, byte)| *number = <$number>::from(*byte).to_le_bytes()),
                        _ => numbers.for_each(|(number, byte)| {
                            let others = <$number>::from_le_bytes(*number);
                            *number = (others | <$number>::from(*byte) << (8 * at)).to_le_bytes();
                        }),
                    }
                }
            }
            true
        }

        #[inline(never)]
        fn $split(numbers: &[u8], streams: &mut [&mut [u8]]) -> bool {
            let (numbers, rest) = numbers.as_chunks::<$width>();
            if !rest.is_empty() || streams.iter().any(|stream| stream.len() != numbers.len()) {
                return false;
            }
            for (at, stream) in streams.iter_mut().enumerate() {
                for (byte, number) in stream.iter_mut().zip(numbers) {
                    *byte = (<$number>::from_le_bytes(*number) >> (8 * at)) as u8;
                }
            }
            true
        }
    };
}

width!(2, u16, join_2, split_2);
width!(4, u32, join_4, split_4);
width!(8, u64, join_8, split_8);
width!(16, u128, join_16, split_16);

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn streams_have_the_bytes_of_one_significance() {
        for width in [2, 4, 8, 16] {
            for count in [0, 1, BLOCK_NUMBERS - 1, BLOCK_NUMBERS, 2 * BLOCK_NUMBERS + 3] {
                let numbers: Vec<u8> = (0..width * count).map(|at| (at * 7 + at / 251) as u8).collect();
                let mut streams = vec![vec![0; count]; width];
                let mut slices: Vec<_> = streams.iter_mut().map(Vec::as_mut_slice).collect();
                assert!(split(&numbers, &mut slices));
                for (at, stream) in streams.iter().enumerate() {
                    assert!(stream.iter().eq(numbers.iter().skip(at).step_by(width)), "stream {at} of {width}");
                }
                let mut joined = vec![0; numbers.len()];
                assert!(join(&streams.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut joined));
                assert!(joined == numbers, "{width} bytes, {count} numbers");
            }
        }
    }

    #[test]
    fn other_widths_and_lengths_are_refused() {
        assert!(!join(&[&[1], &[2], &[3]], &mut [0; 3]) && !is_width(3) && is_width(4));
        assert!(!join(&[&[1], &[2, 3]], &mut [0; 2]) && !join(&[&[1], &[2]], &mut [0; 3]));
        assert!(!split(&[1, 2, 3], &mut [&mut [0], &mut [0]]) && !split(&[1, 2], &mut [&mut [0], &mut [0, 0]]));
    }
}
