//! The index as JavaScript sees it.

use super::{byte_length_of, value};
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use js_sys::{Array, Reflect};
use serde::Serialize;
use std::rc::Rc;
use wasm_bindgen::JsValue;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TensorInfo<'a> {
    name: &'a str,
    dtype: &'a str,
    shape: Vec<f64>,
    layout: &'a str,
    byte_length: f64,
    shard: usize,
    components: Vec<ComponentInfo<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ComponentInfo<'a> {
    role: &'a str,
    dtype: &'a str,
    byte_length: Option<f64>,
    stored_byte_length: f64,
    encoding: &'a str,
}

/// An array of `TensorInfo`.
pub(super) fn from_tensors(tensors: &[Rc<Tensor>]) -> Result<JsValue> {
    let list = Array::new();
    for tensor in tensors {
        let components = tensor.components.iter().map(|component| ComponentInfo {
            role: &component.role,
            dtype: component.dtype.name(),
            byte_length: component.decoded_length.map(|length| length as f64),
            stored_byte_length: (component.range.end - component.range.start) as f64,
            encoding: component.encoding.name(),
        });
        let info = TensorInfo {
            name: &tensor.name,
            dtype: tensor.dtype.name(),
            shape: tensor.shape.iter().map(|&dim| dim as f64).collect(),
            layout: tensor.layout.name(),
            byte_length: byte_length_of(tensor) as f64,
            shard: tensor.shard,
            components: components.collect(),
        };
        let internal = |what: String| Error::new(ErrorKind::Internal, what).in_tensor(&tensor.name);
        let info = serde_wasm_bindgen::to_value(&info).map_err(|error| internal(error.to_string()))?;
        Reflect::set(&info, &"attributes".into(), &value::from_map(&tensor.attributes))
            .map_err(|_| internal("its attributes cannot be listed".to_owned()))?;
        list.push(&info);
    }
    Ok(list.into())
}
