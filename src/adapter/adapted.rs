//! Makes the tensor of an adapted weight: the parts of the weight and of its updates, and the scheme.

use super::scheme::{Adapted, Factor, Update, Weight};
use super::update::{MERGE, Orientation, UpdateParts, is_float};
use crate::codec::dequantize::decoder_of;
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Layout, PartTensor, Quantized, Tensor, matrix_of};
use serde_json::{Value, json};
use std::sync::Arc;

/// A tensor whose rows are computed from the weight and the factors.
pub(super) fn adapted(weight: Tensor, updates: Vec<UpdateParts>) -> Result<Tensor> {
    let [_, columns] = matrix_of(&weight.shape)?;
    let row_elements = element_count(weight.shape.get(1..).unwrap_or_default())?;
    let rows = weight.shape.first().copied().unwrap_or(1);
    let (mut components, mut parts, stored) = parts_of(&weight, columns)?;
    let weight_parts = components.len();
    let (mut described, mut computed) = (Vec::new(), Vec::new());
    for UpdateParts { adapter, shard, down, up, magnitude, alpha, scale, orientation, rank } in updates {
        let mut add = |role: &str, tensor: Tensor| {
            let part = components.len();
            let data = tensor.components.into_iter().next();
            components.extend(data.map(|data| Component { role: format!("adapter{adapter}.{role}").into(), ..data }));
            parts.push(PartTensor { name: tensor.name, shape: tensor.shape, shard });
            (part, tensor.dtype)
        };
        let (down, up) = (add("lora_a", down), add("lora_b", up));
        let factor = |(part, dtype): (usize, Dtype), [rows, columns]: [u64; 2], is_transposed: bool| Factor {
            part,
            dtype,
            rows,
            columns,
            is_transposed,
        };
        let (of_left, of_right) = ([rows, rank], [rank, row_elements]);
        let (left, right) = match orientation {
            Orientation::Plain => (factor(up, of_left, false), factor(down, of_right, false)),
            Orientation::Transposed => (factor(down, of_left, true), factor(up, of_right, true)),
            Orientation::Embedding => (factor(down, of_left, false), factor(up, of_right, true)),
        };
        let known = alpha.is_none().then_some(scale as f32); // otherwise, a tensor that was not read has it
        described.push(json!({ "rank": rank, "scale": known, "dora": magnitude.is_some() }));
        let magnitude = magnitude.map(|magnitude| add("magnitude", magnitude));
        let alpha = alpha.map(|alpha| add("alpha", alpha));
        computed.push(Update { left, right, rank, alpha, scale, magnitude });
    }
    let dtype = if is_float(&weight.dtype) { weight.dtype.clone() } else { Dtype::F32 };
    let mut attributes = weight.attributes.clone();
    attributes.insert("adapters".to_owned(), Value::Array(described));
    let scheme = Adapted { weight: stored, weight_parts, columns, row_elements, updates: computed };
    let layout = Layout::Quantized(Arc::new(Quantized { parts, scheme: Arc::new(scheme) }));
    Ok(Tensor { dtype, components, layout, attributes, ..weight })
}

/// The components of a weight as parts, and how its values are computed from them.
fn parts_of(weight: &Tensor, columns: u64) -> Result<(Vec<Component>, Vec<PartTensor>, Weight)> {
    if let Some(quantized) = weight.quantized() {
        let scheme = Weight::Quantized(Arc::clone(&quantized.scheme));
        return Ok((weight.components.clone(), quantized.parts.clone(), scheme));
    }
    let unsupported = |what: String| {
        let error = Error::new(ErrorKind::Unsupported, format!("an adapter cannot be added to it: {what}"));
        Err(error.advise(MERGE))
    };
    let (Layout::Dense, [_]) = (&weight.layout, weight.components.as_slice()) else {
        return unsupported(format!("its layout is {}", weight.layout.name()));
    };
    let Some(decoder) = decoder_of(&weight.dtype).filter(|decoder| decoder.scale_bytes == 0) else {
        return unsupported(format!("its dtype {} has no floats that can be read by rows", weight.dtype));
    };
    if !columns.is_multiple_of(decoder.elements as u64) {
        return unsupported(format!("its rows do not fill blocks of {}", weight.dtype));
    }
    let part = PartTensor { name: weight.name.clone(), shape: weight.shape.clone(), shard: weight.shard };
    Ok((weight.components.clone(), vec![part], Weight::Elements(weight.dtype.clone())))
}
