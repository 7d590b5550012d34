//! The streams of a component whose numbers are stored byte by byte: see
//! [`Encoding::ByteStreamSplit`](super::Encoding::ByteStreamSplit).

use crate::digest::Digest;
use crate::error::{Result, malformed};
use crate::sorting::sort;
use std::ops::Range;

/// The streams of a component, in the order of the significance of their bytes: stream 0 has the least significant one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByteStreams {
    streams: Vec<ByteStream>,
    digest: Option<Digest>,
}

/// One stream: a byte of each number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteStream {
    /// The range of the stored bytes in the file.
    pub range: Range<u64>,
    /// Whether the bytes are in Zstandard frames. Otherwise they are stored raw.
    pub is_zstd: bool,
    /// The number of decoded bytes.
    pub decoded_length: u64,
    /// The number of decoded bytes before those of the first number: a part of a stream starts with a frame.
    pub skipped: u64,
    /// The number of stored bytes of the stream before a part of it.
    pub stored_before: u64,
    /// The number of decoded bytes of the stream before a part of it.
    pub decoded_before: u64,
    /// The digest of the stored bytes, if the file has one.
    pub digest: Option<Digest>,
}

/// The maximum number of bytes between streams that are next to each other: writers align blobs to this much.
const MAX_GAP_BYTES: u64 = 4096;

/// Maximum number of stored bytes that are kept while the streams of a component are read one after another. If there
/// would be more, the streams are read side by side, which takes more requests.
const MAX_KEPT_BYTES: u64 = 8 << 20;

impl ByteStream {
    /// A whole stream.
    pub fn whole(range: Range<u64>, is_zstd: bool, decoded_length: u64, digest: Option<Digest>) -> Self {
        ByteStream { range, is_zstd, decoded_length, skipped: 0, stored_before: 0, decoded_before: 0, digest }
    }

    /// The number of stored bytes.
    pub fn stored_length(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl ByteStreams {
    /// The streams of a component, which are read together.
    ///
    /// # Errors
    /// `FORMAT` if their ranges overlap.
    pub fn new(streams: Vec<ByteStream>, digest: Option<Digest>) -> Result<Self> {
        let streams = ByteStreams { streams, digest };
        let overlap = streams.gaps().find(|(end, start)| start < end);
        match overlap {
            Some((end, start)) => Err(malformed("its streams overlap").at(start..end)),
            None => Ok(streams),
        }
    }

    /// The digest of the joined bytes, if the file has one.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The streams, in the order of significance.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ByteStream> {
        self.streams.iter()
    }

    /// The positions of the streams in the order of the file.
    pub(crate) fn file_order(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.streams.len()).collect();
        let key = |at: &usize| self.streams.get(*at).map(|ByteStream { range, .. }| (range.start, range.end, 0));
        sort(&mut order, |at| key(at).unwrap_or_default());
        order
    }

    /// The range of the file from the first byte of a stream to the last.
    pub fn range(&self) -> Range<u64> {
        let start = self.streams.iter().map(|stream| stream.range.start).min().unwrap_or(0);
        start..self.streams.iter().map(|stream| stream.range.end).max().unwrap_or(start)
    }

    /// The ranges of the streams in the order of the file, each with the padding before it.
    pub(crate) fn padded_ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for stream in self.file_order().into_iter().filter_map(|at| self.streams.get(at)) {
            let Range { start, end } = stream.range;
            let before =
                ranges.last().map(|range| range.end).filter(|before| start.saturating_sub(*before) < MAX_GAP_BYTES);
            ranges.push(before.unwrap_or(start)..end);
        }
        ranges
    }

    /// Where each stream starts, with the padding before it, except the first one in the file.
    pub fn later_starts(&self) -> impl Iterator<Item = u64> {
        self.padded_ranges().into_iter().skip(1).map(|range| range.start)
    }

    /// Whether the streams are read side by side: one after another, too many bytes would be kept.
    pub fn are_read_side_by_side(&self) -> bool {
        self.kept_bytes() > MAX_KEPT_BYTES
    }

    /// The number of stored bytes before those of the stream that is last in the file: as many are kept if the streams
    /// are read one after another.
    fn kept_bytes(&self) -> u64 {
        let lengths = self.streams.iter().map(ByteStream::stored_length);
        let last = self.streams.iter().max_by_key(|stream| stream.range.end).map_or(0, ByteStream::stored_length);
        lengths.fold(0, u64::saturating_add).saturating_sub(last)
    }

    /// Whether nothing but padding is between the streams.
    pub(crate) fn are_adjacent(&self) -> bool {
        self.gaps().all(|(end, start)| start.saturating_sub(end) < MAX_GAP_BYTES)
    }

    /// The end of each stream but the last, and the start of the next one in the file.
    fn gaps(&self) -> impl Iterator<Item = (u64, u64)> {
        let order = self.file_order();
        let range = |at: &usize| self.streams.get(*at).map_or(0..0, |stream| stream.range.clone());
        let ranges: Vec<_> = order.iter().map(range).collect();
        let starts: Vec<_> = ranges.iter().skip(1).map(|range| range.start).collect();
        ranges.into_iter().map(|range| range.end).zip(starts)
    }
}
