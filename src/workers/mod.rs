//! Dedicated workers that decode and digest tensors. Each worker runs the same wasm module with its own memory.
//!
//! The page reads the bytes and transfers them to a worker in `ArrayBuffer`s, without a copy. The worker runs the same
//! [`Job`](crate::pipeline::Job) that the page would run, and transfers the tensor back. If workers are unavailable,
//! the page runs the jobs on its own thread.
//!
//! In this module "the page" can itself be a worker: with `inWorker` the whole loader runs in a worker
//! (`js/worker/worker.js`), which then owns these workers.

mod handle;
mod message;
mod pool;
mod serve;
mod webcrypto;
mod worker;

pub(crate) use handle::{PoolHandle, default_count};
#[cfg(not(feature = "js"))]
pub(crate) use serve::serve_jobs;

use crate::pipeline::Pool;
use crate::source::js_buffer::JsBuffer;
use std::rc::Rc;
use webcrypto::WebCrypto;

/// What a loader computes with off the page's thread: workers, or else the Web Crypto API.
pub(crate) fn pool(workers: Option<&Rc<PoolHandle>>) -> Option<Rc<dyn Pool<JsBuffer>>> {
    match workers {
        Some(workers) => Some(Rc::clone(workers) as Rc<_>),
        None => WebCrypto::detect().map(|crypto| Rc::new(crypto) as Rc<_>),
    }
}
