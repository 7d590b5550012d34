//! Joins the streams of [`Encoding::ByteStreamSplit`](crate::index::Encoding::ByteStreamSplit) incrementally.
//!
//! The streams of a component follow each other in the file, and a number needs a byte of each. If the bytes come in
//! the order of the file, those of the streams that come first are kept, as they are stored, until those of the last
//! one arrive. Writers store the streams with the least bytes first. Of a large component, the streams are read side
//! by side, and little is kept.

use super::digest::{self, Hasher};
use super::zstd::{DecodedLength, Zstd};
use crate::algorithm::Algorithm;
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{BlockEnd, ByteStream, Component, ComponentDigest, DigestedBytes};
use std::collections::VecDeque;
use std::ops::Range;
use weightstream_kernels::byte_streams::join;

/// The maximum number of bytes that are joined at once.
const OUTPUT_BYTES: usize = 128 << 10;

/// The maximum number of stored bytes that are kept at once by [`Joiner::push_some`].
const PIECE_BYTES: usize = 256 << 10;

/// Joins the streams of one component.
#[derive(Debug)]
pub struct Joiner {
    /// By significance.
    streams: Vec<Stream>,
    /// The offset of the next stored byte in the file, if they come in its order.
    position: u64,
    numbers_left: u64,
    output: Vec<u8>,
    verified: Option<Algorithm>,
}

#[derive(Debug)]
struct Stream {
    range: Range<u64>,
    /// The offset of the next stored byte in the file.
    position: u64,
    /// The number of decoded bytes that are still to be skipped.
    skipped: u64,
    /// `None` for raw bytes.
    decoder: Option<Box<Zstd>>,
    /// The digest of the stored bytes, and its computation.
    digest: Option<(Digest, Hasher)>,
    /// Stored bytes that are not decoded yet.
    stored: VecDeque<Vec<u8>>,
    /// The number of bytes at the start of the first of `stored` that are used.
    used: usize,
    /// Decoded bytes, for a stream with a decoder.
    decoded: Vec<u8>,
    /// The number of bytes at the start of `decoded` that are used.
    joined: usize,
}

impl Joiner {
    /// Creates the decoder of a component. If one of the `digests` is over streams, those of all streams are compared.
    pub fn of(component: &Component, digests: &[ComponentDigest]) -> Self {
        let streams = component.streams.as_deref().cloned().unwrap_or_default();
        let count = component.decoded_length.unwrap_or(0) / (streams.iter().len() as u64).max(1);
        let compares_digests = digests.iter().any(|stated| stated.over == DigestedBytes::Streams);
        let started = |digest: Digest| compares_digests.then(|| (digest, Hasher::new(digest)));
        let of_stream = |stream: &ByteStream| Stream::new(stream, stream.digest.and_then(started));
        Joiner {
            streams: streams.iter().map(of_stream).collect(),
            position: component.range.start,
            numbers_left: count,
            output: Vec::new(),
            verified: None,
        }
    }

    /// See [`Decoder::push`](super::Decoder::push).
    ///
    /// # Errors
    /// `FORMAT` if a stream cannot be decoded; `CHECKSUM` if a digest of a stream does not match; `LIMIT` if there is
    /// not enough memory; errors of `emit`.
    pub fn push(&mut self, mut input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while !input.is_empty() {
            input = input.get(self.take(input)?..).unwrap_or_default();
        }
        while self.emit_some(emit)? {}
        Ok(())
    }

    /// Like [`Joiner::push`], for bytes of one stream at the offset `at` of the file. The streams may be read side by
    /// side, each in order.
    ///
    /// # Errors
    /// Those of [`Joiner::push`].
    pub fn push_at(&mut self, at: u64, input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.position = at;
        self.push(input, emit)
    }

    /// See [`Decoder::push_some`](super::Decoder::push_some).
    ///
    /// # Errors
    /// As for [`Joiner::push`].
    pub fn push_some(&mut self, input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        match self.emit_some(emit)? {
            true => Ok(0),
            false if input.is_empty() => Ok(0),
            false => self.take(input.get(..PIECE_BYTES).unwrap_or(input)),
        }
    }

    /// For each stream, the ends of the frames that were decoded.
    pub fn stream_blocks(&self) -> Vec<Vec<BlockEnd>> {
        let blocks = |stream: &Stream| stream.decoder.as_ref().map_or(Vec::new(), |decoder| decoder.blocks().to_vec());
        self.streams.iter().map(blocks).collect()
    }

    /// See [`Decoder::finish`](super::Decoder::finish).
    ///
    /// # Errors
    /// `FORMAT` if bytes of a stream are missing.
    pub fn finish(&self) -> Result<Option<Algorithm>> {
        if self.numbers_left > 0 || self.streams.iter().any(|stream| stream.position < stream.range.end) {
            return Err(malformed("its streams are incomplete"));
        }
        self.streams.iter().filter_map(|stream| stream.decoder.as_ref()).try_for_each(|decoder| decoder.finish())?;
        let mut verified = self.verified;
        for (stated, hasher) in self.streams.iter().filter_map(|stream| stream.digest.clone()) {
            verified = Some(digest::compare(hasher.finish(), stated)?); // of a stream without bytes
        }
        Ok(verified)
    }

    /// Keeps stored bytes of the stream at the current position, or skips padding. Returns the number of bytes that
    /// were used.
    fn take(&mut self, input: &[u8]) -> Result<usize> {
        let at = self.position;
        let up_to = |end: u64| input.get(..usize::try_from(end - at).unwrap_or(usize::MAX)).unwrap_or(input);
        let piece = match self.streams.iter_mut().find(|stream| stream.range.contains(&at)) {
            Some(stream) => {
                let piece = up_to(stream.range.end);
                self.verified = stream.keep(at, piece)?.or(self.verified);
                piece
            }
            None => {
                let starts = self.streams.iter().map(|stream| stream.range.start).filter(|start| *start > at);
                let next = starts.min().ok_or_else(|| malformed("there are more bytes than its streams have"))?;
                up_to(next)
            }
        };
        self.position += piece.len() as u64;
        Ok(piece.len())
    }

    /// Joins the next numbers, as far as their bytes have arrived. Returns false if there are none.
    fn emit_some(&mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let mut count = self.numbers_left.min((OUTPUT_BYTES / self.streams.len().max(1)) as u64) as usize;
        for stream in &mut self.streams {
            count = count.min(stream.decode()?);
        }
        if count == 0 {
            // What follows in the last frame of a part is decoded only to find out whether it is whole.
            let is_done = self.numbers_left == 0;
            self.streams.iter_mut().filter(|_| is_done).try_for_each(Stream::discard)?;
            return Ok(false);
        }
        self.output.resize(count * self.streams.len(), 0);
        let pieces: Vec<_> = self.streams.iter().map(|stream| stream.next(count)).collect();
        if !join(&pieces, &mut self.output) {
            return Err(Error::new(ErrorKind::Internal, "streams of different lengths were joined"));
        }
        self.streams.iter_mut().for_each(|stream| stream.advance(count));
        self.numbers_left -= count as u64;
        emit(&self.output).map(|()| true)
    }
}

impl Stream {
    fn new(stream: &ByteStream, digest: Option<(Digest, Hasher)>) -> Self {
        let length = DecodedLength::Exactly(stream.decoded_length);
        let decoder = stream.is_zstd.then(|| Box::new(Zstd::new(stream.stored_length(), length)));
        let (range, position, skipped) = (stream.range.clone(), stream.range.start, stream.skipped);
        let (stored, decoded) = (VecDeque::new(), Vec::new());
        Stream { range, position, skipped, decoder, digest, stored, used: 0, decoded, joined: 0 }
    }

    /// Keeps stored bytes. Returns the algorithm of the digest, which is compared after the last byte.
    fn keep(&mut self, at: u64, piece: &[u8]) -> Result<Option<Algorithm>> {
        if at != self.position {
            return Err(Error::new(ErrorKind::Internal, "a stream was not read in order"));
        }
        if let Some((_, hasher)) = &mut self.digest {
            hasher.update(piece);
        }
        let mut kept = Vec::new();
        let no_memory = |_| Error::new(ErrorKind::Limit, "there is not enough memory for the streams of a tensor");
        kept.try_reserve_exact(piece.len()).map_err(no_memory)?;
        kept.extend_from_slice(piece);
        self.stored.push_back(kept);
        self.position += piece.len() as u64;
        let digest = self.digest.take_if(|_| self.position == self.range.end);
        digest.map(|(stated, hasher)| digest::compare(hasher.finish(), stated)).transpose()
    }

    /// Decodes stored bytes if no decoded ones are left. Returns how many bytes can be joined.
    fn decode(&mut self) -> Result<usize> {
        let Some(decoder) = &mut self.decoder else {
            return Ok(self.stored.front().map_or(0, |piece| piece.len() - self.used));
        };
        // What follows the last frame, such as the table of frames, decodes to nothing.
        while self.joined == self.decoded.len() {
            self.decoded.clear();
            self.joined = 0;
            let Some(piece) = self.stored.front() else { break };
            let decoded = &mut self.decoded;
            self.used += decoder.push_some(piece.get(self.used..).unwrap_or_default(), &mut |bytes| {
                decoded.extend_from_slice(bytes);
                Ok(())
            })?;
            if self.used == piece.len() {
                self.stored.pop_front();
                self.used = 0;
            }
            self.joined = usize::try_from(self.skipped).map_or(self.decoded.len(), |left| left.min(self.decoded.len()));
            self.skipped -= self.joined as u64;
        }
        Ok(self.decoded.len() - self.joined)
    }

    /// Decodes what has arrived after the last number.
    fn discard(&mut self) -> Result<()> {
        while self.decoder.is_some() && self.decode()? > 0 {
            self.joined = self.decoded.len();
        }
        Ok(())
    }

    /// The next bytes to join: `count` bytes, which [`Stream::decode`] has decoded.
    fn next(&self, count: usize) -> &[u8] {
        let (bytes, start) = match (&self.decoder, self.stored.front()) {
            (Some(_), _) => (&self.decoded, self.joined),
            (None, Some(piece)) => (piece, self.used),
            (None, None) => return &[],
        };
        bytes.get(start..start + count).unwrap_or_default()
    }

    fn advance(&mut self, count: usize) {
        if self.decoder.is_some() {
            self.joined += count;
            return;
        }
        self.used += count;
        if self.stored.front().is_some_and(|piece| piece.len() == self.used) {
            self.stored.pop_front();
            self.used = 0;
        }
    }
}

#[cfg(all(test, writes))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::codec::zstd::literals::{encoder, exponents};
    use crate::codec::zstd_seek::table;
    use crate::dtype::Dtype;
    use crate::error::ErrorKind;
    use crate::index::{ByteStreams, Encoding};
    use proptest::prelude::*;
    use std::sync::Arc;

    const START: u64 = 1000;

    /// A component of F16 with the exponents first, and its stored bytes.
    struct Stored {
        component: Component,
        bytes: Vec<u8>,
        numbers: Vec<u8>,
    }

    /// `order` are the significances in the order of the file; `gap` is the padding between streams.
    fn stored(count: usize, order: [usize; 2], gap: usize) -> Stored {
        let (low, high) = (exponents(count).into_iter().rev().collect::<Vec<_>>(), exponents(count));
        let numbers = low.iter().zip(&high).flat_map(|(low, high)| [*low, *high]).collect::<Vec<_>>();
        let frames: Vec<_> = high.chunks(50_000).map(|part| encoder().unwrap().compress(part).unwrap()).collect();
        let lengths: Vec<_> = high.chunks(50_000).zip(&frames).map(|(d, s)| (s.len() as u32, d.len() as u32)).collect();
        let zstd = [frames.concat(), table(&lengths)].concat();
        let (mut bytes, mut streams) = (Vec::new(), vec![None; 2]);
        for at in order {
            bytes.resize(if bytes.is_empty() { 0 } else { bytes.len() + gap }, 0);
            let stream = [&low, &zstd][at];
            let start = START + bytes.len() as u64;
            let mut hasher = Hasher::new(Digest::Crc32(0));
            hasher.update(stream);
            let range = start..start + stream.len() as u64;
            let decoded_length = count as u64;
            let digest = Some(hasher.finish());
            streams[at] = Some(ByteStream::whole(range, at == 1, decoded_length, digest));
            bytes.extend_from_slice(stream);
        }
        let mut hasher = Hasher::new(Digest::Crc32(0));
        hasher.update(&numbers);
        let streams = ByteStreams::new(streams.into_iter().flatten().collect(), Some(hasher.finish())).unwrap();
        let component = Component {
            encoding: Encoding::ByteStreamSplit,
            decoded_length: Some(numbers.len() as u64),
            streams: Some(Arc::new(streams.clone())),
            digest: Some(ComponentDigest { digest: Digest::Crc32(0), over: DigestedBytes::Streams }),
            ..Component::raw(Dtype::F16, streams.range())
        };
        Stored { component, bytes, numbers }
    }

    fn decode(stored: &Stored, cuts: &[usize]) -> Result<(Vec<u8>, Option<Algorithm>)> {
        let digests: Vec<_> = stored.component.digest.into_iter().collect();
        let (mut decoder, mut numbers) = (Joiner::of(&stored.component, &digests), Vec::new());
        let mut rest = &stored.bytes[..];
        for &cut in cuts.iter().chain([&usize::MAX]) {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            decoder.push(piece, &mut |bytes| {
                numbers.extend_from_slice(bytes);
                Ok(())
            })?;
            rest = after;
        }
        decoder.finish().map(|verified| (numbers, verified))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn the_numbers_do_not_depend_on_the_chunks_and_the_order_of_streams(
            count in prop_oneof![0usize..4, 0usize..200_000], is_low_first: bool, gap in 0usize..64,
            cuts in proptest::collection::vec(prop_oneof![0usize..20, 0usize..90_000], 0..20),
        ) {
            let stored = stored(count, if is_low_first { [0, 1] } else { [1, 0] }, gap);
            let (numbers, verified) = decode(&stored, &cuts).unwrap();
            prop_assert!(numbers == stored.numbers);
            prop_assert_eq!(verified, Some(Algorithm::Crc32));
        }
    }

    #[test]
    fn push_some_joins_a_bounded_number_of_bytes() {
        let stored = stored(300_000, [1, 0], 7);
        let (mut decoder, mut numbers, mut rest) = (Joiner::of(&stored.component, &[]), Vec::new(), &stored.bytes[..]);
        loop {
            let before = (numbers.len(), rest.len());
            let used = decoder.push_some(rest, &mut |bytes| {
                assert!(bytes.len() <= OUTPUT_BYTES);
                numbers.extend_from_slice(bytes);
                Ok(())
            });
            rest = &rest[used.unwrap()..];
            if (numbers.len(), rest.len()) == before {
                break;
            }
        }
        assert!(decoder.finish().unwrap().is_none() && numbers == stored.numbers);
    }

    #[test]
    fn every_damage_and_every_truncation_is_found() {
        let whole = stored(60_000, [1, 0], 16);
        for at in (0..whole.bytes.len()).step_by(611) {
            let mut damaged = Stored { bytes: whole.bytes.clone(), ..stored(60_000, [1, 0], 16) };
            damaged.bytes[at] ^= 1;
            let is_padding = !whole.component.stored_ranges().iter().any(|range| range.contains(&(START + at as u64)));
            assert_eq!(decode(&damaged, &[5000]).is_err(), !is_padding, "{at}");
            damaged.bytes = whole.bytes[..at].to_vec();
            assert_eq!(decode(&damaged, &[5000]).unwrap_err().kind, ErrorKind::Format, "{at}");
        }
        let longer = Stored { bytes: [&whole.bytes[..], &[0]].concat(), ..whole };
        assert_eq!(decode(&longer, &[]).unwrap_err().kind, ErrorKind::Format);
    }
}
