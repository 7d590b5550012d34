//! Passes the metadata of a model to JavaScript.

use super::value;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Index, LongArray, Manifest, Strings};
use js_sys::{Array, Float32Array, Function, Int32Array, Object, Uint32Array};
use wasm_bindgen::JsValue;

/// The number of strings that are passed at a time. It is limited because a substring in JavaScript can keep the joined
/// string of its whole batch in memory.
const BATCH_STRINGS: usize = 4096;

/// Returns a `Metadata` object with the metadata of the manifest and of the first file. Keys of the file take
/// precedence. `add` writes items into an array from an index on: the numbers of a typed array, or the substrings of a
/// string whose lengths the typed array contains.
pub(super) fn from_headers(manifest: Option<&Manifest>, first: Option<&Index>, add: &Function) -> Result<JsValue> {
    let metadata = Object::new();
    if let Some(manifest) = manifest {
        value::extend(&metadata, &manifest.metadata);
    }
    if let Some(first) = first {
        value::extend(&metadata, &first.metadata);
        for (key, array) in &first.long_arrays {
            value::set(&metadata, key, &from_long_array(array, add)?);
        }
    }
    let manifest_format = || manifest.map_or(("", ""), |manifest| (manifest.format, &manifest.version));
    let (format, version) = first.map_or_else(manifest_format, |first| (first.format, &first.version));
    Ok(value::object([("format", format.into()), ("version", version.into()), ("metadata", metadata.into())]))
}

fn from_long_array(array: &LongArray, add: &Function) -> Result<JsValue> {
    let items = Array::new_with_length(array.len() as u32); // growing the array would take longer than filling it
    let add = |start: usize, numbers: JsValue, text: JsValue| {
        let added = add.call4(&JsValue::NULL, &items, &JsValue::from(start as u32), &numbers, &text);
        added.map_err(|_| Error::new(ErrorKind::Internal, "an array of the metadata cannot be passed to JavaScript"))
    };
    match array {
        LongArray::Strings(strings) => add_strings(strings, add)?,
        LongArray::F32(numbers) => drop(add(0, Float32Array::from(numbers.as_slice()).into(), JsValue::UNDEFINED)?),
        LongArray::I32(numbers) => drop(add(0, Int32Array::from(numbers.as_slice()).into(), JsValue::UNDEFINED)?),
        LongArray::U32(numbers) => drop(add(0, Uint32Array::from(numbers.as_slice()).into(), JsValue::UNDEFINED)?),
    }
    Ok(items.into())
}

/// Passes joined strings, which JavaScript splits: each string that is passed separately takes a microsecond.
fn add_strings(strings: &Strings, add: impl Fn(usize, JsValue, JsValue) -> Result<JsValue>) -> Result<()> {
    for (batch, (text, strings)) in strings.chunks(BATCH_STRINGS).enumerate() {
        let lengths: Vec<u32> = strings.map(|string| value::utf16_length(string) as u32).collect();
        add(batch * BATCH_STRINGS, Uint32Array::from(lengths.as_slice()).into(), text.into())?;
    }
    Ok(())
}
