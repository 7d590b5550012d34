//! Fuzzes the decoder of streams of bytes: the output depends neither on how the input is split, nor on whether the
//! streams are read one after another or side by side.

use arbitrary::Arbitrary;
use std::ops::Range;
use weightstream::Result;
use weightstream::internals::codec::byte_streams::Joiner;
use weightstream::internals::dtype::Dtype;
use weightstream::internals::index::{ByteStream, ByteStreams, Component};

/// The streams of a component, and how it is read.
#[derive(Debug, Arbitrary)]
pub struct Input<'a> {
    /// The number of elements.
    count: u16,
    /// The stored length of each stream in the order of the file; `None` for a raw one.
    zstd_lengths: [Option<u16>; 2],
    /// Whether the first stream in the file is the last one by significance.
    is_reversed: bool,
    /// The length of the slices that are read of each stream in turn.
    slice: u16,
    stored: &'a [u8],
}

impl<'a> Input<'a> {
    /// Creates an input that does not come from a fuzzer.
    pub fn new(count: u16, zstd_lengths: [Option<u16>; 2], is_reversed: bool, slice: u16, stored: &'a [u8]) -> Self {
        Input { count, zstd_lengths, is_reversed, slice, stored }
    }
}

/// Streams of 16-bit numbers. Returns whether they can be decoded.
pub fn check(input: &Input) -> bool {
    let mut end = 0;
    let mut streams: Vec<_> = input
        .zstd_lengths
        .iter()
        .map(|zstd_length| {
            let start = end;
            end = (start + u64::from(zstd_length.unwrap_or(input.count))).min(input.stored.len() as u64);
            ByteStream::whole(start..end, zstd_length.is_some(), u64::from(input.count), None)
        })
        .collect();
    if input.is_reversed {
        streams.reverse();
    }
    let Ok(streams) = ByteStreams::new(streams, None) else { return false };
    let ranges: Vec<_> = streams.iter().map(|stream| stream.range.clone()).collect();
    let component = Component::split(Dtype::F16, Some(2 * u64::from(input.count)), streams);
    let whole = decode(&component, input.stored, std::slice::from_ref(&component.range));
    assert!(whole.as_ref().is_none_or(|numbers| numbers.len() == 2 * usize::from(input.count)));
    let slice = u64::from(input.slice).max(1);
    assert_eq!(
        decode(&component, input.stored, &sliced(std::slice::from_ref(&component.range), slice)),
        whole,
        "split"
    );
    assert_eq!(decode(&component, input.stored, &sliced(&ranges, slice)), whole, "side by side");
    whole.is_some()
}

/// Slices of the ranges in turn.
fn sliced(ranges: &[Range<u64>], length: u64) -> Vec<Range<u64>> {
    let longest = ranges.iter().map(|range| range.end - range.start).max().unwrap_or(0);
    let slice = |range: &Range<u64>, at: u64| {
        let start = range.end.min(range.start + at * length);
        start..range.end.min(start + length)
    };
    let turns = 0..longest.div_ceil(length);
    turns.flat_map(|at| ranges.iter().map(move |range| slice(range, at))).filter(|slice| !slice.is_empty()).collect()
}

/// The decoded numbers, `None` on an error.
fn decode(component: &Component, stored: &[u8], order: &[Range<u64>]) -> Option<Vec<u8>> {
    let mut joiner = Joiner::of(component, &[]);
    let mut numbers = Vec::new();
    for range in order {
        let bytes = stored.get(range.start as usize..range.end as usize)?;
        let mut take = |bytes: &[u8]| -> Result<()> {
            numbers.extend_from_slice(bytes);
            Ok(())
        };
        joiner.push_at(range.start, bytes, &mut take).ok()?;
    }
    joiner.finish().ok()?;
    Some(numbers)
}
