//! Read-ahead: the cache worker reads and verifies the next bytes while the loader processes the previous ones.
//!
//! If a range is known to be read into a buffer of its own, the worker reads it directly into such a buffer, which
//! saves a copy.

use super::file::CachedFile;
use super::version::Version;
use crate::cache::client::Reply;
use crate::cache::{READ_BYTES, end_of_read};
use crate::source::Buffer;
use crate::source::js_buffer::JsBuffer;
use js_sys::{ArrayBuffer, Uint8Array};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::JsCast;

/// Maximum number of bytes in pending reads.
const MAX_BYTES: u64 = 2 * READ_BYTES;

/// Maximum number of pending reads.
const MAX_READS: usize = 8;

/// The smallest size of a memory page on any platform.
const PAGE_BYTES: usize = 4096;

/// The pending reads of one connection.
#[derive(Debug)]
pub(super) struct ReadAhead {
    file: Rc<CachedFile>,
    pending: VecDeque<PendingRead>,
    /// An unused buffer, which serves the next read of the same length.
    spare: Option<ArrayBuffer>,
}

#[derive(Debug)]
struct PendingRead {
    range: Range<u64>,
    reply: Reply,
}

impl ReadAhead {
    pub(super) fn new(file: Rc<CachedFile>) -> Self {
        ReadAhead { file, pending: VecDeque::new(), spare: None }
    }

    /// Returns the read of the first bytes of `range`. Starts it unless it is pending.
    pub(super) fn reply(&mut self, version: &Version, range: Range<u64>) -> Reply {
        // Bytes from the network may have advanced the position.
        while self.pending.front().is_some_and(|pending| pending.range.start != range.start) {
            self.pending.pop_front();
        }
        match self.pending.pop_front() {
            Some(pending) => pending.reply,
            None => self.read(version, self.next_read(&range), range.end),
        }
    }

    /// Starts reads of the parts of `range` that are not pending.
    pub(super) fn start_reads(&mut self, version: &Version, range: Range<u64>) {
        let mut rest = self.pending.back().map_or(range.start, |pending| pending.range.end)..range.end;
        let mut bytes: u64 = self.pending.iter().map(|pending| pending.range.end - pending.range.start).sum();
        while !rest.is_empty() && self.pending.len() < MAX_READS {
            let first = self.next_read(&rest);
            bytes += first.end - first.start;
            if bytes > MAX_BYTES {
                return;
            }
            rest.start = first.end;
            let reply = self.read(version, first.clone(), range.end);
            self.pending.push_back(PendingRead { range: first, reply });
        }
    }

    /// Keeps an unused buffer for reuse.
    pub(super) fn reuse(&mut self, bytes: &Uint8Array) {
        self.spare = bytes.buffer().dyn_into().ok();
    }

    /// The range of one read at the start of `range`: all of a range with its own buffer, or the bytes up to the next
    /// such range.
    fn next_read(&self, range: &Range<u64>) -> Range<u64> {
        let end = match self.file.next_buffer(range.start) {
            Some(buffer) if buffer.start == range.start => buffer.end,
            Some(buffer) => end_of_read(range.start).min(buffer.start),
            None => end_of_read(range.start),
        };
        range.start..end.min(range.end)
    }

    fn read(&mut self, version: &Version, range: Range<u64>, end_of_interest: u64) -> Reply {
        let has_own = self.file.next_buffer(range.start).is_some_and(|buffer| buffer == range);
        let own = if has_own { touched_buffer(self.spare.take(), range.end - range.start) } else { None };
        let cache = &self.file.cache;
        let buffer = own.unwrap_or_else(|| cache.read_buffer());
        cache.read(version.key(&self.file.key), &version.name, range, end_of_interest, buffer)
    }
}

/// Returns a buffer of this length, and touches each of its memory pages. This takes longer than filling the buffer,
/// and is done here while the worker fills another one. `None` if there is not enough memory.
fn touched_buffer(spare: Option<ArrayBuffer>, byte_length: u64) -> Option<ArrayBuffer> {
    let fitting = spare.filter(|spare| u64::from(spare.byte_length()) == byte_length);
    let bytes = match fitting {
        Some(spare) => Uint8Array::new(&spare),
        None => JsBuffer::allocate(byte_length).ok()?.bytes,
    };
    (0..bytes.length()).step_by(PAGE_BYTES).for_each(|at| bytes.set_index(at, 0));
    bytes.buffer().dyn_into().ok()
}
