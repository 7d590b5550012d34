//! What a model says of itself as it crosses to JavaScript.

use super::value;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Index, LongArray, Manifest, Strings};
use js_sys::{Array, Float32Array, Function, Int32Array, Object, Uint32Array};
use wasm_bindgen::JsValue;

/// So many strings of a vocabulary cross at a time. One that is kept keeps the text of them all.
const BATCH_STRINGS: usize = 4096;

/// What the manifest says and then the first file. `add` puts items into an array, from a place on: those of a typed
/// array, or the strings of a text of which it is told the lengths.
pub(super) fn from_heads(manifest: Option<&Manifest>, first: Option<&Index>, add: &Function) -> Result<JsValue> {
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
    let of_manifest = || manifest.map_or(("", ""), |manifest| (manifest.format, &manifest.version));
    let (format, version) = first.map_or_else(of_manifest, |first| (first.format, &first.version));
    Ok(value::object([("format", format.into()), ("version", version.into()), ("metadata", metadata.into())]))
}

fn from_long_array(array: &LongArray, add: &Function) -> Result<JsValue> {
    let items = Array::new_with_length(array.len() as u32); // to grow it would take more time than to fill it
    let add = |start: usize, numbers: JsValue, text: JsValue| {
        let added = add.call4(&JsValue::NULL, &items, &JsValue::from(start as u32), &numbers, &text);
        added.map_err(|_| Error::new(ErrorKind::Internal, "an array of the metadata cannot be handed out"))
    };
    match array {
        LongArray::Strings(strings) => add_strings(strings, add)?,
        LongArray::F32(numbers) => drop(add(0, Float32Array::from(numbers.as_slice()).into(), JsValue::UNDEFINED)?),
        LongArray::I32(numbers) => drop(add(0, Int32Array::from(numbers.as_slice()).into(), JsValue::UNDEFINED)?),
        LongArray::U32(numbers) => drop(add(0, Uint32Array::from(numbers.as_slice()).into(), JsValue::UNDEFINED)?),
    }
    Ok(items.into())
}

/// A string that crosses by itself costs a microsecond: they are joined, and cut there.
fn add_strings(strings: &Strings, add: impl Fn(usize, JsValue, JsValue) -> Result<JsValue>) -> Result<()> {
    for (batch, (text, strings)) in strings.chunks(BATCH_STRINGS).enumerate() {
        let lengths: Vec<u32> = strings.map(|string| value::utf16_length(string) as u32).collect();
        add(batch * BATCH_STRINGS, Uint32Array::from(lengths.as_slice()).into(), text.into())?;
    }
    Ok(())
}
