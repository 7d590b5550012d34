//! Deterministic synthetic inputs of the kernels.

use std::fmt::Write;

const BYTES: usize = 1 << 20;

pub(crate) fn floats() -> Vec<u8> {
    let mut random = Random(1);
    (0..BYTES / 4).flat_map(|_| (0.02 * random.normal()).to_le_bytes()).collect()
}

/// BF16 values: all low bytes, followed by all high bytes.
pub(crate) fn bf16_planes() -> Vec<u8> {
    let mut random = Random(2);
    let high_half = |value: f32| value.to_bits() >> 16;
    let weights: Vec<u32> = (0..BYTES / 2).map(|_| high_half(0.02 * random.normal())).collect();
    weights.iter().map(|bits| *bits as u8).chain(weights.iter().map(|bits| (bits >> 8) as u8)).collect()
}

pub(crate) fn quanta() -> Vec<u8> {
    let mut random = Random(3);
    (0..BYTES).map(|_| (2.0 * random.normal()).round() as i8 as u8).collect()
}

/// Runs of zeros with a few floats in between, about 15:1.
pub(crate) fn sparse() -> Vec<u8> {
    let mut random = Random(4);
    let mut value = |index: usize| if index % 80 < 4 { random.normal() } else { 0.0 };
    (0..BYTES / 4).flat_map(|index| value(index).to_le_bytes()).collect()
}

pub(crate) fn safetensors() -> Vec<u8> {
    let mut header = String::from("{");
    for i in 0..10_000 {
        let comma = if i > 0 { "," } else { "" };
        let (start, end) = (4 * i, 4 * i + 4);
        let _ = write!(
            header,
            r#"{comma}"model.layers.{i}.weight":{{"dtype":"F32","shape":[1],"data_offsets":[{start},{end}]}}"#
        );
    }
    header.push('}');
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes());
    file.resize(file.len() + 40_000, 0);
    file
}

/// A GGUF file with one metadata key and no tensors.
pub(crate) fn gguf() -> Vec<u8> {
    const TOKENS: u64 = 50_000;
    let mut file = b"GGUF".to_vec();
    let string = |file: &mut Vec<u8>, text: &str| {
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(text.bytes());
    };
    file.extend(3_u32.to_le_bytes());
    file.extend([0_u64, 1].map(u64::to_le_bytes).as_flattened()); // tensors, keys
    string(&mut file, "tokenizer.ggml.tokens");
    file.extend([9_u32, 8].map(u32::to_le_bytes).as_flattened()); // an array of strings
    file.extend(TOKENS.to_le_bytes());
    (0..TOKENS).for_each(|token| string(&mut file, &format!("▁t{token}")));
    file.resize(file.len().next_multiple_of(32), 0);
    file
}

/// A linear congruential generator (Knuth's MMIX constants).
struct Random(u64);

impl Random {
    /// An approximately normally distributed number with mean 0 and variance 1: the sum of four uniform numbers.
    fn normal(&mut self) -> f32 {
        let sum: f32 = (0..4).map(|_| self.uniform()).sum();
        (sum - 2.0) * 3.0_f32.sqrt()
    }

    fn uniform(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1_u64 << 24) as f32
    }
}
