//! Parses the header and the index of a model in several files.

use super::entry::Entry;
use crate::dtype::element_count;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format::values::budget::Budget;
use crate::format::values::json;
use crate::index::{
    Component, Index, Manifest, Metadata, Parsed, Part, Tensor, check_part_count, check_tensors, part_path,
};
use crate::sorting::sort;
use crate::window::{Stop, Window};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

/// The name of the format in the registry.
pub(super) const NAME: &str = "safetensors";

/// The limit of the `safetensors` package. Prevents an invalid length from making the reader fetch the whole file.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

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
    let (bytes, mut budget) = (window.get(8..data_start)?, Budget::of(window, header_length));
    let header = json::parse_with(bytes, 8, "the header", &mut budget, |json, budget| {
        json.deserialize_map(CollectHeader { budget })
    });
    let Header { metadata, mut tensors } = header?;
    tensors.shrink_to_fit();
    for tensor in &mut tensors {
        place(tensor, data_start).map_err(|e| e.in_tensor(&tensor.name))?;
    }
    check_tensors(&mut tensors, window.file_length())?;
    let data_end = check_no_gaps(&tensors, data_start)?;
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
    }))
}

/// Whether a JSON document is a `model.safetensors.index.json`.
pub fn is_manifest(document: &Map<String, Value>) -> bool {
    document.get("weight_map").is_some_and(Value::is_object)
}

/// Reads a `model.safetensors.index.json`. Its `total_size` is not checked: some tools omit it or write a wrong value.
///
/// Every tensor in the map must be in its file. A tensor that is in a file but not in the map is listed and loads like
/// the others, so that an outdated map does not hide tensors.
///
/// # Errors
/// `FORMAT` if a value of `weight_map` is not a path inside the folder; `LIMIT` for too many files.
pub fn parse_manifest(document: &Map<String, Value>) -> Result<Manifest> {
    let mut parts: Vec<Part> = Vec::new();
    let mut part_of_path: HashMap<String, usize> = HashMap::new();
    let mut tensor_parts = HashMap::new();
    for (name, path) in document.get("weight_map").and_then(Value::as_object).into_iter().flatten() {
        let path = path.as_str().ok_or_else(|| malformed("its file in weight_map is not a string").in_tensor(name))?;
        let path = part_path(path).map_err(|e| e.in_tensor(name))?;
        let part = *part_of_path.entry(path).or_insert_with_key(|path| {
            parts.push(Part { path: path.clone(), url: None, byte_length: None, digest: None });
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

/// The JSON header: `__metadata__`, and the tensors in the order of the file, with ranges relative to the end of the
/// header. Contains both tensors of a duplicate name.
#[derive(Default)]
struct Header {
    metadata: Metadata,
    tensors: Vec<Tensor>,
}

/// Deserializes the header directly. Parsing it as generic JSON first could take many times its size in memory.
struct CollectHeader<'b> {
    budget: &'b mut Budget,
}

impl<'de> Visitor<'de> for CollectHeader<'_> {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header::default();
        while let Some(key) = map.next_key::<String>()? {
            if key == "__metadata__" {
                let strings = CollectStrings { budget: &mut *self.budget, into: &mut header.metadata };
                map.next_value_seed(strings).map_err(|e| about(&key, e))?;
            } else {
                let Entry { dtype, shape, data_offsets: (start, end) } =
                    map.next_value().map_err(|e| about(&key, e))?;
                self.budget.tensor(&key, shape.len()).map_err(A::Error::custom)?;
                let data = Component { range: start..end, ..Component::raw(dtype.clone(), 0..0) };
                header.tensors.push(Tensor::dense(key, dtype, shape, data));
            }
        }
        Ok(header)
    }
}

/// Reads an object of strings, or null.
struct CollectStrings<'b> {
    budget: &'b mut Budget,
    into: &'b mut Metadata,
}

impl<'de> DeserializeSeed<'de> for CollectStrings<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CollectStrings<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, text)) = map.next_entry::<String, String>()? {
            let counted = self.budget.entry(self.into.len(), key.len());
            counted.and_then(|()| self.budget.text(text.len() as u64)).map_err(A::Error::custom)?;
            self.into.insert(key, Value::String(text));
        }
        Ok(())
    }
}

fn about<E: serde::de::Error>(key: &str, error: E) -> E {
    E::custom(format!("\"{key}\": {error}"))
}

/// Validates the header entry of a tensor, and converts its range to file offsets.
fn place(tensor: &mut Tensor, data_start: u64) -> Result<()> {
    let (dtype, shape) = (&tensor.dtype, &tensor.shape);
    let Some(data) = tensor.components.first_mut() else { return Ok(()) };
    let Range { start, end } = data.range;
    data.range = file_range(start, end, data_start)
        .ok_or_else(|| malformed(format!("its `data_offsets` [{start}, {end}] are not a range of the file")))?;
    data.decoded_length = Some(end - start);
    let expected = dtype.byte_length(element_count(shape)?)?;
    if expected.is_some_and(|expected| expected != end - start) {
        let what = format!("its {} bytes do not match {dtype} {shape:?}", end - start);
        return Err(malformed(what).at(data.range.clone()));
    }
    Ok(())
}

fn file_range(start: u64, end: u64, data_start: u64) -> Option<Range<u64>> {
    if start > end {
        return None;
    }
    Some(data_start.checked_add(start)?..data_start.checked_add(end)?)
}

/// Checks that there are no gaps between tensors, as the format requires. Returns the end of the last tensor.
fn check_no_gaps(tensors: &[Tensor], data_start: u64) -> Result<u64> {
    let mut ranges: Vec<_> = tensors.iter().flat_map(|t| t.components.iter().map(move |c| (t, &c.range))).collect();
    sort(&mut ranges, |(_, range)| (range.start, range.end, 0));
    let mut end = data_start;
    for (tensor, range) in ranges {
        if range.start != end {
            let what = format!("it begins {} bytes off the end of the previous tensor", range.start.abs_diff(end));
            return Err(malformed(what).at(end.min(range.start)..range.start.max(end)).in_tensor(&tensor.name));
        }
        end = range.end;
    }
    Ok(end)
}
