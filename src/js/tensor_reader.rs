//! The class behind tensors on a GPU, which `gpu/gpu.js` calls.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use super::JsLoader;
use super::cancel::{self, CloseSignal};
use super::progress::ProgressReporter;
use super::promise::{Stop, deferred_promise};
use super::reading::Reading;
use super::value;
use crate::deferred::Code;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::index::Tensor;
use crate::loader::{BegunTensor, Loader, Order, TensorReader};
use crate::progress::{BytesArrived, Progress};
use crate::source::Buffer;
use crate::source::js_buffer::{JsBuffer, array_of};
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
    current: Option<Current>,
    /// Whether only rows are read.
    has_rows: bool,
    reporter: Rc<ProgressReporter>,
}

/// How far the tensor that was begun has been read.
struct Current {
    name: String,
    shard: usize,
    /// The range of the file that contains its bytes.
    stored: Range<u64>,
    byte_length: u64,
    read_bytes: u64,
}

#[wasm_bindgen(js_class = Loader)]
impl JsLoader {
    /// Resolves to a reader of the named tensors, or of all if `names` is undefined; with `rows` of only these rows.
    /// `is_one` says that the caller loads one tensor, for events of progress. `dtype` is that of the floats that
    /// quantized tensors of several components are converted to; others are converted by the caller.
    #[wasm_bindgen(js_name = readTensors)]
    pub fn read_tensors(
        &self,
        names: Option<Vec<String>>,
        rows: Option<Vec<f64>>,
        is_in_order: bool,
        is_one: bool,
        dtype: Option<String>,
        signal: Option<web_sys::AbortSignal>,
    ) -> Promise {
        let reporter = self.reporter(if is_one { "loadTensor" } else { "tensors" });
        let (loader, close_signal) = (self.loader.borrow().clone(), self.close_signal.clone());
        let order = if is_in_order { Order::Given } else { Order::File };
        let rows = match rows.as_deref() {
            Some([first, end]) => Some(*first as u64..*end as u64),
            _ => None,
        };
        let stop = Stop { signal: signal.clone(), close_signal: close_signal.clone() };
        let wanted = Wanted { names, rows, order, dtype: dtype.as_deref().map(Dtype::from_name) };
        deferred_promise(Code::Extras, stop, move || opened(loader, wanted, signal, close_signal, reporter))
    }
}

/// The tensors to read.
struct Wanted {
    names: Option<Vec<String>>,
    rows: Option<Range<u64>>,
    order: Order,
    dtype: Option<Dtype>,
}

/// A reader of tensors, as [`JsLoader::read_tensors`] describes it.
async fn opened(
    loader: Option<Rc<Loader<WebSource>>>,
    wanted: Wanted,
    signal: Option<web_sys::AbortSignal>,
    close_signal: CloseSignal,
    reporter: Rc<ProgressReporter>,
) -> std::result::Result<JsValue, JsValue> {
    let Wanted { names, rows, order, dtype } = wanted;
    let has_rows = rows.is_some();
    let opening = async {
        let loader = loader.ok_or_else(cancel::closed_error)?;
        reporter.check(loader.read_tensors_by(names, rows, order, dtype).await)
    };
    let reader = cancel::run_until_stopped(signal.clone(), &close_signal, opening).await?;
    let pieces = Pieces { reader, buffer: None, current: None, has_rows, reporter };
    Ok(JsTensorReader(Reading::new(pieces, signal, close_signal, cancel::closed_error)).into())
}

#[wasm_bindgen(js_class = TensorReader)]
impl JsTensorReader {
    /// Resolves to a `TensorHead` of the next tensor; to `undefined` after the last one.
    pub fn next(&self) -> Promise {
        self.0.run(async move |pieces| {
            let next = pieces.next().await;
            pieces.reporter.check(next)
        })
    }

    /// Resolves to the next `length` bytes of the tensor, or fewer at its end, in a buffer that the next call
    /// overwrites.
    pub fn fill(&self, length: f64) -> Promise {
        self.0.run(async move |pieces| {
            let filled = pieces.fill(length as u64).await;
            pieces.reporter.check(filled)
        })
    }

    /// Resolves to the algorithm that the tensor was verified with, once all its bytes were read; else to `null`. For
    /// the last tensor, this is the end of the operation.
    pub fn verified(&self) -> Promise {
        self.0.run(async move |pieces| {
            if pieces.reader.waiting().next().is_none() {
                pieces.reporter.finish(None);
            }
            Ok(pieces.reader.verified().map_or(JsValue::NULL, JsValue::from))
        })
    }

    /// Stops the request, because the caller cannot use its bytes.
    pub fn fail(&self) {
        self.0.with(|pieces| pieces.reporter.fail());
        self.0.cancel();
    }

    /// Stops the request.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl Pieces {
    async fn next(&mut self) -> Result<JsValue> {
        let is_first = self.current.is_none();
        let all_bytes = self.reader.waiting().map(stored_bytes).fold(0, u64::saturating_add);
        let Some(begun) = self.reader.next().await? else {
            self.reporter.finish(None);
            return Ok(JsValue::UNDEFINED);
        };
        let BegunTensor { tensor, dtype, shape, byte_length, stored } = begun;
        // Without rows, what is read may be longer: whole pages with padding.
        let start = stored.start;
        let stored = if self.has_rows { stored } else { start..start + stored_bytes(&tensor) };
        if is_first {
            self.reporter.expects(if self.has_rows { stored.end - stored.start } else { all_bytes });
        }
        let role = tensor.components.first().map_or(JsValue::UNDEFINED, |component| (&*component.role).into());
        let head = value::object([
            ("name", tensor.name.as_str().into()),
            ("role", role),
            ("dtype", dtype.name().into()),
            ("arrayClass", array_of(dtype.array_kind()).into()),
            ("shape", super::shape_array(&shape).into()),
            ("byteLength", value::from_u64(byte_length)),
        ]);
        let (name, shard) = (tensor.name.clone(), tensor.shard);
        self.current = Some(Current { name, shard, stored, byte_length, read_bytes: 0 });
        Ok(head)
    }

    async fn fill(&mut self, length: u64) -> Result<JsValue> {
        let mut buffer = match self.buffer.take() {
            Some(buffer) if buffer.is_intact() && buffer.byte_length() == length => buffer,
            _ => JsBuffer::allocate(length)?,
        };
        let count = self.reader.fill(&mut buffer, 0..length).await?;
        let bytes = buffer.bytes().subarray(0, count as u32);
        self.buffer = Some(buffer);
        self.report(count);
        Ok(bytes.into())
    }

    /// Reports bytes that were read. Those of a compressed tensor count as the same part of its stored bytes.
    fn report(&mut self, count: u64) {
        let Some(current) = &mut self.current else { return };
        let from = current.stored_bytes();
        current.read_bytes += count;
        let range = from..current.stored_bytes();
        let (shard, tensor) = (current.shard, Some(current.name.as_str()));
        if !range.is_empty() {
            self.reporter.arrived(BytesArrived { shard, range, connection: 0, tensor });
        }
    }
}

/// The number of stored bytes of a tensor.
fn stored_bytes(tensor: &Tensor) -> u64 {
    let lengths = tensor.components.iter().map(|component| component.range.end - component.range.start);
    lengths.fold(0, u64::saturating_add)
}

impl Current {
    /// The end of the stored bytes of what was read.
    fn stored_bytes(&self) -> u64 {
        let Range { start, end } = self.stored;
        let part = self.read_bytes as f64 / self.byte_length.max(1) as f64;
        if self.read_bytes >= self.byte_length { end } else { start + ((end - start) as f64 * part) as u64 }
    }
}

impl std::fmt::Debug for JsTensorReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JsTensorReader")
    }
}
