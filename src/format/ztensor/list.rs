//! The index of zTensor 0.1: a list of tensors, one blob each.

use super::blob::{Blob, Findings};
use super::contents::Contents;
use crate::dtype::{Dtype, element_count};
use crate::error::{Result, malformed};
use crate::index::{Layout, Metadata, Tensor};
use crate::values::cbor::Cbor;
use crate::values::described::{integers, text};
use serde_json::Value;

/// The keys of a tensor that are parsed. All other keys become attributes.
const OWN_KEYS: [&str; 9] =
    ["name", "offset", "size", "dtype", "layout", "shape", "encoding", "data_endianness", "checksum"];

pub(super) fn read(cbor: &mut Cbor, findings: &mut Findings) -> Result<Contents> {
    let mut tensors = Vec::new();
    cbor.items(|cbor| {
        let tensor: Tensor = cbor.transient(|cbor| {
            let described = cbor.value()?;
            let name = text(&described, "name")?.ok_or_else(|| malformed("a tensor in the manifest has no name"))?;
            read_tensor(name, &described, findings).map_err(|e| e.in_tensor(name))
        })?;
        cbor.budget.tensor_with_attributes(&tensor)?;
        tensors.push(tensor);
        Ok(())
    })?;
    Ok(Contents { version: "0.1".to_owned(), metadata: Metadata::new(), tensors, warnings: Vec::new() })
}

fn read_tensor(name: &str, described: &Value, findings: &mut Findings) -> Result<Tensor> {
    let dtype = text(described, "dtype")?.map(dtype_of).ok_or_else(|| malformed("it has no `dtype`"))?;
    let shape = integers(described, "shape")?;
    let blob = Blob {
        encoding: text(described, "encoding")?,
        digest: text(described, "checksum")?,
        is_big_endian: text(described, "data_endianness")? == Some("big"),
        ..Blob::at(described, "offset", "size")?
    };
    let (layout, data) = match text(described, "layout")? {
        None | Some("dense") => {
            let expected = dtype.byte_length(element_count(&shape)?)?;
            (Layout::Dense, blob.component("data", dtype.clone(), expected, findings)?)
        }
        // Indices and values, concatenated.
        Some(other) => (Layout::Other(other.into()), blob.component("data", Dtype::U8, None, findings)?),
    };
    let dtype = if layout == Layout::Dense { data.dtype.clone() } else { dtype };
    let others = described.as_object().into_iter().flatten().filter(|(key, _)| !OWN_KEYS.contains(&key.as_str()));
    let attributes = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    Ok(Tensor { layout, attributes, ..Tensor::dense(name.to_owned(), dtype, shape, data) })
}

/// The dtype names of zTensor 0.1 and 1.0.
pub(super) const LONG_NAMES: [(&str, Dtype); 13] = [
    ("float64", Dtype::F64),
    ("float32", Dtype::F32),
    ("float16", Dtype::F16),
    ("bfloat16", Dtype::BF16),
    ("int64", Dtype::I64),
    ("int32", Dtype::I32),
    ("int16", Dtype::I16),
    ("int8", Dtype::I8),
    ("uint64", Dtype::U64),
    ("uint32", Dtype::U32),
    ("uint16", Dtype::U16),
    ("uint8", Dtype::U8),
    ("bool", Dtype::Bool),
];

/// Returns the dtype of a long name.
pub(super) fn dtype_of(name: &str) -> Dtype {
    let known = LONG_NAMES.iter().find(|(known, _)| *known == name);
    known.map_or_else(|| Dtype::Other(name.into()), |(_, dtype)| dtype.clone())
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_dtype_of_a_dense_tensor_is_that_of_its_data() {
        let tensor = |encoding: &str| {
            let described = json!({ "offset": 64, "size": 8, "dtype": "float32", "shape": [2], "encoding": encoding });
            read_tensor("a", &described, &mut Findings::default()).unwrap()
        };
        assert_eq!(tensor("raw").dtype, Dtype::F32);
        assert_eq!(tensor("snappy").dtype, Dtype::Other("F32 in snappy".into()));
        assert_eq!(tensor("snappy").dtype, tensor("snappy").components[0].dtype);
    }
}
