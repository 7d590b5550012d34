//! Names of objects, parts, attributes and shards.

use crate::error::{Result, malformed};
use crate::index::Metadata;
use crate::values::cbor::Cbor;

/// The maximum length in bytes of the name of an object, a part or an attribute.
const MAX_NAME_BYTES: usize = 1024;

/// Reads a map whose keys are names.
pub(super) fn named(cbor: &mut Cbor) -> Result<Metadata> {
    let mut map = Metadata::new();
    cbor.entries(|key, cbor| {
        check_name(key)?;
        let value = cbor.entry_value(map.len(), key)?;
        map.insert(key.to_owned(), value);
        Ok(())
    })?;
    Ok(map)
}

pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
        let what = format!("a name of {} bytes is empty, longer than {MAX_NAME_BYTES} or contains NUL", name.len());
        return Err(malformed(what));
    }
    Ok(())
}

/// Checks the name of a shard, which is the name of a file in the folder of the model.
pub(super) fn check_shard_name(name: &str) -> Result<()> {
    check_name(name)?;
    if name.starts_with('.') || name.contains(['/', '\\']) {
        let what =
            format!("the shard \"{}\" is not the name of a file in the folder of the model", name.escape_debug());
        return Err(malformed(what));
    }
    Ok(())
}
