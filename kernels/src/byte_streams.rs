//! Joins and splits the bytes of numbers: a stream has the bytes of one significance of all numbers.
//!
//! The loops have a form that compilers turn into vector instructions, on x86-64, AArch64 and wasm32.

/// The numbers that are joined at once: their parts are in the nearest cache until they are whole.
const BLOCK_NUMBERS: usize = 1 << 10;

/// Whether numbers of this many bytes can be joined and split.
pub const fn is_width(bytes: u64) -> bool {
    matches!(bytes, 2 | 4 | 8 | 16)
}

/// Writes byte `i` of each stream to number `i` of `numbers`. That of stream 0 is the least significant.
///
/// Returns false if there is no such [width](is_width), or if the lengths differ.
#[must_use]
#[inline(never)]
pub fn join(streams: &[&[u8]], numbers: &mut [u8]) -> bool {
    let width = streams.len();
    let count = numbers.len() / width.max(1);
    if numbers.len() != count * width || streams.iter().any(|stream| stream.len() != count) {
        return false;
    }
    let blocks = (0..count).step_by(BLOCK_NUMBERS).zip(numbers.chunks_mut(BLOCK_NUMBERS * width.max(1)));
    match width {
        2 => blocks.for_each(|(start, numbers)| join_two(streams, start, numbers)),
        4 => blocks.for_each(|(start, numbers)| join_four(streams, start, numbers)),
        8 => blocks.for_each(|(start, numbers)| join_eight(streams, start, numbers)),
        16 => blocks.for_each(|(start, numbers)| join_sixteen(streams, start, numbers)),
        _ => return false,
    }
    true
}

fn join_two(streams: &[&[u8]], start: usize, numbers: &mut [u8]) {
    if let [low, high] = streams {
        let [low, high] = [low, high].map(|stream| stream.get(start..).unwrap_or_default());
        join_halves::<1>(low, high, numbers);
    }
}

fn join_four(streams: &[&[u8]], start: usize, numbers: &mut [u8]) {
    let mut halves = [[0; 2 * BLOCK_NUMBERS]; 2];
    for (streams, half) in streams.chunks(2).zip(&mut halves) {
        join_two(streams, start, half.get_mut(..numbers.len() / 2).unwrap_or_default());
    }
    let [low, high] = &halves;
    join_halves::<2>(low, high, numbers);
}

fn join_eight(streams: &[&[u8]], start: usize, numbers: &mut [u8]) {
    let mut halves = [[0; 4 * BLOCK_NUMBERS]; 2];
    for (streams, half) in streams.chunks(4).zip(&mut halves) {
        join_four(streams, start, half.get_mut(..numbers.len() / 2).unwrap_or_default());
    }
    let [low, high] = &halves;
    join_halves::<4>(low, high, numbers);
}

fn join_sixteen(streams: &[&[u8]], start: usize, numbers: &mut [u8]) {
    let mut halves = [[0; 8 * BLOCK_NUMBERS]; 2];
    for (streams, half) in streams.chunks(8).zip(&mut halves) {
        join_eight(streams, start, half.get_mut(..numbers.len() / 2).unwrap_or_default());
    }
    let [low, high] = &halves;
    join_halves::<8>(low, high, numbers);
}

/// Joins numbers of halves of `HALF` bytes.
fn join_halves<const HALF: usize>(low: &[u8], high: &[u8], numbers: &mut [u8]) {
    let (numbers, _) = numbers.as_chunks_mut::<HALF>().0.as_chunks_mut::<2>();
    let (low, high) = (low.as_chunks::<HALF>().0, high.as_chunks::<HALF>().0);
    for ((number, low), high) in numbers.iter_mut().zip(low).zip(high) {
        *number = [*low, *high];
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

/// Defines the function for one width. With an integer of another width, the loop is not vectorized.
macro_rules! split {
    ($name:ident, $width:literal, $number:ty) => {
        #[inline(never)]
        fn $name(numbers: &[u8], streams: &mut [&mut [u8]]) -> bool {
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

split!(split_2, 2, u16);
split!(split_4, 4, u32);
split!(split_8, 8, u64);
split!(split_16, 16, u128);

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
