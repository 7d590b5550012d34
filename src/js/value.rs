//! Converts JSON and integers to JavaScript values without rounding.

use js_sys::{Array, BigInt, Object, Reflect};
use serde_json::{Map, Number, Value};
use wasm_bindgen::JsValue;

/// Not all integers above this can be represented exactly as a number.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The number of items of an array that are passed at a time.
const BATCH_ITEMS: usize = 4096;

/// The maximum size of a batch as JSON. In addition to the values, the JSON text is in memory twice.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// The maximum size of a character in a JSON string, for example `\u0001`.
const MAX_ESCAPED_BYTES: usize = 6;

/// The maximum size of a number in JSON, or of the punctuation around any other value.
const MAX_NUMBER_BYTES: usize = 32;

/// Creates a plain object with these properties.
pub(super) fn object<const N: usize>(properties: [(&str, JsValue); N]) -> JsValue {
    let object = Object::new();
    for (name, value) in properties {
        set(&object, name, &value);
    }
    object.into()
}

/// Returns a number, or a bigint if a number would not be exact.
pub(super) fn from_u64(integer: u64) -> JsValue {
    if integer <= MAX_SAFE_INTEGER { JsValue::from_f64(integer as f64) } else { BigInt::from(integer).into() }
}

/// Converts a JSON object. Integers beyond 2^53, which `JSON.parse` would round, become bigints.
pub(super) fn from_map(map: &Map<String, Value>) -> JsValue {
    let object = Object::new();
    extend(&object, map);
    object.into()
}

/// Sets the properties of a JSON object on `object`.
pub(super) fn extend(object: &Object, map: &Map<String, Value>) {
    for (key, value) in map {
        set(object, key, &from_json(value));
    }
}

/// The `length` of a string in JavaScript.
pub(super) fn utf16_length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char::len_utf16).sum() }
}

fn from_json(value: &Value) -> JsValue {
    match value {
        Value::Null => JsValue::NULL,
        Value::Bool(value) => JsValue::from_bool(*value),
        Value::Number(number) => from_number(number),
        Value::String(text) => JsValue::from_str(text),
        Value::Array(items) => from_items(items).into(),
        Value::Object(map) => from_map(map),
    }
}

/// Vocabularies have hundreds of thousands of items. They are passed in batches, because each string that is passed
/// separately takes a microsecond.
fn from_items(items: &[Value]) -> Array {
    let batch = |items: &[Value]| {
        let bytes = items.iter().try_fold(0, |sum: usize, item| sum.checked_add(json_size(item)?));
        let parsed = if bytes.is_some_and(|bytes| bytes <= MAX_BATCH_BYTES) { via_json(items) } else { None };
        parsed.unwrap_or_else(|| items.iter().map(from_json).collect::<Array>().into())
    };
    items.chunks(BATCH_ITEMS).map(batch).collect::<Array>().flat(1)
}

/// The maximum size of a value as JSON; `None` if `JSON.parse` would round a number in it.
fn json_size(value: &Value) -> Option<usize> {
    let text_bytes = |text: &str| text.len().saturating_mul(MAX_ESCAPED_BYTES).saturating_add(MAX_NUMBER_BYTES);
    match value {
        Value::Number(number) => {
            let is_exact = number.is_f64() || number.as_i64().is_some_and(|n| n.unsigned_abs() <= MAX_SAFE_INTEGER);
            is_exact.then_some(MAX_NUMBER_BYTES)
        }
        Value::Array(items) => items.iter().try_fold(MAX_NUMBER_BYTES, |sum, item| sum.checked_add(json_size(item)?)),
        Value::Object(map) => map.iter().try_fold(MAX_NUMBER_BYTES, |sum, (key, value)| {
            sum.checked_add(text_bytes(key))?.checked_add(json_size(value)?)
        }),
        Value::String(text) => Some(text_bytes(text)),
        Value::Null | Value::Bool(_) => Some(MAX_NUMBER_BYTES),
    }
}

/// Passes values as JSON text. `JSON.parse` rounds integers beyond 2^53.
fn via_json(value: &[Value]) -> Option<JsValue> {
    js_sys::JSON::parse(&serde_json::to_string(value).ok()?).ok()
}

fn from_number(number: &Number) -> JsValue {
    match (number.as_u64(), number.as_i64()) {
        (Some(integer), _) => from_u64(integer),
        (None, Some(integer)) if integer.unsigned_abs() > MAX_SAFE_INTEGER => BigInt::from(integer).into(),
        _ => JsValue::from_f64(number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// Sets an own property with any name. An assignment to `__proto__` would change the prototype instead.
pub(super) fn set(object: &Object, name: &str, value: &JsValue) {
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
    debug_assert!(done.is_ok(), "setting a property of a new object cannot fail");
}

#[cfg(all(test, web))]
#[allow(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;
    use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

    wasm_bindgen_test_configure!(run_in_browser);

    fn item(array: &Array, at: usize) -> JsValue {
        array.get(at as u32)
    }

    #[wasm_bindgen_test]
    fn arrays_passed_in_batches_keep_all_items() {
        let mut items: Vec<Value> = (0..3 * BATCH_ITEMS).map(|i| json!([format!("▁t{i}"), i])).collect();
        items[BATCH_ITEMS + 1] = json!(u64::MAX);
        items[7] = json!(-0.5e-7);
        items[8] = json!({ "__proto__": null });
        let array = from_items(&items);
        assert_eq!(array.length() as usize, items.len());
        for at in [0, BATCH_ITEMS - 1, BATCH_ITEMS, 2 * BATCH_ITEMS, 3 * BATCH_ITEMS - 1] {
            let pair: Array = wasm_bindgen::JsCast::unchecked_into(item(&array, at));
            assert_eq!(item(&pair, 0).as_string(), Some(format!("▁t{at}")));
            assert_eq!(item(&pair, 1).as_f64(), Some(at as f64));
        }
        assert!(item(&array, BATCH_ITEMS + 1).is_bigint());
        assert_eq!(item(&array, 7).as_f64(), Some(-0.5e-7));
        let proto: Object = wasm_bindgen::JsCast::unchecked_into(item(&array, 8));
        assert_eq!(Object::keys(&proto).length(), 1);
    }

    #[wasm_bindgen_test]
    fn only_exact_numbers_are_passed_as_json() {
        let exact = [json!(MAX_SAFE_INTEGER), json!(-(MAX_SAFE_INTEGER as i64)), json!(1e300), json!([{ "a": 1 }])];
        let rounded = [json!(MAX_SAFE_INTEGER + 1), json!(i64::MIN), json!(u64::MAX), json!([{ "a": u64::MAX }])];
        assert!(exact.iter().all(|value| json_size(value).is_some()));
        assert!(!rounded.iter().any(|value| json_size(value).is_some()));
    }

    #[wasm_bindgen_test]
    fn long_strings_are_not_passed_as_json() {
        let text = "\u{1}".repeat(MAX_BATCH_BYTES);
        let array = from_items(&[json!(text), json!([text, 1]), json!("short")]);
        assert_eq!(item(&array, 0).as_string(), Some(text));
        assert_eq!(item(&array, 2).as_string().as_deref(), Some("short"));
    }
}
