//! What a model says of itself as it crosses to JavaScript.

use super::value;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Index, LongArray, Manifest, Strings};
use js_sys::{Array, Float32Array, Function, Int32Array, Object, Uint32Array};
use wasm_bindgen::JsValue;

/// So many strings of a vocabulary cross at a time. One that is kept keeps the text of them all.
const BATCH_STRINGS: usize = 4096;

/// What the manifest says and then the first file. `cut` adds strings to an array, given their text and lengths.
pub(super) fn from_heads(manifest: Option<&Manifest>, first: Option<&Index>, cut: &Function) -> Result<JsValue> {
    let metadata = Object::new();
    if let Some(manifest) = manifest {
        value::extend(&metadata, &manifest.metadata);
    }
    if let Some(first) = first {
        value::extend(&metadata, &first.metadata);
        for (key, array) in &first.long_arrays {
            value::set(&metadata, key, &from_long_array(array, cut)?.into());
        }
    }
    let of_manifest = || manifest.map_or(("", ""), |manifest| (manifest.format, &manifest.version));
    let (format, version) = first.map_or_else(of_manifest, |first| (first.format, &first.version));
    Ok(value::object([("format", format.into()), ("version", version.into()), ("metadata", metadata.into())]))
}

fn from_long_array(array: &LongArray, cut: &Function) -> Result<Array> {
    Ok(match array {
        LongArray::Strings(strings) => return from_strings(strings, cut),
        LongArray::F32(numbers) => Array::from(&Float32Array::from(numbers.as_slice())),
        LongArray::I32(numbers) => Array::from(&Int32Array::from(numbers.as_slice())),
        LongArray::U32(numbers) => Array::from(&Uint32Array::from(numbers.as_slice())),
    })
}

/// A string that crosses by itself costs a microsecond: they are joined, and cut there.
fn from_strings(strings: &Strings, cut: &Function) -> Result<Array> {
    let array = Array::new();
    for (text, strings) in strings.chunks(BATCH_STRINGS) {
        let lengths: Vec<u32> = strings.map(|string| value::utf16_length(string) as u32).collect();
        cut.call3(&JsValue::NULL, &array, &text.into(), &Uint32Array::from(lengths.as_slice()))
            .map_err(|_| Error::new(ErrorKind::Internal, "strings of the metadata cannot be handed out"))?;
    }
    Ok(array)
}
