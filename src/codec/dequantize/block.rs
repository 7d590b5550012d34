//! Reads the fields of blocks.

use weightstream_kernels::floats::from_f16;

/// Decodes each block of `BYTES` bytes to `ELEMENTS` elements.
#[inline(always)]
pub(super) fn decode<const BYTES: usize, const ELEMENTS: usize>(
    bytes: &[u8],
    floats: &mut [f32],
    decode_block: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
) {
    let (blocks, _) = bytes.as_chunks();
    let (decoded, _) = floats.as_chunks_mut();
    blocks.iter().zip(decoded).for_each(|(block, decoded)| decode_block(block, decoded));
}

/// The fields of a block, in order. A field that is beyond the end is zero; the lengths of blocks are constants, so
/// that compilers remove the checks.
pub(super) struct BlockFields<'a>(&'a [u8]);

impl<'a> BlockFields<'a> {
    #[inline(always)]
    pub(super) fn of(block: &'a [u8]) -> Self {
        BlockFields(block)
    }

    #[inline(always)]
    pub(super) fn bytes<const N: usize>(&mut self) -> &'a [u8; N] {
        match self.0.split_first_chunk() {
            Some((field, rest)) => {
                self.0 = rest;
                field
            }
            None => const { &[0; N] },
        }
    }

    /// The value of an F16.
    #[inline(always)]
    pub(super) fn half(&mut self) -> f32 {
        from_f16(u16::from_le_bytes(*self.bytes()))
    }
}

/// The part with this number of a field that is divided into parts of `N` bytes.
#[inline(always)]
pub(super) fn part<const N: usize>(field: &[u8], number: usize) -> &[u8; N] {
    field.as_chunks().0.get(number).unwrap_or(const { &[0; N] })
}

/// The byte with this number.
#[inline(always)]
pub(super) fn byte(field: &[u8], number: usize) -> u8 {
    field.get(number).copied().unwrap_or_default()
}

/// The little-endian number of 16 bits with this number.
#[inline(always)]
pub(super) fn short(field: &[u8], number: usize) -> u16 {
    u16::from_le_bytes(*part(field, number))
}

/// The half of a byte with this number, the lower half of a byte first.
#[inline(always)]
pub(super) fn nibble(field: &[u8], number: usize) -> u8 {
    byte(field, number / 2) >> (number % 2 * 4) & 15
}

/// The bits of a byte from bit `first` on that `mask` selects.
#[inline(always)]
pub(super) fn bits(byte: u8, first: usize, mask: u8) -> u8 {
    byte >> first & mask
}
