//! The layout of tensors: the shard of each tensor, and its offset in the shard.

use crate::dtype::element_count;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::output::target::shares_bytes;

/// A shard ends before the tensor that would make it longer than this. The format's tools do the same.
pub(super) const MAX_SHARD_BYTES: u64 = 2 << 30;

/// The page size. Verifying a slice of a tensor reads at most one additional page at each end; the page digests of a
/// shard of [`MAX_SHARD_BYTES`] take 70 kB.
pub(super) const PAGE_BYTES: u64 = 1 << 20;

/// The places of the tensors of a file, and its shards.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Layout {
    /// The places in the order of the tensors.
    pub(super) places: Vec<Place>,
    pub(super) shards: Vec<Shard>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Place {
    /// The number of the shard, from 0 in each file.
    pub(super) shard: usize,
    /// The offset from the start of the shard.
    pub(super) offset: u64,
    pub(super) length: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shard {
    pub(super) length: u64,
    /// The number of tensors in the shard.
    pub(super) tensors: usize,
}

impl Layout {
    pub(super) fn new(tensors: &[Tensor], alignment: u64) -> Result<Self> {
        let mut previous: Option<&Tensor> = None;
        let lengths = tensors.iter().map(|tensor| {
            let is_tied = previous.replace(tensor).is_some_and(|previous| shares_bytes(previous, tensor));
            let length =
                if is_tied { None } else { Some(stored_length(tensor).map_err(|e| e.in_tensor(&tensor.name))?) };
            Ok(length)
        });
        Layout::of_lengths(lengths, alignment, MAX_SHARD_BYTES)
    }

    /// Computes the layout of tensors of these lengths. A tensor without length is in the place of the one before it.
    fn of_lengths(lengths: impl Iterator<Item = Result<Option<u64>>>, alignment: u64, max_shard: u64) -> Result<Self> {
        let mut layout = Layout::default();
        for length in lengths {
            let Some(length) = length? else {
                layout.places.extend(layout.places.last().copied());
                layout.shards.last_mut().into_iter().for_each(|shard| shard.tensors += 1);
                continue;
            };
            let number = layout.shards.len();
            match layout.shards.last_mut().and_then(|shard| Some((next_offset(shard, length, alignment)?, shard))) {
                Some((offset, shard)) if offset + length <= max_shard => {
                    *shard = Shard { length: offset + length, tensors: shard.tensors + 1 };
                    layout.places.push(Place { shard: number - 1, offset, length });
                }
                _ => {
                    layout.shards.push(Shard { length, tensors: 1 });
                    layout.places.push(Place { shard: number, offset: 0, length });
                }
            }
        }
        Ok(layout)
    }
}

/// Returns the offset in the shard of the next tensor, or `None` if its end would overflow u64.
fn next_offset(shard: &Shard, length: u64, alignment: u64) -> Option<u64> {
    let offset = shard.length.checked_next_multiple_of(alignment)?;
    offset.checked_add(length).map(|_| offset)
}

impl Shard {
    pub(super) fn pages(&self) -> u64 {
        self.length.div_ceil(PAGE_BYTES)
    }
}

/// The length of a tensor's data in bytes. Packed tensors of an unknown type keep their stored length.
pub(super) fn stored_length(tensor: &Tensor) -> Result<u64> {
    let byte_length = tensor.dtype.byte_length(element_count(&tensor.shape)?)?.or(tensor.byte_length());
    byte_length.ok_or_else(|| Error::new(ErrorKind::Unsupported, "its file does not state its length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_ends_before_the_tensor_that_would_exceed_the_limit() {
        let layout = |lengths: &[u64], alignment| {
            let layout =
                Layout::of_lengths(lengths.iter().map(|length| Ok(Some(*length))), alignment, 100).unwrap_or_default();
            let places: Vec<_> = layout.places.iter().map(|place| (place.shard, place.offset)).collect();
            (places, layout.shards.iter().map(|shard| (shard.length, shard.tensors)).collect::<Vec<_>>())
        };
        assert_eq!(layout(&[60, 40, 1], 1), (vec![(0, 0), (0, 60), (1, 0)], vec![(100, 2), (1, 1)]));
        assert_eq!(layout(&[60, 40], 64), (vec![(0, 0), (1, 0)], vec![(60, 1), (40, 1)]));
        // A tensor longer than the limit gets its own shard; empty tensors take no space.
        assert_eq!(layout(&[0, 300, 0, 5], 16), (vec![(0, 0), (1, 0), (2, 0), (2, 0)], vec![(0, 1), (300, 1), (5, 2)]));
        assert_eq!(layout(&[u64::MAX, u64::MAX], 64).1, [(u64::MAX, 1), (u64::MAX, 1)]);
        assert_eq!(layout(&[], 64), (vec![], vec![]));
    }
}
