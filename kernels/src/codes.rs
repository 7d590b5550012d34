//! Codes of quantized tensors as floats, and the operations that make values of them.
//!
//! Integers are converted as signed ones, for which processors have an instruction.
//!
//! Codes are written to the elements of `out` as far as there are bytes; other elements stay as they are.

use crate::floats::from_f4_e2m1;

/// The number of columns that are unpacked at a time: a cache line of floats for each row.
const LINE: usize = 16;

/// Integers of 4 bits, the lower half of each byte first.
pub fn nibbles(bytes: &[u8], out: &mut [f32]) {
    let (pairs, last) = out.as_chunks_mut::<2>();
    for ([low, high], byte) in pairs.iter_mut().zip(bytes) {
        (*low, *high) = (i32::from(byte & 15) as f32, i32::from(byte >> 4) as f32);
    }
    let rest = bytes.get(pairs.len()..).unwrap_or_default();
    last.iter_mut().zip(rest).for_each(|(x, byte)| *x = i32::from(byte & 15) as f32);
}

/// Integers of 8 bits.
pub fn bytes(bytes: &[u8], out: &mut [f32]) {
    out.iter_mut().zip(bytes).for_each(|(x, byte)| *x = i32::from(*byte) as f32);
}

/// Integers of 1 to 8 bits, one after another from the lowest bit of the first byte on. They may cross bytes.
pub fn stream(bits: u32, bytes: &[u8], out: &mut [f32]) {
    match bits {
        1 => stream_of::<1>(bytes, out),
        2 => stream_of::<2>(bytes, out),
        3 => stream_of::<3>(bytes, out),
        4 => nibbles(bytes, out),
        5 => stream_of::<5>(bytes, out),
        6 => stream_of::<6>(bytes, out),
        7 => stream_of::<7>(bytes, out),
        _ => self::bytes(bytes, out),
    }
}

/// Eight integers of `BITS` bits at a time: they have `BITS` bytes.
fn stream_of<const BITS: usize>(bytes: &[u8], out: &mut [f32]) {
    let unpack =
        |word: u64| -> [f32; 8] { std::array::from_fn(|at| (word >> (BITS * at) & ((1 << BITS) - 1)) as i32 as f32) };
    let (words, last_bytes) = bytes.as_chunks::<BITS>();
    let (groups, _) = out.as_chunks_mut::<8>();
    let whole = groups.len().min(words.len());
    for (values, word) in groups.iter_mut().zip(words) {
        *values = unpack(word_of(word));
    }
    let bytes = words.get(whole).map_or(last_bytes, |word| word.as_slice());
    let count = bytes.len() * 8 / BITS;
    let last = out.iter_mut().skip(8 * whole);
    last.zip(unpack(word_of(bytes))).take(count).for_each(|(x, value)| *x = value);
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(word)
}

/// As many integers of `bits` bits as fit in 32 bits, from the lowest bit of each little-endian word on.
pub fn words(bits: u32, bytes: &[u8], out: &mut [f32]) {
    if 32 % bits == 0 {
        return stream(bits, bytes, out);
    }
    let mask = (1u32 << bits) - 1;
    for (values, word) in out.chunks_mut((32 / bits) as usize).zip(bytes.as_chunks::<4>().0) {
        let word = u32::from_le_bytes(*word);
        (0..).zip(values).for_each(|(at, x)| *x = (word >> (bits * at) & mask) as i32 as f32);
    }
}

/// Two E2M1, the 4-bit float of the OCP specification, in each byte, the first in the lower half.
pub fn floats_of_4_bits(bytes: &[u8], out: &mut [f32]) {
    let (pairs, last) = out.as_chunks_mut::<2>();
    for ([low, high], byte) in pairs.iter_mut().zip(bytes) {
        (*low, *high) = (from_f4_e2m1(*byte), from_f4_e2m1(byte >> 4));
    }
    let rest = bytes.get(pairs.len()..).unwrap_or_default();
    last.iter_mut().zip(rest).for_each(|(x, byte)| *x = from_f4_e2m1(*byte));
}

/// Which half of a byte comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// The lower half.
    Low,
    /// The upper half.
    High,
}

/// The values of codes of 4 bits, two in each byte.
pub fn look_up(values: &[f32; 16], first: First, bytes: &[u8], out: &mut [f32]) {
    let value = |code: u8| values.get(usize::from(code & 15)).copied().unwrap_or_default();
    let pair = |byte: u8| match first {
        First::Low => [value(byte), value(byte >> 4)],
        First::High => [value(byte >> 4), value(byte)],
    };
    let (pairs, last) = out.as_chunks_mut::<2>();
    pairs.iter_mut().zip(bytes).for_each(|(to, byte)| *to = pair(*byte));
    let rest = bytes.get(pairs.len()..).unwrap_or_default();
    last.iter_mut().zip(rest).for_each(|(x, byte)| [*x, _] = pair(*byte));
}

/// Unpacks words of 32 bits that each have the codes of consecutive columns of a row, the first in the lowest bits.
///
/// Words of different rows follow each other: `width` words have the same columns. `words` begins with that of the
/// first row of `out`, whose rows have `columns` elements.
pub fn columns_of_words(bits: u32, words: &[[u8; 4]], width: usize, columns: usize, out: &mut [f32]) {
    match bits {
        2 => columns_of_words_of::<2, 16>(words, width, columns, out),
        4 => columns_of_words_of::<4, 8>(words, width, columns, out),
        _ => columns_of_words_of::<8, 4>(words, width, columns, out),
    }
}

fn columns_of_words_of<const BITS: u32, const COUNT: usize>(
    words: &[[u8; 4]],
    width: usize,
    columns: usize,
    out: &mut [f32],
) {
    for (start, words) in (0..columns).step_by(COUNT).zip(words.chunks(width.max(1))) {
        for (row, word) in out.chunks_exact_mut(columns).zip(words) {
            let word = u32::from_le_bytes(*word);
            let value = |at: usize| (word >> (BITS * at as u32) & ((1 << BITS) - 1)) as i32 as f32;
            write(row, start, std::array::from_fn::<_, COUNT, _>(value));
        }
    }
}

/// Unpacks words of 32 bits that each have the codes of 4 bits of eight consecutive rows of a column. `shifts` says
/// where each row is.
///
/// Words of different rows follow each other: `width` words have the same column. `words` begins with that of the first
/// row of `out`, of which the word has `skipped` rows before. Rows have `columns` elements.
pub fn rows_of_words(
    shifts: &[u32; 8],
    words: &[[u8; 4]],
    width: usize,
    skipped: usize,
    columns: usize,
    out: &mut [f32],
) {
    for (start, words) in (0..columns).step_by(LINE).zip(words.chunks(LINE * width.max(1))) {
        let mut line = [0u32; LINE];
        for (number, row) in (skipped..).zip(out.chunks_exact_mut(columns)) {
            if number == skipped || number % 8 == 0 {
                let own = words.get(number / 8..).unwrap_or_default().iter().step_by(width.max(1));
                line = [0; LINE];
                line.iter_mut().zip(own).for_each(|(to, word)| *to = u32::from_le_bytes(*word));
            }
            let shift = shifts.get(number % 8).copied().unwrap_or_default();
            write(row, start, line.map(|word| (word >> (shift & 31) & 15) as i32 as f32));
        }
    }
}

/// Writes values to a row from `start` on, as many as it has elements.
#[inline(always)]
fn write<const N: usize>(row: &mut [f32], start: usize, values: [f32; N]) {
    let Some(to) = row.get_mut(start..) else { return };
    match to.first_chunk_mut() {
        Some(to) => *to = values,
        None => to.iter_mut().zip(values).for_each(|(x, value)| *x = value),
    }
}

/// Multiplies by a scale.
pub fn scale(values: &mut [f32], scale: f32) {
    values.iter_mut().for_each(|x| *x *= scale);
}

/// Multiplies by a scale, and adds an offset to the rounded product.
pub fn scale_and_add(values: &mut [f32], scale: f32, offset: f32) {
    values.iter_mut().for_each(|x| *x = *x * scale + offset);
}

/// Subtracts a zero point, and multiplies by a scale.
pub fn subtract_and_scale(values: &mut [f32], zero: f32, scale: f32) {
    values.iter_mut().for_each(|x| *x = (*x - zero) * scale);
}

/// Subtracts a zero point.
pub fn subtract(values: &mut [f32], zero: f32) {
    values.iter_mut().for_each(|x| *x -= zero);
}

/// Adds the product of a row and a matrix: for each element, products are added in the order of `factors`, of which
/// each belongs to one of `rows`.
pub fn add_products<'a>(sums: &mut [f32], factors: &[f32], rows: impl Iterator<Item = &'a [f32]>) {
    let mut rows = rows.fuse();
    let (fours, rest) = factors.as_chunks::<4>();
    for [a, b, c, d] in fours {
        let four = [rows.next(), rows.next(), rows.next(), rows.next()].map(Option::unwrap_or_default);
        let [first, second, third, fourth] = four;
        let values = first.iter().zip(second).zip(third.iter().zip(fourth));
        for (sum, ((first, second), (third, fourth))) in sums.iter_mut().zip(values) {
            *sum = *sum + a * first + b * second + c * third + d * fourth;
        }
    }
    for (factor, row) in rest.iter().zip(rows) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += factor * value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(count: usize, bits: u32) -> Vec<u8> {
        (0..count).map(|at| (at * 37 + at / 7) as u8 & ((1u32 << bits) - 1) as u8).collect()
    }

    /// Packs codes one after another.
    fn packed(codes: &[u8], bits: u32) -> Vec<u8> {
        let mut bytes = vec![0; (codes.len() * bits as usize).div_ceil(8)];
        for (at, code) in codes.iter().enumerate() {
            for bit in (0..bits as usize).filter(|bit| code >> bit & 1 == 1) {
                let position = at * bits as usize + bit;
                bytes[position / 8] |= 1 << (position % 8);
            }
        }
        bytes
    }

    fn floats(codes: &[u8]) -> Vec<f32> {
        codes.iter().map(|code| f32::from(*code)).collect()
    }

    #[test]
    fn streams_of_all_widths_and_lengths() {
        for bits in 1..=8 {
            for count in 0..40 {
                let codes = codes(count, bits);
                let mut out = vec![-1.0; count];
                stream(bits, &packed(&codes, bits), &mut out);
                assert_eq!(out, floats(&codes), "{bits} bits, {count} codes");
            }
        }
    }

    #[test]
    fn elements_without_bytes_stay() {
        for bits in 1..=8 {
            let mut out = [7.5; 20];
            stream(bits, &[], &mut out);
            assert_eq!(out, [7.5; 20]);
            stream(bits, &[0; 2], &mut out);
            let whole = 16 / bits as usize;
            let is_zero = out.iter().take(whole).all(|x| *x == 0.0);
            assert!(is_zero && out.iter().skip(whole).all(|x| *x == 7.5), "{bits}");
        }
    }

    #[test]
    fn words_hold_as_many_codes_as_fit() {
        for bits in 1..=8 {
            let per_word = (32 / bits) as usize;
            let codes = codes(2 * per_word + 1, bits);
            let word =
                |codes: &[u8]| (0..).zip(codes).fold(0u32, |word, (at, code)| word | u32::from(*code) << (at * bits));
            let bytes: Vec<u8> = codes.chunks(per_word).flat_map(|codes| word(codes).to_le_bytes()).collect();
            let mut out = vec![-1.0; codes.len()];
            words(bits, &bytes, &mut out);
            assert_eq!(out, floats(&codes), "{bits}");
        }
    }

    #[test]
    fn tables_have_either_half_first() {
        let values: [f32; 16] = std::array::from_fn(|at| at as f32 * 1.5 - 4.0);
        let expected = |codes: &[usize]| codes.iter().map(|code| values[*code]).collect::<Vec<_>>();
        for (first, codes) in [(First::Low, [1, 15, 0]), (First::High, [15, 1, 8])] {
            let mut out = [0.0; 3];
            look_up(&values, first, &[0xf1, 0x80], &mut out);
            assert_eq!(out.to_vec(), expected(&codes));
        }
    }

    #[test]
    fn columns_and_rows_of_words_are_transposed() {
        for (bits, columns, rows) in [(4, 40, 6), (2, 32, 3), (8, 12, 5), (4, 8, 1)] {
            let per_word = 32 / bits as usize;
            let codes = codes(columns * rows, bits);
            let code = |row: usize, column: usize| u32::from(codes[row * columns + column]);
            let word = |start: usize, row: usize| {
                (0..per_word).fold(0, |word, at| word | code(row, start + at) << (at * bits as usize))
            };
            let words: Vec<[u8; 4]> = (0..columns)
                .step_by(per_word)
                .flat_map(|start| (0..rows).map(move |row| word(start, row).to_le_bytes()))
                .collect();
            let mut out = vec![-1.0; codes.len()];
            columns_of_words(bits, &words, rows, columns, &mut out);
            assert_eq!(out, floats(&codes));
            let mut last = vec![-1.0; columns];
            columns_of_words(bits, &words[rows - 1..], rows, columns, &mut last);
            assert_eq!(last, floats(&codes[(rows - 1) * columns..]));
        }
        let shifts = [0, 16, 4, 20, 8, 24, 12, 28];
        for (columns, width) in [(33, 3), (16, 1), (5, 2)] {
            let codes = codes(columns * width * 8, 4);
            let word = |column: usize, at: usize| {
                (0..8).fold(0, |word, row| word | u32::from(codes[(at * 8 + row) * columns + column]) << shifts[row])
            };
            let words: Vec<[u8; 4]> =
                (0..columns).flat_map(|column| (0..width).map(move |at| word(column, at).to_le_bytes())).collect();
            for (first, count) in [(0, 8 * width), (3, 8 * width - 3), (5, 2), (8 * (width - 1), 4)] {
                let mut out = vec![-1.0; count * columns];
                rows_of_words(&shifts, &words[first / 8..], width, first % 8, columns, &mut out);
                assert_eq!(
                    out,
                    floats(&codes[first * columns..(first + count) * columns]),
                    "{columns} {width} {first}"
                );
            }
        }
    }

    #[test]
    fn products_are_added_in_their_order() {
        let rows: Vec<Vec<f32>> =
            (0..7).map(|row| (0..9).map(|at| ((row * 31 + at * 17) as f32).sin()).collect()).collect();
        let factors: Vec<f32> = (0..7).map(|at| (at as f32 * 1.7).cos()).collect();
        let mut expected = [1e-3f32; 9];
        for (factor, row) in factors.iter().zip(&rows) {
            expected.iter_mut().zip(row).for_each(|(sum, value)| *sum += factor * value);
        }
        let mut sums = [1e-3; 9];
        add_products(&mut sums, &factors, rows.iter().map(Vec::as_slice));
        assert_eq!(sums, expected);
    }
}
