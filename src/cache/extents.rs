//! The cached ranges of a file, and the pieces that contain them.

use std::ops::Range;

/// A range of a file that is stored as one unit with one checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Offset of its first byte in the file.
    pub(crate) start: u64,
    /// Length in bytes.
    pub(crate) byte_length: u32,
    /// CRC-32 of its bytes.
    pub crc32: u32,
    /// Offset of its first byte in the log.
    pub(crate) at: u64,
}

/// The pieces of a file by position. If pieces overlap, the one that was inserted last is used.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// Disjoint ranges in order, each with the piece that contains it. A list, because the code of a `BTreeMap` takes
    /// 5 KB, and pieces of a megabyte arrive more slowly than some thousand entries are moved.
    parts: Vec<(Range<u64>, Piece)>,
}

impl Extents {
    /// Inserts a piece.
    pub(crate) fn insert(&mut self, piece: Piece) {
        let end = piece.start.saturating_add(u64::from(piece.byte_length));
        if piece.start < end {
            self.replace(piece.start..end, piece);
        }
    }

    /// Removes a damaged piece.
    pub(crate) fn remove(&mut self, piece: &Piece) {
        self.parts.retain(|(_, other)| other != piece);
    }

    /// Returns the piece that contains `position`, and the range around it to read from that piece.
    pub(crate) fn find(&self, position: u64) -> Option<(Range<u64>, Piece)> {
        let place = self.parts.partition_point(|(part, _)| part.start <= position);
        let (part, piece) = self.parts.get(place.checked_sub(1)?)?;
        part.contains(&position).then(|| (part.clone(), *piece))
    }

    /// The end of the contiguous cached range that starts at `position`.
    pub(crate) fn run_end(&self, position: u64) -> u64 {
        let mut end = position;
        while let Some((extent, _)) = self.find(end) {
            end = extent.end;
        }
        end
    }

    /// Returns the first gap in `range`, or an empty range if there is none. A cached run of fewer than `min_run` bytes
    /// between two gaps counts as part of the gap: downloading it again costs less than a second request.
    pub(crate) fn missing(&self, range: &Range<u64>, min_run: u64) -> Range<u64> {
        let start = self.run_end(range.start).min(range.end);
        let mut end = start;
        while end < range.end {
            let place = self.parts.partition_point(|(part, _)| part.start < end);
            let next = self.parts.get(place).map(|(part, _)| part.start);
            let Some(next) = next.filter(|next| *next < range.end) else { return start..range.end };
            let run_end = self.run_end(next);
            if run_end >= range.end || run_end - next >= min_run {
                return start..next;
            }
            end = run_end;
        }
        start..end
    }

    /// Number of cached bytes.
    #[cfg(all(test, native))]
    pub(crate) fn byte_length(&self) -> u64 {
        self.parts.iter().map(|(part, _)| part.end - part.start).sum()
    }

    /// Puts a piece in the place of what other pieces have of `range`.
    fn replace(&mut self, range: Range<u64>, piece: Piece) {
        let first = self.parts.partition_point(|(part, _)| part.end <= range.start);
        let end = self.parts.partition_point(|(part, _)| part.start < range.end);
        let mut new = Vec::with_capacity(3);
        let touched = self.parts.get(first..end).unwrap_or_default();
        if let Some((part, piece)) = touched.first().filter(|(part, _)| part.start < range.start) {
            new.push((part.start..range.start, *piece));
        }
        new.push((range.clone(), piece));
        if let Some((part, piece)) = touched.last().filter(|(part, _)| range.end < part.end) {
            new.push((range.end..part.end, *piece));
        }
        self.parts.splice(first..end.max(first), new);
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(start: u64, byte_length: u32, at: u64) -> Piece {
        Piece { start, byte_length, crc32: 0, at }
    }

    #[test]
    fn a_short_run_between_two_gaps_counts_as_missing() {
        let mut extents = Extents::default();
        extents.insert(piece(10, 2, 0));
        extents.insert(piece(20, 8, 1));
        assert_eq!(extents.missing(&(0..40), 1), 0..10);
        assert_eq!(extents.missing(&(0..40), 5), 0..20);
        assert_eq!(extents.missing(&(0..40), 9), 0..40);
        assert_eq!(extents.missing(&(0..28), 9), 0..20, "a cached run at the end of the range is not missing");
        assert_eq!(extents.missing(&(20..28), 9), 28..28);
    }

    proptest! {
        #[test]
        fn the_piece_that_was_inserted_last_is_used(pieces in prop::collection::vec((0u64..60, 0u32..20), 0..20)) {
            let mut extents = Extents::default();
            let mut bytes = [None; 80];
            for (at, &(start, byte_length)) in pieces.iter().enumerate() {
                let piece = piece(start, byte_length, at as u64);
                extents.insert(piece);
                bytes[start as usize..start as usize + byte_length as usize].fill(Some(piece));
            }
            for (position, expected) in bytes.iter().enumerate() {
                prop_assert_eq!(extents.find(position as u64).map(|(_, piece)| piece), *expected);
            }
            prop_assert_eq!(extents.byte_length(), bytes.iter().flatten().count() as u64);
            let missing = extents.missing(&(0..80), 1);
            let first = bytes.iter().position(Option::is_none).unwrap() as u64;
            let length = bytes[first as usize..].iter().take_while(|byte| byte.is_none()).count() as u64;
            prop_assert_eq!(missing, first..first + length);
        }
    }
}
