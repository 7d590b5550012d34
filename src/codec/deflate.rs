//! Decodes DEFLATE (RFC 1951) incrementally, with the crate `miniz_oxide`. Buffers the window of 32 KiB that matches
//! refer to, and 64 KiB of output.
//!
//! Entries of ZIP archives may begin with a header that is not an element of the tensor: the decoder skips it.

use crate::error::{Error, Result, malformed};
use crate::index::{Component, Encoding};
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

/// Decoded bytes are emitted in pieces of at most this size.
const PIECE_BYTES: usize = 64 << 10;

/// The maximum compression ratio: a match of 258 bytes takes two bits.
const MAX_RATIO: u64 = 1032;

/// Decodes one stream from chunks of any length.
pub struct Deflate {
    state: Box<InflateState>,
    output: Box<[u8]>,
    stored_left: u64,
    /// The bytes before those of the component that are not decoded yet.
    skipped_left: u64,
    decoded_length: u64,
    decoded_left: u64,
    is_at_end: bool,
}

impl Deflate {
    /// Creates the decoder of a component.
    pub fn of(component: &Component) -> Self {
        let stored = component.range.end.saturating_sub(component.range.start);
        let skipped = match component.encoding {
            Encoding::Deflate { skipped } => skipped.into(),
            _ => 0,
        };
        Self::new(stored, skipped, component.decoded_length.unwrap_or(0))
    }

    /// Creates a decoder of `stored` bytes that must decode to `skipped` bytes, which are not emitted, and `decoded`
    /// bytes.
    pub fn new(stored: u64, skipped: u64, decoded: u64) -> Self {
        Deflate {
            state: InflateState::new_boxed(DataFormat::Raw),
            output: vec![0; PIECE_BYTES].into(),
            stored_left: stored,
            skipped_left: skipped,
            decoded_length: decoded,
            decoded_left: decoded,
            is_at_end: false,
        }
    }

    /// See [`Decoder::push`](super::Decoder::push).
    ///
    /// # Errors
    /// `FORMAT` if the stream is damaged, or longer than passed to `new`; errors of `emit`.
    pub fn push(&mut self, mut input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        loop {
            let (taken, decoded) = self.step(input, emit)?;
            input = input.get(taken..).unwrap_or_default();
            if taken == 0 && decoded == 0 {
                return Ok(());
            }
        }
    }

    /// See [`Decoder::push_some`](super::Decoder::push_some).
    ///
    /// # Errors
    /// As for [`Deflate::push`].
    pub fn push_some(&mut self, mut input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        let (all, mut has_emitted) = (input.len(), false);
        loop {
            let (taken, decoded) = self.step(input, &mut |bytes| {
                has_emitted = true;
                emit(bytes)
            })?;
            input = input.get(taken..).unwrap_or_default();
            // A piece that is skipped emits nothing, but there may be more.
            if has_emitted || (taken == 0 && decoded == 0) {
                return Ok(all - input.len());
            }
        }
    }

    /// See [`Decoder::finish`](super::Decoder::finish).
    ///
    /// # Errors
    /// `FORMAT` if stored or decoded bytes are missing.
    pub fn finish(&self) -> Result<()> {
        if !self.is_at_end || self.stored_left > 0 {
            return Err(malformed("its DEFLATE stream is incomplete, or ends before its last stored byte"));
        }
        if self.skipped_left > 0 || self.decoded_left > 0 {
            let decoded = self.decoded_length - self.decoded_left;
            return Err(malformed(format!(
                "its DEFLATE stream decodes to {decoded} bytes, not {}",
                self.decoded_length
            )));
        }
        Ok(())
    }

    /// Decodes one piece. Returns the number of bytes that were read and decoded.
    fn step(&mut self, input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<(usize, usize)> {
        if input.len() as u64 > self.stored_left || (self.is_at_end && !input.is_empty()) {
            return Err(malformed("there are more bytes than its DEFLATE stream should have"));
        }
        if self.is_at_end {
            return Ok((0, 0));
        }
        let result = inflate(&mut self.state, input, &mut self.output, MZFlush::None);
        match result.status {
            Ok(MZStatus::StreamEnd) => self.is_at_end = true,
            Ok(_) | Err(MZError::Buf) => {} // needs input, or has no room for output
            Err(_) => return Err(malformed("its DEFLATE stream is damaged")),
        }
        let (taken, decoded) = (result.bytes_consumed, result.bytes_written);
        self.stored_left = self.stored_left.saturating_sub(taken as u64);
        let skipped = usize::try_from(self.skipped_left).unwrap_or(usize::MAX).min(decoded);
        self.skipped_left -= skipped as u64;
        let left = self.decoded_left.checked_sub((decoded - skipped) as u64);
        self.decoded_left = left.ok_or_else(|| self.too_long())?;
        if decoded > skipped {
            emit(self.output.get(skipped..decoded).unwrap_or_default())?;
        }
        Ok((taken, decoded))
    }

    fn too_long(&self) -> Error {
        malformed(format!("its DEFLATE stream decodes to more than the {} bytes that are stated", self.decoded_length))
    }
}

impl std::fmt::Debug for Deflate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deflate").field("decoded_left", &self.decoded_left).finish_non_exhaustive()
    }
}

/// Checks a claimed decoded length against the stored length.
///
/// # Errors
/// `FORMAT` if no `stored` bytes of DEFLATE can decode to `decoded` bytes.
pub fn check_lengths(stored: u64, decoded: u64) -> Result<()> {
    if decoded / MAX_RATIO > stored {
        return Err(malformed(format!("{stored} bytes of DEFLATE cannot decode to {decoded}")));
    }
    Ok(())
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use miniz_oxide::deflate::compress_to_vec;
    use proptest::prelude::*;

    fn decode(stored: &[u8], skipped: u64, length: u64, cuts: &[usize]) -> Result<Vec<u8>> {
        let mut decoder = Deflate::new(stored.len() as u64, skipped, length);
        let (mut out, mut rest) = (Vec::new(), stored);
        for &cut in cuts.iter().chain([&stored.len()]) {
            let (chunk, after) = rest.split_at(cut.min(rest.len()));
            decoder.push(chunk, &mut |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            })?;
            rest = after;
        }
        decoder.finish()?;
        Ok(out)
    }

    proptest! {
        #[test]
        fn the_output_does_not_depend_on_the_chunks(
            seed in proptest::collection::vec(any::<u8>(), 1..300), repeat in 1usize..900,
            cuts in proptest::collection::vec(0usize..9000, 0..9), skipped in 0usize..300,
        ) {
            let data = seed.repeat(repeat);
            let skipped = skipped.min(data.len());
            let (stored, length) = (compress_to_vec(&data, 6), (data.len() - skipped) as u64);
            prop_assert_eq!(decode(&stored, skipped as u64, length, &cuts), Ok(data[skipped..].to_vec()));
        }

        #[test]
        fn any_bytes_give_at_most_the_stated_length(stored in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(decoded) = decode(&stored, 3, 50, &[1, 7]) {
                prop_assert_eq!(decoded.len(), 50);
            }
        }
    }

    #[test]
    fn rejects_streams_of_another_length_and_bytes_behind_them() {
        let stored = compress_to_vec(&[7; 1000], 6);
        assert!(decode(&stored, 0, 999, &[]).unwrap_err().what.contains("more than the 999 bytes"));
        assert!(decode(&stored, 0, 1001, &[]).unwrap_err().what.contains("decodes to 1000 bytes, not 1001"));
        assert!(decode(&stored[..stored.len() - 1], 0, 1000, &[]).unwrap_err().what.contains("incomplete"));
        assert!(decode(&[&stored[..], &[0]].concat(), 0, 1000, &[]).unwrap_err().what.contains("more bytes"));
        assert!(check_lengths(10, 20_000).is_err());
    }

    #[test]
    fn emits_a_bomb_in_pieces() {
        let stored = compress_to_vec(&vec![0; 10 << 20], 9);
        let mut decoder = Deflate::new(stored.len() as u64, 100, (10 << 20) - 100);
        let (mut decoded, mut rest) = (0, &stored[..]);
        while decoded < (10 << 20) - 100 {
            let mut pieces = 0;
            let taken = decoder.push_some(rest, &mut |bytes| {
                (pieces, decoded) = (pieces + 1, decoded + bytes.len());
                assert!(bytes.len() <= PIECE_BYTES);
                Ok(())
            });
            rest = &rest[taken.unwrap()..];
            assert!(pieces <= 1);
        }
        decoder.push(rest, &mut |_| Ok(())).unwrap();
        assert_eq!(decoder.finish(), Ok(()));
    }
}
