//! Decodes packed varints of Protobuf, in which ONNX stores integers and the bit patterns of short floats.
//!
//! A varint has one element, or the byte of several 4-bit or 2-bit ones. 6-bit floats have one varint each, and are
//! packed into bytes here, from the lowest bits on.

use crate::dtype::Dtype;
use crate::error::{Result, malformed};
use crate::index::Component;

/// The maximum length of a varint: 64 bits in groups of 7. Longer ones are invalid.
const MAX_VARINT_BYTES: u32 = 10;

/// The input that is decoded at a time. Each byte gives at most 8 decoded bytes, so the output stays below 128 KiB.
const PIECE_BYTES: usize = 16 << 10;

/// Converts varints to little-endian elements, from chunks of any length. Negative numbers are stored as 64-bit ones;
/// an element takes the lowest bytes.
#[derive(Debug)]
pub struct Varints {
    /// The number of bits that are taken from a varint.
    bits: u32,
    /// The number of varints that are missing.
    missing: u64,
    /// Bits of 6-bit floats that do not fill a byte, and their number.
    partial: u32,
    partial_bits: u32,
    /// The bits of the incomplete varint, and the number of its bytes.
    value: u64,
    value_bytes: u32,
    scratch: Vec<u8>,
}

impl Varints {
    /// Creates the decoder of a component. Its decoded length is known.
    pub fn of(component: &Component) -> Self {
        let bits = match component.dtype {
            Dtype::F6_E2M3 | Dtype::F6_E3M2 => 6,
            _ => 8 * component.dtype.array_kind().element_bytes() as u32,
        };
        let missing = component.decoded_length.unwrap_or(0).saturating_mul(8) / u64::from(bits);
        Varints { bits, missing, partial: 0, partial_bits: 0, value: 0, value_bytes: 0, scratch: Vec::new() }
    }

    /// See [`Decoder::push`](super::Decoder::push).
    ///
    /// # Errors
    /// `FORMAT` for an invalid varint, and for more elements than the tensor has; errors of `emit`.
    pub fn push(&mut self, input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        input.chunks(PIECE_BYTES).try_for_each(|piece| self.push_some(piece, emit).map(drop))
    }

    /// See [`Decoder::push_some`](super::Decoder::push_some).
    ///
    /// # Errors
    /// As for [`Varints::push`].
    pub fn push_some(&mut self, input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        let piece = input.get(..PIECE_BYTES).unwrap_or(input);
        self.scratch.clear();
        for &byte in piece {
            if self.value_bytes == MAX_VARINT_BYTES {
                return Err(malformed("one of its varints is longer than 10 bytes"));
            }
            self.value |= u64::from(byte & 0x7f) << (7 * self.value_bytes);
            self.value_bytes += 1;
            if byte < 0x80 {
                self.take_value()?;
            }
        }
        if !self.scratch.is_empty() {
            emit(&self.scratch)?;
        }
        Ok(piece.len())
    }

    /// See [`Decoder::finish`](super::Decoder::finish).
    ///
    /// # Errors
    /// `FORMAT` if the last varint is incomplete, or if elements are missing.
    pub fn finish(&self) -> Result<()> {
        match (self.value_bytes, self.missing) {
            (0, 0) => Ok(()),
            (0, missing) => Err(malformed(format!("it has too few values: {missing} are missing"))),
            _ => Err(malformed("its last varint is incomplete")),
        }
    }

    fn take_value(&mut self) -> Result<()> {
        let more = || malformed("it has more values than elements");
        self.missing = self.missing.checked_sub(1).ok_or_else(more)?;
        match self.bits {
            6 => {
                self.partial |= ((self.value & 0x3f) as u32) << self.partial_bits;
                self.partial_bits += 6;
                if self.partial_bits >= 8 {
                    self.scratch.push(self.partial as u8);
                    self.partial >>= 8;
                    self.partial_bits -= 8;
                }
            }
            bits => self.scratch.extend(self.value.to_le_bytes().iter().take(bits as usize / 8)),
        }
        (self.value, self.value_bytes) = (0, 0);
        Ok(())
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use crate::dtype::Dtype;
    use crate::index::Encoding;
    use proptest::prelude::*;
    use prost::encoding::encode_varint;

    fn decode(dtype: Dtype, elements: usize, chunks: &[&[u8]]) -> Result<Vec<u8>> {
        let mut component = Component::raw(dtype.clone(), 0..0);
        component.encoding = Encoding::Varint;
        component.decoded_length = Some((elements * dtype.array_kind().element_bytes()) as u64);
        let (mut decoder, mut out) = (Varints::of(&component), Vec::new());
        for chunk in chunks {
            decoder.push(chunk, &mut |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            })?;
        }
        decoder.finish().map(|()| out)
    }

    fn encoded(values: &[i64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| encode_varint(value.cast_unsigned(), &mut bytes));
        bytes
    }

    #[test]
    fn an_element_takes_the_lowest_bytes() {
        let stored = encoded(&[-2, 300]);
        assert_eq!(decode(Dtype::I8, 2, &[&stored]), Ok(vec![0xfe, 44]));
        assert_eq!(decode(Dtype::F16, 2, &[&stored]), Ok(vec![0xfe, 0xff, 44, 1]));
        assert_eq!(
            decode(Dtype::I64, 2, &[&stored]).map(|bytes| bytes[..8].to_vec()),
            Ok((-2i64).to_le_bytes().into())
        );
    }

    #[test]
    fn six_bit_floats_are_packed_from_the_lowest_bits() {
        let mut component = Component::raw(Dtype::F6_E2M3, 0..0);
        component.decoded_length = Some(3);
        let (mut decoder, mut out) = (Varints::of(&component), Vec::new());
        let pushed = decoder.push(&[1, 2, 3, 63], &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        });
        assert_eq!((pushed, decoder.finish(), out), (Ok(()), Ok(()), vec![0x81, 0x30, 0xfc]));
    }

    #[test]
    fn rejects_wrong_counts_and_invalid_varints() {
        let stored = encoded(&[1, 2, 3]);
        assert!(decode(Dtype::I32, 2, &[&stored]).is_err());
        assert!(decode(Dtype::I32, 4, &[&stored]).is_err());
        assert!(decode(Dtype::I32, 1, &[&[0x80]]).is_err());
        assert!(decode(Dtype::I32, 1, &[&[0x80; 10], &[0]]).is_err());
    }

    proptest! {
        #[test]
        fn the_output_does_not_depend_on_the_chunks(
            values in proptest::collection::vec(any::<i64>(), 0..5000),
            cuts in proptest::collection::vec(0usize..20_000, 0..9),
        ) {
            let stored = encoded(&values);
            let wanted: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let (mut chunks, mut rest) = (Vec::new(), &stored[..]);
            for cut in cuts {
                let (chunk, after) = rest.split_at(cut.min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            chunks.push(rest);
            prop_assert_eq!(decode(Dtype::I64, values.len(), &chunks), Ok(wanted));
        }
    }
}
