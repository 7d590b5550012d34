//! Which bytes of a file are there, and in which piece.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a file that were kept together, under one checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where its first byte lies in the file.
    pub(crate) start: u64,
    /// Its length in bytes.
    pub(crate) byte_length: u32,
    /// The CRC-32 of its bytes.
    pub crc32: u32,
    /// Where its first byte lies in the log.
    pub(crate) at: u64,
}

/// The pieces of a file, by its bytes. Where pieces overlap, the one that was added last counts.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// By where they begin: where they end, and the piece that they are a part of. Disjoint.
    parts: BTreeMap<u64, (u64, Piece)>,
}

impl Extents {
    /// Adds a piece.
    pub(crate) fn insert(&mut self, piece: Piece) {
        let end = piece.start.saturating_add(u64::from(piece.byte_length));
        self.cut(piece.start..end);
        if piece.start < end {
            self.parts.insert(piece.start, (end, piece));
        }
    }

    /// Forgets a piece that turned out to be damaged.
    pub(crate) fn remove(&mut self, piece: &Piece) {
        self.parts.retain(|_, (_, other)| other != piece);
    }

    /// The piece that the byte at `position` is in, and the bytes around it that are to be taken from there.
    pub(crate) fn find(&self, position: u64) -> Option<(Range<u64>, Piece)> {
        let (&start, &(end, piece)) = self.parts.range(..=position).next_back()?;
        (position < end).then_some((start..end, piece))
    }

    /// Up to where bytes are there in one run that begins at `position`.
    pub(crate) fn run_end(&self, position: u64) -> u64 {
        let mut end = position;
        while let Some((extent, _)) = self.find(end) {
            end = extent.end;
        }
        end
    }

    /// The first stretch of `range` that is not there; empty where all of it is. A run of fewer than `least_run` bytes
    /// between two such stretches counts as missing, too: asking for it again costs less than a second request.
    pub(crate) fn missing(&self, range: &Range<u64>, least_run: u64) -> Range<u64> {
        let start = self.run_end(range.start).min(range.end);
        let mut end = start;
        while end < range.end {
            let Some((&next, _)) = self.parts.range(end..range.end).next() else { return start..range.end };
            let run_end = self.run_end(next);
            if run_end >= range.end || run_end - next >= least_run {
                return start..next;
            }
            end = run_end;
        }
        start..end
    }

    /// How many bytes are there.
    #[cfg(all(test, not(target_arch = "wasm32")))]
    pub(crate) fn byte_length(&self) -> u64 {
        self.parts.iter().map(|(start, (end, _))| end - start).sum()
    }

    fn cut(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.find(range.start).map_or(range.start, |(extent, _)| extent.start);
        let touched: Vec<_> = self.parts.range(first..range.end).map(|(&start, &part)| (start, part)).collect();
        for (start, (end, piece)) in touched {
            self.parts.remove(&start);
            if start < range.start {
                self.parts.insert(start, (range.start, piece));
            }
            if range.end < end {
                self.parts.insert(range.end, (end, piece));
            }
        }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(start: u64, byte_length: u32, at: u64) -> Piece {
        Piece { start, byte_length, crc32: 0, at }
    }

    #[test]
    fn a_short_run_between_two_gaps_is_asked_for_with_them() {
        let mut extents = Extents::default();
        extents.insert(piece(10, 2, 0));
        extents.insert(piece(20, 8, 1));
        assert_eq!(extents.missing(&(0..40), 1), 0..10);
        assert_eq!(extents.missing(&(0..40), 5), 0..20);
        assert_eq!(extents.missing(&(0..40), 9), 0..40);
        assert_eq!(extents.missing(&(0..28), 9), 0..20, "what is there up to the end needs no request");
        assert_eq!(extents.missing(&(20..28), 9), 28..28);
    }

    proptest! {
        #[test]
        fn the_last_piece_over_a_byte_counts(pieces in prop::collection::vec((0u64..60, 0u32..20), 0..20)) {
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
