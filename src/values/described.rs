//! Reads typed fields of the JSON description of a tensor.

use super::json::shown;
use crate::error::{Result, malformed};
use serde_json::Value;

/// Returns the text of a key, if present.
pub(crate) fn text<'a>(described: &'a Value, key: &str) -> Result<Option<&'a str>> {
    match described.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(malformed(format!("its `{key}` is {}, which is not text", shown(other)))),
    }
}

/// Returns the size or offset of a key, if present.
pub(crate) fn integer(described: &Value, key: &str) -> Result<Option<u64>> {
    match described.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(number) => match number.as_u64() {
            Some(number) => Ok(Some(number)),
            None => Err(malformed(format!("its `{key}` is {}, which is not a size", shown(number)))),
        },
    }
}

/// Returns the list of sizes of a key.
pub(crate) fn integers(described: &Value, key: &str) -> Result<Vec<u64>> {
    let sizes = described.get(key).and_then(Value::as_array);
    let sizes = sizes.and_then(|sizes| sizes.iter().map(Value::as_u64).collect());
    sizes.ok_or_else(|| malformed(format!("its `{key}` is not a list of sizes")))
}
