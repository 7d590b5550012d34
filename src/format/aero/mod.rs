//! AERO 0.1: a table of contents, the chunks that it lists (metadata, an index of tensors, shards of weights), and
//! AEROSET, a manifest of several such files.
//!
//! Sources: the specification of AERO 0.1; `aerotensor` 0.2, whose files differ from it in these: the descriptors of
//! packed tensors stand in the JSON metadata; tensors inside a shard are not aligned; shapes of models from GGUF have
//! the innermost dimension first (they are turned round here); a chunk may have a digest of zeros, which is read as
//! none. Chunks, flags and fields that are not known are ignored.

mod integrity;
mod set;
mod tensors;
mod toc;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod write;

pub use set::{is_manifest, parse_manifest};
pub use toc::{MAX_CHUNKS, MAX_METADATA_BYTES, MAX_NAME_BYTES, MAX_NAMES_BYTES};

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use tensors::{PACKED, dtype_code, ggml_type};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use toc::{ENTRY_BYTES, HEADER_BYTES, TOC_HEADER_BYTES};

use super::{Format, Stated, StretchChecksum, no_tail};
use crate::codec::pages::Pages;
use crate::error::{Error, ErrorKind, malformed};
use crate::format::values::budget::Budget;
use crate::format::values::input::Input;
use crate::format::values::json;
use crate::format::values::msgpack::MessagePack;
use crate::index::{Digest, Index, Metadata, PageTable, Parsed, check_tensors};
use crate::window::{Stop, Window};
use serde_json::Value;
use std::collections::HashMap;
use toc::Toc;

/// The format.
pub const FORMAT: Format = Format { name: "aero", recognises, parse, checksums, check_tail: no_tail };

/// The first four bytes.
pub const MAGIC: [u8; 4] = *b"AERO";

/// The version that is read, as files state it.
pub(crate) const VERSION: (u16, u16) = (0, 1);

fn recognises(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

fn parse(window: &Window) -> Result<Parsed, Stop> {
    let toc = Toc::read(window)?;
    let index = toc.first(*b"TIDX").ok_or_else(|| malformed("it has no chunk TIDX, so nothing lists its tensors"))?;
    toc.want_metadata(window)?;
    let mut warnings = Vec::new();
    let mut budget = Budget::of(window, toc.stored_bytes());
    integrity::check_control(window, &toc, &mut warnings, &mut budget)?;
    let metadata = metadata(window, &toc, &mut warnings, &mut budget)?;
    let has_shards = toc.first(*b"WTSH").is_some();
    let (mut tensors, mut elsewhere) = (Vec::new(), HashMap::new());
    toc.read_chunk(window, index, (&mut warnings, &mut budget), |input, budget| {
        let context = tensors::Context::new(&toc, &metadata);
        let listed = MessagePack::new(input, index.range.clone(), "the tensor index", budget);
        tensors::list(listed, &index.range, |entry, budget| {
            if has_shards {
                tensors.push(context.place(entry, budget)?);
            } else {
                elsewhere.insert(entry.name, entry.shard_id);
            }
            Ok(())
        })
    })?;
    let version = format!("{}.{}", VERSION.0, VERSION.1);
    check_tensors(&mut tensors, window.file_length())?;
    let format = FORMAT.name;
    Ok(Parsed::File(Index { format, version, metadata, long_arrays: Vec::new(), tensors, warnings, elsewhere }))
}

/// The digests of the chunks whose bytes are not read with the index: the shards above all. A compressed one has
/// its digest over what it decodes to, which nobody needs.
fn checksums(window: &Window) -> Result<Vec<StretchChecksum>, Stop> {
    let toc = Toc::read(window)?;
    let later = toc.chunks.iter().filter(|chunk| !chunk.is_metadata() && !chunk.is_compressed());
    let checksum = |chunk: &toc::Chunk| StretchChecksum {
        over: chunk.range.clone(),
        stated: Stated::Digest(Digest::Blake3(chunk.blake3)),
        by: format!("the table of contents of `{}`", chunk.name),
    };
    Ok(later.filter(|chunk| chunk.has_digest()).map(checksum).collect())
}

/// The first JSON chunk as it is, others under their names, and of the MessagePack manifest what is not about chunks.
fn metadata(window: &Window, toc: &Toc, warnings: &mut Vec<String>, budget: &mut Budget) -> Result<Metadata, Stop> {
    let mut metadata = Metadata::new();
    for (number, chunk) in toc.all(*b"MJSN").enumerate() {
        let place = chunk.range.clone();
        let json = toc.read_chunk(window, chunk, (warnings, budget), |input, budget| match input {
            Input::Stored(bytes) => json::parse_value(bytes, place.start, "the JSON metadata", budget),
            packed => json::read(packed, place, "the JSON metadata", budget),
        })?;
        match json {
            Value::Object(object) if number == 0 => metadata.extend(object),
            other => {
                budget.entry(metadata.len(), chunk.name.len())?;
                metadata.insert(chunk.name.to_owned(), other);
            }
        }
    }
    if let Some(chunk) = toc.first(*b"MMSG") {
        let manifest = toc.read_chunk(window, chunk, (warnings, budget), |input, budget| {
            MessagePack::new(input, chunk.range.clone(), "the manifest", budget).value()
        })?;
        if let Value::Object(manifest) = manifest {
            for (key, value) in manifest {
                if !matches!(key.as_str(), "format" | "chunks" | "shards") {
                    metadata.entry(key).or_insert(value);
                }
            }
        }
    }
    metadata.entry("uuid").or_insert_with(|| toc.uuid.clone().into());
    Ok(metadata)
}

/// Reads the digests of a shard's pages.
pub(super) fn page_digests(window: &Window, table: &PageTable) -> Result<Pages, Stop> {
    integrity::page_digests(window, table)
}

fn unsupported(what: String) -> Error {
    Error::new(ErrorKind::Unsupported, what)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
