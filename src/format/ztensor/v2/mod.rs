//! zTensor 2: blobs at multiples of 4096, one of which is the manifest, and a footer that locates the manifest.
//!
//! Source: the specification of version 2, draft 3 (draft 4 adds a digest that no file contains), and the profiles of
//! its registry, in the repository of the package `ztensor` 2.1. Where it leaves a choice, this parser reads: tensors
//! with layouts, types, encodings or digests that are not in the registry are listed and load as stored, `zt.mx/1` and
//! `zt.quant_group/1` by their parts. Padding is ignored, as are generations of an appended file that the last footer
//! does not refer to. Values of `bool`, `f4_e2m1` and indices are not validated. Tensors may share a blob, which is
//! then read for each of them. Models in several files are rejected: only the manifest of their root is valid, and it
//! refers to blobs in the other files.

mod deterministic;
mod names;
mod object;
mod part;

use super::blob::Findings;
use super::contents::{Contents, MAX_MANIFEST_BYTES, too_large};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::fields::Fields;
use crate::index::{Metadata, Tensor, check_tied_tensors};
use crate::values::cbor::Cbor;
use crate::window::{Stop, Window};
use names::{check_shard_name, named};
use part::{ALIGNMENT, in_shards};
use std::ops::Range;
use twox_hash::XxHash3_64;

/// The magic at both ends of the file.
pub(super) const MAGIC: [u8; 8] = *b"\x89ZT2\r\n\x1a\n";

const FOOTER_BYTES: u64 = 40;
const VERSION: u32 = 2;

pub(super) fn parse(window: &Window) -> Result<Contents, Stop> {
    let length = window.whole_length()?;
    let not_whole = || Error::new(ErrorKind::Truncated, "the file does not end with a footer of zTensor 2");
    let data_end = length.checked_sub(FOOTER_BYTES).filter(|end| *end >= MAGIC.len() as u64);
    let data_end = data_end.ok_or_else(|| not_whole().at(0..length))?;
    let footer = window.get(data_end..length)?;
    if !footer.ends_with(&MAGIC) {
        return Err(not_whole().at(data_end..length).into());
    }
    let Footer { manifest, hash } = Footer::read(footer, data_end)?;
    let bytes = window.get(manifest.clone())?;
    let found = XxHash3_64::oneshot(bytes);
    if found != hash {
        let what = format!("the manifest has the xxh3 {found:016x}, but the footer states {hash:016x}");
        return Err(Error::new(ErrorKind::Checksum, what).at(manifest).into());
    }
    deterministic::check(bytes, manifest.start)?;
    let cbor = Cbor::new(bytes, manifest.start, "the manifest").in_file(window);
    Ok(read_manifest(cbor, manifest, data_end)?)
}

/// The footer of the file.
struct Footer {
    manifest: Range<u64>,
    /// XXH3-64 of the manifest.
    hash: u64,
}

impl Footer {
    /// Reads the 40 bytes that begin at `data_end`.
    fn read(footer: &[u8], data_end: u64) -> Result<Self> {
        let mut fields = Fields::new(footer, data_end, "the footer");
        let (offset, length, hash) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let at = fields.position();
        let version = fields.u32()?; // 4 reserved bytes follow, which readers must ignore
        if version != VERSION {
            let what = format!("zTensor version {version}; weightstream reads versions 0.1, 1.x and 2");
            return Err(Error::new(ErrorKind::Unsupported, what).at(fields.since(at)));
        }
        if (offset, length, hash) == (0, 0, 0) {
            return Err(in_shards(
                "it has no manifest: it is a shard, and only the root of the model has the manifest",
            ));
        }
        if length > MAX_MANIFEST_BYTES {
            return Err(too_large(length, data_end + 8));
        }
        let is_aligned = offset >= ALIGNMENT && offset.is_multiple_of(ALIGNMENT) && length > 0;
        let end = offset.checked_add(length).filter(|end| is_aligned && *end <= data_end);
        let end = end.ok_or_else(|| {
            let what = format!("the footer states an invalid manifest position: offset {offset}, {length} bytes");
            malformed(what).at(data_end..data_end + 16)
        })?;
        Ok(Footer { manifest: offset..end, hash })
    }
}

fn read_manifest(mut cbor: Cbor, manifest: Range<u64>, data_end: u64) -> Result<Contents> {
    let (mut metadata, mut objects, mut findings) = (Metadata::new(), None, Findings::default());
    cbor.entries(|key, cbor| {
        match key {
            "attributes" => metadata = named(cbor)?,
            "objects" => {
                let mut tensors: Vec<Tensor> = Vec::new();
                cbor.entries(|name, cbor| {
                    let tensor: Tensor =
                        cbor.transient(|cbor| object::read(name, cbor, &mut findings).map_err(|e| e.in_tensor(name)))?;
                    cbor.budget.tensor_with_attributes(&tensor)?;
                    tensors.push(tensor);
                    Ok(())
                })?;
                objects = Some(tensors);
            }
            "shards" => cbor.entries(|name, cbor| {
                check_shard_name(name)?;
                cbor.transient(|cbor| cbor.value().map(drop)) // parts in shards are rejected
            })?,
            _ => cbor.transient(|cbor| cbor.value().map(drop))?,
        }
        Ok(())
    })?;
    let mut tensors = objects.ok_or_else(|| malformed("the manifest has no `objects`").at(manifest.clone()))?;
    check_tied_tensors(&mut tensors, Some(data_end))?;
    for tensor in &tensors {
        let mut ranges = tensor.components.iter().map(|component| &component.range);
        if let Some(range) = ranges.find(|r| !r.is_empty() && r.start < manifest.end && manifest.start < r.end) {
            return Err(malformed("its bytes overlap the manifest").at(range.clone()).in_tensor(&tensor.name));
        }
    }
    Ok(Contents { version: VERSION.to_string(), metadata, tensors, warnings: findings.warnings().collect() })
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
