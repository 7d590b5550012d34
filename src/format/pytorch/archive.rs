//! Reads archives: the layout since PyTorch 1.6.
//!
//! Storages are members of the archive. Their offsets are computed without reading their local headers, if the archive
//! has the layout that PyTorch gives it: see `zip`. Reading the index takes the end of the file, its start, and what
//! these do not contain of the pickle.

use super::listing::{ByteOrder, Compression, Listing, StoredStorage};
use super::pickle::{self, Failure, MAX_PICKLE_BYTES};
use super::rebuild::View;
use super::state::{self, State};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format::warned::Warned;
use crate::index::{Metadata, Parsed};
use crate::values::budget::Budget;
use crate::window::{Stop, Window};
use crate::zip::{Archive, Entry, Method};
use std::borrow::Cow;
use std::collections::HashMap;

/// The name of the pickle in the folder of the archive.
const PICKLE: &str = "data.pkl";

/// The alignment of storages, unless the archive states another one.
const ALIGNMENT: u64 = 64;

/// The maximum length of the members that contain a word.
const MAX_WORD_BYTES: u64 = 64;

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let fetch = |contents: &mut Option<Contents>| match contents {
        Some(contents) => contents.fetch_headers(window),
        None => Ok(()),
    };
    match window.resume(|| Contents::read(window), fetch)? {
        Some(contents) => contents.list(window),
        None => without_pickle(window),
    }
}

/// What an archive contains, before the places of its storages are known.
struct Contents {
    archive: Archive,
    version: String,
    byte_order: ByteOrder,
    alignment: u64,
    /// The tensors, each with the index of the member that has its storage.
    tensors: Vec<(String, View, usize)>,
    metadata: Metadata,
    skipped: Warned,
}

impl Contents {
    /// Reads the pickle of the archive; `None` if it has none.
    fn read(window: &Window) -> Result<Option<Contents>, Stop> {
        let archive = Archive::read(window)?;
        let pickles = archive.entries.iter().filter_map(|entry| Some((entry.name.strip_suffix(PICKLE)?, entry)));
        let pickles = pickles.filter(|(folder, _)| folder.is_empty() || folder.ends_with('/'));
        let Some((folder, entry)) = pickles.min_by_key(|(folder, _)| folder.len()) else { return Ok(None) };
        let by_name: HashMap<&str, usize> = (0..).zip(&archive.entries).map(|(at, entry)| (&*entry.name, at)).collect();
        let word = |name: &str, budget: &mut Budget| {
            let entry = by_name.get(&*format!("{folder}{name}")).and_then(|at| archive.entries.get(*at));
            entry.map(|entry| read_word(window, entry, budget)).transpose()
        };
        let mut budget = Budget::of(window, archive.directory_length.saturating_add(entry.byte_length)).for_tensors();
        let version = word("version", &mut budget)?.unwrap_or_default();
        let byte_order = match word("byteorder", &mut budget)?.as_deref() {
            Some("big") => ByteOrder::Big,
            None | Some("little") => ByteOrder::Little,
            Some(other) => {
                let what = format!("the byte order of the archive is \"{}\"", other.escape_debug());
                return Err(Error::new(ErrorKind::Unsupported, what).into());
            }
        };
        let alignment = word(".storage_alignment", &mut budget)?.and_then(|word| word.parse().ok());
        let alignment = alignment.filter(|alignment: &u64| *alignment > 0).unwrap_or(ALIGNMENT);
        let bytes = entry.content(window, MAX_PICKLE_BYTES, &mut budget)?;
        let start = if let Cow::Borrowed(_) = bytes { Some(entry.data(window)?.start) } else { None };
        let before = budget.mark();
        let loaded = pickle::load(&bytes, start, &mut budget).map_err(|failure| match failure {
            Failure::Failed(error) => error,
            Failure::Ended => malformed("the pickle of the archive ends before its last opcode"),
        })?;
        let state = state::walk(&loaded, &mut budget)?;
        budget.give_back(before); // the tensors are made when the pickle is released
        state.charge(&mut budget)?;
        let State { tensors, metadata, skipped } = state;
        let mut placed = Vec::with_capacity(tensors.len());
        for (name, view) in tensors.into_items() {
            let key = loaded.graph.text(view.storage.key).unwrap_or_default();
            let Some(at) = by_name.get(&*format!("{folder}data/{key}")) else {
                let what = format!("the archive has no member \"{}\" with its storage", shortened(key));
                return Err(malformed(what).in_tensor(&name).into());
            };
            placed.push((name, view, *at));
        }
        Ok(Some(Contents { version, byte_order, alignment, tensors: placed, metadata, skipped, archive }))
    }

    /// Stops unless the local headers are known whose lengths cannot be computed.
    fn fetch_headers(&self, window: &Window) -> Result<(), Stop> {
        let mut needed: Vec<_> = self.tensors.iter().map(|(_, _, at)| *at).collect();
        needed.sort_unstable();
        needed.dedup();
        let entries = needed.iter().filter_map(|at| self.archive.entries.get(*at));
        let unknown = entries.filter(|entry| entry.aligned_data(self.alignment).is_none());
        window.ensure_scattered(&unknown.map(|entry| entry.head(0)).collect::<Vec<_>>())
    }

    fn list(self, window: &Window) -> Result<Parsed, Stop> {
        let mut listing = Listing::new(self.skipped);
        for (name, view, at) in self.tensors {
            let Some(entry) = self.archive.entries.get(at) else { continue };
            let compression = match entry.method().map_err(|e| e.in_tensor(&name))? {
                Method::Stored => Compression::None,
                Method::Deflated => Compression::Deflate,
            };
            let range = match entry.aligned_data(self.alignment) {
                Some(range) => range,
                None => entry.data(window)?,
            };
            let (byte_length, byte_order, crc32) = (entry.byte_length, self.byte_order, Some(entry.crc32));
            listing.add(name, view, &StoredStorage { range, byte_length, compression, byte_order, crc32 })?;
        }
        Ok(listing.into_parsed(self.version, self.metadata, window.file_length())?)
    }
}

/// A member that contains a word.
fn read_word(window: &Window, entry: &Entry, budget: &mut Budget) -> Result<String, Stop> {
    let content = entry.content(window, MAX_WORD_BYTES, budget)?;
    Ok(String::from_utf8_lossy(&content).trim().to_owned())
}

fn shortened(key: &str) -> String {
    key.chars().take(100).collect()
}

/// An archive without a pickle may have arrays of NumPy behind another member.
fn without_pickle(window: &Window) -> Result<Parsed, Stop> {
    #[cfg(feature = "npz")]
    {
        let archive = Archive::read(window)?;
        if archive.entries.iter().any(|entry| entry.name.ends_with(".npy")) {
            return crate::format::npz::parse_archive(window, archive);
        }
    }
    let what = "this file is a ZIP archive, and contains neither a pickle of PyTorch nor arrays of NumPy";
    Err(Error::new(ErrorKind::Unsupported, what).advise("Extract the model from it.").into())
}
