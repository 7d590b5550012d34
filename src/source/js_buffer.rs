//! The memory of a tensor in the browser: an ArrayBuffer that JavaScript owns, outside the wasm memory.

use super::Buffer;
use crate::browser::type_tag::{SHARED, tag};
use crate::dtype::{ArrayKind, Dtype};
use crate::error::{Error, ErrorKind, Result};
use js_sys::{ArrayBuffer, Uint8Array};
use std::cell::RefCell;
use std::ops::Range;
use wasm_bindgen::{JsCast, JsValue, prelude::wasm_bindgen};

/// Size of the scratch buffer in wasm memory. Bytes are copied through it to be decoded or digested.
const SCRATCH_BYTES: usize = 256 << 10;

thread_local! {
    /// Never freed: the first access to fresh memory costs ten times as much as a copy into memory in use.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[wasm_bindgen]
extern "C" {
    // `new ArrayBuffer(n)` throws if allocation fails; the constructor of js-sys does not catch the exception.
    #[wasm_bindgen(js_name = ArrayBuffer)]
    type FallibleArrayBuffer;
    #[wasm_bindgen(constructor, catch, js_class = "ArrayBuffer")]
    fn new(byte_length: f64) -> Result<FallibleArrayBuffer, JsValue>;
}

/// A byte buffer in JavaScript memory.
#[derive(Debug, Clone)]
pub struct JsBuffer {
    pub(super) bytes: Uint8Array,
    byte_length: u32,
    /// Whether the caller owns the memory. It must then not be passed to a BYOB reader, which would detach it.
    pub(super) is_borrowed: bool,
    /// The class of the caller's typed array, if it is one.
    array: Option<String>,
}

impl JsBuffer {
    /// A buffer over memory that the caller owns, shared or not. This library writes to it and never detaches it. The
    /// caller may detach or shrink it at any time; every later use then returns an error.
    pub fn borrowed(bytes: Uint8Array) -> Self {
        JsBuffer { byte_length: bytes.length(), bytes, is_borrowed: true, array: None }
    }

    /// States the class of the typed array that the caller has passed, such as `Float32Array`.
    #[cfg(feature = "js")]
    pub(crate) fn with_array(self, array: Option<String>) -> Self {
        JsBuffer { array, ..self }
    }

    /// A buffer over memory that has no other owner.
    pub(crate) fn owned(bytes: Uint8Array) -> Self {
        JsBuffer { byte_length: bytes.length(), bytes, is_borrowed: false, array: None }
    }

    /// Whether this library owns the memory and may detach it.
    #[cfg(feature = "web-workers")]
    pub(crate) fn is_ours(&self) -> bool {
        !self.is_borrowed
    }

    /// The whole buffer as a `Uint8Array`.
    pub fn bytes(&self) -> &Uint8Array {
        &self.bytes
    }

    /// Checks that the memory is not detached, because the methods of a detached typed array throw. The result is valid
    /// until the next `await`: no JavaScript of the caller runs before.
    pub(crate) fn check_attached(&self) -> Result<()> {
        if self.bytes.length() == self.byte_length {
            return Ok(());
        }
        if self.is_borrowed {
            let what = "`into` was detached or shrunk while a tensor was loaded into it";
            let error = Error::new(ErrorKind::InvalidArgument, what);
            return Err(error.advise("Do not transfer or resize its memory before the call has settled."));
        }
        Err(Error::new(ErrorKind::Internal, "a buffer is used after a read has detached it"))
    }

    /// Copies `bytes` to the offset `at`.
    pub(super) fn put(&self, at: u64, bytes: &Uint8Array) -> Result<()> {
        self.check_attached()?;
        if at.checked_add(u64::from(bytes.length())).is_none_or(|end| end > u64::from(self.byte_length)) {
            return Err(out_of_bounds());
        }
        self.bytes.set(bytes, at as u32);
        Ok(())
    }
}

impl Buffer for JsBuffer {
    fn allocate(byte_length: u64) -> Result<Self> {
        match FallibleArrayBuffer::new(byte_length as f64) {
            // Offsets into typed arrays are 32 bits in js-sys.
            Ok(buffer) if byte_length <= u64::from(u32::MAX) => {
                let bytes = Uint8Array::new(buffer.unchecked_ref::<ArrayBuffer>());
                Ok(JsBuffer { bytes, byte_length: byte_length as u32, is_borrowed: false, array: None })
            }
            _ => {
                let what = format!("the browser cannot allocate a buffer of {byte_length} bytes");
                let error = Error::new(ErrorKind::Limit, what);
                Err(error.advise("Load fewer rows at a time, or release tensors that are no longer needed."))
            }
        }
    }

    fn byte_length(&self) -> u64 {
        u64::from(self.byte_length)
    }

    fn resize(&mut self, byte_length: u64) -> Result<()> {
        if self.is_borrowed {
            return Err(Error::new(ErrorKind::Internal, "memory of the caller cannot be resized"));
        }
        self.check_attached()?;
        let resized = JsBuffer::allocate(byte_length)?;
        let common = self.byte_length.min(resized.byte_length);
        resized.bytes.set(&self.bytes.subarray(0, common), 0);
        *self = resized;
        Ok(())
    }

    /// Memory of the caller always counts as intact: it cannot be replaced, and every use checks it.
    fn is_intact(&self) -> bool {
        self.is_borrowed || self.bytes.length() == self.byte_length
    }

    fn copy(&mut self, at: u64, from: &Self, range: Range<u64>) -> Result<()> {
        from.check_attached()?;
        if range.start > range.end || range.end > u64::from(from.byte_length) {
            return Err(out_of_bounds());
        }
        self.put(at, &from.bytes.subarray(range.start as u32, range.end as u32))
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.check_attached()?;
        if at.checked_add(bytes.len() as u64).is_none_or(|end| end > u64::from(self.byte_length)) {
            return Err(out_of_bounds());
        }
        let at = at as u32;
        self.bytes.subarray(at, at + bytes.len() as u32).copy_from(bytes);
        Ok(())
    }

    fn check_elements(&self, dtype: &Dtype) -> Result<()> {
        let expected = array_of(dtype.array_kind());
        match self.array.as_deref() {
            None | Some("Uint8Array") => Ok(()),
            Some("Float16Array") if *dtype == Dtype::F16 => Ok(()),
            Some("Uint8ClampedArray") if expected == "Uint8Array" => Ok(()),
            Some(array) if array == expected => Ok(()),
            Some(array) => {
                let what = format!("`into` is a {array}, but elements of {dtype} need a {expected}");
                let error = Error::new(ErrorKind::InvalidArgument, what);
                Err(error.advise("Pass such an array or a Uint8Array, or convert the elements with `as`."))
            }
        }
    }

    fn inspect(&self, range: Range<u64>, visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.check_attached()?;
        if range.end > u64::from(self.byte_length) {
            return Err(out_of_bounds());
        }
        // Taken rather than borrowed, so that `visit` may inspect another buffer.
        let mut scratch = SCRATCH.take();
        scratch.resize(SCRATCH_BYTES, 0);
        let (mut at, end) = (range.start as u32, range.end as u32);
        let mut outcome = Ok(());
        while at < end && outcome.is_ok() {
            let length = (end - at).min(SCRATCH_BYTES as u32);
            if let Some(piece) = scratch.get_mut(..length as usize) {
                self.bytes.subarray(at, at + length).copy_to(piece);
                outcome = visit(piece);
            }
            at += length;
        }
        SCRATCH.set(scratch);
        outcome
    }

    fn share(&self) -> Option<Self> {
        (tag(&self.bytes.buffer()) == SHARED).then(|| self.clone())
    }

    fn duplicate(&self) -> Result<Self> {
        self.check_attached()?;
        let copy = JsBuffer::allocate(self.byte_length())?;
        copy.bytes.set(&self.bytes, 0);
        Ok(copy)
    }
}

/// The name of the class of typed arrays with these elements.
pub(crate) fn array_of(kind: ArrayKind) -> &'static str {
    match kind {
        ArrayKind::F32 => "Float32Array",
        ArrayKind::F64 => "Float64Array",
        ArrayKind::I8 => "Int8Array",
        ArrayKind::U8 => "Uint8Array",
        ArrayKind::I16 => "Int16Array",
        ArrayKind::U16 => "Uint16Array",
        ArrayKind::I32 => "Int32Array",
        ArrayKind::U32 => "Uint32Array",
        ArrayKind::I64 => "BigInt64Array",
        ArrayKind::U64 => "BigUint64Array",
    }
}

fn out_of_bounds() -> Error {
    Error::new(ErrorKind::Internal, "a read or a write is out of bounds of a buffer")
}
