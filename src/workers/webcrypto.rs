//! SHA-256 of the Web Crypto API, which is faster than WebAssembly and uses threads of the browser.
//!
//! `crypto.subtle.digest` takes all bytes at once, and copies them before it returns. A component is therefore digested
//! after its last byte has arrived, and the copy is made by a worker if there is one.

use crate::codec::digest::{compare, digest_of_buffer};
use crate::error::Result;
use crate::index::{Digest, Encoding};
use crate::pipeline::{Outcome, Pool, Received, Task, TaskError, Work};
use crate::source::js_buffer::JsBuffer;
use futures::future::FutureExt;
use js_sys::{Promise, Reflect, Uint8Array};
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// Larger components are digested as they arrive: the copies would exceed the loader's memory limit.
const MAX_BYTES: u64 = 32 << 20;

/// `crypto.subtle`, available in secure contexts only.
#[derive(Debug)]
pub(crate) struct WebCrypto(SubtleCrypto);

impl WebCrypto {
    /// The global `crypto.subtle`, if it is available.
    pub(crate) fn detect() -> Option<Self> {
        let crypto = Reflect::get(&js_sys::global(), &"crypto".into()).ok()?;
        let subtle = Reflect::get(&crypto, &"subtle".into()).ok()?;
        subtle.is_object().then(|| WebCrypto(subtle.unchecked_into()))
    }
}

impl Pool<JsBuffer> for WebCrypto {
    fn expect(&self, _bytes: u64) {}

    fn chunk(&self) -> Option<JsBuffer> {
        None
    }

    fn begin(&self, _task: &Task, _into: Option<JsBuffer>) -> Option<Rc<dyn Work<JsBuffer>>> {
        None
    }

    fn takes_whole(&self, task: &Task) -> bool {
        let length = task.component.range.end - task.component.range.start;
        task.component.encoding == Encoding::Raw && length <= MAX_BYTES && stated(task).is_some()
    }

    fn digest(&self, task: &Task, buffer: JsBuffer) -> Result<Outcome<JsBuffer>, JsBuffer> {
        // `digest` throws for shared memory.
        let (Some(stated), Ok(promise)) = (stated(task), self.0.digest("SHA-256", buffer.bytes())) else {
            return Err(buffer);
        };
        let outcome = async move {
            let computed = match JsFuture::from(promise).await {
                Ok(bytes) => Digest::Sha256(Uint8Array::new(&bytes).to_vec().try_into().unwrap_or_default()),
                Err(_) => digest_of_buffer(&buffer, stated).map_err(TaskError::Failed)?,
            };
            let verified = compare(computed, stated).map_err(TaskError::Failed)?;
            Ok(Received { buffer: Some(buffer), verified: Some(verified), blocks: Vec::new() })
        };
        Ok(outcome.boxed_local())
    }
}

/// The digest to compare with, if it is the only one of the task and Web Crypto has its algorithm.
fn stated(task: &Task) -> Option<Digest> {
    match task.digests.as_slice() {
        [one] if matches!(one.digest, Digest::Sha256(_)) => Some(one.digest),
        _ => None,
    }
}

#[wasm_bindgen]
extern "C" {
    #[derive(Debug)]
    type SubtleCrypto;
    #[wasm_bindgen(method, catch)]
    fn digest(this: &SubtleCrypto, algorithm: &str, data: &Uint8Array) -> Result<Promise, JsValue>;
}
