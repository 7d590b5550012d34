//! Which stored bytes of a component are read for the decoded bytes that are wanted.

#[cfg(feature = "lz4")]
use crate::codec::lz4;
use crate::index::{Component, Encoding, StoredEnd};
use std::ops::Range;

/// Which bytes of a component are wanted, and which must be read for them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Extent {
    /// The wanted decoded bytes. The end is `u64::MAX` if the decoded length is unknown.
    pub(crate) wanted: Range<u64>,
    /// The range of the file that is read and decoded.
    pub(crate) stored: Range<u64>,
    /// Whether all wanted bytes are those of the component.
    pub(crate) is_whole: bool,
    pub(crate) end: StoredEnd,
}

impl Extent {
    /// All bytes of a component.
    pub(crate) fn whole(component: &Component) -> Self {
        let wanted = 0..component.decoded_length.unwrap_or(u64::MAX);
        Extent { wanted, stored: component.range.clone(), is_whole: true, end: StoredEnd::Complete }
    }

    /// The `wanted` decoded bytes of a component: of raw bytes only these, of LZ4 blocks at most those up to the last
    /// wanted byte. Other encodings have no bound on the stored length of a prefix.
    pub(crate) fn of(component: &Component, wanted: Range<u64>) -> Self {
        if wanted == (0..component.decoded_length.unwrap_or(u64::MAX)) {
            return Extent::whole(component);
        }
        let Range { start, end } = component.range.clone();
        let stored = match component.encoding {
            _ if wanted.is_empty() => start..start,
            encoding if encoding.keeps_positions() => {
                let last = last_decoded(component, &wanted);
                start + first_decoded(component, &wanted)..start.saturating_add(last)
            }
            #[cfg(feature = "lz4")]
            Encoding::Lz4Blocks => start..end.min(start.saturating_add(lz4::max_stored_length(wanted.end))),
            _ => start..end,
        };
        Extent { wanted, stored, is_whole: false, end: StoredEnd::Anywhere }
    }

    /// The `wanted` decoded bytes of a component that is some blocks of another one, with this `end`. Blocks that are
    /// complete are read to their end, so that their own checksums are compared.
    pub(crate) fn of_blocks(blocks: &Component, wanted: Range<u64>, end: StoredEnd) -> Self {
        let extent = Extent::of(blocks, wanted);
        let end = if extent.stored == blocks.range && end == StoredEnd::Complete { end } else { extent.end };
        Extent { is_whole: false, end, ..extent }
    }
}

/// The offset of the first decoded byte if the bytes from `wanted` on are read.
pub(super) fn first_decoded(component: &Component, wanted: &Range<u64>) -> u64 {
    match component.encoding.keeps_positions() {
        true => wanted.start - wanted.start % element_bytes(component),
        false => 0,
    }
}

/// The end of the decoded bytes up to which an encoding that keeps positions must be read.
fn last_decoded(component: &Component, wanted: &Range<u64>) -> u64 {
    let end = wanted.end.checked_next_multiple_of(element_bytes(component)).unwrap_or(wanted.end);
    component.decoded_length.map_or(end, |length| end.min(length))
}

/// Big-endian elements are decoded as a whole.
fn element_bytes(component: &Component) -> u64 {
    match component.encoding {
        Encoding::BigEndian => component.dtype.array_kind().element_bytes() as u64,
        _ => 1,
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    fn component(encoding: Encoding) -> Component {
        Component { encoding, decoded_length: Some(100), ..Component::raw(Dtype::F32, 1000..1100) }
    }

    #[test]
    fn raw_bytes_are_read_exactly() {
        let extent = Extent::of(&component(Encoding::Raw), 3..10);
        assert_eq!((extent.stored, extent.is_whole, extent.end), (1003..1010, false, StoredEnd::Anywhere));
        assert_eq!(Extent::of(&component(Encoding::Raw), 40..40).stored, 1000..1000);
    }

    #[test]
    fn big_endian_elements_are_read_as_a_whole() {
        let component = component(Encoding::BigEndian);
        assert_eq!(Extent::of(&component, 3..10).stored, 1000..1012);
        assert_eq!(Extent::of(&component, 8..99).stored, 1008..1100);
        assert_eq!(first_decoded(&component, &(7..10)), 4);
    }

    #[test]
    fn all_bytes_are_the_whole_component() {
        for encoding in [Encoding::Raw, Encoding::BigEndian] {
            assert_eq!(Extent::of(&component(encoding), 0..100), Extent::whole(&component(encoding)));
        }
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn blocks_are_complete_if_they_end_with_a_block() {
        let blocks = Component { decoded_length: Some(60), ..component(Encoding::Zstd) };
        let extent = Extent::of_blocks(&blocks, 10..30, StoredEnd::Complete);
        assert_eq!((extent.wanted, extent.stored, extent.end), (10..30, 1000..1100, StoredEnd::Complete));
        assert_eq!(Extent::of_blocks(&blocks, 10..30, StoredEnd::Anywhere).end, StoredEnd::Anywhere);
        let all = Extent::of_blocks(&blocks, 0..60, StoredEnd::Anywhere);
        assert_eq!((all.end, all.is_whole), (StoredEnd::Complete, false), "the blocks are not the component");
    }
}
