//! The error type that is passed to JavaScript, where `weightstream.js` converts it to a `LoadError`.

use super::value;
use crate::error::Error;
use js_sys::Array;
use wasm_bindgen::prelude::*;

/// The fields of a `LoadError`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Failure(Error);

#[wasm_bindgen]
impl Failure {
    /// The message, including the URL, the tensor and the advice. Options have their names in JavaScript.
    #[wasm_bindgen(getter)]
    pub fn message(&self) -> String {
        self.0.to_string().replace("PartUrls::Map", "partUrl")
    }

    /// The stable code.
    #[wasm_bindgen(getter)]
    pub fn code(&self) -> String {
        self.0.code().to_owned()
    }

    /// The URL or path of the file.
    #[wasm_bindgen(getter)]
    pub fn url(&self) -> Option<String> {
        self.0.context.url.clone()
    }

    /// The name of the tensor.
    #[wasm_bindgen(getter)]
    pub fn tensor(&self) -> Option<String> {
        self.0.context.tensor.clone()
    }

    /// The byte range in the file, `[start, end)`.
    #[wasm_bindgen(getter)]
    pub fn range(&self) -> Option<Array> {
        let range = self.0.context.range.as_ref()?;
        Some(Array::of2(&value::from_u64(range.start), &value::from_u64(range.end)))
    }

    /// The HTTP status.
    #[wasm_bindgen(getter)]
    pub fn status(&self) -> Option<u16> {
        self.0.context.status
    }

    /// The exception that caused the error.
    #[wasm_bindgen(getter)]
    pub fn cause(&self) -> JsValue {
        self.0.context.cause.clone().unwrap_or(JsValue::UNDEFINED)
    }
}

/// Converts an error to the value that a promise rejects with.
pub(super) fn failure(error: Error) -> JsValue {
    Failure(error).into()
}
