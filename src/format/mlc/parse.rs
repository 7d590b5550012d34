//! Parses the records of files and parameters.

use crate::dtype::{Dtype, MAX_DIMS, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format::document;
use crate::index::{Component, DataFile, Index, Metadata, Parsed, Part, Tensor, check_part_count, part_path};
use crate::values::budget::Budget;
use crate::values::json::shown;
use crate::window::{Stop, Window};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// The name of the format in the registry.
pub(super) const NAME: &str = "mlc";

/// The format of files in which parameters follow each other.
const SHARD: &str = "raw-shard";

/// Whether a JSON document is a `tensor-cache.json`.
pub(crate) fn is_manifest(document: &Map<String, Value>) -> bool {
    document.get("records").is_some_and(Value::is_array)
}

/// Reads the whole file, which must be such a document.
pub(super) fn parse_file(window: &Window) -> Result<Parsed, Stop> {
    let (document, mut budget) = document::read(window)?;
    Ok(parse(document, &mut budget)?)
}

pub(super) fn parse(mut document: Map<String, Value>, budget: &mut Budget) -> Result<Parsed> {
    let records = match document.shift_remove("records") {
        Some(Value::Array(records)) => records,
        other => return Err(malformed(format!("`records` is {}, not a list", shown(&other.unwrap_or_default())))),
    };
    check_part_count(records.len() as u64)?;
    let (mut data, mut paths) = (Vec::new(), HashSet::new());
    for record in &records {
        let path = text(record, "dataPath").ok_or_else(|| malformed("a record of a file has no `dataPath`"))?;
        let file = parse_record(&part_path(path)?, record, budget).map_err(|e| e.in_file(path))?;
        let is_new = file.parts.first().is_some_and(|part| paths.insert(part.path.clone()));
        if !is_new {
            return Err(malformed("the file is named twice").in_file(path));
        }
        data.push(file);
    }
    let metadata = match document.shift_remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Metadata::new(),
    };
    let index = Index {
        format: NAME,
        version: "1".into(), // documents state none
        metadata,
        long_arrays: Vec::new(),
        tensors: Vec::new().into(),
        warnings: Vec::new(),
        other_shards: HashMap::new(),
        blocks: Vec::new(),
        quantized: None,
    };
    Ok(Parsed::WithData(index, data))
}

fn parse_record(path: &str, record: &Value, budget: &mut Budget) -> Result<DataFile> {
    if let Some(format) = text(record, "format").filter(|format| *format != SHARD) {
        let what = format!("the file has the format \"{format}\"; weightstream reads \"{SHARD}\"");
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    let byte_length = number(record, "nbytes").ok_or_else(|| malformed("the record of the file has no `nbytes`"))?;
    let list = record.get("records").and_then(Value::as_array);
    let list = list.ok_or_else(|| malformed("the record of the file has no list `records`"))?;
    let mut tensors = Vec::new();
    for parameter in list {
        let name = text(parameter, "name").ok_or_else(|| malformed("a parameter has no `name`"))?;
        let tensor = parse_parameter(name, parameter, byte_length).map_err(|e| e.in_tensor(name))?;
        budget.tensor(name, tensor.shape.len())?;
        tensors.push(tensor);
    }
    let part = Part { path: path.to_owned(), byte_length: Some(byte_length), ..Part::default() };
    Ok(DataFile { parts: vec![part], tensors })
}

fn parse_parameter(name: &str, parameter: &Value, file_length: u64) -> Result<Tensor> {
    let stated = text(parameter, "dtype").ok_or_else(|| malformed("it has no `dtype`"))?;
    let dtype = match (text(parameter, "format").unwrap_or("raw"), stated) {
        ("f32-to-bf16", "float32") => Dtype::BF16,
        ("raw" | "f32-to-bf16", _) => dtype_named(stated),
        (format, _) => {
            let what = format!("it has the format \"{format}\"; weightstream reads \"raw\" and \"f32-to-bf16\"");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
    };
    let stated = parameter.get("shape").and_then(Value::as_array).filter(|dims| dims.len() <= MAX_DIMS);
    let shape = stated.and_then(|dims| dims.iter().map(Value::as_u64).collect::<Option<Vec<_>>>());
    let shape = shape.ok_or_else(|| malformed(format!("its `shape` is not a list of at most {MAX_DIMS} sizes")))?;
    let offset = |key: &str| number(parameter, key).ok_or_else(|| malformed(format!("it has no offset `{key}`")));
    let (start, byte_length) = (offset("byteOffset")?, offset("nbytes")?);
    let expected = dtype.byte_length(element_count(&shape)?)?;
    if expected.is_some_and(|expected| expected != byte_length) {
        return Err(malformed(format!("its {byte_length} bytes do not match {dtype} {shape:?}")));
    }
    match start.checked_add(byte_length).filter(|end| *end <= file_length) {
        Some(end) => Ok(Tensor::dense(name.to_owned(), dtype.clone(), shape, Component::raw(dtype, start..end))),
        None => {
            Err(malformed(format!("its {byte_length} bytes at {start} are not in the file of {file_length} bytes")))
        }
    }
}

/// The dtype with this name of TVM; one of unknown size for any other.
fn dtype_named(name: &str) -> Dtype {
    match name {
        "float64" => Dtype::F64,
        "float32" => Dtype::F32,
        "float16" => Dtype::F16,
        "bfloat16" => Dtype::BF16,
        "int64" => Dtype::I64,
        "int32" => Dtype::I32,
        "int16" => Dtype::I16,
        "int8" => Dtype::I8,
        "uint64" => Dtype::U64,
        "uint32" => Dtype::U32,
        "uint16" => Dtype::U16,
        "uint8" => Dtype::U8,
        "bool" => Dtype::Bool,
        "e4m3_float8" | "float8_e4m3fn" => Dtype::F8_E4M3,
        "e5m2_float8" | "float8_e5m2" => Dtype::F8_E5M2,
        other => Dtype::Other(other.into()),
    }
}

fn text<'a>(record: &'a Value, key: &str) -> Option<&'a str> {
    record.get(key).and_then(Value::as_str)
}

fn number(record: &Value, key: &str) -> Option<u64> {
    record.get(key).and_then(Value::as_u64)
}
