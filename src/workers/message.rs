//! The messages between a page and its decode workers.

use crate::browser::message::{Body, Fields};
use crate::codec::cast::Conversion;
use crate::digest::from_hex;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind};
#[cfg(feature = "zip")]
use crate::index::SkippedBytes;
use crate::index::values::ValueRule;
use crate::index::{
    Algorithm, BlockEnd, ByteStream, ByteStreams, Component, ComponentDigest, Digest, DigestedBytes, Encoding,
    StoredEnd,
};
use crate::pipeline::Task;
use js_sys::{Array, ArrayBuffer, Float64Array, Uint8Array};
use std::ops::Range;
use std::sync::Arc;
use wasm_bindgen::{JsCast, JsValue};

/// A request of the page. All messages of a task have its number.
#[derive(Debug)]
pub(super) enum Request {
    /// Starts a task. `into` is shared memory that the result is written to.
    Begin { task: Task, into: Option<Uint8Array> },
    /// The next bytes of the task: the first `length` bytes of `chunk`, with their offset in the file if they are of
    /// one of several streams.
    Chunk { chunk: ArrayBuffer, length: u32, at: Option<u64> },
    /// All bytes were sent.
    Finish,
    /// Runs a task over raw bytes that are all in `bytes`.
    Digest { task: Task, bytes: Uint8Array },
    /// Cancels the task.
    Drop,
}

/// An answer of a worker.
#[derive(Debug)]
pub(super) enum JobReply {
    /// The worker has started.
    Ready,
    /// A chunk was processed. `wants_more` says whether the task needs more bytes.
    Taken { chunk: ArrayBuffer, wants_more: bool },
    /// The task has succeeded.
    Done { buffer: Option<ArrayBuffer>, verified: Option<Algorithm>, blocks: Vec<BlockEnd> },
    /// The task has failed.
    Failed(Error),
}

/// The kinds of errors that tasks can have.
const KINDS: [ErrorKind; 5] =
    [ErrorKind::Checksum, ErrorKind::Format, ErrorKind::Limit, ErrorKind::Truncated, ErrorKind::Unsupported];

/// The encodings by name. Those of LZ4 have one name for users.
const ENCODINGS: &[(Encoding, &str)] = &[
    (Encoding::Raw, "raw"),
    (Encoding::BigEndian, "bigEndian"),
    #[cfg(feature = "zip")]
    (Encoding::Deflate { skipped: SkippedBytes::NONE }, "deflate"),
    #[cfg(feature = "ztensor")]
    (Encoding::ByteStreamSplit, "byteStreamSplit"),
    #[cfg(feature = "lz4")]
    (Encoding::Lz4Blocks, "lz4Blocks"),
    #[cfg(feature = "lz4")]
    (Encoding::Lz4Block, "lz4Block"),
    #[cfg(feature = "onnx")]
    (Encoding::Varint, "varint"),
    #[cfg(feature = "zstd")]
    (Encoding::Zstd, "zstd"),
];

/// What digests are over, sent as positions.
const OVER: [DigestedBytes; 3] = [DigestedBytes::Stored, DigestedBytes::Decoded, DigestedBytes::Streams];

/// The rules that are sent, as their positions.
const VALUE_RULES: [ValueRule; 2] = [ValueRule::Booleans, ValueRule::ZeroLastHalf];

impl Body for Request {
    fn encode(self) -> (Fields, Array) {
        match self {
            Request::Begin { task, into } => {
                (Fields::of_type("begin").with("task", encode_task(&task)).with("into", into), Array::new())
            }
            Request::Chunk { chunk, length, at } => {
                let fields = Fields::of_type("chunk").with("chunk", &chunk).with("length", length);
                (fields.with_optional("at", at), Array::of1(&chunk))
            }
            Request::Finish => (Fields::of_type("finish"), Array::new()),
            Request::Digest { task, bytes } => {
                // Shared memory is not transferred.
                let transferred = bytes.buffer().dyn_ref::<ArrayBuffer>().into_iter().collect();
                (Fields::of_type("digest").with("task", encode_task(&task)).with("bytes", bytes), transferred)
            }
            Request::Drop => (Fields::of_type("drop"), Array::new()),
        }
    }

    fn decode(fields: &Fields) -> Option<Self> {
        let task = || decode_task(&Fields::of(fields.get("task"))?);
        Some(match fields.kind()?.as_str() {
            "begin" => Request::Begin { task: task()?, into: fields.object("into") },
            "chunk" => Request::Chunk {
                chunk: fields.object("chunk")?,
                length: fields.number("length")? as u32,
                at: fields.number("at"),
            },
            "finish" => Request::Finish,
            "digest" => Request::Digest { task: task()?, bytes: fields.object("bytes")? },
            "drop" => Request::Drop,
            _ => return None,
        })
    }
}

impl Body for JobReply {
    fn encode(self) -> (Fields, Array) {
        match self {
            JobReply::Ready => (Fields::of_type("ready"), Array::new()),
            JobReply::Taken { chunk, wants_more } => {
                (Fields::of_type("taken").with("chunk", &chunk).with("wantsMore", wants_more), Array::of1(&chunk))
            }
            JobReply::Done { buffer, verified, blocks } => {
                let transferred = buffer.iter().collect();
                let fields = Fields::of_type("done").with("buffer", buffer).with("verified", verified);
                (fields.with("blocks", encode_blocks(&blocks)), transferred)
            }
            JobReply::Failed(Error { kind, what, context, .. }) => {
                let fields = Fields::of_type("failed").with("code", kind.code()).with("message", what);
                (fields.with("advice", context.advice), Array::new())
            }
        }
    }

    fn decode(fields: &Fields) -> Option<Self> {
        Some(match fields.kind()?.as_str() {
            "ready" => JobReply::Ready,
            "taken" => JobReply::Taken { chunk: fields.object("chunk")?, wants_more: fields.is_true("wantsMore") },
            "done" => {
                let verified = fields.text("verified").and_then(|name| Algorithm::from_name(&name));
                JobReply::Done { buffer: fields.object("buffer"), verified, blocks: decode_blocks(fields) }
            }
            "failed" => {
                let code = fields.text("code")?;
                let kind = KINDS.into_iter().find(|kind| kind.code() == code).unwrap_or(ErrorKind::Internal);
                let mut error = Error::new(kind, fields.text("message")?);
                error.context.advice = fields.text("advice");
                JobReply::Failed(error)
            }
            _ => return None,
        })
    }
}

/// A task, with those fields of its component that a worker needs.
fn encode_task(Task { component, wanted, stores_output, end, digests, conversion }: &Task) -> JsValue {
    let digests: Array = digests.iter().map(encode_digest).collect();
    let (base, skipped) = split_skipped(component.encoding);
    let encoding = ENCODINGS.iter().find(|(encoding, _)| *encoding == base).map(|(_, name)| *name);
    let rule = (0..).zip(VALUE_RULES).find(|(_, rule)| Some(*rule) == component.rule).map(|(at, _)| at);
    Fields::new()
        .with("dtype", component.dtype.name())
        .with("encoding", encoding)
        .with_optional("skippedBytes", skipped)
        .with("streams", component.streams().map(encode_streams))
        .with("range", encode_range(&component.range))
        .with_optional("decodedLength", component.decoded_length)
        .with_optional("maxDecodedLength", component.max_decoded_length)
        .with_optional("valueRule", rule)
        .with("wanted", encode_range(wanted))
        .with("storesOutput", *stores_output)
        .with("isComplete", *end == StoredEnd::Complete)
        .with("digests", digests)
        .with("convertedDtype", conversion.as_ref().map(|conversion| conversion.to.name()))
        .with_optional("convertedElements", conversion.as_ref().map(|conversion| conversion.elements))
        .with_optional("skippedElements", conversion.as_ref().map(|conversion| conversion.skipped))
        .into()
}

fn decode_task(fields: &Fields) -> Option<Task> {
    let name = fields.text("encoding")?;
    let component = Component {
        encoding: with_skipped(
            ENCODINGS.iter().find(|(_, known)| *known == name).map(|(encoding, _)| *encoding)?,
            fields.number("skippedBytes"),
        ),
        decoded_length: fields.number("decodedLength"),
        max_decoded_length: fields.number("maxDecodedLength"),
        streams: decode_streams(fields)?,
        rule: fields.number("valueRule").and_then(|at| VALUE_RULES.get(at as usize)).copied(),
        ..Component::raw(Dtype::from_name(&fields.text("dtype")?), decode_range(fields.get("range"))?)
    };
    let elements = fields.number("convertedElements").zip(fields.number("skippedElements"));
    let conversion = fields.text("convertedDtype").zip(elements);
    Some(Task {
        component,
        conversion: conversion.map(|(to, (elements, skipped))| Conversion {
            to: Dtype::from_name(&to),
            elements,
            skipped,
        }),
        wanted: decode_range(fields.get("wanted"))?,
        stores_output: fields.is_true("storesOutput"),
        end: if fields.is_true("isComplete") { StoredEnd::Complete } else { StoredEnd::Anywhere },
        digests: fields.object::<Array>("digests")?.into_iter().map(decode_digest).collect::<Option<_>>()?,
    })
}

/// The encoding as `ENCODINGS` has it, and the number of bytes that its decoder skips.
fn split_skipped(encoding: Encoding) -> (Encoding, Option<u64>) {
    match encoding {
        #[cfg(feature = "zip")]
        Encoding::Deflate { skipped } => (Encoding::Deflate { skipped: SkippedBytes::NONE }, Some(skipped.into())),
        other => (other, None),
    }
}

/// The encoding whose decoder skips these bytes.
fn with_skipped(encoding: Encoding, skipped: Option<u64>) -> Encoding {
    match (encoding, skipped) {
        #[cfg(feature = "zip")]
        (Encoding::Deflate { .. }, Some(skipped)) => Encoding::Deflate { skipped: (skipped as u32).into() },
        (other, _) => other,
    }
}

/// The streams, and the digest of the joined bytes.
fn encode_streams(streams: &ByteStreams) -> JsValue {
    let encode = |ByteStream { range, is_zstd, decoded_length, skipped, digest, .. }: &ByteStream| {
        let fields = Fields::new().with("range", encode_range(range)).with("isZstd", *is_zstd);
        let fields = fields.with_number("decodedLength", *decoded_length).with_number("skipped", *skipped);
        JsValue::from(fields.with("digest", digest.map(encode_stored_digest)))
    };
    let fields = Fields::new().with("ofBytes", streams.iter().map(encode).collect::<Array>());
    fields.with("digest", streams.digest().map(encode_stored_digest)).into()
}

/// `None` if they are not valid; `Some(None)` if there are none.
fn decode_streams(fields: &Fields) -> Option<Option<Arc<ByteStreams>>> {
    let Some(streams) = Fields::of(fields.get("streams")) else { return Some(None) };
    let digest = |fields: &Fields| decode_digest(fields.get("digest")).map(|stated| stated.digest);
    let decode = |stream| {
        let fields = Fields::of(stream)?;
        Some(ByteStream {
            range: decode_range(fields.get("range"))?,
            is_zstd: fields.is_true("isZstd"),
            decoded_length: fields.number("decodedLength")?,
            skipped: fields.number("skipped")?,
            // Workers join whole streams.
            stored_before: 0,
            decoded_before: 0,
            digest: digest(&fields),
        })
    };
    let of_bytes = streams.object::<Array>("ofBytes")?.into_iter().map(decode).collect::<Option<_>>()?;
    ByteStreams::new(of_bytes, digest(&streams)).ok().map(|streams| Some(Arc::new(streams)))
}

/// The stored and decoded ends in turn.
fn encode_blocks(blocks: &[BlockEnd]) -> Option<Float64Array> {
    let ends: Vec<_> = blocks.iter().flat_map(|end| [end.stored as f64, end.decoded as f64]).collect();
    (!ends.is_empty()).then(|| Float64Array::from(ends.as_slice()))
}

fn decode_blocks(fields: &Fields) -> Vec<BlockEnd> {
    let ends = fields.object::<Float64Array>("blocks").map(|ends| ends.to_vec()).unwrap_or_default();
    let (pairs, _) = ends.as_chunks::<2>();
    pairs.iter().map(|&[stored, decoded]| BlockEnd { stored: stored as u64, decoded: decoded as u64 }).collect()
}

fn encode_range(range: &Range<u64>) -> JsValue {
    Fields::new().with_number("start", range.start).with_number("end", range.end).into()
}

fn decode_range(range: JsValue) -> Option<Range<u64>> {
    let fields = Fields::of(range)?;
    Some(fields.number("start")?..fields.number("end")?)
}

fn encode_digest(stated: &ComponentDigest) -> JsValue {
    let over = OVER.iter().position(|over| *over == stated.over).unwrap_or_default();
    let fields = Fields::new().with("algorithm", stated.digest.algorithm()).with("hex", stated.digest.to_string());
    fields.with_number("over", over as u64).into()
}

fn encode_stored_digest(digest: Digest) -> JsValue {
    encode_digest(&ComponentDigest { digest, over: DigestedBytes::Stored })
}

fn decode_digest(digest: JsValue) -> Option<ComponentDigest> {
    let fields = Fields::of(digest)?;
    let (algorithm, hex) = (fields.text("algorithm")?, fields.text("hex")?);
    let digest = match algorithm.as_str() {
        #[cfg(feature = "xxh3")]
        "xxh3" => Digest::Xxh3(u64::from_be_bytes(from_hex(&hex)?)),
        _ => format!("{algorithm}:{hex}").parse().ok()?,
    };
    let over = *OVER.get(fields.number("over")? as usize)?;
    Some(ComponentDigest { digest, over })
}
