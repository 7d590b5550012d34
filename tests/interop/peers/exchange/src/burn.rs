//! The dtypes of Burn as its releases serialize them, and the dtypes of weightstream that correspond to them.

use crate::{Noise, Tensor};
use serde_json::{Map, Value, json};

/// Every dtype that is not quantized, as Burn serializes it, with the number of bytes of an element.
pub fn dtypes() -> Vec<(Value, u64)> {
    let named = [
        ("F64", 8),
        ("F32", 4),
        ("Flex32", 4),
        ("F16", 2),
        ("BF16", 2),
        ("I64", 8),
        ("I32", 4),
        ("I16", 2),
        ("I8", 1),
        ("U64", 8),
        ("U32", 4),
        ("U16", 2),
        ("U8", 1),
    ];
    let bools = [("Native", 1), ("U8", 1), ("U32", 4)];
    let bools = bools.map(|(store, bytes)| (json!({ "Bool": store }), bytes));
    named.map(|(name, bytes)| (json!(name), bytes)).into_iter().chain(bools).collect()
}

/// Random tensors of a dtype of Burn.
pub fn tensors(noise: &mut Noise, dtype: &Value, element_bytes: u64) -> Vec<Tensor> {
    let mut tensors = noise.tensors(&weightstream_dtype(dtype), element_bytes);
    for (at, tensor) in tensors.iter_mut().enumerate() {
        // Several dtypes of Burn have the same name in weightstream, so the name of the tensor contains Burn's.
        tensor.name = format!("{dtype} {}", tensor.name);
        tensor.attributes = attributes(dtype, (at % 3 > 0).then(|| noise.next()));
    }
    tensors
}

/// Weightstream's name for a dtype.
pub fn weightstream_dtype(dtype: &Value) -> String {
    if let Some(name) = dtype.as_str() {
        return name.replace("Flex32", "F32");
    }
    match (dtype["Bool"].as_str(), dtype["QFloat"]["value"].as_str()) {
        (Some("U32"), _) => "U32".to_owned(),
        (Some(_), _) => "BOOL".to_owned(),
        (_, Some(value)) => format!("QFLOAT_{value}"),
        _ => panic!("unknown dtype of Burn: {dtype}"),
    }
}

/// The attributes that weightstream reports: Burn's dtype, if it differs from weightstream's, and the parameter id.
pub fn attributes(dtype: &Value, param_id: Option<u64>) -> Map<String, Value> {
    let mut attributes = Map::new();
    if *dtype != weightstream_dtype(dtype) {
        attributes.insert("dtype".to_owned(), dtype.clone());
    }
    attributes.extend(param_id.map(|id| ("param_id".to_owned(), json!(id))));
    attributes
}

/// The dtype of Burn of a generated tensor.
pub fn burn_dtype(tensor: &Tensor) -> Value {
    tensor.attributes.get("dtype").cloned().unwrap_or_else(|| json!(tensor.dtype))
}

/// The parameter id of a generated tensor.
pub fn param_id(tensor: &Tensor) -> Option<u64> {
    tensor.attributes.get("param_id")?.as_u64()
}
