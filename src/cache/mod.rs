//! Persistent cache of downloaded files, keyed by URL. Writes are crash-safe, and every read verifies a checksum.
//!
//! Each file has one [`log::Log`], which stores the received bytes in pieces, each with a checksum. The log does not
//! depend on a browser. In a browser, logs are stored in the origin private file system (OPFS). Only workers have
//! synchronous access to OPFS, so a worker that runs the same wasm module owns the logs (`worker`), and the page sends
//! requests to it (`client`). `source::cached` connects the cache to the loader and `fetch`. Without OPFS, the worker
//! stores the pieces in IndexedDB, where the key describes the piece ([`chunked_kv`]). If no worker can be started, the
//! page does so itself. A cache object that the caller provides uses the same layout.
//!
//! In this module, the URL of a file is its [`key`]: the URL, or a name that replaces it.
//!
//! A cache error never fails a load. The cache stops writing, and the loader reads from the network.

#[cfg(workers)]
pub(crate) mod backend;
pub(crate) mod chunked_kv;
#[cfg(workers)]
pub(crate) mod client;
pub(crate) mod content_index;
pub(crate) mod extents;
#[cfg(workers)]
pub(crate) mod files;
#[cfg(workers)]
mod indexed;
pub(crate) mod key;
#[cfg(workers)]
mod kv_cache;
pub(crate) mod log;
#[cfg(workers)]
mod memory;
#[cfg(workers)]
mod message;
#[cfg(workers)]
mod opfs;
#[cfg(workers)]
mod option;
#[cfg(all(workers, feature = "js"))]
pub(crate) mod pending;
mod record;
#[cfg(workers)]
mod status;
pub(crate) mod storage;
#[cfg(workers)]
mod store;
#[cfg(workers)]
mod user_cache;
#[cfg(workers)]
mod worker;

#[cfg(workers)]
pub(crate) use option::CacheOption;
#[cfg(workers)]
pub(crate) use user_cache::UserCache;
#[cfg(all(feature = "web-workers", not(feature = "js"), web))]
pub(crate) use worker::serve_cache;

/// Maximum length of a piece. To read a part of a piece, the whole piece is read and verified.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;

/// Maximum length of a read from the cache, a few pieces. A request to the worker costs half as much as the
/// copy of 1 MiB.
#[cfg(workers)]
pub(crate) const READ_BYTES: u64 = 4 << 20;

/// The end of the piece that contains `position`: a multiple of [`PIECE_BYTES`], so that all loads use the same pieces.
#[cfg(workers)]
pub(crate) fn end_of_piece(position: u64) -> u64 {
    (position / PIECE_BYTES + 1).saturating_mul(PIECE_BYTES)
}

/// The end of a read that starts at `position`. It is a piece boundary, so that no piece is read twice.
#[cfg(workers)]
pub(crate) fn end_of_read(position: u64) -> u64 {
    (position / READ_BYTES + 1).saturating_mul(READ_BYTES)
}

#[cfg(all(test, native))]
mod tests;
