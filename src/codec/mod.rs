//! Decoders and checksums: bytes in, bytes out, no I/O.

pub(crate) mod blake3_tree;
pub mod byte_order;
#[cfg(feature = "ztensor")]
pub mod byte_streams;
pub mod cast;
pub mod crc32;
#[cfg(feature = "zip")]
pub mod deflate;
pub mod dequantize;
pub mod difference;
pub mod digest;
#[cfg(feature = "lz4")]
pub mod lz4;
#[cfg(feature = "lz4")]
pub mod lz4_block;
pub mod pages;
#[cfg(feature = "onnx")]
pub mod varint;
#[cfg(feature = "zstd")]
pub mod zstd;
#[cfg(feature = "zstd")]
pub mod zstd_seek;

use crate::algorithm::Algorithm;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{BlockEnd, Component, ComponentDigest, Encoding};

/// The maximum input that [`Decoder::push_some`] consumes for encodings that do not change the length.
const MAX_PIECE_BYTES: usize = 64 << 10;

/// An incremental decoder of one component.
#[derive(Debug)]
pub enum Decoder {
    /// [`Encoding::BigEndian`].
    BigEndian(byte_order::BigEndian),
    /// [`Encoding::ByteStreamSplit`].
    #[cfg(feature = "ztensor")]
    ByteStreams(byte_streams::Joiner),
    /// [`Encoding::Deflate`].
    #[cfg(feature = "zip")]
    Deflate(deflate::Deflate),
    /// [`Encoding::Lz4Blocks`].
    #[cfg(feature = "lz4")]
    Lz4(lz4::Lz4Blocks),
    /// [`Encoding::Lz4Block`].
    #[cfg(feature = "lz4")]
    Lz4Block(lz4_block::Lz4Block),
    /// [`Encoding::Varint`].
    #[cfg(feature = "onnx")]
    Varint(varint::Varints),
    /// [`Encoding::Zstd`].
    #[cfg(feature = "zstd")]
    Zstd(zstd::Zstd),
}

impl Decoder {
    /// Creates the decoder of a component; `None` if its bytes are stored raw. It compares those of the `digests` that
    /// are over streams.
    pub fn new(component: &Component, digests: &[ComponentDigest]) -> Option<Decoder> {
        #[cfg(not(feature = "ztensor"))]
        let _ = digests;
        match component.encoding {
            Encoding::Raw => None,
            Encoding::BigEndian => {
                Some(Decoder::BigEndian(byte_order::BigEndian::new(component.dtype.array_kind().element_bytes())))
            }
            #[cfg(feature = "ztensor")]
            Encoding::ByteStreamSplit => Some(Decoder::ByteStreams(byte_streams::Joiner::of(component, digests))),
            #[cfg(feature = "zip")]
            Encoding::Deflate { .. } => Some(Decoder::Deflate(deflate::Deflate::of(component))),
            #[cfg(feature = "lz4")]
            Encoding::Lz4Blocks => Some(Decoder::Lz4(lz4::Lz4Blocks::of(component))),
            #[cfg(feature = "lz4")]
            Encoding::Lz4Block => Some(Decoder::Lz4Block(lz4_block::Lz4Block::of(component))),
            #[cfg(feature = "onnx")]
            Encoding::Varint => Some(Decoder::Varint(varint::Varints::of(component))),
            #[cfg(feature = "zstd")]
            Encoding::Zstd => Some(Decoder::Zstd(zstd::Zstd::of(component))),
        }
    }

    /// Decodes the next stored bytes, in chunks of any length, and calls `emit` with decoded bytes, in order.
    ///
    /// # Errors
    /// `FORMAT` if the bytes cannot be decoded; errors of `emit`.
    pub fn push(&mut self, input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Decoder::BigEndian(decoder) => decoder.push(input, emit),
            #[cfg(feature = "ztensor")]
            Decoder::ByteStreams(decoder) => decoder.push(input, emit),
            #[cfg(feature = "zip")]
            Decoder::Deflate(decoder) => decoder.push(input, emit),
            #[cfg(feature = "lz4")]
            Decoder::Lz4(decoder) => decoder.push(input, emit),
            #[cfg(feature = "lz4")]
            Decoder::Lz4Block(decoder) => decoder.push(input, emit),
            #[cfg(feature = "onnx")]
            Decoder::Varint(decoder) => decoder.push(input, emit),
            #[cfg(feature = "zstd")]
            Decoder::Zstd(decoder) => decoder.push(input, emit),
        }
    }

    /// Like [`Decoder::push`], for bytes at the offset `at` of the file, of one of the streams that are read side by
    /// side.
    ///
    /// # Errors
    /// As for [`Decoder::push`].
    pub fn push_at(&mut self, at: u64, input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            #[cfg(feature = "ztensor")]
            Decoder::ByteStreams(decoder) => decoder.push_at(at, input, emit),
            _ => {
                let _ = (input, emit);
                Err(Error::new(ErrorKind::Internal, format!("the encoding has no streams (offset {at})")))
            }
        }
    }

    /// Like [`Decoder::push`], but calls `emit` at most once, with at most 128 KiB, and returns the number of input
    /// bytes that it consumed. Call it again with the remaining input, even if that is empty, until it neither consumes
    /// nor emits bytes. Input that decodes to gigabytes is thus decoded only as far as the caller needs.
    ///
    /// # Errors
    /// As for [`Decoder::push`].
    pub fn push_some(&mut self, input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        match self {
            // The output is as long as the input.
            Decoder::BigEndian(decoder) => {
                let piece = input.get(..MAX_PIECE_BYTES).unwrap_or(input);
                decoder.push(piece, emit).map(|()| piece.len())
            }
            #[cfg(feature = "ztensor")]
            Decoder::ByteStreams(decoder) => decoder.push_some(input, emit),
            #[cfg(feature = "zip")]
            Decoder::Deflate(decoder) => decoder.push_some(input, emit),
            #[cfg(feature = "lz4")]
            Decoder::Lz4(decoder) => decoder.push_some(input, emit),
            #[cfg(feature = "lz4")]
            Decoder::Lz4Block(decoder) => decoder.push_some(input, emit),
            #[cfg(feature = "onnx")]
            Decoder::Varint(decoder) => decoder.push_some(input, emit),
            #[cfg(feature = "zstd")]
            Decoder::Zstd(decoder) => decoder.push_some(input, emit),
        }
    }

    /// The ends of the blocks that were decoded so far, if each can be decoded alone.
    pub fn blocks(&self) -> &[BlockEnd] {
        match self {
            #[cfg(feature = "lz4")]
            Decoder::Lz4(decoder) => decoder.blocks(),
            #[cfg(feature = "zstd")]
            Decoder::Zstd(decoder) => decoder.blocks(),
            _ => &[],
        }
    }

    /// For each of several streams, the ends of the blocks that were decoded so far.
    pub fn stream_blocks(&self) -> Vec<Vec<BlockEnd>> {
        match self {
            #[cfg(feature = "ztensor")]
            Decoder::ByteStreams(decoder) => decoder.stream_blocks(),
            _ => Vec::new(),
        }
    }

    /// Checks that the data is complete. Must be called after the last stored byte. Returns the algorithm of the
    /// digests that the decoder has compared.
    ///
    /// # Errors
    /// `FORMAT` if stored or decoded bytes are missing; `CHECKSUM` if a digest does not match.
    pub fn finish(&self) -> Result<Option<Algorithm>> {
        match self {
            #[cfg(feature = "ztensor")]
            Decoder::ByteStreams(decoder) => return decoder.finish(),
            Decoder::BigEndian(decoder) => decoder.finish(),
            #[cfg(feature = "zip")]
            Decoder::Deflate(decoder) => decoder.finish(),
            #[cfg(feature = "lz4")]
            Decoder::Lz4(decoder) => decoder.finish(),
            #[cfg(feature = "lz4")]
            Decoder::Lz4Block(decoder) => decoder.finish(),
            #[cfg(feature = "onnx")]
            Decoder::Varint(decoder) => decoder.finish(),
            #[cfg(feature = "zstd")]
            Decoder::Zstd(decoder) => decoder.finish(),
        }?;
        Ok(None)
    }
}
