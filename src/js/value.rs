//! JSON and integers as JavaScript values, exactly.

use js_sys::{Array, BigInt, Object, Reflect};
use serde_json::{Map, Number, Value};
use wasm_bindgen::JsValue;

/// Integers above this are not all exact as numbers.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// A plain object with these properties.
pub(super) fn object<const N: usize>(properties: [(&str, JsValue); N]) -> JsValue {
    let object = Object::new();
    for (name, value) in properties {
        set(&object, name, &value);
    }
    object.into()
}

/// A number, or a bigint where a number would not be exact.
pub(super) fn from_u64(integer: u64) -> JsValue {
    if integer <= MAX_SAFE_INTEGER { JsValue::from_f64(integer as f64) } else { BigInt::from(integer).into() }
}

/// A JSON object. Its integers beyond 2^53 become bigints, which `JSON.parse` would round.
pub(super) fn from_map(map: &Map<String, Value>) -> JsValue {
    let object = Object::new();
    for (key, value) in map {
        set(&object, key, &from_json(value));
    }
    object.into()
}

fn from_json(value: &Value) -> JsValue {
    match value {
        Value::Null => JsValue::NULL,
        Value::Bool(value) => JsValue::from_bool(*value),
        Value::Number(number) => from_number(number),
        Value::String(text) => JsValue::from_str(text),
        Value::Array(items) => items.iter().map(from_json).collect::<Array>().into(),
        Value::Object(map) => from_map(map),
    }
}

fn from_number(number: &Number) -> JsValue {
    match (number.as_u64(), number.as_i64()) {
        (Some(integer), _) => from_u64(integer),
        (None, Some(integer)) if integer.unsigned_abs() > MAX_SAFE_INTEGER => BigInt::from(integer).into(),
        _ => JsValue::from_f64(number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// Makes an own property of it, whatever the name: plain assignment to `__proto__` would change the prototype.
fn set(object: &Object, name: &str, value: &JsValue) {
    let name = JsValue::from_str(name);
    let done = if name == "__proto__" {
        let descriptor = Object::new();
        for flag in ["enumerable", "writable", "configurable"] {
            Reflect::set(&descriptor, &flag.into(), &JsValue::TRUE).ok();
        }
        Reflect::set(&descriptor, &"value".into(), value).ok();
        Reflect::define_property(object, &name, &descriptor)
    } else {
        Reflect::set(object, &name, value)
    };
    debug_assert!(done.is_ok(), "a fresh object takes any property");
}
