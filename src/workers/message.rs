//! The messages between a page and its decode workers.

use crate::browser::message::preserve_option;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind};
use crate::index::{Component, ComponentDigest, Digest, DigestedBytes, Encoding};
use crate::loader::Task;
use js_sys::{Array, ArrayBuffer, Uint8Array};
use serde::{Deserialize, Serialize};
use serde_wasm_bindgen::preserve;
use std::ops::Range;

/// A request of the page. All messages of a task have its number.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Starts a task. `into` is shared memory that the result is written to.
    Begin {
        task: TaskMessage,
        #[serde(with = "preserve_option")]
        into: Option<Uint8Array>,
    },
    /// The next bytes of the task: the first `length` bytes of `chunk`.
    Chunk {
        #[serde(with = "preserve")]
        chunk: ArrayBuffer,
        length: u32,
    },
    /// All bytes were sent.
    Finish,
    /// Runs a task over raw bytes that are all in `bytes`.
    Digest {
        task: TaskMessage,
        #[serde(with = "preserve")]
        bytes: Uint8Array,
    },
    /// Cancels the task.
    Drop,
}

/// An answer of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The worker has started.
    Ready,
    /// A chunk was processed. `wants_more` says whether the task needs more bytes.
    Taken {
        #[serde(with = "preserve")]
        chunk: ArrayBuffer,
        wants_more: bool,
    },
    /// The task has succeeded.
    Done {
        #[serde(with = "preserve_option")]
        buffer: Option<ArrayBuffer>,
        verified: Option<String>,
    },
    /// The task has failed.
    Failed { code: String, message: String, advice: Option<String> },
}

/// The kinds of errors that tasks can have.
const KINDS: [ErrorKind; 5] =
    [ErrorKind::Checksum, ErrorKind::Format, ErrorKind::Limit, ErrorKind::Truncated, ErrorKind::Unsupported];

impl Request {
    /// The buffers to transfer. Shared memory is not transferred.
    pub(super) fn transferred(&self) -> Array {
        match self {
            Request::Chunk { chunk, .. } => Array::of1(chunk),
            Request::Digest { bytes, .. } => transferable(&bytes.buffer()),
            Request::Begin { .. } | Request::Finish | Request::Drop => Array::new(),
        }
    }
}

impl Answer {
    pub(super) fn failed(error: Error) -> Self {
        Answer::Failed { code: error.kind.code().to_owned(), message: error.what, advice: error.place.advice }
    }

    /// The buffers to transfer.
    pub(super) fn transferred(&self) -> Array {
        match self {
            Answer::Taken { chunk, .. } => Array::of1(chunk),
            Answer::Done { buffer, .. } => buffer.iter().collect(),
            Answer::Ready | Answer::Failed { .. } => Array::new(),
        }
    }
}

/// The error that an [`Answer::Failed`] reports.
pub(super) fn error_of(code: &str, message: String, advice: Option<String>) -> Error {
    let kind = KINDS.into_iter().find(|kind| kind.code() == code).unwrap_or(ErrorKind::Internal);
    let mut error = Error::new(kind, message);
    error.place.advice = advice;
    error
}

/// The name of a checksum algorithm, as tensors report it.
pub(super) fn algorithm(name: &str) -> Option<&'static str> {
    ["crc32", "crc32c", "xxh3", "sha256", "blake3"].into_iter().find(|known| *known == name)
}

/// A [`Task`], with those fields of its component that a worker needs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TaskMessage {
    dtype: String,
    #[serde(with = "EncodingMessage")]
    encoding: Encoding,
    range: Range<u64>,
    decoded_length: Option<u64>,
    max_decoded_length: Option<u64>,
    keep: Range<u64>,
    keeps: bool,
    is_complete: bool,
    digests: Vec<DigestMessage>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(remote = "Encoding")]
enum EncodingMessage {
    Raw,
    BigEndian,
    #[cfg(feature = "lz4")]
    Lz4Blocks,
    #[cfg(feature = "lz4")]
    Lz4Block,
    #[cfg(feature = "zstd")]
    Zstd,
}

#[derive(Debug, Serialize, Deserialize)]
struct DigestMessage {
    #[serde(with = "DigestValue")]
    digest: Digest,
    is_over_stored: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(remote = "Digest")]
enum DigestValue {
    Crc32(u32),
    #[cfg(feature = "crc32c")]
    Crc32c(u32),
    #[cfg(feature = "xxh3")]
    Xxh3(u64),
    Sha256([u8; 32]),
    Blake3([u8; 32]),
}

impl From<Task> for TaskMessage {
    fn from(Task { component, keep, keeps, is_complete, digests }: Task) -> Self {
        let digest = |stated: ComponentDigest| DigestMessage {
            digest: stated.digest,
            is_over_stored: stated.over == DigestedBytes::Stored,
        };
        TaskMessage {
            dtype: component.dtype.name().to_owned(),
            encoding: component.encoding,
            range: component.range,
            decoded_length: component.decoded_length,
            max_decoded_length: component.max_decoded_length,
            keep,
            keeps,
            is_complete,
            digests: digests.into_iter().map(digest).collect(),
        }
    }
}

impl From<TaskMessage> for Task {
    fn from(message: TaskMessage) -> Self {
        let digest = |DigestMessage { digest, is_over_stored }| {
            let over = if is_over_stored { DigestedBytes::Stored } else { DigestedBytes::Decoded };
            ComponentDigest { digest, over }
        };
        let component = Component {
            encoding: message.encoding,
            decoded_length: message.decoded_length,
            max_decoded_length: message.max_decoded_length,
            ..Component::raw(Dtype::from_name(&message.dtype), message.range)
        };
        let TaskMessage { keep, keeps, is_complete, digests, .. } = message;
        Task { component, keep, keeps, is_complete, digests: digests.into_iter().map(digest).collect() }
    }
}

/// The buffer, unless it is shared memory.
fn transferable(buffer: &js_sys::Object) -> Array {
    use wasm_bindgen::JsCast;
    buffer.dyn_ref::<ArrayBuffer>().into_iter().collect()
}
