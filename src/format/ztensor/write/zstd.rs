//! Compresses a blob incrementally into one Zstandard frame.

use crate::error::{Error, ErrorKind, Result};
use std::io::{self, Write};
use zstd::stream::write::Encoder;

/// The default of the library and of the format's own tools.
const LEVEL: i32 = 3;

/// The size of the input that is compressed at a time. It bounds the buffered output.
const BLOCK_BYTES: usize = 128 << 10;

/// An encoder of one frame.
pub(super) struct FrameEncoder {
    /// Buffers the output of a block.
    encoder: Encoder<'static, Vec<u8>>,
}

impl FrameEncoder {
    /// Creates the encoder of a blob of this length, if it is known. The frame states the length, so that readers can
    /// allocate the exact size.
    pub(super) fn new(length: Option<u64>) -> Result<Self> {
        let mut encoder = Encoder::new(Vec::new(), LEVEL).map_err(compression_error)?;
        encoder.set_pledged_src_size(length).map_err(compression_error)?;
        Ok(FrameEncoder { encoder })
    }

    /// Compresses the next bytes, of any length, and calls `emit` with the bytes to store.
    pub(super) fn push(&mut self, bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        for block in bytes.chunks(BLOCK_BYTES) {
            self.encoder.write_all(block).map_err(compression_error)?;
            let stored = self.encoder.get_mut();
            emit(stored)?;
            stored.clear();
        }
        Ok(())
    }

    /// Finishes the frame. Must be called after the last byte.
    pub(super) fn finish(self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        emit(&self.encoder.finish().map_err(compression_error)?)
    }
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

    fn frame(pieces: &[&[u8]], length: Option<u64>) -> Result<Vec<u8>> {
        let mut stored = Vec::new();
        let mut emit = |bytes: &[u8]| {
            stored.extend_from_slice(bytes);
            Ok(())
        };
        let mut encoder = FrameEncoder::new(length)?;
        pieces.iter().try_for_each(|piece| encoder.push(piece, &mut emit))?;
        encoder.finish(&mut emit)?;
        Ok(stored)
    }

    proptest! {
        #[test]
        fn frames_do_not_depend_on_splits_and_round_trip(
            seed in proptest::collection::vec(any::<u8>(), 0..300),
            repeat in 1usize..1500,
            cuts in proptest::collection::vec(prop_oneof![0usize..20, 0usize..200_000], 0..20),
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
            let stored = frame(&pieces, length).unwrap();
            prop_assert!(stored == frame(&[&data], length).unwrap());
            prop_assert!(decode(&stored, data.len() as u64) == Ok(data));
        }
    }

    #[test]
    fn rejects_a_length_other_than_the_stated_one() {
        for (given, stated) in [(10, 9), (9, 10)] {
            assert!(frame(&[&vec![7; given]], Some(stated)).is_err());
        }
    }
}
