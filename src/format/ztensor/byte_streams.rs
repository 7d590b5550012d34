//! The layout `byte_stream_split`, an extension of zTensor 1.x: the bytes of one significance of all elements of a
//! dense tensor are a component, `stream_0` (the least significant) to `stream_{n-1}`, raw or in Zstandard frames. The
//! exponents of floats, which hardly compress between mantissas, then do.
//!
//! The object has the `dtype` of the elements, with a `type` as components have one, and may have the `digest` of the
//! bytes of the dense tensor. Parquet has an encoding of the same name.

use super::blob::{Blob, Findings};
use super::dtypes::{logical_dtype, stored_dtype};
use crate::dtype::{Dtype, element_count};
use crate::error::{Result, malformed};
use crate::index::{ByteStream, ByteStreams, Component, ComponentDigest, DigestedBytes, Encoding};
use crate::values::described::text;
use serde_json::{Map, Value};
use weightstream_kernels::byte_streams::is_width;

/// The name of the layout.
pub(super) const FORMAT: &str = "byte_stream_split";

/// The role of a stream.
pub(super) fn role(significance: usize) -> String {
    format!("stream_{significance}")
}

/// The number of streams of elements of a dtype; `None` for a dtype that has none: its elements are bytes or less, or
/// in blocks.
pub(super) fn stream_count(dtype: &Dtype) -> Option<u64> {
    dtype.block().filter(|block| block.elements == 1 && is_width(block.bytes)).map(|block| block.bytes)
}

/// Reads the streams of an object as the component `data`. `None` if other bytes than padding are between them: such
/// streams are components of their own.
///
/// # Errors
/// `FORMAT` if the streams are not those of the dtype and the shape.
pub(super) fn read(
    object: &Value,
    shape: &[u64],
    parts: &Map<String, Value>,
    findings: &mut Findings,
) -> Result<Option<Component>> {
    let dtype = element_dtype(object)?;
    let Some(count) = stream_count(&dtype) else {
        return Err(malformed(format!("its format is {FORMAT}, which does not exist for {dtype}")));
    };
    if parts.len() as u64 != count {
        return Err(malformed(format!("{dtype} has {count} streams, but it has {} components", parts.len())));
    }
    let elements = element_count(shape)?;
    let before = findings.clone(); // components of their own are read again
    let mut streams = Vec::new();
    for significance in 0..count as usize {
        let role = role(significance);
        let part =
            parts.get(&role).ok_or_else(|| malformed(format!("its format is {FORMAT}, but it has no `{role}`")))?;
        let stream = Blob::read(part)?.component(&role, Dtype::U8, Some(elements), findings)?;
        if !matches!(stream.encoding, Encoding::Raw | Encoding::Zstd) || stream.dtype != Dtype::U8 {
            *findings = before;
            return Ok(None); // an unknown encoding, of which there will be a warning
        }
        let (digest, is_zstd) = (stream.digest.map(|stated| stated.digest), stream.encoding == Encoding::Zstd);
        streams.push(ByteStream::whole(stream.range, is_zstd, elements, digest));
    }
    let whole = Blob { digest: text(object, "digest")?, ..Blob::default() }.digest(findings)?;
    let streams = ByteStreams::new(streams, whole)?;
    if !streams.are_adjacent() {
        *findings = before;
        findings.note(format!("a tensor in {FORMAT}, whose streams are not next to each other, loads as its streams"));
        return Ok(None);
    }
    // The bytes of a tensor are verified if the digest of each stream is.
    let of_streams = streams.iter().map(|stream| stream.digest).collect::<Option<Vec<_>>>();
    let digest = match of_streams.and_then(|digests| digests.first().copied()) {
        Some(digest) => Some(ComponentDigest { digest, over: DigestedBytes::Streams }),
        None => whole.map(|digest| ComponentDigest { digest, over: DigestedBytes::Decoded }),
    };
    let decoded_length = dtype.byte_length(elements)?;
    Ok(Some(Component { digest, ..Component::split(dtype, decoded_length, streams) }))
}

/// The dtype of the elements: `type` if there is one, else `dtype`, as for components.
fn element_dtype(object: &Value) -> Result<Dtype> {
    match (text(object, "type")?, text(object, "dtype")?) {
        (Some(logical), _) => Ok(logical_dtype(logical)),
        (None, Some(stored)) => Ok(stored_dtype(stored)),
        (None, None) => Err(malformed(format!("its format is {FORMAT}, but it has no `dtype`"))),
    }
}
