//! Dtypes of Burn, as its releases spell them in files, and what weightstream makes of them.

use crate::{Noise, Tensor};
use serde_json::{Map, Value, json};

/// Every dtype that is not quantized, in Burn's spelling.
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
    let mut tensors = noise.tensors(&ours(dtype), element_bytes);
    for (at, tensor) in tensors.iter_mut().enumerate() {
        // Weightstream has one name for what Burn has two or three.
        tensor.name = format!("{dtype} {}", tensor.name);
        tensor.attributes = attributes(dtype, (at % 3 > 0).then(|| noise.next()));
    }
    tensors
}

/// Weightstream's name for a dtype.
pub fn ours(dtype: &Value) -> String {
    if let Some(name) = dtype.as_str() {
        return name.replace("Flex32", "F32");
    }
    match (dtype["Bool"].as_str(), dtype["QFloat"]["value"].as_str()) {
        (Some("U32"), _) => "U32".to_owned(),
        (Some(_), _) => "BOOL".to_owned(),
        (_, Some(value)) => format!("QFLOAT_{value}"),
        _ => panic!("a dtype that Burn had not before: {dtype}"),
    }
}

/// What weightstream keeps beside its own name: Burn's, where it says more, and the parameter's id.
pub fn attributes(dtype: &Value, param_id: Option<u64>) -> Map<String, Value> {
    let mut attributes = Map::new();
    if *dtype != ours(dtype) {
        attributes.insert("dtype".to_owned(), dtype.clone());
    }
    attributes.extend(param_id.map(|id| ("param_id".to_owned(), json!(id))));
    attributes
}

/// Burn's dtype of a tensor made here.
pub fn theirs(tensor: &Tensor) -> Value {
    tensor.attributes.get("dtype").cloned().unwrap_or_else(|| json!(tensor.dtype))
}

/// The id of the parameter that a tensor made here is.
pub fn param_id(tensor: &Tensor) -> Option<u64> {
    tensor.attributes.get("param_id")?.as_u64()
}
