//! Detects the layout of a file, and calls its parser.

use super::blob::ALIGNMENT;
use super::contents::{Contents, MAGIC_BYTES, NAME};
use super::{v1, v2};
use crate::error::Result;
use crate::format::entry::ZeroPadding;
use crate::index::{Index, Parsed};
use crate::window::{Stop, Window};
use std::collections::HashMap;

/// Padding must be zero in 0.1 and 1.x.
pub(super) fn zero_padding(window: &Window) -> Result<Option<ZeroPadding>, Stop> {
    let padding = ZeroPadding { head_bytes: MAGIC_BYTES, alignment: ALIGNMENT };
    Ok((window.get(0..MAGIC_BYTES)? != v2::MAGIC).then_some(padding))
}

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let magic = window.get(0..MAGIC_BYTES)?;
    let contents = if magic == v2::MAGIC { v2::parse(window)? } else { v1::parse(window)? };
    let Contents { version, metadata, tensors, warnings } = contents;
    Ok(Parsed::File(Index {
        format: NAME,
        version,
        metadata,
        long_arrays: Vec::new(),
        tensors: tensors.into(),
        warnings,
        other_shards: HashMap::new(),
        blocks: Vec::new(),
        quantized: None,
    }))
}
