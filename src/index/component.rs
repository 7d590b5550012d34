//! Components: the ranges of files that tensors are made of.

use super::values::ValueRule;
use super::{ByteStream, ByteStreams, ComponentDigest, DigestedBytes};
use crate::dtype::Dtype;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// The role of a dense tensor's component.
pub(crate) const DATA: &str = "data";

/// A range of a file that contains a tensor, or a part of one.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Component {
    /// The role in the tensor: `data`, `values`, `indices` …
    pub role: Cow<'static, str>,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The range of the stored bytes in the file.
    pub range: Range<u64>,
    /// How the elements are encoded.
    #[doc(hidden)]
    pub encoding: Encoding,
    /// The streams of [`Encoding::ByteStreamSplit`].
    pub(crate) streams: Option<Arc<ByteStreams>>,
    /// The decoded length in bytes; `None` if the format does not state it (zstd without a content size).
    pub decoded_length: Option<u64>,
    /// The maximum decoded length in bytes, if `decoded_length` is `None` and layout and shape determine a maximum.
    #[doc(hidden)]
    pub max_decoded_length: Option<u64>,
    /// The digest of the component, if the file has one.
    #[doc(hidden)]
    pub digest: Option<ComponentDigest>,
    /// The digests of the pages that contain the bytes, if the file has them. They verify partial reads.
    #[doc(hidden)]
    pub pages: Option<Box<PageTable>>,
    /// The rule for the decoded values, if the format has one.
    pub(crate) rule: Option<ValueRule>,
}

/// The location of the page digests of a range of the file. The digests are read when they are needed: see
/// [`page_digests`](crate::format::page_digests).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageTable {
    /// The range of the file that is divided into pages.
    pub over: Range<u64>,
    /// The range of the file that contains the digests.
    pub at: Range<u64>,
}

/// How the elements of a component are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// Not encoded: the stored bytes are the decoded bytes.
    Raw,
    /// The bytes of each number are in the opposite order of the decoded ones. Stored byte `n` belongs to the same
    /// element as decoded byte `n`. A number is as wide as an element of the dtype's
    /// [`ArrayKind`](crate::dtype::ArrayKind), so a complex element is two numbers.
    BigEndian,
    /// A stream for each byte of a number, raw or in Zstandard frames. The range of the component has all of them, and
    /// padding between them.
    #[cfg(feature = "ztensor")]
    ByteStreamSplit,
    /// A DEFLATE stream (RFC 1951).
    #[cfg(feature = "zip")]
    Deflate {
        /// The number of decoded bytes that precede those of the component.
        skipped: SkippedBytes,
    },
    /// LZ4 in APR v2: blocks of at most 64 KiB, each preceded by its stored length as a u32.
    #[cfg(feature = "lz4")]
    Lz4Blocks,
    /// One LZ4 block of any length, preceded by its decoded length as a u32.
    #[cfg(feature = "lz4")]
    Lz4Block,
    /// Packed varints of Protobuf, one for each element (two 4-bit elements, four 2-bit elements).
    #[cfg(feature = "onnx")]
    Varint,
    /// Zstandard frames, one or more.
    #[cfg(feature = "zstd")]
    Zstd,
}

/// A number of bytes. It has no alignment, so that a component takes 168 bytes: a model may have 400,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkippedBytes([u8; 4]);

impl SkippedBytes {
    /// No bytes.
    pub const NONE: Self = SkippedBytes([0; 4]);
}

impl From<u32> for SkippedBytes {
    fn from(bytes: u32) -> Self {
        SkippedBytes(bytes.to_ne_bytes())
    }
}

impl From<SkippedBytes> for u64 {
    fn from(SkippedBytes(bytes): SkippedBytes) -> Self {
        u32::from_ne_bytes(bytes).into()
    }
}

impl Encoding {
    /// The encoding's name.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Raw => "raw",
            Encoding::BigEndian => "big-endian",
            #[cfg(feature = "ztensor")]
            Encoding::ByteStreamSplit => "byte_stream_split",
            #[cfg(feature = "zip")]
            Encoding::Deflate { .. } => "deflate",
            #[cfg(feature = "lz4")]
            Encoding::Lz4Blocks | Encoding::Lz4Block => "lz4",
            #[cfg(feature = "onnx")]
            Encoding::Varint => "varint",
            #[cfg(feature = "zstd")]
            Encoding::Zstd => "zstd",
        }
    }

    /// Whether stored byte `n` belongs to the same element as decoded byte `n`.
    pub fn keeps_positions(self) -> bool {
        matches!(self, Encoding::Raw | Encoding::BigEndian)
    }
}

impl Component {
    /// The page digests that verify the component if all of it is read and it has no digest of its own. Those that
    /// verify a part of it are always [`Component::pages`].
    pub(crate) fn pages_of_whole(&self) -> Option<&PageTable> {
        self.pages.as_deref().filter(|_| self.digest.is_none())
    }

    /// The streams of [`Encoding::ByteStreamSplit`].
    #[doc(hidden)]
    pub fn streams(&self) -> Option<&ByteStreams> {
        self.streams.as_deref()
    }

    /// The digest of the decoded bytes, beside those of streams that [`Component::digest`] stands for. Whoever verifies
    /// the file compares it, too.
    pub(crate) fn digest_beside_streams(&self) -> Option<ComponentDigest> {
        let is_over_streams = self.digest.is_some_and(|stated| stated.over == DigestedBytes::Streams);
        let digest = self.streams.as_ref()?.digest().filter(|_| is_over_streams)?;
        Some(ComponentDigest { digest, over: DigestedBytes::Decoded })
    }

    /// The ranges of the file that have stored bytes, without padding between streams.
    pub(crate) fn stored_ranges(&self) -> Vec<Range<u64>> {
        match &self.streams {
            Some(streams) => streams.iter().map(|stream| stream.range.clone()).collect(),
            None => vec![self.range.clone()],
        }
    }

    /// A stream as a component of bytes.
    pub(crate) fn of_stream(stream: &ByteStream) -> Self {
        Component {
            encoding: match stream.is_zstd {
                #[cfg(feature = "zstd")]
                true => Encoding::Zstd,
                _ => Encoding::Raw,
            },
            decoded_length: Some(stream.decoded_length),
            digest: stream.digest.map(|digest| ComponentDigest { digest, over: DigestedBytes::Stored }),
            ..Component::raw(Dtype::U8, stream.range.clone())
        }
    }

    /// A component `data` whose elements, of `decoded_length` bytes together, are split into streams.
    #[cfg(feature = "ztensor")]
    #[doc(hidden)]
    pub fn split(dtype: Dtype, decoded_length: Option<u64>, streams: ByteStreams) -> Self {
        let (encoding, range) = (Encoding::ByteStreamSplit, streams.range());
        let streams = Some(Arc::new(streams));
        Component { encoding, decoded_length, streams, ..Component::raw(dtype, range) }
    }

    /// A component `data` of raw bytes.
    #[doc(hidden)]
    pub fn raw(dtype: Dtype, range: Range<u64>) -> Self {
        let decoded_length = Some(range.end - range.start);
        Component {
            role: DATA.into(),
            dtype,
            range,
            encoding: Encoding::Raw,
            streams: None,
            decoded_length,
            max_decoded_length: None,
            digest: None,
            pages: None,
            rule: None,
        }
    }
}

/// The role of a component. The most frequent role needs no allocation.
pub(crate) fn role_named(name: &str) -> Cow<'static, str> {
    if name == DATA { DATA.into() } else { name.to_owned().into() }
}
