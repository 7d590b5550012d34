//! zTensor 0.1 and 1.x: locates and parses the index.

use super::blob::Findings;
use super::contents::{Contents, MAGIC_BYTES, MAX_MANIFEST_BYTES, too_large};
use super::{list, manifest};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::check_tied_tensors;
use crate::values::cbor::Cbor;
use crate::window::{Stop, Window};
use std::ops::Range;

pub(super) const MAGIC_0: [u8; 8] = *b"ZTEN0001";
pub(super) const MAGIC_1: [u8; 8] = *b"ZTEN1000";

/// The layout of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// A list of tensors, in zTensor 0.1.
    List,
    /// A manifest, in zTensor 1.x.
    Manifest,
}

pub(super) fn parse(window: &Window) -> Result<Contents, Stop> {
    let layout = if window.get(0..MAGIC_BYTES)? == MAGIC_0 { Layout::List } else { Layout::Manifest };
    let index = index_range(window, layout)?;
    let cbor = Cbor::new(window.get(index.clone())?, index.start, "the manifest").in_file(window);
    Ok(read_index(cbor, index.start, layout)?)
}

/// Validates the manifest of a file being written. The manifest begins at `start` in the file.
///
/// # Errors
/// The errors that a reader of the file would return.
#[cfg(writes)]
pub(super) fn check_manifest(manifest: &[u8], start: u64) -> Result<()> {
    if manifest.len() as u64 > MAX_MANIFEST_BYTES {
        return Err(too_large(manifest.len() as u64, start + manifest.len() as u64));
    }
    read_index(Cbor::new(manifest, start, "the manifest"), start, Layout::Manifest).map(drop)
}

/// Reads an index, which begins at `start`.
fn read_index(mut cbor: Cbor, start: u64, layout: Layout) -> Result<Contents> {
    let mut findings = Findings::default();
    let mut contents = match layout {
        Layout::List => list::read(&mut cbor, &mut findings),
        Layout::Manifest => manifest::read(&mut cbor, &mut findings),
    }?;
    cbor.finish()?;
    check_tied_tensors(&mut contents.tensors, Some(start))?;
    contents.warnings.extend(findings.warnings());
    Ok(contents)
}

/// Returns the byte range of the index. It ends before its size field, at the end of the file.
fn index_range(window: &Window, layout: Layout) -> Result<Range<u64>, Stop> {
    let length = window.whole_length()?;
    let footer_start = length.checked_sub(2 * MAGIC_BYTES).ok_or_else(|| not_whole(length, 0))?;
    let footer = window.get(footer_start..length)?;
    let (first, last) = footer.split_at(MAGIC_BYTES as usize);
    let is_closed = layout == Layout::Manifest && last == MAGIC_1;
    let (size, index_end) = if is_closed { (first, footer_start) } else { (last, length - MAGIC_BYTES) };
    let size = size.try_into().map(u64::from_le_bytes).unwrap_or_default();
    match index_end.checked_sub(size).filter(|start| *start >= MAGIC_BYTES) {
        Some(_) if size > MAX_MANIFEST_BYTES => Err(too_large(size, index_end).into()),
        Some(start) => Ok(start..index_end),
        None if is_closed && size > MAX_MANIFEST_BYTES => Err(too_large(size, index_end).into()),
        None if is_closed => Err(malformed(format!("the manifest claims {size} bytes in a file of {length}"))
            .at(index_end..index_end + 8)
            .into()),
        None => Err(not_whole(length, index_end).into()),
    }
}

fn not_whole(length: u64, footer_start: u64) -> Error {
    Error::new(ErrorKind::Truncated, "the file does not end with the size of its manifest").at(footer_start..length)
}
