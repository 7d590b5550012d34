//! Parses the index and the metadata of a file.

use super::toc::{Chunk, NAME, Toc, VERSION};
use super::{integrity, tensors};
use crate::error::{Result, malformed};
use crate::format::checksum::{Expected, RangeChecksum};
use crate::index::{Digest, Index, Metadata, Parsed, check_tied_tensors};
use crate::values::budget::Budget;
use crate::values::input::Input;
use crate::values::json;
use crate::values::msgpack::MessagePack;
use crate::window::{Stop, Window};
use serde_json::Value;
use std::collections::HashMap;

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let toc = Toc::read(window)?;
    let index = toc.first(*b"TIDX").ok_or_else(|| malformed("it has no chunk TIDX, which lists the tensors"))?;
    toc.want_metadata(window)?;
    let mut warnings = Vec::new();
    if toc.nonzero_reserved > 0 {
        warnings
            .push(format!("{} reserved fields are not zero, although the format requires it", toc.nonzero_reserved));
    }
    let mut budget = Budget::of(window, toc.stored_bytes());
    integrity::check_control(window, &toc, &mut warnings, &mut budget)?;
    let metadata = metadata(window, &toc, &mut warnings, &mut budget)?;
    let has_shards = toc.first(*b"WTSH").is_some();
    let (mut tensors, mut other_shards) = (Vec::new(), HashMap::new());
    toc.read_chunk(window, index, (&mut warnings, &mut budget), |input, budget| {
        let context = tensors::Context::new(&toc, &metadata);
        let listed = MessagePack::new(input, index.range.clone(), "the tensor index", budget);
        tensors::list(listed, &index.range, |entry, budget| {
            if has_shards {
                tensors.push(context.layout_tensor(entry, budget)?);
            } else {
                other_shards.insert(entry.name, entry.shard_id);
            }
            Ok(())
        })
    })?;
    let version = format!("{}.{}", VERSION.0, VERSION.1);
    check_tied_tensors(&mut tensors, window.file_length())?;
    let format = NAME;
    Ok(Parsed::File(Index {
        format,
        version,
        metadata,
        long_arrays: Vec::new(),
        tensors: tensors.into(),
        warnings,
        other_shards,
        blocks: Vec::new(),
        quantized: None,
    }))
}

/// Lists the digests of the chunks that are not read with the index, mainly the shards. Skips compressed chunks: their
/// digests cover the decoded bytes, which nothing uses.
pub(super) fn checksums(window: &Window) -> Result<Vec<RangeChecksum>, Stop> {
    let toc = Toc::read(window)?;
    let later = toc.chunks.iter().filter(|chunk| !chunk.is_metadata() && !chunk.is_compressed());
    let checksum = |chunk: &Chunk| RangeChecksum {
        over: chunk.range.clone(),
        stated: Expected::Digest(Digest::blake3(chunk.blake3)),
        by: format!("the table of contents of `{}`", chunk.name),
    };
    Ok(later.filter(|chunk| chunk.has_digest()).map(checksum).collect())
}

/// Reads the metadata: the entries of the first JSON chunk at the top level, the other JSON chunks under their names,
/// and the entries of the MessagePack manifest that do not describe chunks.
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
