//! The one type of key for sorting by offsets.

/// The key by which tensors and ranges are sorted with `sort_by_cached_key`. The code that sorts is generated for each
/// type, and takes up to 30 KB of a module, so all sorting by offsets has this key.
pub(crate) type SortKey = (u64, u64, u64);
