//! Codes of rows: integers of 1 to 8 bits and floats of 4 and 8 bits, as floats.

use crate::codec::dequantize::decoder_of;
use crate::dtype::Dtype;
use std::ops::Range;
use weightstream_kernels::codes;

/// How the codes of a row are stored. Each row begins at a whole byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Codes {
    /// Unsigned integers of this many bits, one after another from the lowest bit of the first byte on. `zero` is the
    /// code of 0.
    Stream { bits: u32, zero: u8 },
    /// Like `Stream`, of signed integers in two's complement.
    Signed { bits: u32 },
    /// As many unsigned integers as fit in 32 bits, from the lowest bit of each little-endian word on.
    Words { bits: u32, zero: u8 },
    /// Elements of a dtype: I8, I16 and floats of 8 bits.
    Elements(Dtype),
    /// Two E2M1 in a byte, the first in the lower half.
    E2m1,
}

impl Codes {
    /// How elements of a dtype are stored, and their size in bits.
    pub(super) fn of(dtype: &Dtype) -> Option<(Self, u64)> {
        Some(match dtype {
            Dtype::U8 => (Codes::Stream { bits: 8, zero: 0 }, 8),
            Dtype::I8 => (Codes::Elements(Dtype::I8), 8),
            Dtype::I16 => (Codes::Elements(Dtype::I16), 16),
            Dtype::F4 => (Codes::E2m1, 4),
            Dtype::Other(name) => match &**name {
                "UINT4" => (Codes::Stream { bits: 4, zero: 0 }, 4),
                "INT4" => (Codes::Signed { bits: 4 }, 4),
                "UINT2" => (Codes::Stream { bits: 2, zero: 0 }, 2),
                "INT2" => (Codes::Signed { bits: 2 }, 2),
                _ => return None,
            },
            Dtype::F8_E4M3 | Dtype::F8_E5M2 => (Codes::Elements(dtype.clone()), 8),
            _ => return None,
        })
    }

    /// Whether they are integers of at most 8 bits.
    pub(super) fn is_integer(&self) -> bool {
        match self {
            Codes::Stream { .. } | Codes::Signed { .. } | Codes::Words { .. } => true,
            Codes::Elements(dtype) => *dtype == Dtype::I8,
            Codes::E2m1 => false,
        }
    }

    /// The size of a row in bytes.
    pub(super) fn row_bytes(&self, columns: u64) -> u64 {
        match self {
            Codes::Stream { bits, .. } | Codes::Signed { bits } => columns.saturating_mul(u64::from(*bits)).div_ceil(8),
            Codes::Words { bits, .. } => columns.div_ceil(u64::from(32 / bits)).saturating_mul(4),
            Codes::Elements(Dtype::I16) => columns.saturating_mul(2),
            Codes::Elements(_) => columns,
            Codes::E2m1 => columns.div_ceil(2),
        }
    }

    /// The bytes of elements, if rows follow each other without padding, so that one may begin within a byte.
    pub(super) fn flat_range(&self, elements: &Range<u64>) -> Range<u64> {
        match self {
            Codes::Elements(Dtype::I16) => elements.start.saturating_mul(2)..elements.end.saturating_mul(2),
            _ => elements.start / self.per_byte()..elements.end.div_ceil(self.per_byte()),
        }
    }

    /// Reads elements from `start` on, whose first byte is the first of `bytes`.
    pub(super) fn unpack_flat(&self, start: u64, bytes: &[u8], out: &mut [f32]) {
        let skipped = (start % self.per_byte()) as usize;
        if skipped == 0 {
            return self.unpack(bytes, out);
        }
        let mut from_byte = vec![0.0; skipped + out.len()];
        self.unpack(bytes, &mut from_byte);
        out.iter_mut().zip(from_byte.into_iter().skip(skipped)).for_each(|(x, value)| *x = value);
    }

    /// The number of codes in a byte, if they do not cross bytes.
    fn per_byte(&self) -> u64 {
        match self {
            Codes::Stream { bits: bits @ (2 | 4), .. } | Codes::Signed { bits: bits @ (2 | 4) } => u64::from(8 / bits),
            Codes::E2m1 => 2,
            _ => 1,
        }
    }

    /// Reads the codes of a row.
    pub(super) fn unpack(&self, bytes: &[u8], out: &mut [f32]) {
        match self {
            Codes::Stream { bits, zero } => {
                codes::stream(*bits, bytes, out);
                subtract(*zero, out);
            }
            Codes::Signed { bits } => {
                codes::stream(*bits, bytes, out);
                let (half, whole) = (f32::from(1_u16 << (bits - 1)), f32::from(1_u16 << bits));
                out.iter_mut().for_each(|x| *x -= if *x >= half { whole } else { 0.0 });
            }
            Codes::Words { bits, zero } => {
                codes::words(*bits, bytes, out);
                subtract(*zero, out);
            }
            Codes::Elements(Dtype::I8) => {
                out.iter_mut().zip(bytes).for_each(|(x, byte)| *x = f32::from(*byte as i8));
            }
            Codes::Elements(Dtype::I16) => {
                let codes = bytes.as_chunks::<2>().0.iter();
                out.iter_mut().zip(codes).for_each(|(x, code)| *x = f32::from(i16::from_le_bytes(*code)));
            }
            Codes::Elements(dtype) => {
                if let Some(decoder) = decoder_of(dtype) {
                    (decoder.decode)(bytes, out);
                }
            }
            Codes::E2m1 => codes::floats_of_4_bits(bytes, out),
        }
    }
}

fn subtract(zero: u8, out: &mut [f32]) {
    if zero != 0 {
        codes::subtract(out, f32::from(zero));
    }
}
