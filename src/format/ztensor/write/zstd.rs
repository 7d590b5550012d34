//! Compresses a blob incrementally into Zstandard frames, each of which can be decoded alone, with a table of their
//! positions.

use crate::codec::zstd_seek::{FRAME_BYTES, table};
use crate::error::{Error, ErrorKind, Result};
use std::io::{self, Write};
use zstd::stream::write::Encoder;

/// The default of the library and of the format's own tools.
const LEVEL: i32 = 3;

/// The size of the input that is compressed at a time. It bounds the buffered output.
const BLOCK_BYTES: u64 = 128 << 10;

/// An encoder of one blob.
pub(super) struct BlobEncoder {
    /// Compresses the current frame, and buffers the output of a block.
    encoder: Encoder<'static, Vec<u8>>,
    /// The decoded bytes that are missing, if the blob's length is known. Frames then state their lengths, so that
    /// readers can allocate the exact size.
    left: Option<u64>,
    /// The stored and decoded length of the current frame so far.
    frame: (u64, u64),
    /// The stored and decoded lengths of the frames before.
    frames: Vec<(u32, u32)>,
}

impl BlobEncoder {
    /// Creates the encoder of a blob of this length, if it is known. A blob of at most [`FRAME_BYTES`] is one frame
    /// without a table.
    pub(super) fn new(length: Option<u64>) -> Result<Self> {
        Ok(BlobEncoder { encoder: frame_encoder(length)?, left: length, frame: (0, 0), frames: Vec::new() })
    }

    /// Compresses the next bytes, of any length, and calls `emit` with the bytes to store.
    pub(super) fn push(&mut self, mut bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while !bytes.is_empty() {
            if self.frame.1 == FRAME_BYTES {
                self.begin_next_frame(emit)?;
            }
            let limit = (FRAME_BYTES - self.frame.1).min(BLOCK_BYTES) as usize;
            let (block, rest) = bytes.split_at(bytes.len().min(limit));
            self.encoder.write_all(block).map_err(compression_error)?;
            let stored = self.encoder.get_mut();
            emit(stored)?;
            self.frame = (self.frame.0 + stored.len() as u64, self.frame.1 + block.len() as u64);
            stored.clear();
            bytes = rest;
        }
        Ok(())
    }

    /// Finishes the last frame, and writes the table of several. Must be called after the last byte.
    pub(super) fn finish(mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (stored, decoded) = self.frame;
        let rest = self.encoder.finish().map_err(compression_error)?;
        emit(&rest)?;
        if self.frames.is_empty() {
            return Ok(());
        }
        self.frames.push(lengths((stored + rest.len() as u64, decoded))?);
        emit(&table(&self.frames))
    }

    fn begin_next_frame(&mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (stored, decoded) = self.frame;
        self.left = self.left.map(|left| left.saturating_sub(decoded));
        let next = frame_encoder(self.left)?;
        let rest = std::mem::replace(&mut self.encoder, next).finish().map_err(compression_error)?;
        emit(&rest)?;
        self.frames.push(lengths((stored + rest.len() as u64, decoded))?);
        self.frame = (0, 0);
        Ok(())
    }
}

/// The encoder of the next frame. `left` is the length of the rest of the blob, if it is known.
fn frame_encoder(left: Option<u64>) -> Result<Encoder<'static, Vec<u8>>> {
    let mut encoder = Encoder::new(Vec::new(), LEVEL).map_err(compression_error)?;
    encoder.set_pledged_src_size(left.map(|left| left.min(FRAME_BYTES))).map_err(compression_error)?;
    Ok(encoder)
}

/// The lengths of a frame, as the table stores them.
fn lengths((stored, decoded): (u64, u64)) -> Result<(u32, u32)> {
    let too_long = |_| Error::new(ErrorKind::Internal, "a Zstandard frame is longer than 4 GiB");
    Ok((u32::try_from(stored).map_err(too_long)?, u32::try_from(decoded).map_err(too_long)?))
}

/// Converts an error of the encoder. Its only cause is a length that differs from the stated one, which inputs check.
fn compression_error(error: io::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("Zstandard failed to compress a tensor: {error}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
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
    fn rejects_a_length_other_than_the_stated_one() {
        for (given, stated) in [(10, 9), (9, 10)] {
            assert!(encode(&[&vec![7; given]], Some(stated)).is_err());
        }
    }
}
