//! What a page and its workers say to each other: arrays, of which buffers are transferred.

use crate::codec::digest::from_hex;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind};
use crate::index::{Component, ComponentDigest, Digest, DigestedBytes, Encoding};
use crate::loader::Task;
use js_sys::{Array, ArrayBuffer, Uint8Array};
use std::ops::Range;
use wasm_bindgen::{JsCast, JsValue};

/// What a page asks for. All messages of a task bear its number.
#[derive(Debug)]
pub(super) enum Request {
    /// Begin a task. Its bytes go into shared memory, if there is some.
    Begin { task: Task, into: Option<Uint8Array> },
    /// The first `length` bytes of `chunk` come next.
    Chunk { chunk: ArrayBuffer, length: u32 },
    /// There are no more.
    Finish,
    /// Do a task whose stored bytes are all in `bytes`: raw ones.
    Digest { task: Task, bytes: Uint8Array },
    /// Forget the task.
    Drop,
}

/// What a worker answers.
#[derive(Debug)]
pub(super) enum Answer {
    /// The worker has started.
    Ready,
    /// A chunk was done with. Whether there is use for more.
    Taken { chunk: ArrayBuffer, wants_more: bool },
    /// The task is done.
    Done { buffer: Option<ArrayBuffer>, verified: Option<&'static str> },
    /// It cannot be.
    Failed(Error),
}

/// The kinds of errors that tasks end in.
const KINDS: [ErrorKind; 5] =
    [ErrorKind::Checksum, ErrorKind::Format, ErrorKind::Limit, ErrorKind::Truncated, ErrorKind::Unsupported];

impl Request {
    /// The message, and what is transferred with it.
    pub(super) fn write(self, number: u32) -> (Array, Array) {
        let message = Array::of1(&number.into());
        let transferred = Array::new();
        let transfer = |buffer: &JsValue| {
            if buffer.is_instance_of::<ArrayBuffer>() {
                transferred.push(buffer);
            }
        };
        match self {
            Request::Begin { task, into } => {
                push(&message, ["begin".into(), write_task(&task).into(), into.into()]);
            }
            Request::Chunk { chunk, length } => {
                transfer(&chunk);
                push(&message, ["chunk".into(), chunk.into(), length.into()]);
            }
            Request::Finish => push(&message, ["finish".into()]),
            Request::Digest { task, bytes } => {
                transfer(&bytes.buffer());
                push(&message, ["digest".into(), write_task(&task).into(), bytes.into()]);
            }
            Request::Drop => push(&message, ["drop".into()]),
        }
        (message, transferred)
    }

    pub(super) fn read(message: &Array) -> Option<(u32, Self)> {
        let (number, first, second) = (message.get(0).as_f64()? as u32, message.get(2), message.get(3));
        let request = match message.get(1).as_string()?.as_str() {
            "begin" => Request::Begin { task: read_task(first.dyn_ref()?)?, into: second.dyn_into().ok() },
            "chunk" => Request::Chunk { chunk: first.dyn_into().ok()?, length: second.as_f64()? as u32 },
            "finish" => Request::Finish,
            "digest" => Request::Digest { task: read_task(first.dyn_ref()?)?, bytes: second.dyn_into().ok()? },
            "drop" => Request::Drop,
            _ => return None,
        };
        Some((number, request))
    }
}

impl Answer {
    /// The message, and what is transferred with it.
    pub(super) fn write(self, number: u32) -> (Array, Array) {
        let message = Array::of1(&number.into());
        let mut transferred = Array::new();
        match self {
            Answer::Ready => push(&message, ["ready".into()]),
            Answer::Taken { chunk, wants_more } => {
                transferred = Array::of1(&chunk);
                push(&message, ["taken".into(), chunk.into(), wants_more.into()]);
            }
            Answer::Done { buffer, verified } => {
                transferred = buffer.iter().collect();
                push(&message, ["done".into(), buffer.into(), verified.into()]);
            }
            Answer::Failed(error) => {
                let advice = error.place.advice.into();
                push(&message, ["failed".into(), error.kind.code().into(), error.what.into(), advice]);
            }
        }
        (message, transferred)
    }

    pub(super) fn read(message: &Array) -> Option<(u32, Self)> {
        let (number, first, second) = (message.get(0).as_f64()? as u32, message.get(2), message.get(3));
        let answer = match message.get(1).as_string()?.as_str() {
            "ready" => Answer::Ready,
            "taken" => Answer::Taken { chunk: first.dyn_into().ok()?, wants_more: second.is_truthy() },
            "done" => {
                let verified = second.as_string().and_then(|name| algorithm(&name));
                Answer::Done { buffer: first.dyn_into().ok(), verified }
            }
            "failed" => {
                let code = first.as_string()?;
                let kind = KINDS.into_iter().find(|kind| kind.code() == code).unwrap_or(ErrorKind::Internal);
                let mut error = Error::new(kind, second.as_string()?);
                error.place.advice = message.get(4).as_string();
                Answer::Failed(error)
            }
            _ => return None,
        };
        Some((number, answer))
    }
}

fn write_task(task: &Task) -> Array {
    let Task { component, keep, keeps, is_complete, digests } = task;
    let digests: Array = digests.iter().map(write_digest).collect();
    let fields = Array::new();
    push(&fields, [component.dtype.name().into(), write_encoding(component.encoding).into()]);
    push(&fields, [component.range.start.into(), component.range.end.into(), component.decoded_length.into()]);
    push(&fields, [keep.start.into(), keep.end.into(), (*keeps).into(), (*is_complete).into(), digests.into()]);
    push(&fields, [component.max_decoded_length.into()]);
    fields
}

fn read_task(fields: &Array) -> Option<Task> {
    let number = |at: u32| u64::try_from(fields.get(at)).ok();
    let range = |at: u32| Some(Range { start: number(at)?, end: number(at + 1)? });
    let component = Component {
        encoding: read_encoding(fields.get(1).as_f64()? as u32)?,
        decoded_length: number(4),
        max_decoded_length: number(10),
        ..Component::raw(Dtype::from_name(&fields.get(0).as_string()?), range(2)?)
    };
    let digests: Array = fields.get(9).dyn_into().ok()?;
    Some(Task {
        component,
        keep: range(5)?,
        keeps: fields.get(7).is_truthy(),
        is_complete: fields.get(8).is_truthy(),
        digests: digests.iter().map(|digest| read_digest(digest.dyn_ref()?)).collect::<Option<_>>()?,
    })
}

fn write_encoding(encoding: Encoding) -> u32 {
    match encoding {
        Encoding::Raw => 0,
        Encoding::BigEndian => 1,
        #[cfg(feature = "lz4")]
        Encoding::Lz4Blocks => 2,
        #[cfg(feature = "lz4")]
        Encoding::Lz4Block => 3,
        #[cfg(feature = "zstd")]
        Encoding::Zstd => 4,
    }
}

fn read_encoding(number: u32) -> Option<Encoding> {
    Some(match number {
        0 => Encoding::Raw,
        1 => Encoding::BigEndian,
        #[cfg(feature = "lz4")]
        2 => Encoding::Lz4Blocks,
        #[cfg(feature = "lz4")]
        3 => Encoding::Lz4Block,
        #[cfg(feature = "zstd")]
        4 => Encoding::Zstd,
        _ => return None,
    })
}

fn write_digest(stated: &ComponentDigest) -> JsValue {
    let is_over_stored = stated.over == DigestedBytes::Stored;
    let (algorithm, hex) = (stated.digest.algorithm(), stated.digest.to_string());
    Array::of3(&algorithm.into(), &hex.into(), &is_over_stored.into()).into()
}

fn read_digest(fields: &Array) -> Option<ComponentDigest> {
    let (algorithm, hex) = (fields.get(0).as_string()?, fields.get(1).as_string()?);
    let digest = match algorithm.as_str() {
        #[cfg(feature = "xxh3")]
        "xxh3" => Digest::Xxh3(u64::from_be_bytes(from_hex(&hex)?)),
        _ => format!("{algorithm}:{hex}").parse().ok()?,
    };
    let over = if fields.get(2).is_truthy() { DigestedBytes::Stored } else { DigestedBytes::Decoded };
    Some(ComponentDigest { digest, over })
}

fn algorithm(name: &str) -> Option<&'static str> {
    ["crc32", "crc32c", "xxh3", "sha256", "blake3"].into_iter().find(|known| *known == name)
}

fn push<const N: usize>(array: &Array, items: [JsValue; N]) {
    for item in items {
        array.push(&item);
    }
}
