//! The class behind tensors on a GPU, which `gpu/gpu.js` calls.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use super::JsLoader;
use super::cancel::{self, CloseSignal};
use super::promise::{Stop, deferred_promise};
use super::reading::Reading;
use super::value;
use crate::deferred::Code;
use crate::error::Result;
use crate::loader::{BegunTensor, Loader, Order, TensorReader};
use crate::source::Buffer;
use crate::source::js_buffer::JsBuffer;
use crate::source::web::WebSource;
use js_sys::Promise;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

/// Tensors that are read one after another, in pieces.
#[wasm_bindgen(js_name = TensorReader)]
pub struct JsTensorReader(Reading<Pieces>);

struct Pieces {
    reader: TensorReader<WebSource>,
    /// The last piece, which the next one overwrites.
    buffer: Option<JsBuffer>,
}

#[wasm_bindgen(js_class = Loader)]
impl JsLoader {
    /// Resolves to a reader of the named tensors, or of all if `names` is undefined; with `rows` of only these rows.
    #[wasm_bindgen(js_name = readTensors)]
    pub fn read_tensors(
        &self,
        names: Option<Vec<String>>,
        rows: Option<Vec<f64>>,
        is_in_order: bool,
        signal: Option<web_sys::AbortSignal>,
    ) -> Promise {
        let (loader, close_signal) = (self.loader.borrow().clone(), self.close_signal.clone());
        let order = if is_in_order { Order::Given } else { Order::File };
        let rows = match rows.as_deref() {
            Some([first, end]) => Some(*first as u64..*end as u64),
            _ => None,
        };
        let stop = Stop { signal: signal.clone(), close_signal: close_signal.clone() };
        deferred_promise(Code::Extras, stop, move || opened(loader, names, rows, order, signal, close_signal))
    }
}

/// A reader of tensors, as [`JsLoader::read_tensors`] describes it.
async fn opened(
    loader: Option<Rc<Loader<WebSource>>>,
    names: Option<Vec<String>>,
    rows: Option<Range<u64>>,
    order: Order,
    signal: Option<web_sys::AbortSignal>,
    close_signal: CloseSignal,
) -> std::result::Result<JsValue, JsValue> {
    let opening = async {
        let loader = loader.ok_or_else(cancel::closed_error)?;
        loader.read_tensors_by(names, rows, order).await
    };
    let reader = cancel::run_until_stopped(signal.clone(), &close_signal, opening).await?;
    let pieces = Pieces { reader, buffer: None };
    Ok(JsTensorReader(Reading::new(pieces, signal, close_signal, cancel::closed_error)).into())
}

#[wasm_bindgen(js_class = TensorReader)]
impl JsTensorReader {
    /// Resolves to the name, dtype, shape and length of the next tensor; to `undefined` after the last one.
    pub fn next(&self) -> Promise {
        self.0.run(async move |Pieces { reader, .. }| {
            let Some(BegunTensor { tensor, shape, byte_length, .. }) = reader.next().await? else {
                return Ok(JsValue::UNDEFINED);
            };
            Ok(value::object([
                ("name", tensor.name.as_str().into()),
                ("dtype", tensor.dtype.name().into()),
                ("shape", super::shape_array(&shape).into()),
                ("byteLength", value::from_u64(byte_length)),
            ]))
        })
    }

    /// Resolves to the next `length` bytes of the tensor, or fewer at its end, in a buffer that the next call
    /// overwrites.
    pub fn fill(&self, length: f64) -> Promise {
        self.0.run(async move |pieces| pieces.fill(length as u64).await)
    }

    /// Resolves to the algorithm that the tensor was verified with, once all its bytes were read; else to `null`.
    pub fn verified(&self) -> Promise {
        self.0.run(async move |pieces| Ok(pieces.reader.verified().map_or(JsValue::NULL, JsValue::from)))
    }

    /// Stops the request.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl Pieces {
    async fn fill(&mut self, length: u64) -> Result<JsValue> {
        let mut buffer = match self.buffer.take() {
            Some(buffer) if buffer.is_intact() && buffer.byte_length() == length => buffer,
            _ => JsBuffer::allocate(length)?,
        };
        let count = self.reader.fill(&mut buffer, 0..length).await?;
        let bytes = buffer.bytes().subarray(0, count as u32);
        self.buffer = Some(buffer);
        Ok(bytes.into())
    }
}

impl std::fmt::Debug for JsTensorReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JsTensorReader")
    }
}
