//! Workers that decode and digest for a page: dedicated workers, which run the same wasm module, in a memory of their
//! own.
//!
//! The page reads, and hands the bytes over in buffers that are transferred: nothing is copied on the way. A worker
//! does with them what the page would do by itself ([`Job`](crate::loader::Job)), and transfers the tensor back. Where
//! the page cannot have workers, it does all of it by itself, and nobody notices but the clock.
//!
//! What is called the page here may be a worker itself: with `inWorker` all of a loader lives in one
//! (`js/weightstream.worker.js`), and these are that one's.

mod crew;
mod message;
mod pool;
mod serve;
mod webcrypto;
mod worker;

pub(crate) use pool::{WorkerPool, default_count};
pub(crate) use webcrypto::WebCrypto;
