//! Bytes that the caller's own code provides: anything with `byteLength` and `slice(start, end)`.

use super::js_buffer::JsBuffer;
use super::stream::broken;
use super::{Answer, Buffer, answer::Identity};
use crate::error::{Error, ErrorKind, Result};
use js_sys::{ArrayBuffer, Promise, Uint8Array};
use std::ops::Range;
use wasm_bindgen::{JsCast, JsValue, prelude::wasm_bindgen};
use wasm_bindgen_futures::JsFuture;

/// A slice is asked for in steps of this size, so that a large tensor does not exist twice.
const STEP_BYTES: u64 = 4 << 20;

#[wasm_bindgen]
extern "C" {
    /// Bytes that the caller provides.
    #[derive(Debug, Clone)]
    pub type ByteSource;
    #[wasm_bindgen(method, getter, js_name = byteLength)]
    fn byte_length(this: &ByteSource) -> f64;
    #[wasm_bindgen(method, catch)]
    fn slice(this: &ByteSource, start: f64, end: f64) -> Result<JsValue, JsValue>;
}

/// A range of a [`ByteSource`].
#[derive(Debug)]
pub struct BytesBody {
    source: ByteSource,
    left: Range<u64>,
}

/// As [`Source::read`](super::Source::read).
pub(super) fn read(source: &ByteSource, range: Range<u64>) -> Answer<BytesBody> {
    let length = source.byte_length() as u64;
    let end = range.end.min(length);
    let start = range.start.min(end);
    let body = BytesBody { source: source.clone(), left: start..end };
    let identity = Identity { length: Some(length), ..Identity::default() };
    Answer { start, end: Some(end), file_length: Some(length), is_whole_file: false, identity, body }
}

impl BytesBody {
    /// As [`Body::read`](super::Body::read).
    pub(super) async fn read(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        let length = (self.left.end - self.left.start).min(at.end - at.start).min(STEP_BYTES);
        if length == 0 {
            return Ok(0);
        }
        let (start, end) = (self.left.start, self.left.start + length);
        let failed = |cause| broken("the byte source failed", cause);
        let slice = self.source.slice(start as f64, end as f64).map_err(failed)?;
        let slice = JsFuture::from(Promise::resolve(&slice)).await.map_err(failed)?;
        let bytes = view(&slice).filter(|bytes| u64::from(bytes.length()) == length);
        let bytes = bytes.ok_or_else(|| {
            let what = format!("the byte source did not give the {length} bytes of slice({start}, {end})");
            Error::new(ErrorKind::Truncated, what).at(start..end)
        })?;
        if at.start + length > into.byte_length() {
            return Err(Error::new(ErrorKind::Internal, "bytes were to be put outside a buffer"));
        }
        into.bytes.set(&bytes, at.start as u32);
        self.left.start = end;
        Ok(length)
    }
}

/// The bytes of an ArrayBuffer or of any view of one.
pub(crate) fn view(value: &JsValue) -> Option<Uint8Array> {
    if let Some(buffer) = value.dyn_ref::<ArrayBuffer>() {
        return Some(Uint8Array::new(buffer));
    }
    if let Some(buffer) = value.dyn_ref::<js_sys::SharedArrayBuffer>() {
        return Some(Uint8Array::new(buffer));
    }
    if !ArrayBuffer::is_view(value) {
        return None;
    }
    let field = |name: &str| js_sys::Reflect::get(value, &name.into()).ok();
    let (offset, length) = (field("byteOffset")?.as_f64()?, field("byteLength")?.as_f64()?);
    Some(Uint8Array::new_with_byte_offset_and_length(&field("buffer")?, offset as u32, length as u32))
}
