//! What the cache is asked for before it is wanted: its worker reads and checks it meanwhile.
//!
//! Where it is known that bytes are read whole into a buffer of their own, they are asked for in such a buffer, and
//! need no copy.

use super::{CachedFile, Version};
use crate::cache::client::Reply;
use crate::cache::{STRETCH_BYTES, end_of_stretch};
use crate::source::Buffer;
use crate::source::js_buffer::JsBuffer;
use js_sys::{ArrayBuffer, Uint8Array};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::JsCast;

/// So many bytes are asked for beforehand, in so many reads.
const MAX_BYTES: u64 = 2 * STRETCH_BYTES;
const MAX_READS: usize = 8;

/// No system has smaller pages of memory.
const PAGE_BYTES: usize = 4096;

/// What was asked for by one connection, and not yet taken.
#[derive(Debug)]
pub(super) struct Ahead {
    file: Rc<CachedFile>,
    asked: VecDeque<Asked>,
    /// A buffer that nobody wrote to, for the next that is wanted of its length.
    spare: Option<ArrayBuffer>,
}

#[derive(Debug)]
struct Asked {
    range: Range<u64>,
    reply: Reply,
}

impl Ahead {
    pub(super) fn new(file: Rc<CachedFile>) -> Self {
        Ahead { file, asked: VecDeque::new(), spare: None }
    }

    /// The first bytes of `range`, which the cache is asked for now unless it was before.
    pub(super) fn reply(&mut self, version: &Version, range: Range<u64>) -> Reply {
        // The network may have come in between.
        while self.asked.front().is_some_and(|asked| asked.range.start != range.start) {
            self.asked.pop_front();
        }
        match self.asked.pop_front() {
            Some(asked) => asked.reply,
            None => self.read(version, self.first_of(&range), range.end),
        }
    }

    /// Asks for what follows: for `range`, but for what was asked for already.
    pub(super) fn ask(&mut self, version: &Version, range: Range<u64>) {
        let mut rest = self.asked.back().map_or(range.start, |asked| asked.range.end)..range.end;
        let mut bytes: u64 = self.asked.iter().map(|asked| asked.range.end - asked.range.start).sum();
        while !rest.is_empty() && self.asked.len() < MAX_READS {
            let first = self.first_of(&rest);
            bytes += first.end - first.start;
            if bytes > MAX_BYTES {
                return;
            }
            rest.start = first.end;
            let reply = self.read(version, first.clone(), range.end);
            self.asked.push_back(Asked { range: first, reply });
        }
    }

    /// Takes a buffer in which nothing was put.
    pub(super) fn reuse(&mut self, bytes: &Uint8Array) {
        self.spare = bytes.buffer().dyn_into().ok();
    }

    /// What one read brings of it: what goes into a buffer of its own, or a stretch up to the next of those.
    fn first_of(&self, range: &Range<u64>) -> Range<u64> {
        let end = match self.file.buffer_from(range.start) {
            Some(buffer) if buffer.start == range.start => buffer.end,
            Some(buffer) => end_of_stretch(range.start).min(buffer.start),
            None => end_of_stretch(range.start),
        };
        range.start..end.min(range.end)
    }

    fn read(&mut self, version: &Version, range: Range<u64>, end_of_interest: u64) -> Reply {
        let has_own = self.file.buffer_from(range.start).is_some_and(|buffer| buffer == range);
        let own = if has_own { touched(self.spare.take(), range.end - range.start) } else { None };
        let cache = &self.file.cache;
        let buffer = own.unwrap_or_else(|| cache.stretch());
        cache.read(version.key(&self.file), &version.name, range, end_of_interest, buffer)
    }
}

/// A buffer of this length, each page of which was touched: that takes longer than to fill it, and is done here while
/// the worker fills another. `None` where there is no memory.
fn touched(spare: Option<ArrayBuffer>, byte_length: u64) -> Option<ArrayBuffer> {
    let fitting = spare.filter(|spare| u64::from(spare.byte_length()) == byte_length);
    let bytes = match fitting {
        Some(spare) => Uint8Array::new(&spare),
        None => JsBuffer::allocate(byte_length).ok()?.bytes,
    };
    (0..bytes.length()).step_by(PAGE_BYTES).for_each(|at| bytes.set_index(at, 0));
    bytes.buffer().dyn_into().ok()
}
