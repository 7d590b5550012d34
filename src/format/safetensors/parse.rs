//! Parses the header and the index of a model in several files.

use super::header::Header;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Index, Manifest, Parsed, Part, Tensors, check_part_count, part_path};
use crate::values::budget::Budget;
use crate::window::{Content, Stop, Window};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The name of the format in the registry.
pub(super) const NAME: &str = "safetensors";

/// The limit of the `safetensors` package. Prevents an invalid length from making the reader fetch the whole file.
pub(crate) const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Whether the file begins with a header length and a JSON object.
pub(super) fn recognises(head: &[u8]) -> bool {
    let Some((length, rest)) = head.split_first_chunk::<8>() else { return false };
    let begins_an_object = matches!(rest.first(), Some(b'{' | b' ' | b'\n' | b'\t' | b'\r'));
    // Headers beyond the limit are also recognised, so that `parse` can report the error. But 8 bytes of text are never
    // a length.
    begins_an_object && u64::from_le_bytes(*length) < 1 << 56
}

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let header_length = window.get(0..8)?.try_into().map(u64::from_le_bytes).unwrap_or(0);
    if header_length > MAX_HEADER_BYTES {
        let what = format!("the header claims {header_length} bytes, more than the format's {MAX_HEADER_BYTES}");
        return Err(Error::new(ErrorKind::Limit, what).at(0..8).into());
    }
    let data_start = 8 + header_length;
    let place = 8..data_start;
    let header = || Header::new(place.clone(), Budget::of(window, header_length).for_tensors());
    let Header { metadata, mut tensors, .. } = match window.get_in_pieces(place.clone(), header)? {
        Content::Whole(bytes) => header().read(bytes)?,
        Content::Pieces(header) => header.finish()?,
    };
    tensors.sort();
    if let Some(twice) = tensors.index_names() {
        return Err(malformed("the name occurs twice").in_tensor(twice).into());
    }
    let data_end = check_ranges(&tensors, data_start, window.file_length())?;
    if let Some(length) = window.file_length()
        && length > data_end
    {
        let what = format!("{} bytes follow the last tensor", length - data_end);
        return Err(malformed(what).at(data_end..length).into());
    }
    Ok(Parsed::File(Index {
        format: NAME,
        version: "1".into(),
        metadata,
        long_arrays: Vec::new(),
        tensors,
        warnings: Vec::new(),
        other_shards: HashMap::new(),
        blocks: Vec::new(),
        quantized: None,
    }))
}

/// Whether a JSON document is a `model.safetensors.index.json`.
pub(crate) fn is_manifest(document: &Map<String, Value>) -> bool {
    document.get("weight_map").is_some_and(Value::is_object)
}

/// Reads a `model.safetensors.index.json`. Its `total_size` is not checked: some tools omit it or write a wrong value.
///
/// Every tensor in the map must be in its file. A tensor that is in a file but not in the map is listed and loads like
/// the others, so that an outdated map does not hide tensors.
///
/// # Errors
/// `FORMAT` if a value of `weight_map` is not a path inside the folder; `LIMIT` for too many files.
pub(crate) fn parse_manifest(document: &Map<String, Value>) -> Result<Manifest> {
    let mut parts: Vec<Part> = Vec::new();
    let mut part_of_path: HashMap<String, usize> = HashMap::new();
    let mut tensor_parts = HashMap::new();
    for (name, path) in document.get("weight_map").and_then(Value::as_object).into_iter().flatten() {
        let path = path.as_str().ok_or_else(|| malformed("its file in weight_map is not a string").in_tensor(name))?;
        let path = part_path(path).map_err(|e| e.in_tensor(name))?;
        let part = *part_of_path.entry(path).or_insert_with_key(|path| {
            parts.push(Part { path: path.clone(), ..Part::default() });
            parts.len() - 1
        });
        check_part_count(parts.len() as u64)?;
        tensor_parts.insert(name.clone(), part);
    }
    let metadata = document.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    Ok(Manifest {
        format: NAME,
        version: "1".into(),
        metadata,
        parts,
        tensor_parts,
        states_all_tensors: false,
        catalog: None,
        publication: None,
    })
}

/// Checks that the tensors, which are sorted, are in the file, without gaps between them, as the format requires.
/// Returns the end of the last one.
fn check_ranges(tensors: &Tensors, data_start: u64, file_length: Option<u64>) -> Result<u64> {
    let mut end = data_start;
    for (name, range) in (0..tensors.len()).map(|at| (tensors.name(at), tensors.range(at))) {
        if let Some(length) = file_length.filter(|length| range.end > *length) {
            let what = format!("its bytes reach to {}, but the file ends at {length}", range.end);
            return Err(Error::new(ErrorKind::Truncated, what).at(range).in_tensor(name));
        }
        if range.start != end {
            let what = format!("it begins {} bytes off the end of the previous tensor", range.start.abs_diff(end));
            return Err(malformed(what).at(end.min(range.start)..range.start.max(end)).in_tensor(name));
        }
        end = range.end;
    }
    Ok(end)
}
