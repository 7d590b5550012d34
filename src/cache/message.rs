//! The messages between a page and the cache worker.

use super::backend::{CachedFile, ContentLocation};
use super::status::Status;
use js_sys::{Array, ArrayBuffer};
use serde::{Deserialize, Serialize};
use serde_wasm_bindgen::preserve;

/// A request of the page.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Asks where the files are stored. It is the first request to a worker: the answer shows that it has started.
    Status,
    /// Asks which version of the file is cached.
    Open { url: String },
    /// Reads bytes of a version from `start`, as many as the buffer holds and at most up to `end`. If the first byte is
    /// not cached, the answer says up to where nothing is cached, at most `end_of_interest`.
    Read {
        url: String,
        version: String,
        start: u64,
        end: u64,
        end_of_interest: u64,
        #[serde(with = "preserve")]
        buffer: ArrayBuffer,
    },
    /// Writes the first `byte_length` bytes of the buffer at the offset `start` of the file.
    Write {
        url: String,
        version: String,
        start: u64,
        byte_length: u64,
        #[serde(with = "preserve")]
        buffer: ArrayBuffer,
    },
    /// Records the content ID of a range of a version. An empty range removes the record.
    Note { content: String, url: String, version: String, start: u64, byte_length: u64 },
    /// Asks for the locations of contents.
    Locate { contents: Vec<String> },
    /// Deletes the file. If `version` is given, deletes only that version.
    Delete { url: String, version: Option<String> },
    /// Asks for a list of all files.
    List,
    /// Deletes all files.
    Clear,
}

/// An answer of the worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// To [`Request::Status`].
    Status(Status),
    /// To [`Request::Open`].
    Version(Option<String>),
    /// To [`Request::Read`]: the number of bytes, and the position after them or after the gap.
    Read {
        count: u64,
        next: u64,
        #[serde(with = "preserve")]
        buffer: ArrayBuffer,
    },
    /// To [`Request::Write`]: the buffer, for reuse.
    Written {
        #[serde(with = "preserve")]
        buffer: ArrayBuffer,
    },
    /// To [`Request::Locate`], in the same order.
    Locations(Vec<Option<ContentLocation>>),
    /// To [`Request::List`].
    Files(Vec<CachedFile>),
    /// To requests without a result.
    Done,
    /// To any request that failed.
    Failed { message: String },
}

impl Request {
    /// The buffers to transfer.
    pub(super) fn transferred(&self) -> Array {
        match self {
            Request::Read { buffer, .. } | Request::Write { buffer, .. } => Array::of1(buffer),
            _ => Array::new(),
        }
    }
}

impl Answer {
    /// The buffers to transfer.
    pub(super) fn transferred(&self) -> Array {
        match self {
            Answer::Read { buffer, .. } | Answer::Written { buffer } => Array::of1(buffer),
            _ => Array::new(),
        }
    }
}
