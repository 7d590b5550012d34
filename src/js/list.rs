//! The index as JavaScript sees it.

use super::{byte_length_of, value};
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use js_sys::{Array, Reflect};
use serde::Serialize;
use std::rc::Rc;
use wasm_bindgen::{JsCast, JsValue};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TensorInfo<'a> {
    name: &'a str,
    dtype: &'a str,
    shape: &'a [u64],
    layout: &'a str,
    byte_length: u64,
    shard: usize,
    components: Vec<ComponentInfo<'a>>,
    attributes: Attributes,
}

/// An empty object, in whose place come those that a tensor has.
#[derive(Serialize)]
struct Attributes {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ComponentInfo<'a> {
    role: &'a str,
    dtype: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    byte_length: Option<u64>,
    stored_byte_length: u64,
    encoding: &'a str,
}

/// So many at a time become JavaScript's: each string that crosses by itself costs a microsecond, and the text of
/// all of them would stay in WebAssembly memory, which never shrinks.
const BATCH_TENSORS: usize = 1024;

/// An array of `TensorInfo`.
pub(super) fn from_tensors(tensors: &[Rc<Tensor>]) -> Result<JsValue> {
    let batches: Array = tensors.chunks(BATCH_TENSORS).map(batch).collect::<Result<_>>()?;
    Ok(batches.flat(1).into())
}

fn batch(tensors: &[Rc<Tensor>]) -> Result<Array> {
    let infos: Vec<_> = tensors.iter().map(|tensor| info(tensor)).collect();
    let internal = || Error::new(ErrorKind::Internal, "tensors of the index cannot be listed");
    let batch = value::parsed(&infos).and_then(|batch| batch.dyn_into::<Array>().ok()).ok_or_else(internal)?;
    for (at, tensor) in tensors.iter().enumerate() {
        if !tensor.attributes.is_empty() {
            let attributes = value::from_map(&tensor.attributes);
            Reflect::set(&batch.get(at as u32), &"attributes".into(), &attributes).map_err(|_| internal())?;
        }
    }
    Ok(batch)
}

fn info(tensor: &Tensor) -> TensorInfo<'_> {
    let components = tensor.components.iter().map(|component| ComponentInfo {
        role: &component.role,
        dtype: component.dtype.name(),
        byte_length: component.decoded_length,
        stored_byte_length: component.range.end - component.range.start,
        encoding: component.encoding.name(),
    });
    TensorInfo {
        name: &tensor.name,
        dtype: tensor.dtype.name(),
        shape: &tensor.shape,
        layout: tensor.layout.name(),
        byte_length: byte_length_of(tensor),
        shard: tensor.shard,
        components: components.collect(),
        attributes: Attributes {},
    }
}
