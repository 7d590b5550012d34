//! One component from its stored bytes: decoded piece by piece, and digested on the way.

use super::storage::Storage;
use crate::codec::Decoder;
use crate::codec::digest::{self, Hasher};
use crate::error::Result;
use crate::index::{Component, ComponentDigest, DigestedBytes};
use crate::loader::Kept;

/// Takes the stored bytes of a component, cut anywhere, and gives the decoded ones.
pub(crate) struct ComponentReader {
    decoder: Option<Decoder>,
    digest: Option<(ComponentDigest, Hasher)>,
}

impl ComponentReader {
    pub(crate) fn new(component: &Component) -> Self {
        let digest = component.digest.map(|stated| (stated, Hasher::new(stated.digest)));
        ComponentReader { decoder: Decoder::new(component), digest }
    }

    /// Takes the next stored bytes and calls `emit` with decoded ones, in order.
    pub(crate) fn push(&mut self, stored: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let ComponentReader { decoder, digest } = self;
        update(digest, DigestedBytes::Stored, stored);
        let mut emit = |decoded: &[u8]| {
            update(digest, DigestedBytes::Decoded, decoded);
            emit(decoded)
        };
        match decoder {
            Some(decoder) => decoder.push(stored, &mut emit),
            None => emit(stored),
        }
    }

    /// Must be called after the last byte; gives the algorithm that the component was checked by.
    pub(crate) fn finish(self) -> Result<Option<&'static str>> {
        if let Some(decoder) = &self.decoder {
            decoder.finish()?;
        }
        let compare = |(stated, hasher): (ComponentDigest, Hasher)| digest::compare(hasher.finish(), stated.digest);
        self.digest.map(compare).transpose()
    }
}

/// All of a component, decoded, and the algorithm that it was checked by.
pub(super) fn decode(storage: &Storage, component: &Component) -> Result<(Vec<u8>, Option<&'static str>)> {
    let mut kept = Kept::allocate(component, 0..component.decoded_length.unwrap_or(u64::MAX))?;
    let mut reader = ComponentReader::new(component);
    let mut end = 0;
    storage.read_pieces(&component.range, &mut |stored| {
        reader.push(stored, &mut |bytes| {
            kept.write(end, bytes)?;
            end += bytes.len() as u64;
            Ok(())
        })
    })?;
    let verified = reader.finish()?;
    Ok((kept.finish(component, end)?, verified))
}

fn update(digest: &mut Option<(ComponentDigest, Hasher)>, these: DigestedBytes, bytes: &[u8]) {
    if let Some((stated, hasher)) = digest
        && stated.over == these
    {
        hasher.update(bytes);
    }
}
