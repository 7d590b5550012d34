//! Writes downloaded bytes to the cache, in pieces and in the background.

use super::file::CachedFile;
use super::lease::Lease;
use super::version::Version;
use crate::cache::{PIECE_BYTES, end_of_piece};
use js_sys::{ArrayBuffer, Date, Uint8Array};
use std::rc::Rc;
use wasm_bindgen_futures::spawn_local;

/// Maximum age of an incomplete piece. It is then written before it is full, because a tab that is closed loses it.
const MAX_AGE_MS: f64 = 1_000.0;

/// Writes the bytes of one connection to the cache.
#[derive(Debug)]
pub(super) struct CacheWriter {
    file: Rc<CachedFile>,
    piece: Option<Piece>,
    /// The version of the file; `None` if the bytes cannot be cached.
    pub(super) version: Option<Version>,
    /// The lease of this page, held until all writes have ended.
    pub(super) lease: Option<Rc<Lease>>,
}

#[derive(Debug)]
struct Piece {
    buffer: ArrayBuffer,
    /// Offset in the file.
    start: u64,
    byte_length: u32,
    started_ms: f64,
}

impl CacheWriter {
    pub(super) fn new(file: Rc<CachedFile>) -> Self {
        CacheWriter { file, piece: None, version: None, lease: None }
    }

    /// Adds bytes at the offset `start`. Waits only while there are too many pending writes.
    pub(super) async fn push(&mut self, start: u64, bytes: &Uint8Array) {
        let mut at = 0;
        while at < bytes.length() && self.version.is_some() && !self.file.writes_disabled.get() {
            at += self.add(start + u64::from(at), &bytes.subarray(at, bytes.length()));
            let is_old = |piece: &Piece| Date::now() - piece.started_ms > MAX_AGE_MS;
            if self.piece.as_ref().is_some_and(|piece| piece.is_full() || is_old(piece)) {
                self.file.cache.wait_for_pending_writes().await;
                self.flush();
            }
        }
    }

    /// Copies bytes to the current piece, up to its end. Returns their number.
    fn add(&mut self, start: u64, bytes: &Uint8Array) -> u32 {
        if self.piece.as_ref().is_some_and(|piece| piece.end() != start) {
            self.flush();
        }
        let piece = self.piece.get_or_insert_with(|| Piece {
            buffer: self.file.cache.piece_buffer(),
            start,
            byte_length: 0,
            started_ms: Date::now(),
        });
        let count = (end_of_piece(start) - start).min(u64::from(bytes.length())) as u32;
        Uint8Array::new(&piece.buffer).set(&bytes.subarray(0, count), piece.byte_length);
        piece.byte_length += count;
        count
    }

    /// Writes the current piece.
    pub(super) fn flush(&mut self) {
        let (Some(piece), Some(version)) = (self.piece.take(), &self.version) else { return };
        let Piece { buffer, start, byte_length, .. } = piece;
        let (file, lease) = (Rc::clone(&self.file), self.lease.clone());
        let reply = file.cache.write(&file.key, &version.name, start, u64::from(byte_length), buffer);
        spawn_local(async move {
            match reply.buffer().await {
                Ok(buffer) => file.cache.recycle(buffer),
                Err(error) => file.disable_writes(&error),
            }
            file.cache.write_ended();
            drop(lease);
        });
    }
}

impl Drop for CacheWriter {
    fn drop(&mut self) {
        if !self.file.writes_disabled.get() {
            self.flush();
        }
    }
}

impl Piece {
    fn end(&self) -> u64 {
        self.start + u64::from(self.byte_length)
    }

    fn is_full(&self) -> bool {
        self.end().is_multiple_of(PIECE_BYTES)
    }
}
