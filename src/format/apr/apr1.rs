//! APR1, the first layout: JSON metadata, a JSON index, consecutive F32 tensors, and a CRC32 of all preceding bytes.
//!
//! Source: the crate `aprender` 0.19 to 0.25, `serialization/apr.rs`. Its comment omits a field that it writes and
//! reads: the length of the index.

use super::head::{NAME, check_head_length};
use crate::dtype::{Dtype, element_count};
use crate::error::{Result, malformed};
use crate::fields::Fields;
use crate::index::{Component, Index, Metadata, Parsed, Tensor, check_tensors};
use crate::values::budget::Budget;
use crate::values::json;
use crate::window::{Stop, Window};
use serde::Deserialize;
use std::collections::HashMap;

const FOOTER_BYTES: u64 = 4;

/// Not inlined, because it is deferred: see `crate::format::deferred`.
#[inline(never)]
pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let metadata_start = 8;
    let metadata_length = Fields::new(window.get(4..8)?, 4, "the header").u32()?;
    let metadata_end = metadata_start + u64::from(metadata_length);
    check_head_length(metadata_end)?;
    let index_start = metadata_end + 8;
    let mut fields = Fields::new(window.get(metadata_end..index_start)?, metadata_end, "the header of the index");
    let (tensor_count, index_length) = (fields.u32()?, fields.u32()?);
    let data_start = index_start + u64::from(index_length);
    check_head_length(data_start)?;

    let mut budget = Budget::of(window, data_start);
    let metadata = match window.get(metadata_start..metadata_end)? {
        [] => Metadata::new(),
        bytes => json::parse_object(bytes, metadata_start, "the metadata", &mut budget)?,
    };
    let entries: Vec<Entry> = match window.get(index_start..data_start)? {
        _ if tensor_count == 0 => Vec::new(),
        bytes => json::parse(bytes, index_start, "the tensor index")?,
    };
    if entries.len() as u64 != u64::from(tensor_count) {
        let what = format!("the index lists {} tensors, but its header states {tensor_count}", entries.len());
        return Err(malformed(what).at(index_start..data_start).into());
    }
    let mut tensors = Vec::with_capacity(entries.len());
    for entry in entries {
        let name = entry.name.clone();
        budget.tensor(&name, entry.shape.len())?;
        tensors.push(tensor(entry, data_start).map_err(|e| e.at(index_start..data_start).in_tensor(&name))?);
    }
    let data_end = window.file_length().map(|length| length.saturating_sub(FOOTER_BYTES));
    check_tensors(&mut tensors, data_end)?;
    Ok(Parsed::File(Index {
        format: NAME,
        version: "1".into(),
        metadata,
        long_arrays: Vec::new(),
        tensors: tensors.into(),
        warnings: Vec::new(),
        other_shards: HashMap::new(),
        blocks: Vec::new(),
        quantized: None,
    }))
}

/// An entry of the index; `offset` is relative to the end of the index.
#[derive(Deserialize)]
struct Entry {
    name: String,
    dtype: String,
    shape: Vec<u64>,
    offset: u64,
    size: u64,
}

fn tensor(entry: Entry, data_start: u64) -> Result<Tensor> {
    let Entry { name, dtype, shape, offset, size } = entry;
    let dtype = Dtype::from_name(&dtype);
    let start = data_start.checked_add(offset);
    let range = start.and_then(|start| Some(start..start.checked_add(size)?));
    let range = range.ok_or_else(|| malformed(format!("its offset {offset} and size {size} overflow u64")))?;
    let expected = dtype.byte_length(element_count(&shape)?)?;
    if expected.is_some_and(|expected| expected != size) {
        return Err(malformed(format!("its {size} bytes do not match {dtype} {shape:?}")));
    }
    Ok(Tensor::dense(name, dtype.clone(), shape, Component::raw(dtype, range)))
}
