//! The classes behind `StreamingLoader.toBlob`, which `loader/view.js` calls.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use super::JsLoader;
use super::cancel::{self, CloseSignal};
use super::promise::{Stop, deferred_promise, future_to_promise};
use super::reading::Reading;
use crate::deferred::Code;
use crate::error::Result;
use crate::loader::{SafeTensorsView, ViewReader};
use crate::source::Buffer;
use crate::source::js_buffer::JsBuffer;
use crate::source::web::WebSource;
use futures::future::FutureExt;
use js_sys::Promise;
use std::rc::{Rc, Weak};
use wasm_bindgen::prelude::*;

/// A model as one SafeTensors file.
#[wasm_bindgen(js_name = ModelView)]
pub struct JsView {
    view: Weak<SafeTensorsView<WebSource>>,
    byte_length: u64,
    close_signal: CloseSignal,
}

/// A range of that file that is being read.
#[wasm_bindgen(js_name = ViewReader)]
pub struct JsViewReader(Reading<Pieces>);

/// A reader, and the buffer of its last piece: the browser would keep the memory of a new buffer for each piece until
/// its next garbage collection.
struct Pieces {
    reader: ViewReader<WebSource>,
    buffer: Option<JsBuffer>,
}

#[wasm_bindgen(js_class = Loader)]
impl JsLoader {
    /// Opens the model as one SafeTensors file. Returns the view if the index of the model has been read, else a
    /// promise.
    #[wasm_bindgen(js_name = openView)]
    pub fn open_view(&self) -> std::result::Result<JsValue, JsValue> {
        let (loader, close_signal) = (self.loader.borrow().clone(), self.close_signal.clone());
        let loader = loader.ok_or_else(|| super::failure(cancel::closed_error()))?;
        let (stop, view) = (close_signal.clone(), Rc::clone(&self.view));
        let opening = async move {
            let known = view.borrow().clone();
            let opened = match known {
                Some(opened) => opened,
                None => Rc::new(SafeTensorsView::new(loader).await?),
            };
            view.replace(Some(Rc::clone(&opened)));
            let (view, byte_length) = (Rc::downgrade(&opened), opened.byte_length());
            Ok(JsValue::from(JsView { view, byte_length, close_signal }))
        };
        let mut opening = Box::pin(opening);
        match (&mut opening).now_or_never() {
            Some(opened) => opened.map_err(super::failure),
            None => {
                let opening = async move { cancel::run_until_stopped(None, &stop, opening).await };
                Ok(future_to_promise(opening).into())
            }
        }
    }
}

#[wasm_bindgen(js_class = ModelView)]
impl JsView {
    /// The length in bytes.
    #[wasm_bindgen(getter, js_name = byteLength)]
    pub fn byte_length(&self) -> f64 {
        self.byte_length as f64
    }

    /// Resolves to whether a read of the whole file compares checksums of the model's files.
    #[wasm_bindgen(js_name = hasFileChecks)]
    pub fn has_file_checks(&self) -> Promise {
        let (view, close_signal) = (self.view.clone(), self.close_signal.clone());
        deferred_promise(Code::Extras, Stop { signal: None, close_signal }, move || async move {
            let view = view.upgrade().ok_or_else(|| super::failure(cancel::closed_error()))?;
            view.has_file_checks().await.map(JsValue::from).map_err(super::failure)
        })
    }

    /// Resolves to a reader of the bytes `[start, end)`. Requests none of them yet.
    pub fn read(&self, start: f64, end: f64, signal: Option<web_sys::AbortSignal>) -> Promise {
        let (view, close_signal) = (self.view.clone(), self.close_signal.clone());
        let stop = Stop { signal: signal.clone(), close_signal: close_signal.clone() };
        deferred_promise(Code::Extras, stop, move || async move {
            let view = view.upgrade().ok_or_else(|| super::failure(cancel::closed_error()))?;
            let pieces = Pieces { reader: view.read(start as u64..end as u64), buffer: None };
            Ok(JsViewReader(Reading::new(pieces, signal, close_signal, cancel::closed_error)).into())
        })
    }
}

#[wasm_bindgen(js_class = ViewReader)]
impl JsViewReader {
    /// Resolves to the next `length` bytes, or fewer at the end of the range, in a buffer that the next call
    /// overwrites.
    pub fn fill(&self, length: f64) -> Promise {
        self.0.run(async move |pieces| pieces.fill(length as u64).await)
    }

    /// Stops the request.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl Pieces {
    async fn fill(&mut self, length: u64) -> Result<JsValue> {
        let length = length.min(self.reader.remaining());
        let mut buffer = match self.buffer.take() {
            Some(buffer) if buffer.is_intact() && buffer.byte_length() >= length => buffer,
            _ => JsBuffer::allocate(length)?,
        };
        let count = self.reader.fill(&mut buffer, 0..length).await?;
        let bytes = buffer.bytes().subarray(0, count as u32);
        self.buffer = Some(buffer);
        Ok(bytes.into())
    }
}

impl std::fmt::Debug for JsView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsView").field("view", &self.view).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for JsViewReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JsViewReader")
    }
}
