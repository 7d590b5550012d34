//! Compresses a blob into one Zstandard frame, in the pieces in which it comes.

use crate::error::{Error, ErrorKind, Result};
use std::io::{self, Write};
use zstd::stream::write::Encoder;

/// The default of the library and of the format's own tools.
const LEVEL: i32 = 3;

/// What a frame is made of: what comes of more at a time would have to be kept.
const BLOCK_BYTES: usize = 128 << 10;

/// The frame on its way.
pub(super) struct FrameEncoder {
    /// Into what has become of a block.
    encoder: Encoder<'static, Vec<u8>>,
}

impl FrameEncoder {
    /// The frame of a blob of this length, where it is known: the frame states it, so that its reader need not make
    /// room for more.
    pub(super) fn new(length: Option<u64>) -> Result<Self> {
        let mut encoder = Encoder::new(Vec::new(), LEVEL).map_err(refused)?;
        encoder.set_pledged_src_size(length).map_err(refused)?;
        Ok(FrameEncoder { encoder })
    }

    /// Takes the next bytes, cut anywhere, and calls `emit` with the bytes to store.
    pub(super) fn push(&mut self, bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        for block in bytes.chunks(BLOCK_BYTES) {
            self.encoder.write_all(block).map_err(refused)?;
            let stored = self.encoder.get_mut();
            emit(stored)?;
            stored.clear();
        }
        Ok(())
    }

    /// Must be called after the last byte.
    pub(super) fn finish(self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        emit(&self.encoder.finish().map_err(refused)?)
    }
}

/// There is nothing that it could refuse but another length than was stated, and inputs check theirs.
fn refused(error: io::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("Zstandard refuses a tensor: {error}"))
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
        fn any_split_into_pieces_gives_the_same_frame_and_it_decodes(
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
    fn refuses_another_length_than_was_stated() {
        for (given, stated) in [(10, 9), (9, 10)] {
            assert!(frame(&[&vec![7; given]], Some(stated)).is_err());
        }
    }
}
