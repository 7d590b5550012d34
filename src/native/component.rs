//! Decodes a component of an open file into memory.

use super::storage::Storage;
use crate::codec::ComponentDecoder;
use crate::error::Result;
use crate::index::{Algorithm, Component};
use crate::loader::OutputBuffer;

/// Decodes a whole component. Returns its bytes and the algorithm of the verified digest.
pub(super) fn decode(storage: &Storage, component: &Component) -> Result<(Vec<u8>, Option<Algorithm>)> {
    let mut output = OutputBuffer::allocate(component, 0..component.decoded_length.unwrap_or(u64::MAX))?;
    let mut decoder = ComponentDecoder::of(component);
    let mut end = 0;
    storage.read_pieces(&component.range, &mut |stored| {
        decoder.push(stored, &mut |bytes| {
            output.write(end, bytes)?;
            end += bytes.len() as u64;
            Ok(())
        })
    })?;
    let verified = decoder.finish(true)?;
    Ok((output.finish(component, end)?, verified))
}
