//! zTensor: blobs, then a CBOR index of them at the end of the file. Its layouts are told apart by both ends:
//!
//! | head | tail | layout | file |
//! | --- | --- | --- | --- |
//! | `ZTEN0001` | index size | 0.1: a list of tensors, one blob each | `list` |
//! | `ZTEN1000` | manifest size | 1.0: a manifest whose `tensors` have a dtype each | `manifest` |
//! | `ZTEN1000` | manifest size, `ZTEN1000` | 1.1, 1.2: a manifest whose components have a dtype each | `manifest` |
//! | `\x89ZT2\r\n\x1a\n` | footer of 40 bytes | 2: a manifest whose objects have parts, at aligned offsets | `v2` |
//!
//! Sources of 0.1 and 1.x: the specifications 1.0 and 1.2, and the registry of version 2 for what 1.2 leaves open; the
//! crates and Python packages `ztensor` 0.1 to 1.2. What is read where they differ: the magic stands at the start of 1.0 files
//! too; digests are over the stored bytes; offsets that are no multiples of 64 and digests of unknown algorithms are
//! warned of, not refused; lengths of raw and stated ones of compressed blobs must be those of dtype and shape; blobs
//! do not overlap.

mod blob;
pub(crate) mod dtypes;
mod list;
mod manifest;
mod v2;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod write;

use super::{Format, no_checksums, no_tail};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format::values::cbor::Cbor;
use crate::index::{Index, Metadata, Parsed, Tensor, check_tensors};
use crate::window::{Stop, Window};
use blob::Findings;
use std::collections::HashMap;
use std::ops::Range;

/// The format.
pub const FORMAT: Format = Format { name: "ztensor", recognises, parse, checksums: no_checksums, check_tail: no_tail };

const MAGIC_0: [u8; 8] = *b"ZTEN0001";
pub(crate) const MAGIC_1: [u8; 8] = *b"ZTEN1000";
const MAGIC_BYTES: u64 = 8;

/// An index of 100,000 tensors has some 30 MB; the reference reads up to 1 GiB. Stops a size that would make the
/// reader fetch the tensors as if they were an index.
pub const MAX_MANIFEST_BYTES: u64 = 256 << 20;

/// The newest minor version of 1 whose fields are all known here.
const NEWEST_MINOR: u64 = 2;

fn recognises(head: &[u8]) -> bool {
    [MAGIC_0, MAGIC_1, v2::MAGIC].iter().any(|magic| head.starts_with(magic))
}

fn parse(window: &Window) -> Result<Parsed, Stop> {
    let magic = window.get(0..MAGIC_BYTES)?;
    let Contents { version, metadata, tensors, warnings } = if magic == v2::MAGIC {
        v2::parse(window)?
    } else {
        let is_list = magic == MAGIC_0;
        let index = index_range(window, is_list)?;
        let cbor = Cbor::new(window.get(index.clone())?, index.start, "the manifest").in_file(window);
        read_index(cbor, index.start, is_list)?
    };
    Ok(Parsed::File(Index {
        format: FORMAT.name,
        version,
        metadata,
        long_arrays: Vec::new(),
        tensors,
        warnings,
        elsewhere: HashMap::new(),
    }))
}

/// Reads the manifest of a file that is being written, in which it begins at `start`.
///
/// # Errors
/// Those that a reader of the file would have.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn check_manifest(manifest: &[u8], start: u64) -> Result<()> {
    if manifest.len() as u64 > MAX_MANIFEST_BYTES {
        return Err(too_large(manifest.len() as u64, start + manifest.len() as u64));
    }
    read_index(Cbor::new(manifest, start, "the manifest"), start, false).map(drop)
}

/// Reads an index of either form, which begins at `start`.
fn read_index(mut cbor: Cbor, start: u64, is_list: bool) -> Result<Contents> {
    let mut findings = Findings::default();
    let mut contents =
        if is_list { list::read(&mut cbor, &mut findings) } else { manifest::read(&mut cbor, &mut findings) }?;
    cbor.finish()?;
    check_tensors(&mut contents.tensors, Some(start))?;
    contents.warnings.extend(findings.warnings());
    Ok(contents)
}

/// What an index says, of any form.
struct Contents {
    version: String,
    metadata: Metadata,
    tensors: Vec<Tensor>,
    warnings: Vec<String>,
}

/// Where the index lies: it ends before its size, at the end of the file.
fn index_range(window: &Window, is_list: bool) -> Result<Range<u64>, Stop> {
    let length = window.whole_length()?;
    let footer_start = length.checked_sub(2 * MAGIC_BYTES).ok_or_else(|| not_whole(length, 0))?;
    let footer = window.get(footer_start..length)?;
    let (first, last) = footer.split_at(MAGIC_BYTES as usize);
    let is_closed = !is_list && last == MAGIC_1;
    let (size, index_end) = if is_closed { (first, footer_start) } else { (last, length - MAGIC_BYTES) };
    let size = size.try_into().map(u64::from_le_bytes).unwrap_or_default();
    match index_end.checked_sub(size).filter(|start| *start >= MAGIC_BYTES) {
        Some(_) if size > MAX_MANIFEST_BYTES => Err(too_large(size, index_end).into()),
        Some(start) => Ok(start..index_end),
        None if is_closed && size > MAX_MANIFEST_BYTES => Err(too_large(size, index_end).into()),
        None if is_closed => Err(malformed(format!("the manifest claims {size} bytes of a file of {length}"))
            .at(index_end..index_end + 8)
            .into()),
        None => Err(not_whole(length, index_end).into()),
    }
}

fn too_large(size: u64, at: u64) -> Error {
    let what = format!("the manifest claims {size} bytes; weightstream reads up to {MAX_MANIFEST_BYTES}");
    Error::new(ErrorKind::Limit, what).at(at..at + 8)
}

fn not_whole(length: u64, footer_start: u64) -> Error {
    Error::new(ErrorKind::Truncated, "the file does not end with the size of its manifest").at(footer_start..length)
}

/// Applies the specification's rules (§6.1): another major version is refused; a newer minor one gives a warning.
fn check_version(version: &str) -> Result<Option<String>> {
    let mut numbers = version.split('.').map(str::parse::<u64>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return Err(malformed(format!("the version of the manifest is `{version}`")));
    };
    if major != 1 {
        let what = format!("zTensor version {version}; weightstream reads versions 0.1 and 1.x");
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    let warning = format!("the file has version {version}; what is newer than 1.{NEWEST_MINOR} in it was ignored");
    Ok((minor > NEWEST_MINOR).then_some(warning))
}

#[cfg(all(test, not(target_arch = "wasm32")))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
