//! Compresses blobs, each into one Zstandard frame, in the pieces in which they come.

use crate::error::{Error, ErrorKind, Result};
use std::io;
use structured_zstd::encoding::{CompressionContext, CompressionLevel};

/// The reference encoder's default, which the format's own tools use too.
const LEVEL: CompressionLevel = CompressionLevel::Level(3);

/// Compresses one blob after another, in the same few megabytes of memory.
pub(super) struct FrameEncoder {
    context: CompressionContext,
    /// What has become of a piece.
    stored: Vec<u8>,
}

impl FrameEncoder {
    pub(super) fn new() -> Self {
        FrameEncoder { context: CompressionContext::new(LEVEL), stored: Vec::new() }
    }

    /// Begins the frame of a blob of this length, where it is known.
    pub(super) fn begin(&mut self, length: Option<u64>) -> Result<()> {
        self.context.set_content_checksum(false).map_err(refused)?;
        length.map_or(Ok(()), |length| self.context.set_pledged_content_size(length).map_err(refused))
    }

    /// Takes the next bytes, cut anywhere, and calls `emit` with the bytes to store.
    pub(super) fn push(&mut self, mut bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while !bytes.is_empty() {
            let taken = self.context.write(&mut self.stored, bytes).map_err(refused)?;
            bytes = bytes.get(taken..).unwrap_or_default();
        }
        self.emit(emit)
    }

    /// Must be called after the last byte.
    pub(super) fn finish(&mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.context.finish_frame(&mut self.stored).map_err(refused)?;
        self.emit(emit)
    }

    fn emit(&mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        emit(&self.stored)?;
        self.stored.clear();
        Ok(())
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
    use crate::codec::zstd::decode;
    use proptest::prelude::*;

    fn frame(encoder: &mut FrameEncoder, pieces: &[&[u8]], length: Option<u64>) -> Vec<u8> {
        let mut stored = Vec::new();
        let mut emit = |bytes: &[u8]| {
            stored.extend_from_slice(bytes);
            Ok(())
        };
        encoder.begin(length).unwrap();
        pieces.iter().for_each(|piece| encoder.push(piece, &mut emit).unwrap());
        encoder.finish(&mut emit).unwrap();
        stored
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

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
            let mut used = FrameEncoder::new();
            frame(&mut used, &[b"another one"], None);
            let stored = frame(&mut used, &pieces, length);
            prop_assert!(stored == frame(&mut FrameEncoder::new(), &[&data], length));
            prop_assert!(decode(&stored, data.len() as u64, 1 << 20) == Ok(data));
        }
    }

    #[test]
    fn refuses_another_length_than_was_stated() {
        for (given, stated) in [(10, 9), (9, 10)] {
            let mut encoder = FrameEncoder::new();
            encoder.begin(Some(stated)).unwrap();
            let pushed = encoder.push(&vec![7; given], &mut |_| Ok(()));
            assert!(pushed.and_then(|()| encoder.finish(&mut |_| Ok(()))).is_err());
        }
    }
}
