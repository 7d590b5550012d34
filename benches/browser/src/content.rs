//! Deterministic synthetic tensors, as compressible as the real tensors that they represent.

use xtask::synthetic::Random;

pub(super) const TENSOR_BYTES: usize = 4 << 20;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Content {
    /// Normally distributed 32-bit floats, which do not compress.
    Floats,
    /// BF16 weights: first all low bytes, which do not compress, then all high bytes, which do.
    Bf16Planes,
    /// 8-bit quantized values around 0, of which LZ4 needs 0.54 of their size.
    Q8,
    /// Runs of zeros with a few values in between, about 15:1.
    Sparse,
}

impl Content {
    /// The dtype, and the size of an element in bytes.
    pub(super) fn dtype(self) -> (&'static str, usize) {
        match self {
            Content::Floats | Content::Sparse => ("F32", 4),
            Content::Bf16Planes => ("U8", 1),
            Content::Q8 => ("I8", 1),
        }
    }

    /// 1 if the bytes of the tensor may be rotated, otherwise 0.
    pub(super) fn may_rotate(self) -> usize {
        usize::from(self != Content::Bf16Planes)
    }

    pub(super) fn tensor(self) -> Vec<u8> {
        let mut random = Random::new(self as u64 + 1);
        let bf16 = |value: f32| value.to_le_bytes()[2..].try_into().unwrap_or([0; 2]);
        match self {
            Content::Floats => (0..TENSOR_BYTES / 4).flat_map(|_| (0.02 * random.normal()).to_le_bytes()).collect(),
            Content::Bf16Planes => {
                let weights: Vec<[u8; 2]> = (0..TENSOR_BYTES / 2).map(|_| bf16(0.02 * random.normal())).collect();
                let plane = |byte: fn(&[u8; 2]) -> u8| weights.iter().map(byte);
                plane(|[low, _]| *low).chain(plane(|[_, high]| *high)).collect()
            }
            Content::Q8 => (0..TENSOR_BYTES).map(|_| (0.7 * random.normal()).round() as i8 as u8).collect(),
            Content::Sparse => {
                let mut value = |index: usize| if index % 80 < 4 { random.normal() } else { 0.0 };
                (0..TENSOR_BYTES / 4).flat_map(|index| value(index).to_le_bytes()).collect()
            }
        }
    }
}
