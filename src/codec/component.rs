//! One component from its stored bytes: decoded and digested piece by piece, natively, in a page and in workers.

use super::Decoder;
use super::digest::{self, Hasher};
use crate::error::Result;
use crate::index::{Component, ComponentDigest, DigestedBytes};

/// Takes the stored bytes of a component, cut anywhere, and gives the decoded ones.
#[derive(Debug)]
pub(crate) struct ComponentDecoder {
    /// `None` where the bytes are stored as they are.
    decoder: Option<Decoder>,
    digests: Vec<(ComponentDigest, Hasher)>,
}

impl ComponentDecoder {
    /// A decoder that checks these digests, which may be more or fewer than the component's own.
    pub(crate) fn new(component: &Component, digests: impl IntoIterator<Item = ComponentDigest>) -> Self {
        let digests = digests.into_iter().map(|stated| (stated, Hasher::new(stated.digest))).collect();
        ComponentDecoder { decoder: Decoder::new(component), digests }
    }

    /// A decoder that checks the component's own digest, if it has one.
    pub(crate) fn of(component: &Component) -> Self {
        ComponentDecoder::new(component, component.digest)
    }

    /// Takes the next stored bytes and calls `emit` with decoded ones, in order.
    ///
    /// # Errors
    /// `FORMAT` where they cannot be decoded; those of `emit`.
    pub(crate) fn push(&mut self, stored: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let ComponentDecoder { decoder, digests } = self;
        update(digests, DigestedBytes::Stored, stored);
        let mut emit = |decoded: &[u8]| {
            update(digests, DigestedBytes::Decoded, decoded);
            emit(decoded)
        };
        match decoder {
            Some(decoder) => decoder.push(stored, &mut emit),
            None => emit(stored),
        }
    }

    /// Whether any digest is checked.
    pub(crate) fn has_digests(&self) -> bool {
        !self.digests.is_empty()
    }

    /// Takes bytes that are stored as they are, and lie where they belong already.
    pub(crate) fn digest_raw(&mut self, bytes: &[u8]) {
        update(&mut self.digests, DigestedBytes::Stored, bytes);
        update(&mut self.digests, DigestedBytes::Decoded, bytes);
    }

    /// Compares the digests, after the last byte, and gives the algorithm of the last one. `is_complete` says whether
    /// all of the component came, so that the encoding must have ended.
    ///
    /// # Errors
    /// `FORMAT` where the encoding has not ended; `CHECKSUM` where the bytes have another digest.
    pub(crate) fn finish(self, is_complete: bool) -> Result<Option<&'static str>> {
        if let Some(decoder) = self.decoder.filter(|_| is_complete) {
            decoder.finish()?;
        }
        let mut algorithm = None;
        for (stated, hasher) in self.digests {
            algorithm = Some(digest::compare(hasher.finish(), stated.digest)?);
        }
        Ok(algorithm)
    }
}

fn update(digests: &mut [(ComponentDigest, Hasher)], which: DigestedBytes, bytes: &[u8]) {
    for (_, hasher) in digests.iter_mut().filter(|(stated, _)| stated.over == which) {
        hasher.update(bytes);
    }
}
