//! Compresses a blob incrementally into Zstandard frames, each of which can be decoded alone, with a table of their
//! positions.
//!
//! Each frame is compressed in two ways, and the smaller one is stored. The exponents of floats have no repetitions:
//! chance matches take more bytes than Huffman codes of the same bytes, and decode half as fast.

use crate::codec::zstd::literals;
use crate::codec::zstd_seek::{FRAME_BYTES, table};
use crate::error::{Error, ErrorKind, Result};
use std::io;
use zstd::bulk::Compressor;

/// The default of the library and of the format's own tools.
pub(super) const PLAIN_LEVEL: i32 = 3;

/// An encoder of frames.
pub(super) struct FrameEncoder {
    level: Compressor<'static>,
    literals: Compressor<'static>,
}

/// A frame, which can be decoded alone.
pub(super) struct Frame {
    pub(super) stored: Vec<u8>,
    pub(super) decoded_length: u32,
}

impl FrameEncoder {
    /// Creates an encoder with this level for frames with matches.
    pub(super) fn new(level: i32) -> Result<Self> {
        let level = Compressor::new(level).map_err(compression_error)?;
        let literals = literals::encoder().map_err(compression_error)?;
        Ok(FrameEncoder { level, literals })
    }

    /// Compresses at most [`FRAME_BYTES`] bytes in both ways. Neither is longer than a frame of incompressible bytes.
    pub(super) fn encode(&mut self, bytes: &[u8]) -> Result<Frame> {
        let level = self.level.compress(bytes).map_err(compression_error)?;
        let literals = self.literals.compress(bytes).map_err(compression_error)?;
        let stored = if literals.len() <= level.len() { literals } else { level };
        Ok(Frame { stored, decoded_length: bytes.len() as u32 })
    }
}

impl Frame {
    /// The bytes that were compressed.
    pub(super) fn decode(&self) -> Result<Vec<u8>> {
        zstd::bulk::decompress(&self.stored, self.decoded_length as usize).map_err(compression_error)
    }
}

/// An encoder of one blob.
pub(super) struct BlobEncoder {
    encoder: FrameEncoder,
    /// The bytes of the current frame.
    frame: Vec<u8>,
    /// The length of the blob, if it is known.
    stated: Option<u64>,
    /// The stored and decoded lengths of the frames before.
    frames: Vec<(u32, u32)>,
}

impl BlobEncoder {
    /// Creates the encoder of a blob of this length, if it is known. A blob of at most [`FRAME_BYTES`] is one frame
    /// without a table.
    pub(super) fn new(length: Option<u64>) -> Result<Self> {
        Ok(BlobEncoder {
            encoder: FrameEncoder::new(PLAIN_LEVEL)?,
            frame: Vec::new(),
            stated: length,
            frames: Vec::new(),
        })
    }

    /// Compresses the next bytes, of any length, and calls `emit` with the bytes to store.
    pub(super) fn push(&mut self, mut bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while !bytes.is_empty() {
            if self.frame.len() as u64 == FRAME_BYTES {
                self.write_frame(emit)?;
            }
            let limit = (FRAME_BYTES - self.frame.len() as u64) as usize;
            let (next, rest) = bytes.split_at(bytes.len().min(limit));
            self.frame.extend_from_slice(next);
            bytes = rest;
        }
        Ok(())
    }

    /// Finishes the last frame, and writes the table of several. Must be called after the last byte.
    pub(super) fn finish(mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.write_frame(emit)?;
        let length: u64 = self.frames.iter().map(|(_, decoded)| u64::from(*decoded)).sum();
        if self.stated.is_some_and(|stated| stated != length) {
            return Err(Error::new(ErrorKind::Internal, "a tensor has another length than its input states"));
        }
        if self.frames.len() == 1 { Ok(()) } else { emit(&table(&self.frames)) }
    }

    fn write_frame(&mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Frame { stored, decoded_length } = self.encoder.encode(&self.frame)?;
        emit(&stored)?;
        self.frames.push((stored.len() as u32, decoded_length));
        self.frame.clear();
        Ok(())
    }
}

/// Converts an error of the encoder, which has no memory.
fn compression_error(error: io::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("Zstandard failed to compress a tensor: {error}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::codec::zstd::literals::exponents;
    use crate::codec::zstd::{DecodedLength, Zstd};
    use crate::codec::zstd_seek;
    use proptest::prelude::*;

    fn decode(stored: &[u8], length: u64) -> Result<Vec<u8>> {
        let mut decoded = Vec::new();
        let mut decoder = Zstd::new(stored.len() as u64, DecodedLength::Exactly(length));
        decoder.push(stored, &mut |bytes| {
            decoded.extend_from_slice(bytes);
            Ok(())
        })?;
        decoder.finish().map(|()| decoded)
    }

    fn encode(pieces: &[&[u8]], length: Option<u64>) -> Result<Vec<u8>> {
        let mut stored = Vec::new();
        let mut emit = |bytes: &[u8]| {
            stored.extend_from_slice(bytes);
            Ok(())
        };
        let mut encoder = BlobEncoder::new(length)?;
        pieces.iter().try_for_each(|piece| encoder.push(piece, &mut emit))?;
        encoder.finish(&mut emit)?;
        Ok(stored)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn frames_do_not_depend_on_splits_and_round_trip(
            seed in proptest::collection::vec(any::<u8>(), 0..300),
            repeat in 1usize..15_000,
            cuts in proptest::collection::vec(prop_oneof![0usize..20, 0usize..2_000_000], 0..20),
            is_stated in any::<bool>(),
        ) {
            let data = seed.repeat(repeat);
            let (mut pieces, mut rest) = (Vec::new(), &data[..]);
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            let length = is_stated.then_some(data.len() as u64);
            let stored = encode(&pieces, length).unwrap();
            prop_assert!(stored == encode(&[&data], length).unwrap());
            prop_assert!(decode(&stored, data.len() as u64) == Ok(data));
        }
    }

    #[test]
    fn each_frame_decodes_alone_at_the_position_of_the_table() {
        let data: Vec<u8> = (0..(5 << 19) + 7u32).map(|i| (i / 7 % 13 * (i % 3)) as u8).collect();
        let stored = encode(&[&data], Some(data.len() as u64)).unwrap();
        let footer = stored.last_chunk::<9>().unwrap();
        let table = stored.len() - zstd_seek::table_length(footer).unwrap() as usize;
        let (mut at, mut decoded_at) = (0, 0);
        for (stored_length, length) in zstd_seek::parse(&stored[table..]).unwrap() {
            let (end, decoded_end) = (at + stored_length as usize, decoded_at + length as usize);
            assert!(decode(&stored[at..end], length).unwrap() == data[decoded_at..decoded_end]);
            (at, decoded_at) = (end, decoded_end);
        }
        assert_eq!((at, decoded_at), (stored.len(), data.len()));
    }

    #[test]
    fn stores_exponents_as_literals_and_repetitions_as_matches() {
        let exponents = exponents(3 << 20);
        let stored = encode(&[&exponents], None).unwrap();
        assert!(decode(&stored, exponents.len() as u64).unwrap() == exponents);
        let ratio = stored.len() as f64 / exponents.len() as f64;
        // Two bits each, and less than 1 % for tables.
        assert!((0.25..0.2525).contains(&ratio), "{ratio}");
        let level = zstd::bulk::compress(&exponents, PLAIN_LEVEL).unwrap();
        assert!(stored.len() * 10 < level.len() * 9, "{} and {}", stored.len(), level.len());

        let repeated = exponents[..5000].repeat(400);
        let stored = encode(&[&repeated], None).unwrap();
        assert!(stored.len() * 100 < repeated.len(), "{}", stored.len());
    }

    #[test]
    fn rejects_a_length_other_than_the_stated_one() {
        for (given, stated) in [(10, 9), (9, 10)] {
            assert!(encode(&[&vec![7; given]], Some(stated)).is_err());
        }
    }
}
