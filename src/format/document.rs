//! Reads JSON documents: the manifests of models, and those that list tensors themselves.

use crate::error::Result;
use crate::values::{budget::Budget, json};
use crate::window::{Stop, Window};
use serde_json::{Map, Value};

/// The maximum size of a manifest. Manifests are read whole; one for 100,000 tensors has about 10 MB. The limit
/// prevents a manifest from exhausting memory.
#[doc(hidden)]
pub const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// Reads the whole file as a JSON object. Also returns the budget that its values have left.
///
/// # Errors
/// [`Stop::Need`] while bytes are missing; `FORMAT` for another document; `LIMIT` for one that is too long.
pub(super) fn read(window: &Window) -> Result<(Map<String, Value>, Budget), Stop> {
    let whole = window.get_all(MAX_MANIFEST_BYTES)?;
    let bytes = json::without_byte_order_mark(whole);
    let (start, mut budget) = ((whole.len() - bytes.len()) as u64, Budget::of(window, whole.len() as u64));
    let document = json::parse_object(bytes, start, "the manifest", &mut budget)?;
    Ok((document, budget))
}
