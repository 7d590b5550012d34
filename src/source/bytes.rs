//! A byte source of the caller: an object with `byteLength` and `slice(start, end, { signal })`.

use super::RangeResponse;
use super::js_buffer::JsBuffer;
use super::stream::caused_error;
use crate::browser::type_tag::view;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use js_sys::{Object, Promise, Reflect};
use std::ops::Range;
use wasm_bindgen::{JsValue, prelude::wasm_bindgen};
use wasm_bindgen_futures::JsFuture;
use web_sys::AbortController;

/// Maximum length of a slice, so that no second copy of a large tensor is allocated.
const STEP_BYTES: u64 = 4 << 20;

#[wasm_bindgen]
extern "C" {
    /// A byte source of the caller.
    #[derive(Debug, Clone)]
    pub type ByteSource;
    #[wasm_bindgen(method, catch, getter, js_name = byteLength)]
    fn byte_length(this: &ByteSource) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn slice(this: &ByteSource, start: f64, end: f64, options: &JsValue) -> Result<JsValue, JsValue>;
}

/// A range of a [`ByteSource`].
#[derive(Debug)]
pub(crate) struct BytesBody {
    source: ByteSource,
    left: Range<u64>,
}

/// Implements [`Source::read`](super::Source::read).
pub(super) fn read(source: &ByteSource, range: Range<u64>) -> Result<RangeResponse<BytesBody>> {
    let length = source.byte_length().map_err(|cause| thrown("byteLength", cause))?;
    let length = length.as_f64().ok_or_else(|| {
        Error::new(ErrorKind::InvalidArgument, "the byteLength of the byte source is no longer a number")
    })? as u64;
    let end = range.end.min(length);
    let start = range.start.min(end);
    let body = BytesBody { source: source.clone(), left: start..end };
    let identity = Identity { length: Some(length), ..Identity::default() };
    Ok(RangeResponse { end: Some(end), file_length: Some(length), identity, ..RangeResponse::new(start, body) })
}

impl BytesBody {
    /// Implements [`Body::read`](super::Body::read).
    pub(super) async fn read(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        let length = (self.left.end - self.left.start).min(at.end - at.start).min(STEP_BYTES);
        if length == 0 {
            return Ok(0);
        }
        let (start, end) = (self.left.start, self.left.start + length);
        let failed = |cause| thrown("slice()", cause);
        let mut call = Call { controller: AbortController::new().map_err(failed)?, is_running: true };
        let options = Object::new();
        Reflect::set(&options, &"signal".into(), &call.controller.signal()).map_err(failed)?;
        let slice = self.source.slice(start as f64, end as f64, &options).map_err(failed)?;
        let slice = JsFuture::from(Promise::resolve(&slice)).await;
        call.is_running = false;
        let slice = slice.map_err(failed)?;
        let bytes = view(&slice).filter(|bytes| u64::from(bytes.length()) == length);
        let bytes = bytes.ok_or_else(|| {
            let what = format!("the byte source did not return the {length} bytes of slice({start}, {end})");
            Error::new(ErrorKind::Truncated, what).at(start..end)
        })?;
        into.put(at.start, &bytes)?;
        self.left.start = end;
        Ok(length)
    }
}

/// A call of `slice()`. Its signal aborts if it is dropped while it runs: nothing waits for the bytes any more.
struct Call {
    controller: AbortController,
    is_running: bool,
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.is_running {
            self.controller.abort();
        }
    }
}

/// The error for an exception of the caller's code, which may have nothing to do with the network. The caller's code
/// decides what it tries again.
fn thrown(member: &str, cause: JsValue) -> Error {
    let error = caused_error(ErrorKind::Io, &format!("the `{member}` of the byte source failed"), cause);
    error.advise("`cause` is the exception of your byte source.")
}
