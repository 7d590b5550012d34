//! The index of zTensor 0.1: a list of tensors, one blob each.

use super::super::cbor::Cbor;
use super::Contents;
use super::blob::{Blob, Findings};
use crate::dtype::{Dtype, element_count};
use crate::error::{Result, malformed};
use crate::index::{Layout, Metadata, Tensor};

pub(super) fn read(cbor: &mut Cbor, findings: &mut Findings) -> Result<Contents> {
    let mut tensors = Vec::new();
    cbor.items(|cbor| {
        tensors.push(read_tensor(cbor, findings)?);
        Ok(())
    })?;
    Ok(Contents { version: "0.1".to_owned(), metadata: Metadata::new(), tensors, warnings: Vec::new() })
}

fn read_tensor(cbor: &mut Cbor, findings: &mut Findings) -> Result<Tensor> {
    let (mut blob, mut attributes) = (Blob::default(), Metadata::new());
    let (mut name, mut dtype, mut shape, mut layout) = (None, None, None, None);
    let mut has_place = (false, false);
    cbor.entries(|key, cbor| {
        match key {
            "name" => name = Some(cbor.text()?),
            "dtype" => dtype = Some(dtype_of(&cbor.text()?)),
            "shape" => shape = Some(cbor.integers()?),
            "layout" => layout = Some(cbor.text()?),
            "offset" => (blob.offset, has_place.0) = (cbor.u64()?, true),
            "size" => (blob.length, has_place.1) = (cbor.u64()?, true),
            "encoding" => blob.encoding = Some(cbor.text()?),
            "data_endianness" => blob.is_big_endian = cbor.text()? == "big",
            "checksum" => blob.digest = Some(cbor.text()?),
            _ => _ = attributes.insert(key.to_owned(), cbor.value()?),
        }
        Ok(())
    })?;
    let name = name.ok_or_else(|| cbor.malformed("a tensor has no name"))?;
    let (Some(dtype), Some(shape), (true, true)) = (dtype, shape, has_place) else {
        return Err(malformed("its dtype, shape, offset or size is missing").in_tensor(&name));
    };
    let tensor = match layout.as_deref() {
        None | Some("dense") => {
            let expected = element_count(&shape).and_then(|count| dtype.byte_length(count));
            let data = expected.and_then(|expected| blob.component("data", dtype.clone(), expected, findings));
            data.map(|data| Tensor { attributes, ..Tensor::dense(name.clone(), dtype, shape, data) })
        }
        // Indices and values, one behind the other.
        Some(other) => blob.component("data", Dtype::U8, None, findings).map(|data| {
            let layout = Layout::Other(other.into());
            Tensor { attributes, layout, ..Tensor::dense(name.clone(), dtype, shape, data) }
        }),
    };
    tensor.map_err(|e| e.in_tensor(&name))
}

/// The dtype of a name in zTensor 0.1 and 1.0, which spell types out.
pub(super) fn dtype_of(name: &str) -> Dtype {
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
        other => Dtype::Other(other.into()),
    }
}
