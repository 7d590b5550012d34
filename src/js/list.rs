//! The index as it crosses to JavaScript: rows of which `weightstream.js` makes `TensorInfo`. The keys would be two
//! thirds of the text, and to parse them most of the time.

use super::{byte_length_of, value};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Tensor};
use js_sys::Array;
use std::rc::Rc;
use wasm_bindgen::{JsCast, JsValue};

/// Name, dtype, shape, layout, length in bytes, shard, components; behind them, where it has some, its attributes.
type Row<'a> = (&'a str, &'a str, &'a [u64], &'a str, u64, usize, Vec<ComponentRow<'a>>);

/// Role, dtype, length in bytes once decoded and as stored, encoding.
type ComponentRow<'a> = (&'a str, &'a str, Option<u64>, u64, &'a str);

/// So many at a time become JavaScript's: each string that crosses by itself costs a microsecond, and the text of
/// all of them would stay in WebAssembly memory, which never shrinks.
const BATCH_TENSORS: usize = 1024;

/// An array of batches of rows.
pub(super) fn from_tensors(tensors: &[Rc<Tensor>]) -> Result<JsValue> {
    let batches: Array = tensors.chunks(BATCH_TENSORS).map(batch).collect::<Result<_>>()?;
    Ok(batches.into())
}

fn batch(tensors: &[Rc<Tensor>]) -> Result<Array> {
    let rows: Vec<_> = tensors.iter().map(|tensor| row(tensor)).collect();
    let internal = || Error::new(ErrorKind::Internal, "tensors of the index cannot be listed");
    let batch = value::parsed(&rows).and_then(|batch| batch.dyn_into::<Array>().ok()).ok_or_else(internal)?;
    for (at, tensor) in tensors.iter().enumerate() {
        if !tensor.attributes.is_empty() {
            let row: Array = batch.get(at as u32).dyn_into().map_err(|_| internal())?;
            row.push(&value::from_map(&tensor.attributes));
        }
    }
    Ok(batch)
}

fn row(tensor: &Tensor) -> Row<'_> {
    let components = tensor.components.iter().map(component_row).collect();
    let (dtype, layout) = (tensor.dtype.name(), tensor.layout.name());
    (&tensor.name, dtype, &tensor.shape, layout, byte_length_of(tensor), tensor.shard, components)
}

fn component_row(component: &Component) -> ComponentRow<'_> {
    let stored_byte_length = component.range.end - component.range.start;
    let Component { role, dtype, encoding, decoded_length, .. } = component;
    (role, dtype.name(), *decoded_length, stored_byte_length, encoding.name())
}
