//! Parses the header and the description of the tensors.

use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::fields::Fields;
use crate::index::{Component, Index, Metadata, Parsed, Tensor, check_tensors};
use crate::values::cbor::Cbor;
use crate::values::json::shown;
use crate::window::{Stop, Window};
use serde_json::Value;
use std::collections::HashMap;
use std::ops::Range;

/// The name of the format in the registry.
pub(super) const NAME: &str = "burnpack";

/// The first four bytes: `BURN` as a little-endian number.
pub(crate) const MAGIC: [u8; 4] = *b"NRUB";
/// The size of the header in bytes.
pub(crate) const HEADER_BYTES: u64 = 10;
/// The alignment that the tools use since 0.20.
pub(crate) const ALIGNMENT: u64 = 256;
/// The tools' own limit. Prevents an invalid length from making the reader fetch tensor data as the description.
pub(crate) const MAX_CBOR_BYTES: u64 = 100 << 20;

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let (version, cbor) = parse_header(window)?;
    let bytes = window.get(cbor.clone())?;
    let description = parse_description(Cbor::new(bytes, HEADER_BYTES, "the description").in_file(window))?;
    let data_start = data_start(window, cbor.end, &description)?;
    let mut tensors = Vec::new();
    for (name, described) in description.tensors {
        tensors.push(layout_tensor(&name, described, data_start).map_err(|e| e.in_tensor(&name))?);
    }
    check_tensors(&mut tensors, window.file_length())?;
    let (metadata, warnings) = (description.metadata, Vec::new());
    Ok(Parsed::File(Index {
        format: NAME,
        version: version.to_string(),
        metadata,
        long_arrays: Vec::new(),
        tensors: tensors.into(),
        warnings,
        other_shards: HashMap::new(),
        blocks: Vec::new(),
        quantized: None,
    }))
}

/// Returns the version, and the byte range of the CBOR.
fn parse_header(window: &Window) -> Result<(u16, Range<u64>), Stop> {
    let mut fields = Fields::new(window.get(0..HEADER_BYTES)?, 0, "the header");
    fields.array::<4>()?;
    let (version, cbor_length) = (fields.u16()?, u64::from(fields.u32()?));
    if version > 1 {
        let what = format!("Burnpack version {version}; weightstream reads version 1");
        return Err(Error::new(ErrorKind::Unsupported, what).at(4..6).into());
    }
    if cbor_length > MAX_CBOR_BYTES {
        let what = format!("the description claims {cbor_length} bytes, more than the format's {MAX_CBOR_BYTES}");
        return Err(Error::new(ErrorKind::Limit, what).at(6..10).into());
    }
    Ok((version, HEADER_BYTES..HEADER_BYTES + cbor_length))
}

/// The content of the CBOR.
#[derive(Default)]
struct Description {
    tensors: Vec<(String, Described)>,
    metadata: Metadata,
}

/// The description of a tensor.
struct Described {
    dtype: Dtype,
    shape: Vec<u64>,
    /// Relative to the start of the data.
    offsets: Range<u64>,
    attributes: Metadata,
}

fn parse_description(mut cbor: Cbor) -> Result<Description> {
    let mut description = Description::default();
    cbor.entries(|key, cbor| match (key, cbor) {
        ("tensors", cbor) => cbor.entries(|name, cbor| {
            let described = cbor.transient(|cbor| cbor.value().and_then(|value| parse_tensor(&value)));
            let described = described.map_err(|e| e.in_tensor(name))?;
            cbor.budget.tensor(name, described.shape.len())?;
            for (at, (key, value)) in described.attributes.iter().enumerate() {
                cbor.budget.entry(at, key.len())?;
                cbor.budget.copy(value)?;
            }
            description.tensors.push((name.to_owned(), described));
            Ok(())
        }),
        ("metadata", cbor) => cbor.entries(|key, cbor| {
            let value = cbor.entry_value(description.metadata.len(), key)?;
            description.metadata.insert(key.to_owned(), value);
            Ok(())
        }),
        ("scalars", cbor) => {
            let value = cbor.entry_value(description.metadata.len(), key)?;
            description.metadata.insert(key.to_owned(), value);
            Ok(())
        }
        (_, cbor) => cbor.transient(|cbor| cbor.value().map(drop)),
    })?;
    Ok(description)
}

fn parse_tensor(value: &Value) -> Result<Described> {
    let stated = value.get("dtype").ok_or_else(|| malformed("it has no `dtype`"))?;
    let dtype = parse_dtype(stated)?;
    let integers = |key: &str| value.get(key)?.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<_>>>();
    let shape = integers("shape").ok_or_else(|| malformed("its `shape` is not a list of sizes"))?;
    let Some(&[start, end]) = integers("data_offsets").as_deref() else {
        return Err(malformed("its `data_offsets` are not two offsets"));
    };
    if start > end {
        return Err(malformed(format!("its `data_offsets` [{start}, {end}] are not a range")));
    }
    let mut attributes = Metadata::new();
    if stated.as_str() != Some(dtype.name()) {
        attributes.insert("dtype".to_owned(), stated.clone());
    }
    if let Some(id) = value.get("param_id").filter(|id| !id.is_null()) {
        attributes.insert("param_id".to_owned(), id.clone());
    }
    Ok(Described { dtype, shape, offsets: start..end, attributes })
}

/// Parses a dtype: a name, or a map from a name to details, as in `{"Bool": "U32"}` and
/// `{"QFloat": {"value": "Q8S", …}}`.
pub(crate) fn parse_dtype(stated: &Value) -> Result<Dtype> {
    let (name, details) = match stated {
        Value::String(name) => (name.as_str(), &Value::Null),
        Value::Object(map) if map.len() == 1 => {
            map.iter().next().map(|(name, details)| (name.as_str(), details)).unwrap_or(("", &Value::Null))
        }
        other => return Err(malformed(format!("its dtype is {}", shown(other)))),
    };
    Ok(match (name, details.as_str()) {
        ("F64" | "F32" | "F16" | "BF16", _) => Dtype::from_name(name),
        ("I64" | "I32" | "I16" | "I8" | "U64" | "U32" | "U16" | "U8", _) => Dtype::from_name(name),
        ("Flex32", _) => Dtype::F32,
        ("Bool", None | Some("Native" | "U8")) => Dtype::Bool,
        ("Bool", Some("U32")) => Dtype::U32,
        ("QFloat", _) => {
            let value = details.get("value").and_then(Value::as_str).unwrap_or("unknown");
            Dtype::Other(format!("QFLOAT_{value}").into())
        }
        (_, None) => Dtype::Other(name.into()),
        (_, Some(details)) => Dtype::Other(format!("{name}_{details}").into()),
    })
}

/// Returns the start of the data, to which offsets are relative: the end of the CBOR, aligned to 256 bytes since 0.20.
///
/// An unaligned offset identifies a file of 0.19. If all offsets are aligned, the file is read as aligned if it is long
/// enough. A shorter file may be a complete file of 0.19, which ends with its last tensor and has no gaps. A truncated
/// aligned file can look the same, except for the zeros after its CBOR.
fn data_start(window: &Window, cbor_end: u64, description: &Description) -> Result<u64, Stop> {
    let ranges = || description.tensors.iter().map(|(_, described)| &described.offsets);
    let aligned = cbor_end.next_multiple_of(ALIGNMENT);
    if ranges().any(|range| !range.start.is_multiple_of(ALIGNMENT)) {
        return Ok(cbor_end);
    }
    let data_length = ranges().map(|range| range.end).max().unwrap_or(0);
    let ends_at = |start: u64, length: u64| start.checked_add(data_length) == Some(length);
    let Some(length) = window.file_length().filter(|length| aligned.saturating_add(data_length) > *length) else {
        return Ok(aligned);
    };
    let stored: u64 = ranges().map(|range| range.end - range.start).fold(0, u64::saturating_add);
    if !ends_at(cbor_end, length) || stored != data_length {
        return Ok(aligned);
    }
    let written_by = description.metadata.get("version").and_then(Value::as_str);
    let is_padding = window.get(cbor_end..aligned.min(length))?.iter().all(|byte| *byte == 0);
    Ok(if !is_padding || written_by.is_some_and(|version| version.starts_with("0.19")) { cbor_end } else { aligned })
}

fn layout_tensor(name: &str, described: Described, data_start: u64) -> Result<Tensor> {
    let Described { dtype, shape, offsets, attributes } = described;
    let expected = dtype.byte_length(element_count(&shape)?)?;
    let byte_length = offsets.end - offsets.start;
    if expected.is_some_and(|expected| expected != byte_length) {
        return Err(malformed(format!("its {byte_length} bytes do not match {dtype} {shape:?}")));
    }
    let end = data_start.checked_add(offsets.end);
    let end = end.ok_or_else(|| malformed(format!("its `data_offsets` {offsets:?} overflow u64")))?;
    let data = Component::raw(dtype.clone(), data_start + offsets.start..end);
    Ok(Tensor { attributes, ..Tensor::dense(name.to_owned(), dtype, shape, data) })
}
