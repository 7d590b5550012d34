//! Reads a ReadableStream, directly into the buffer of the tensor if it is a byte stream.
//!
//! A BYOB read fills the buffer without a copy. It is faster than `fetch().arrayBuffer()` and needs half the memory.
//! WebKit's fetch streams, and those of many custom `fetch` functions, are not byte streams. Their chunks are copied.

use super::js_buffer::JsBuffer;
use super::mirrors::MirroredBody;
use super::{Body, Buffer, answer};
use crate::browser::timer;
use crate::browser::type_tag::view;
use crate::error::{Error, ErrorKind, Result};
use js_sys::{Object, Promise, Reflect, Uint8Array};
use std::ops::Range;
use wasm_bindgen::{JsCast, JsValue, prelude::wasm_bindgen};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, ReadableStream, ReadableStreamDefaultReader};

/// Maximum length of one BYOB read. Larger views are not faster, and Chromium fills a view in a task of the page, which
/// took 13 ms for 4 MiB of fresh memory.
const MAX_VIEW_BYTES: u64 = 1 << 20;

/// Size of the scratch buffer that fills borrowed buffers.
const SCRATCH_BYTES: u64 = 256 << 10;

#[wasm_bindgen]
extern "C" {
    type ByobReader;
    #[wasm_bindgen(method, catch)]
    fn read(this: &ByobReader, view: &Uint8Array) -> Result<Promise, JsValue>;

    type Stream;
    // Throws if the stream is locked.
    #[wasm_bindgen(method, catch, js_name = getReader)]
    fn get_reader(this: &Stream) -> Result<ReadableStreamDefaultReader, JsValue>;
    #[wasm_bindgen(method, catch, js_name = getReader)]
    fn get_byob_reader(this: &Stream, mode: &JsValue) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(extends = Object)]
    type ReadResult;
    #[wasm_bindgen(method, getter)]
    fn done(this: &ReadResult) -> Option<bool>;
    #[wasm_bindgen(method, getter)]
    fn value(this: &ReadResult) -> Option<JsValue>;
}

/// A stream as a body.
#[derive(Debug)]
pub(crate) struct StreamBody {
    reader: Reader,
    /// Aborts the request when the body is dropped before its end.
    controller: Option<AbortController>,
    /// Number of remaining bytes, if known.
    left: Option<u64>,
    /// Whether to check that the stream ends after the remaining bytes. With a Content-Length, the browser checks this.
    pub(super) must_end: bool,
}

#[derive(Debug)]
enum Reader {
    Byob {
        reader: JsValue,
        scratch: Option<JsBuffer>,
    },
    Default {
        reader: ReadableStreamDefaultReader,
        chunk: Option<JsBuffer>,
    },
    /// The bodies of several addresses.
    Mirrored(MirroredBody<JsBuffer>),
    /// A response without a body.
    Empty,
}

impl StreamBody {
    /// Locks the stream. `length` is the expected number of bytes, if known. `controller` aborts the request.
    pub(crate) fn new(
        stream: Option<ReadableStream>,
        length: Option<u64>,
        controller: Option<AbortController>,
    ) -> Result<Self> {
        let reader = match stream {
            Some(stream) => Reader::of(&stream)?,
            None => Reader::Empty,
        };
        Ok(StreamBody { reader, controller, left: length, must_end: false })
    }

    /// A body that is read from several addresses.
    pub(super) fn mirrored(body: MirroredBody<JsBuffer>, length: Option<u64>) -> Self {
        StreamBody { reader: Reader::Mirrored(body), controller: None, left: length, must_end: false }
    }

    /// Whether more bytes than requested follow.
    async fn has_excess_bytes(&mut self) -> Result<bool> {
        if let Reader::Default { chunk, .. } = &self.reader
            && chunk.as_ref().is_some_and(|chunk| chunk.byte_length() > 0)
        {
            return Ok(true);
        }
        if !std::mem::take(&mut self.must_end) {
            return Ok(false);
        }
        let mut one = JsBuffer::allocate(1)?;
        Ok(self.read_some(&mut one, 0..1).await? > 0)
    }

    async fn read_some(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        let count = match &mut self.reader {
            Reader::Empty => 0,
            Reader::Mirrored(body) => body.read(into, at).await?,
            Reader::Default { reader, chunk } => read_chunk(reader, chunk, into, &at).await?,
            Reader::Byob { reader, scratch } if into.is_borrowed => {
                let mut buffer = match scratch.take() {
                    Some(buffer) => buffer,
                    None => JsBuffer::allocate(SCRATCH_BYTES)?,
                };
                let wanted = 0..SCRATCH_BYTES.min(at.end - at.start);
                let count = read_byob(reader.unchecked_ref(), &mut buffer, &wanted).await?;
                into.copy(at.start, &buffer, 0..count)?;
                *scratch = Some(buffer);
                count
            }
            Reader::Byob { reader, .. } => read_byob(reader.unchecked_ref(), into, &at).await?,
        };
        Ok(count)
    }
}

impl Body for StreamBody {
    type Buffer = JsBuffer;

    async fn read(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        timer::yield_to_event_loop().await;
        let count = self.read_some(into, at).await?;
        match &mut self.left {
            Some(left) => *left = left.checked_sub(count).ok_or_else(answer::too_long)?,
            left if count == 0 => *left = Some(0),
            _ => {}
        }
        if count > 0 && self.left == Some(0) && self.has_excess_bytes().await? {
            return Err(answer::too_long());
        }
        Ok(count)
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        // A complete body is not cancelled, so that its connection can be reused.
        if self.left == Some(0) {
            return;
        }
        match (&self.controller, &self.reader) {
            (Some(controller), _) => controller.abort(),
            (None, Reader::Byob { reader, .. }) => cancel(reader),
            (None, Reader::Default { reader, .. }) => cancel(reader),
            (None, Reader::Mirrored(_) | Reader::Empty) => {}
        }
    }
}

impl Reader {
    fn of(stream: &ReadableStream) -> Result<Self> {
        let mode = Object::new();
        Reflect::set(&mode, &"mode".into(), &"byob".into()).ok(); // setting a property of a new object does not throw
        let stream: &Stream = stream.unchecked_ref();
        if let Ok(reader) = stream.get_byob_reader(&mode) {
            return Ok(Reader::Byob { reader, scratch: None });
        }
        match stream.get_reader() {
            Ok(reader) => Ok(Reader::Default { reader, chunk: None }),
            Err(cause) => Err(body_used_error("`fetch` returned a Response whose body is locked", Some(cause))),
        }
    }
}

/// The error for a Response of the caller's own `fetch` whose body is locked or was already read.
pub(super) fn body_used_error(what: &str, cause: Option<JsValue>) -> Error {
    let mut error = Error::new(ErrorKind::InvalidArgument, what);
    error.context.cause = cause;
    error.advise("Return a Response with an unread body: pass the original to weightstream, and read its clone().")
}

async fn read_byob(reader: &ByobReader, into: &mut JsBuffer, at: &Range<u64>) -> Result<u64> {
    into.check_attached()?;
    let length = (at.end - at.start).min(MAX_VIEW_BYTES) as u32;
    let view = Uint8Array::new_with_byte_offset_and_length(&into.bytes.buffer(), at.start as u32, length);
    let read = reader.read(&view).map_err(connection_error)?;
    let result: ReadResult = settled(read).await?.unchecked_into();
    // The read detaches the buffer and returns its memory as a new one. A stream may close together with its last
    // bytes.
    match result.value() {
        Some(value) => {
            let value: &Uint8Array = value.unchecked_ref();
            into.bytes = Uint8Array::new(&value.buffer());
            Ok(u64::from(value.length()))
        }
        None => Err(Error::new(ErrorKind::Network, "the body was cancelled")),
    }
}

async fn read_chunk(
    reader: &ReadableStreamDefaultReader,
    chunk: &mut Option<JsBuffer>,
    into: &mut JsBuffer,
    at: &Range<u64>,
) -> Result<u64> {
    let rest = loop {
        if let Some(rest) = chunk.take().filter(|rest| rest.byte_length() > 0) {
            break rest;
        }
        let result: ReadResult = settled(reader.read()).await?.unchecked_into();
        if result.done() == Some(true) {
            return Ok(0);
        }
        let bytes = result.value().and_then(|value| view(&value));
        *chunk = Some(JsBuffer::owned(bytes.ok_or_else(|| {
            Error::new(ErrorKind::Network, "the body's chunks are not Uint8Arrays, or are detached")
        })?));
    };
    let count = rest.byte_length().min(at.end - at.start);
    rest.check_attached().map_err(|_| Error::new(ErrorKind::Network, "a chunk of the body was detached"))?;
    into.copy(at.start, &rest, 0..count)?;
    *chunk = Some(JsBuffer::owned(rest.bytes.subarray(count as u32, rest.byte_length() as u32)));
    Ok(count)
}

async fn settled(promise: Promise) -> Result<JsValue> {
    JsFuture::from(promise).await.map_err(connection_error)
}

fn connection_error(cause: JsValue) -> Error {
    network_error("the connection broke", cause)
}

/// A network error with the exception that caused it.
pub(super) fn network_error(what: &str, cause: JsValue) -> Error {
    caused_error(ErrorKind::Network, what, cause).transient()
}

/// An error with the exception that caused it.
pub(super) fn caused_error(kind: ErrorKind, what: &str, cause: JsValue) -> Error {
    let reason = cause.dyn_ref::<js_sys::Error>().map(|error| String::from(error.message()));
    let what = match reason {
        Some(reason) => format!("{what} ({reason})"),
        None => what.to_owned(),
    };
    let mut error = Error::new(kind, what);
    error.context.cause = Some(cause);
    error
}

fn cancel(reader: &JsValue) {
    let cancelled = Reflect::get(reader, &"cancel".into())
        .and_then(|function| function.dyn_into::<js_sys::Function>())
        .and_then(|function| function.call0(reader));
    if let Ok(Ok(promise)) = cancelled.map(|promise| promise.dyn_into::<Promise>()) {
        // The result of the cancellation does not matter.
        wasm_bindgen_futures::spawn_local(async move { drop(JsFuture::from(promise).await) });
    }
}
