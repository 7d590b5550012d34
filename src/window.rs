//! The bytes of a file that are known so far. Parsers read them as if the whole file were in memory.

mod passing;
mod resume;
mod scattered;

pub(crate) use passing::{Content, Pieces};

use crate::deferred::Code;
use crate::error::{Error, ErrorKind};
use passing::Passing;
use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

/// Why a parse ended early.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// The parser needs these bytes: fetch them (or more), insert them, and parse again.
    Need(Range<u64>),
    /// The file is invalid.
    Failed(Error),
    /// The parser is in the part of the npm package's module that is not loaded yet: load it, and parse again.
    Deferred(Code),
}

#[doc(hidden)]
impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// The known pieces of one file.
///
/// A parser requests ranges. It receives the bytes or stops with [`Stop::Need`]. The same straight-line code therefore
/// works with mmap (it never stops), with Range requests (it stops once or twice) and with a streamed body.
#[derive(Debug, Default)]
pub struct Window<'a> {
    file_length: Option<u64>,
    /// The compressed length, if the window is on the decoded content of a file that is compressed as a whole.
    packed_length: Option<u64>,
    /// The known pieces with their offsets: disjoint, never adjacent, by ascending offset.
    pieces: Vec<(u64, Cow<'a, [u8]>)>,
    /// The offsets of pieces that grew, and may have unused capacity.
    grown: Vec<u64>,
    passing: RefCell<Option<Passing>>,
    /// What a parser that stopped has read so far.
    stopped: RefCell<Option<Box<dyn Any>>>,
    /// The number of calls of [`Window::get`].
    #[cfg(test)]
    pub(crate) reads: std::cell::Cell<u64>,
}

impl<'a> Window<'a> {
    /// An empty window. `file_length` is in bytes, if it is known.
    pub fn new(file_length: Option<u64>) -> Self {
        Window { file_length, ..Window::default() }
    }

    /// A window on a whole file in memory or mapped into memory. Copies nothing.
    pub fn whole(bytes: &'a [u8]) -> Self {
        let pieces = vec![(0, Cow::Borrowed(bytes))];
        Window { pieces, ..Window::new(Some(bytes.len() as u64)) }
    }

    /// Marks the window as the decoded content of a file of `length` bytes that is compressed as a whole.
    #[must_use]
    pub fn unpacked_from(self, length: Option<u64>) -> Self {
        Window { packed_length: length, ..self }
    }

    /// The minimum length of the stored file, if `length` bytes of it were read or decoded.
    pub fn stored(&self, length: u64) -> u64 {
        self.packed_length.map_or(length, |packed| packed.min(length))
    }

    /// The length of the file in bytes, if it is known.
    pub fn file_length(&self) -> Option<u64> {
        self.file_length
    }

    /// The length of the file in bytes, for formats that are read from the end.
    ///
    /// # Errors
    /// [`Stop::Need`] if the length is unknown. It requests more of the file: any response may state the length, and
    /// the end of the file shows it.
    pub fn whole_length(&self) -> Result<u64, Stop> {
        self.file_length.ok_or_else(|| Stop::Need(0..self.known_prefix().saturating_mul(2).max(1 << 16)))
    }

    /// Sets the length of the file in bytes.
    pub fn set_file_length(&mut self, length: u64) {
        self.file_length = Some(length);
    }

    /// The bytes of `range`.
    ///
    /// # Errors
    /// [`Stop::Need`] if they are not known yet; `TRUNCATED` if the file ends before `range` does.
    pub fn get(&self, range: Range<u64>) -> Result<&[u8], Stop> {
        #[cfg(test)]
        self.reads.set(self.reads.get() + 1);
        if let Some(length) = self.file_length
            && range.end > length
        {
            let what = format!("the file has {length} bytes, but bytes up to {} are needed", range.end);
            return Err(Error::new(ErrorKind::Truncated, what).at(range).into());
        }
        self.known(&range).ok_or(Stop::Need(range))
    }

    /// All bytes of the file, at most `limit`, for formats that consist of one document.
    ///
    /// # Errors
    /// `LIMIT` if the file is longer than `limit`; [`Stop::Need`] as for [`Window::get`].
    pub fn get_all(&self, limit: u64) -> Result<&[u8], Stop> {
        let known = self.known_prefix();
        let end = self.file_length.unwrap_or(known.saturating_mul(2).max(1 << 16));
        if end > limit {
            let what = format!("the document is longer than the limit of {limit} bytes");
            return Err(Error::new(ErrorKind::Limit, what).into());
        }
        match self.file_length {
            Some(_) => self.get(0..end),
            None => Err(Stop::Need(0..end)),
        }
    }

    /// Adds bytes at offset `start`. Bytes that are known already are not replaced.
    pub fn insert(&mut self, start: u64, bytes: &[u8]) {
        let end = start.saturating_add(bytes.len() as u64);
        let mut at = start;
        if let Some(passing) = self.passing.get_mut() {
            at = passing.push(start, bytes);
        }
        while at < end {
            let gap_end = match self.pieces.get(self.first_beyond(at)) {
                Some((s, piece)) if *s <= at => {
                    at = s + piece.len() as u64;
                    continue;
                }
                Some((s, _)) => end.min(*s),
                None => end,
            };
            if let Some(new) = bytes.get((at - start) as usize..(gap_end - start) as usize) {
                self.add_disjoint(at, new);
            }
            at = gap_end;
        }
    }

    /// Releases unused capacity.
    pub fn shrink_to_fit(&mut self) {
        for start in std::mem::take(&mut self.grown) {
            let at = self.pieces.partition_point(|(s, _)| *s < start);
            if let Some((_, Cow::Owned(bytes))) = self.pieces.get_mut(at) {
                bytes.shrink_to_fit();
            }
        }
    }

    /// The first unknown part of `range`; empty if all of it is known.
    pub fn missing(&self, range: &Range<u64>) -> Range<u64> {
        let passed = self.passing.borrow().as_ref().map_or(0..0, |passing| passing.range.start..passing.position);
        match passed.contains(&range.start) {
            true => self.not_kept(&(passed.end.min(range.end)..range.end)),
            false => self.not_kept(range),
        }
    }

    fn not_kept(&self, range: &Range<u64>) -> Range<u64> {
        let mut start = range.start;
        let mut next = self.pieces.get(self.first_beyond(start)..).into_iter().flatten();
        // Pieces are not adjacent: at most one of them contains the start.
        let mut after = next.next();
        if let Some((s, piece)) = after
            && *s <= start
        {
            start = s + piece.len() as u64;
            after = next.next();
        }
        let start = start.min(range.end);
        start..after.map_or(range.end, |(s, _)| range.end.min(*s).max(start))
    }

    /// The index of the first piece that ends after `offset`.
    fn first_beyond(&self, offset: u64) -> usize {
        self.pieces.partition_point(|(start, piece)| start + piece.len() as u64 <= offset)
    }

    /// The number of contiguous bytes that are known from the start of the file.
    pub fn known_prefix(&self) -> u64 {
        match self.pieces.first() {
            Some((0, piece)) => piece.len() as u64,
            _ => 0,
        }
    }

    /// The contiguous bytes that are known from `start` on, up to `end`.
    pub fn known_from(&self, start: u64, end: u64) -> &[u8] {
        let missing = self.not_kept(&(start..end));
        self.known(&(start..missing.start)).unwrap_or_default()
    }

    /// The bytes of `range`, if all of them are known.
    pub fn known(&self, range: &Range<u64>) -> Option<&[u8]> {
        if range.is_empty() {
            return Some(&[]);
        }
        let after = self.pieces.partition_point(|(start, _)| *start <= range.start);
        let (start, piece) = self.pieces.get(after.checked_sub(1)?)?;
        piece.get(usize::try_from(range.start - start).ok()?..usize::try_from(range.end - start).ok()?)
    }

    fn add_disjoint(&mut self, start: u64, bytes: &[u8]) {
        let position = self.pieces.partition_point(|(s, _)| *s < start);
        let joins_before =
            position > 0 && self.pieces.get(position - 1).is_some_and(|(s, piece)| s + piece.len() as u64 == start);
        let joined = if joins_before {
            let file_length = self.file_length;
            if let Some((piece_start, piece)) = self.pieces.get_mut(position - 1) {
                let piece = piece.to_mut();
                if self.grown.last() != Some(piece_start) {
                    self.grown.push(*piece_start);
                }
                let needed = piece.len() + bytes.len();
                if let Some(length) = file_length.filter(|_| needed > piece.capacity()) {
                    // Doubles the capacity, as `Vec` does, but not beyond the end of the file.
                    let max = usize::try_from(length.saturating_sub(*piece_start)).unwrap_or(usize::MAX);
                    let capacity = piece.capacity().saturating_mul(2).min(max).max(needed);
                    piece.reserve_exact(capacity - piece.len());
                }
                piece.extend_from_slice(bytes);
            }
            position - 1
        } else {
            self.pieces.insert(position, (start, Cow::Owned(bytes.to_vec())));
            position
        };
        let end = start + bytes.len() as u64;
        if self.pieces.get(joined + 1).is_some_and(|(s, _)| *s == end) {
            let (_, after) = self.pieces.remove(joined + 1);
            if let Some((piece_start, piece)) = self.pieces.get_mut(joined) {
                self.grown.push(*piece_start);
                piece.to_mut().extend_from_slice(&after);
            }
        }
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stops_at_unknown_bytes() {
        let mut window = Window::new(Some(10));
        assert_eq!(window.get(2..6), Err(Stop::Need(2..6)));
        window.insert(0, b"01234567");
        assert_eq!(window.get(2..6), Ok(&b"2345"[..]));
        assert_eq!(window.missing(&(4..10)), 8..10);
    }

    #[test]
    fn returns_no_more_than_the_requested_range() {
        let mut window = Window::new(Some(10));
        window.insert(0, b"0123");
        window.insert(8, b"89");
        assert_eq!(window.missing(&(0..2)), 2..2);
        assert_eq!(window.known_from(0, 2), b"01");
    }

    #[test]
    fn reports_a_truncated_file() {
        let window = Window::whole(b"abc");
        assert!(matches!(window.get(1..4), Err(Stop::Failed(e)) if e.kind == ErrorKind::Truncated));
    }

    proptest! {
        #[test]
        fn overlapping_inserts_in_any_order_give_the_same_bytes(
            inserts in proptest::collection::vec((0usize..200, 0usize..60), 1..20),
            ask in (0u64..200, 0u64..80),
        ) {
            let file: Vec<u8> = (0..=255).collect();
            let mut window = Window::new(Some(256));
            let mut known = [false; 256];
            for (start, length) in inserts {
                let end = (start + length).min(256);
                window.insert(start as u64, &file[start..end]);
                known[start..end].fill(true);
            }
            let range = ask.0..(ask.0 + ask.1).min(256);
            let all_known = known[range.start as usize..range.end as usize].iter().all(|&k| k);
            match window.get(range.clone()) {
                Ok(bytes) => {
                    prop_assert!(all_known);
                    prop_assert_eq!(bytes, &file[range.start as usize..range.end as usize]);
                }
                Err(stop) => {
                    prop_assert_eq!(stop, Stop::Need(range.clone()));
                    prop_assert!(!all_known);
                }
            }
            let missing = window.missing(&range);
            prop_assert_eq!(missing.is_empty(), all_known);
            prop_assert!(known[missing.start as usize..missing.end as usize].iter().all(|&k| !k));
        }
    }
}
