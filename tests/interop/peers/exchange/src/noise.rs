//! Random tensors, determined by a seed.

use crate::Tensor;

/// The dtypes that are not block-quantized, with the number of bytes of an element.
pub const PLAIN: [(&str, u64); 13] = [
    ("F64", 8),
    ("F32", 4),
    ("F16", 2),
    ("BF16", 2),
    ("I64", 8),
    ("I32", 4),
    ("I16", 2),
    ("I8", 1),
    ("U64", 8),
    ("U32", 4),
    ("U16", 2),
    ("U8", 1),
    ("BOOL", 1),
];

/// Characters of every length in UTF-8, characters that JSON must escape, a combining one, and right-to-left ones.
const LETTERS: &str = "aB.09_/ \"\\\u{7f}\u{e9}e\u{301}\u{416}\u{5d0}\u{639}\u{5c42}\u{ff21}\u{1f980}\u{20000}";

/// A random number generator (SplitMix64).
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Noise(seed)
    }

    /// Tensors of every plain dtype.
    pub fn plain(&mut self) -> Vec<Tensor> {
        PLAIN.iter().flat_map(|(dtype, bytes)| self.tensors(dtype, *bytes)).collect()
    }

    /// Tensors of a dtype whose elements have `element_bytes` bytes: scalars, empty tensors, odd shapes and a larger
    /// one.
    pub fn tensors(&mut self, dtype: &str, element_bytes: u64) -> Vec<Tensor> {
        let mut shapes = vec![vec![], vec![0], vec![self.below(7) + 1, 0, self.below(7) + 1], vec![1, 1]];
        shapes.extend((1..=4).map(|rank| (0..rank).map(|_| self.below(7) + 1).collect()));
        shapes.push(vec![60 + self.below(30), 200 + self.below(100)]);
        let tensor = |(at, shape): (usize, Vec<u64>)| {
            let length = shape.iter().product::<u64>() * element_bytes;
            let data = if dtype == "BOOL" { self.bools(length) } else { self.data(length) };
            Tensor::dense(self.name(&format!("{dtype}.{at}")), dtype, shape, data)
        };
        shapes.into_iter().enumerate().map(tensor).collect()
    }

    /// A name that starts with `start`. It is unique if `start` is.
    pub fn name(&mut self, start: &str) -> String {
        let letters: Vec<char> = LETTERS.chars().collect();
        let end: String = (0..self.below(12)).map(|_| letters[self.below(letters.len() as u64) as usize]).collect();
        format!("{start} {end}")
    }

    /// Random bytes, compressible or not.
    pub fn data(&mut self, length: u64) -> Vec<u8> {
        let period = if self.below(2) == 0 { length } else { 1 + self.below(40) };
        let pattern: Vec<u8> = (0..period).map(|_| self.next() as u8).collect();
        pattern.iter().copied().cycle().take(length as usize).collect()
    }

    pub fn bools(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.below(2) as u8).collect()
    }

    /// A number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
