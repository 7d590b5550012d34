//! Sorting by offsets, and sorted collections, in little code.

/// The key by which tensors and ranges are sorted. The code that sorts is generated for each type of key, and takes up
/// to 30 KB of a module, so all sorting by offsets has this one.
pub(crate) type SortKey = (u64, u64, u64);

/// Sorts by a key, stably. Allocates a list of the keys, unless the items are in order already, as those of most files
/// are: a model may have 100,000 tensors.
pub(crate) fn sort<T>(items: &mut [T], key: impl Fn(&T) -> SortKey) {
    if !items.is_sorted_by_key(&key) {
        items.sort_by_cached_key(key);
    }
}

/// Collects items into a `BTreeMap` or a `BTreeSet`, one after another. `collect` sorts them first, which takes 6 KB of
/// a module for each type.
pub(crate) fn gather<T, C: Default + Extend<T>>(items: impl IntoIterator<Item = T>) -> C {
    let mut gathered = C::default();
    gathered.extend(items);
    gathered
}
