//! Detects the layout of a file, and calls its parser.

use super::contents::{Contents, MAGIC_BYTES, NAME};
use super::{v1, v2};
use crate::error::Result;
use crate::index::{Index, Parsed};
use crate::window::{Stop, Window};
use std::collections::HashMap;

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let magic = window.get(0..MAGIC_BYTES)?;
    let contents = if magic == v2::MAGIC { v2::parse(window)? } else { v1::parse(window)? };
    let Contents { version, metadata, tensors, warnings } = contents;
    Ok(Parsed::File(Index {
        format: NAME,
        version,
        metadata,
        long_arrays: Vec::new(),
        tensors,
        warnings,
        other_shards: HashMap::new(),
    }))
}
