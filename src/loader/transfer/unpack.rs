//! Decodes a file that is compressed as a whole while it is read.

use crate::codec::Decoder;
use crate::error::Result;
use crate::index::Component;
use crate::loader::transfer::SCRATCH_BYTES;
use crate::loader::transfer::stats::Stats;
use crate::loader::transfer::truncated::truncated_error;
use crate::source::{Body, Buffer, ReadBody};
use futures::future::LocalBoxFuture;
use std::ops::Range;
use std::rc::Rc;

/// The body of a file: stored bytes, the bytes that they decode to, or those of several files.
pub(crate) enum FileBody<B: Body> {
    Stored(B),
    Unpacked(Box<Unpacked<B>>),
    Joined(Box<dyn ReadBody<B::Buffer>>),
}

/// Requests a range of the stored file. Returns a body that starts at its start, and the end of this body.
pub(crate) type NextBody<B> = Box<dyn Fn(Range<u64>) -> LocalBoxFuture<'static, Result<(B, u64)>>>;

/// The decoded bytes of one component, from its first byte.
pub(crate) struct Unpacked<B: Body> {
    body: B,
    scratch: B::Buffer,
    /// The offset of the body's next byte in the file.
    position: u64,
    /// The end of the body; `u64::MAX` if it is unknown.
    body_end: u64,
    /// Requests the rest if the body ends early.
    next_body: Option<NextBody<B>>,
    component: Component,
    decoder: Option<Decoder>,
    /// Stored bytes that were received. Those from `stored_at` on are not decoded yet.
    stored: Vec<u8>,
    stored_at: usize,
    /// The bytes that were decoded last, and how many of them were read.
    decoded: Vec<u8>,
    read: usize,
    stats: Rc<Stats>,
}

impl<B: Body> Unpacked<B> {
    /// `body` has the bytes of `range`, which starts at the component or before it.
    pub(crate) fn new(body: B, range: Range<u64>, component: Component, stats: Rc<Stats>) -> Result<Self> {
        let (scratch, decoder) = (B::Buffer::allocate(SCRATCH_BYTES)?, Decoder::new(&component, &[]));
        let (stored, stored_at, decoded, read, next_body) = Default::default();
        let Range { start: position, end: body_end } = range;
        Ok(Unpacked {
            body,
            scratch,
            position,
            body_end,
            next_body,
            component,
            decoder,
            stored,
            stored_at,
            decoded,
            read,
            stats,
        })
    }

    /// Reads the rest of the component from further bodies, for servers that limit the length of responses.
    pub(crate) fn continued_by(self, next_body: NextBody<B>) -> Self {
        Unpacked { next_body: Some(next_body), ..self }
    }

    /// Decodes the next piece. Returns false at the end.
    async fn decode_more(&mut self) -> Result<bool> {
        self.decoded.clear();
        self.read = 0;
        while !self.decode_some()? {
            if !self.read_more().await? {
                if let Some(decoder) = &self.decoder {
                    decoder.finish()?;
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Decodes a piece of the received bytes. Returns false if they decode to nothing.
    fn decode_some(&mut self) -> Result<bool> {
        let Unpacked { decoder, stored, stored_at, decoded, .. } = self;
        loop {
            let rest = stored.get(*stored_at..).unwrap_or_default();
            let consumed = match decoder {
                Some(decoder) => decoder.push_some(rest, &mut |bytes| {
                    decoded.extend_from_slice(bytes);
                    Ok(())
                })?,
                None => {
                    decoded.extend_from_slice(rest);
                    rest.len()
                }
            };
            *stored_at += consumed;
            if !decoded.is_empty() || consumed == 0 {
                return Ok(!decoded.is_empty());
            }
        }
    }

    /// Reads the next stored bytes after all earlier ones were decoded. Returns false at the end.
    async fn read_more(&mut self) -> Result<bool> {
        let Unpacked { body, scratch, position, body_end, next_body, component, stored, stored_at, stats, .. } = self;
        let range = &component.range;
        let end = if *position < range.start { range.start } else { range.end };
        if *position == end {
            return Ok(false);
        }
        if let Some(next) = next_body.as_ref().filter(|_| *position == *body_end) {
            (*body, *body_end) = next(*position..range.end).await?;
        }
        let limit = end.min(*body_end).saturating_sub(*position);
        let count = body.read(scratch, 0..SCRATCH_BYTES.min(limit)).await?;
        stats.count_received(count, body.is_cached());
        if count == 0 {
            return Err(truncated_error(range.start, *position, range.end));
        }
        if *position >= range.start {
            stored.clear();
            *stored_at = 0;
            scratch.inspect(0..count, &mut |bytes| {
                stored.extend_from_slice(bytes);
                Ok(())
            })?;
        }
        *position += count;
        Ok(true)
    }
}

impl<B: Body> Body for FileBody<B> {
    type Buffer = B::Buffer;

    async fn read(&mut self, into: &mut B::Buffer, at: Range<u64>) -> Result<u64> {
        let unpacked = match self {
            FileBody::Stored(body) => return body.read(into, at).await,
            FileBody::Unpacked(unpacked) => unpacked,
            FileBody::Joined(body) => return body.read(into, at).await,
        };
        loop {
            let ready = unpacked.decoded.get(unpacked.read..).unwrap_or_default();
            let limit = usize::try_from(at.end - at.start).unwrap_or(usize::MAX);
            let piece = ready.get(..limit).unwrap_or(ready);
            if !piece.is_empty() {
                into.write(at.start, piece)?;
                unpacked.read += piece.len();
                return Ok(piece.len() as u64);
            }
            if !unpacked.decode_more().await? {
                return Ok(0);
            }
        }
    }
}
