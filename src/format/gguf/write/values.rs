//! Encodes metadata values.

use super::types::{BOOL, F32, F64, I8, I16, I32, I64, Type, U8, U16, U32, U64};
use crate::format::gguf::metadata::STRING;
use crate::output::metadata::as_text;
use serde_json::Value;

/// The type of a value whose type is not stated, as the Python package `gguf` chooses it for numbers that fit.
pub(super) fn natural_type(value: &Value) -> Type {
    match value {
        Value::Bool(_) => Type::Scalar(BOOL),
        Value::Number(_) => Type::Scalar(first_that_fits(&[U32, I32, U64, I64, F32, F64], &[value])),
        Value::Array(items) => {
            let all = items.iter().collect::<Vec<_>>();
            let has_all = |is: fn(&Value) -> bool| items.iter().all(is);
            match () {
                () if has_all(Value::is_number) => {
                    Type::array_of(first_that_fits(&[I32, U32, I64, U64, F32, F64], &all))
                }
                () if has_all(Value::is_string) => Type::array_of(STRING),
                () if has_all(Value::is_boolean) => Type::array_of(BOOL),
                () => Type::TEXT, // ggml reads no nested arrays
            }
        }
        Value::String(_) | Value::Object(_) | Value::Null => Type::TEXT,
    }
}

/// Appends a value of the type. Returns `None`, after appending a part of it, if the type cannot represent the value.
/// Text is parsed as JSON if another type is required: some formats store all values as text.
pub(super) fn encode(value: &Value, value_type: &Type, bytes: &mut Vec<u8>) -> Option<()> {
    match (value_type, value) {
        (Type::Scalar(STRING), value) => text(&as_text(value), bytes),
        (Type::Scalar(F32 | F64), Value::String(_)) => scalar(value, value_type.number(), bytes)?,
        (_, Value::String(json)) => {
            let parsed: Value = serde_json::from_str(json).ok().filter(|parsed: &Value| !parsed.is_string())?;
            encode(&parsed, value_type, bytes)?;
        }
        (Type::Scalar(number), value) => scalar(value, *number, bytes)?,
        (Type::Array(types), Value::Array(items)) => array(items, types, bytes)?,
        (Type::Array(_), _) => return None,
    }
    Some(())
}

/// Appends a length and a text.
pub(super) fn text(text: &str, bytes: &mut Vec<u8>) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn array(items: &[Value], types: &[Type], bytes: &mut Vec<u8>) -> Option<()> {
    let first = types.first()?;
    bytes.extend(first.number().to_le_bytes());
    bytes.extend((items.len() as u64).to_le_bytes());
    let types = types.iter().chain(std::iter::repeat(first)).filter(|item| item.number() == first.number());
    items.iter().zip(types).try_for_each(|(item, item_type)| encode(item, item_type, bytes))
}

fn scalar(value: &Value, number: u32, bytes: &mut Vec<u8>) -> Option<()> {
    match number {
        BOOL => bytes.push(value.as_bool()?.into()),
        F32 => {
            let wide = float(value)?;
            let narrow = wide as f32;
            (narrow.is_finite() || !wide.is_finite()).then(|| bytes.extend(narrow.to_le_bytes()))?;
        }
        F64 => bytes.extend(float(value)?.to_le_bytes()),
        U8 => bytes.extend(u8::try_from(integer(value)?).ok()?.to_le_bytes()),
        I8 => bytes.extend(i8::try_from(integer(value)?).ok()?.to_le_bytes()),
        U16 => bytes.extend(u16::try_from(integer(value)?).ok()?.to_le_bytes()),
        I16 => bytes.extend(i16::try_from(integer(value)?).ok()?.to_le_bytes()),
        U32 => bytes.extend(u32::try_from(integer(value)?).ok()?.to_le_bytes()),
        I32 => bytes.extend(i32::try_from(integer(value)?).ok()?.to_le_bytes()),
        U64 => bytes.extend(u64::try_from(integer(value)?).ok()?.to_le_bytes()),
        I64 => bytes.extend(i64::try_from(integer(value)?).ok()?.to_le_bytes()),
        _ => return None,
    }
    Some(())
}

fn integer(value: &Value) -> Option<i128> {
    value.as_u64().map(i128::from).or_else(|| value.as_i64().map(i128::from))
}

/// JSON has no infinities and no NaN: the reader returns them as text.
fn float(value: &Value) -> Option<f64> {
    match value {
        Value::String(name) => name.parse().ok(),
        value => value.as_f64(),
    }
}

/// The first type that represents all values.
fn first_that_fits(candidates: &[u32], values: &[&Value]) -> u32 {
    let mut bytes = Vec::new();
    let mut fits = |number: u32| {
        values.iter().all(|value| {
            bytes.clear();
            scalar(value, number, &mut bytes).is_some()
        })
    };
    candidates.iter().copied().find(|number| fits(*number)).unwrap_or(F64)
}
