//! What was fetched once and is kept: bytes of files by URL, crash-safe, checked whenever they are read.
//!
//! A file of a model has one [`log::Log`]: whatever arrived of it, piece by piece, each with its checksum. The log
//! knows no browser. In the browser it lies in the origin private file system, whose synchronous access only workers
//! have: a worker runs the same wasm module and keeps the logs (`worker`), the page asks it by messages (`client`), and
//! `source::cached` stands between the loader and `fetch`. Where a browser has no such files, the worker keeps the
//! pieces in IndexedDB instead, each under a key that says what it is ([`keyed`]); so does the page in what a caller
//! gives it, and in IndexedDB where no worker can be started.
//!
//! Whatever is called the URL of a file here is its [`key`]: the URL, or a name that stands for it.
//!
//! Nothing here can fail a load: a cache that breaks goes quiet, and the network does the work.

#[cfg(all(feature = "js", target_arch = "wasm32"))]
mod choice;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
pub(crate) mod client;
pub(crate) mod contents;
pub(crate) mod extents;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
mod indexed;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
mod keep;
pub(crate) mod key;
pub(crate) mod keyed;
pub(crate) mod log;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
mod memory;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
mod message;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
mod opfs;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
mod own;
mod record;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
mod shelf;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
mod status;
pub(crate) mod storage;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
mod store;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
mod worker;

#[cfg(all(feature = "js", target_arch = "wasm32"))]
pub(crate) use choice::Choice;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
pub(crate) use own::Own;

/// Bytes are kept in pieces of at most so many: to read a part of one, all of it is read and checked.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;

/// So many bytes are read at a time, some pieces: to ask a worker for 1 MiB costs half as much as to copy it.
#[cfg(all(feature = "js", target_arch = "wasm32"))]
pub(crate) const STRETCH_BYTES: u64 = 4 << 20;

/// Where the piece ends that the byte at `position` is in: at a multiple of [`PIECE_BYTES`], so that those of two loads
/// are the same.
#[cfg(all(feature = "js", target_arch = "wasm32"))]
pub(crate) fn end_of_piece(position: u64) -> u64 {
    (position / PIECE_BYTES + 1).saturating_mul(PIECE_BYTES)
}

/// Where a read that begins at `position` ends, where pieces do: no piece is read twice.
#[cfg(all(feature = "js", target_arch = "wasm32"))]
pub(crate) fn end_of_stretch(position: u64) -> u64 {
    (position / STRETCH_BYTES + 1).saturating_mul(STRETCH_BYTES)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
