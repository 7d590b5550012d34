//! Decodes and digests one component incrementally: natively, in a page and in workers.

use crate::codec::Decoder;
use crate::codec::digest::{self, Hasher};
use crate::error::Result;
use crate::index::values::ValueCheck;
use crate::index::{Algorithm, BlockEnd, Component, ComponentDigest, DigestedBytes, StoredEnd};

/// Decodes the stored bytes of a component, in chunks of any length.
#[derive(Debug)]
pub(crate) struct ComponentDecoder {
    /// `None` for uncompressed bytes.
    decoder: Option<Decoder>,
    digests: Vec<(ComponentDigest, Hasher)>,
    /// Whether the last digest is over streams, so that the decoder compares it.
    ends_with_streams: bool,
    values: Option<ValueCheck>,
}

impl ComponentDecoder {
    /// Creates a decoder that verifies the component's values and `digests`, which may differ from its own.
    pub(crate) fn new(component: &Component, digests: impl IntoIterator<Item = ComponentDigest>) -> Self {
        let stated: Vec<_> = digests.into_iter().collect();
        let decoder = Decoder::new(component, &stated);
        let of_streams = |stated: &ComponentDigest| stated.over == DigestedBytes::Streams; // the decoder compares them
        let ends_with_streams = stated.last().is_some_and(of_streams);
        let digests = stated.into_iter().filter(|stated| !of_streams(stated));
        let digests = digests.map(|stated| (stated, Hasher::new(stated.digest))).collect();
        let values = component.rule.and_then(ValueCheck::new);
        ComponentDecoder { decoder, digests, ends_with_streams, values }
    }

    /// Decodes the next stored bytes and calls `emit` with the decoded bytes, in order. `at` is the offset of the bytes
    /// in the file if they are of one of several streams that are read side by side.
    ///
    /// # Errors
    /// `FORMAT` if the bytes cannot be decoded; errors of `emit`.
    pub(crate) fn push(
        &mut self,
        at: Option<u64>,
        stored: &[u8],
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let ComponentDecoder { decoder, digests, values, .. } = self;
        update(digests, DigestedBytes::Stored, stored);
        let mut emit = |decoded: &[u8]| {
            update(digests, DigestedBytes::Decoded, decoded);
            values.iter_mut().for_each(|check| check.update(decoded));
            emit(decoded)
        };
        match (decoder, at) {
            (Some(decoder), Some(at)) => decoder.push_at(at, stored, &mut emit),
            (Some(decoder), None) => decoder.push(stored, &mut emit),
            (None, _) => emit(stored),
        }
    }

    /// Whether the bytes are stored as they are.
    pub(crate) fn is_raw(&self) -> bool {
        self.decoder.is_none()
    }

    /// Whether any digest or value is verified.
    pub(crate) fn has_checks(&self) -> bool {
        !self.digests.is_empty() || self.values.is_some()
    }

    /// See [`Decoder::blocks`].
    pub(crate) fn blocks(&self) -> &[BlockEnd] {
        self.decoder.as_ref().map_or(&[], Decoder::blocks)
    }

    /// See [`Decoder::stream_blocks`].
    pub(crate) fn stream_blocks(&self) -> Vec<Vec<BlockEnd>> {
        self.decoder.as_ref().map_or(Vec::new(), Decoder::stream_blocks)
    }

    /// Checks uncompressed bytes that are already in the output buffer.
    pub(crate) fn check_raw(&mut self, bytes: &[u8]) {
        self.values.iter_mut().for_each(|check| check.update(bytes));
        update(&mut self.digests, DigestedBytes::Stored, bytes);
        update(&mut self.digests, DigestedBytes::Decoded, bytes);
    }

    /// Verifies the digests, after the last byte, and returns the algorithm of the last one.
    ///
    /// # Errors
    /// `FORMAT` if the encoding must be complete and is not, or a value is invalid; `CHECKSUM` if a digest does not
    /// match.
    pub(crate) fn finish(self, end: StoredEnd) -> Result<Option<Algorithm>> {
        let of_streams = match self.decoder.filter(|_| end == StoredEnd::Complete) {
            Some(decoder) => decoder.finish()?,
            None => None,
        };
        if let Some(values) = self.values {
            values.finish(end)?;
        }
        let mut algorithm = None;
        for (stated, hasher) in self.digests {
            algorithm = Some(digest::compare(hasher.finish(), stated.digest)?);
        }
        Ok(if self.ends_with_streams { of_streams.or(algorithm) } else { algorithm.or(of_streams) })
    }
}

fn update(digests: &mut [(ComponentDigest, Hasher)], which: DigestedBytes, bytes: &[u8]) {
    for (_, hasher) in digests.iter_mut().filter(|(stated, _)| stated.over == which) {
        hasher.update(bytes);
    }
}
