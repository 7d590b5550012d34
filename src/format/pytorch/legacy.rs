//! Reads the layout before PyTorch 1.6: pickles of a magic number, a version, the sizes of types on the system, what
//! was saved, and the keys of the storages, then the storages in the order of the keys. Numbers are little-endian, also
//! if a big-endian system wrote them.
//!
//! A storage is preceded by its number of elements, which the pickle states too. If the storages are small, all of
//! these numbers are compared; otherwise only the first and the last, because each takes a request. The end of the last
//! storage must be the end of the file.

use super::listing::{ByteOrder, Compression, Listing, StoredStorage};
use super::pickle::{self, Failure, Graph, MAX_PICKLE_BYTES, Node, Span, Value};
use super::state::{self, State};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::Parsed;
use crate::values::budget::Budget;
use crate::window::{Stop, Window};
use std::collections::HashMap;
use std::ops::Range;

/// The version that all releases write.
const VERSION: i64 = 1001;

/// The size of the number of elements before a storage.
const COUNT_BYTES: u64 = 8;

/// The maximum length of the small pickles: a number, and the sizes of types.
const MAX_SMALL_BYTES: u64 = 64 << 10;

/// If the storages have at most this many bytes together, the numbers of elements of all of them are compared.
const MAX_COMPARED_BYTES: u64 = 16 << 20;

/// The number of bytes of a pickle that are read first.
const FIRST_BYTES: u64 = 64 << 10;

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let mut at = 0;
    let mut budget = Budget::of(window, MAX_SMALL_BYTES);
    at += read_pickle(window, at, MAX_SMALL_BYTES, &mut budget)?.length;
    let version = read_pickle(window, at, MAX_SMALL_BYTES, &mut budget)?;
    if version.root != Value::Int(VERSION) {
        let what = format!("a version of PyTorch's files before 1.6 that is not {VERSION}");
        return Err(Error::new(ErrorKind::Unsupported, what).at(at..at + version.length).into());
    }
    at += version.length;
    at += read_pickle(window, at, MAX_SMALL_BYTES, &mut budget)?.length;

    // The length of the pickles is not stated. It is at most that of the file.
    let length = window.file_length().unwrap_or(u64::MAX).min(MAX_PICKLE_BYTES);
    let mut budget = Budget::of(window, length).for_tensors();
    let before = budget.mark();
    let saved = read_pickle(window, at, MAX_PICKLE_BYTES, &mut budget)?;
    at += saved.length;
    let keys = read_pickle(window, at, MAX_PICKLE_BYTES, &mut budget)?;
    at += keys.length;
    let state = state::walk(&saved, &mut budget)?;
    let storages = place_storages(&saved.graph, &keys, at, &mut budget)?;
    check_counts(window, &storages)?;
    let texts = saved.graph.without_nodes();
    budget.give_back(before); // the tensors are made when the pickles are released
    state.charge(&mut budget)?;
    let State { tensors, metadata, skipped } = state;
    let mut listing = Listing::new(skipped);
    for (name, view) in tensors.into_items() {
        let key = texts.bytes(view.storage.key);
        let Some(place) = storages.by_key.get(key).and_then(|at| storages.places.get(*at)) else {
            return Err(malformed("the file has no storage for it").in_tensor(&name).into());
        };
        let (compression, byte_order, byte_length) = (Compression::None, ByteOrder::Little, place.byte_length());
        let stored = StoredStorage { range: place.range(), byte_length, compression, byte_order, crc32: None };
        listing.add(name, view, &stored)?;
    }
    Ok(listing.into_parsed(VERSION.to_string(), metadata, window.file_length())?)
}

/// Reads the pickle at an offset, of unknown length: twice as many bytes each time.
fn read_pickle<'w>(
    window: &'w Window,
    start: u64,
    limit: u64,
    budget: &mut Budget,
) -> Result<pickle::Loaded<'w>, Stop> {
    let known = window.known_from(start, start.saturating_add(limit));
    let failure = match pickle::load(known, Some(start), budget) {
        Ok(loaded) => return Ok(loaded),
        Err(Failure::Failed(error)) => return Err(error.into()),
        Err(Failure::Ended) => known.len() as u64,
    };
    if failure >= limit {
        let what = format!("a pickle of the file has more than {limit} bytes");
        return Err(Error::new(ErrorKind::Limit, what).at(start..start.saturating_add(limit)).into());
    }
    let end = start.saturating_add(failure.saturating_mul(2).clamp(FIRST_BYTES, limit.max(FIRST_BYTES)));
    match window.file_length() {
        Some(length) if start.saturating_add(failure) >= length => {
            let what = "the file ends before a pickle of it does";
            Err(Error::new(ErrorKind::Truncated, what).at(start..length).into())
        }
        length => Err(Stop::Need(start..end.min(length.unwrap_or(u64::MAX)))),
    }
}

/// A storage and the number of elements before it.
struct Place {
    /// The offset of the number.
    start: u64,
    count: u64,
    element_bytes: u64,
}

impl Place {
    /// Checked when it is placed.
    fn byte_length(&self) -> u64 {
        self.count.saturating_mul(self.element_bytes)
    }

    fn range(&self) -> Range<u64> {
        let start = self.start + COUNT_BYTES;
        start..start + self.byte_length()
    }
}

/// The storages of a file.
struct Storages<'a> {
    /// In the order of the file.
    places: Vec<Place>,
    by_key: HashMap<&'a [u8], usize>,
    end: u64,
}

/// Places the storages one after another. Only the pickle states their sizes.
fn place_storages<'a>(
    graph: &Graph<'a>,
    keys: &pickle::Loaded<'a>,
    start: u64,
    budget: &mut Budget,
) -> Result<Storages<'a>> {
    let Some(Node::List(items)) = keys.graph.node(keys.root) else {
        return Err(malformed("the file does not list the keys of its storages").at(start - keys.length..start));
    };
    let stated = graph.storages();
    budget.bytes((stated.len() as u64 + items.len() as u64) * 2 * size_of::<(Span, Place, usize)>() as u64, 0)?;
    let sizes: HashMap<&[u8], (u64, u64)> = stated.into_iter().collect();
    let mut storages = Storages { places: Vec::with_capacity(items.len()), by_key: HashMap::new(), end: start };
    for item in items {
        let key = match item {
            Value::Text(span) => keys.graph.bytes(*span),
            _ => return Err(malformed("the key of a storage is no text").at(start - keys.length..start)),
        };
        let missing =
            || malformed("the file lists a storage whose size it does not state").at(start - keys.length..start);
        let (count, element_bytes) = *sizes.get(key).ok_or_else(missing)?;
        let end = count.checked_mul(element_bytes).and_then(|bytes| bytes.checked_add(COUNT_BYTES));
        let end = end.and_then(|bytes| storages.end.checked_add(bytes));
        let overflow =
            || malformed(format!("a storage of {count} elements overflows u64")).at(start - keys.length..start);
        storages.by_key.insert(key, storages.places.len());
        storages.places.push(Place { start: storages.end, count, element_bytes });
        storages.end = end.ok_or_else(overflow)?;
    }
    Ok(storages)
}

/// Compares the numbers of elements before storages with those in the pickle, and the end of the file.
fn check_counts(window: &Window, storages: &Storages) -> Result<(), Stop> {
    if let Some(length) = window.file_length()
        && length != storages.end
    {
        let what = format!("its storages should end at {}, but the file has {length} bytes", storages.end);
        let kind = if length < storages.end { ErrorKind::Truncated } else { ErrorKind::Format };
        return Err(Error::new(kind, what).into());
    }
    let [first, last] = [storages.places.first(), storages.places.last()];
    let (Some(first), Some(last)) = (first, last) else { return Ok(()) };
    let is_small = last.start - first.start <= MAX_COMPARED_BYTES;
    let compared: Vec<_> = if is_small { storages.places.iter().collect() } else { vec![first, last] };
    let ranges: Vec<_> = compared.iter().map(|place| place.start..place.start + COUNT_BYTES).collect();
    window.ensure_scattered(&ranges)?;
    for (place, range) in compared.into_iter().zip(ranges) {
        let count = window.get(range.clone())?.try_into().map(u64::from_le_bytes).unwrap_or_default();
        if count != place.count {
            let what = format!("a storage should have {} elements, but its own count is {count}", place.count);
            return Err(malformed(what).at(range).into());
        }
    }
    Ok(())
}
