//! One component of a file that is open natively.

use super::storage::Storage;
use crate::codec::ComponentDecoder;
use crate::error::Result;
use crate::index::Component;
use crate::loader::Kept;

/// All of a component, decoded, and the algorithm that it was checked by.
pub(super) fn decode(storage: &Storage, component: &Component) -> Result<(Vec<u8>, Option<&'static str>)> {
    let mut kept = Kept::allocate(component, 0..component.decoded_length.unwrap_or(u64::MAX))?;
    let mut decoder = ComponentDecoder::of(component);
    let mut end = 0;
    storage.read_pieces(&component.range, &mut |stored| {
        decoder.push(stored, &mut |bytes| {
            kept.write(end, bytes)?;
            end += bytes.len() as u64;
            Ok(())
        })
    })?;
    let verified = decoder.finish(true)?;
    Ok((kept.finish(component, end)?, verified))
}
