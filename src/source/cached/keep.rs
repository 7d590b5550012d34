//! Bytes on their way into the cache: gathered into pieces, and handed over behind the load's back.

use super::{CachedFile, Version};
use crate::browser::lock::Lock;
use crate::cache::{PIECE_BYTES, end_of_piece};
use js_sys::{ArrayBuffer, Date, Uint8Array};
use std::rc::Rc;
use wasm_bindgen_futures::spawn_local;

/// On a slow line a piece is handed over before it is full: a tab that is closed loses what was not.
const MAX_AGE_MS: f64 = 1_000.0;

/// Keeps what goes by on one connection.
#[derive(Debug)]
pub(super) struct Keeper {
    file: Rc<CachedFile>,
    piece: Option<Piece>,
    /// The version that the bytes are of; `None` where they cannot be kept.
    pub(super) version: Option<Version>,
    /// Held until everything is kept, where this page has it.
    pub(super) lease: Option<Rc<Lock>>,
}

#[derive(Debug)]
struct Piece {
    buffer: ArrayBuffer,
    /// Where it begins in the file.
    start: u64,
    byte_length: u32,
    begun_ms: f64,
}

impl Keeper {
    pub(super) fn new(file: Rc<CachedFile>) -> Self {
        Keeper { file, piece: None, version: None, lease: None }
    }

    /// Takes bytes that begin at `start`. Waits only where the disk is far behind.
    pub(super) async fn take(&mut self, start: u64, bytes: &Uint8Array) {
        let mut at = 0;
        while at < bytes.length() && self.version.is_some() && !self.file.is_quiet.get() {
            at += self.add(start + u64::from(at), &bytes.subarray(at, bytes.length()));
            let is_old = |piece: &Piece| Date::now() - piece.begun_ms > MAX_AGE_MS;
            if self.piece.as_ref().is_some_and(|piece| piece.is_full() || is_old(piece)) {
                self.file.cache.wait_for_room().await;
                self.hand_over();
            }
        }
    }

    /// Copies what fits into the piece, and says how many bytes did.
    fn add(&mut self, start: u64, bytes: &Uint8Array) -> u32 {
        if self.piece.as_ref().is_some_and(|piece| piece.end() != start) {
            self.hand_over();
        }
        let piece = self.piece.get_or_insert_with(|| Piece {
            buffer: self.file.cache.buffer(),
            start,
            byte_length: 0,
            begun_ms: Date::now(),
        });
        let count = (end_of_piece(start) - start).min(u64::from(bytes.length())) as u32;
        Uint8Array::new(&piece.buffer).set(&bytes.subarray(0, count), piece.byte_length);
        piece.byte_length += count;
        count
    }

    fn hand_over(&mut self) {
        let (Some(piece), Some(version)) = (self.piece.take(), &self.version) else { return };
        let Piece { buffer, start, byte_length, .. } = piece;
        let (file, lease) = (Rc::clone(&self.file), self.lease.clone());
        let reply = file.cache.write(&file.key, &version.name, start, u64::from(byte_length), buffer);
        spawn_local(async move {
            match reply.buffer().await {
                Ok(buffer) => file.cache.recycle(buffer),
                Err(error) => file.give_up(&error),
            }
            file.cache.written();
            drop(lease);
        });
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.file.is_quiet.get() {
            self.hand_over();
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
