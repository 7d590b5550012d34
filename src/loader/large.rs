//! Components so large that several connections may bring parts of them.

use super::BufferOf;
use super::checks::compare_all;
use super::job::Received;
use super::operation::{Operation, Purpose, unplanned};
use super::reading::{MAX_DIRECT_BYTES, Reading, SCRATCH_BYTES, cut};
use super::run::{Arrival, RunReader};
use crate::codec::digest::Hasher;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, ComponentDigest, Encoding};
use crate::plan::Wanted;
use crate::source::{Buffer, Source};
use futures::future::{self, FutureExt};
use std::ops::Range;
use std::rc::Rc;

/// What no connection could digest in order is digested once all is there, so much at a time: a page should not stand
/// still meanwhile.
const SEGMENT_BYTES: u64 = 4 << 20;

/// A raw component on its way.
pub(crate) struct Large<B> {
    buffer: B,
    /// Where the buffer's first byte lies in the file.
    start: u64,
    digests: Vec<(ComponentDigest, Hasher)>,
    /// How many of the buffer's bytes were digested, from its start.
    digested: u64,
    /// Whether it is held until its pages were checked.
    by_pages: bool,
    /// How many parts are still on their way.
    parts: usize,
}

impl<B: Buffer> Large<B> {
    /// Of one part.
    fn new(buffer: B, start: u64, digests: Vec<ComponentDigest>, by_pages: bool) -> Self {
        let digests = digests.into_iter().map(|stated| (stated, Hasher::new(stated.digest))).collect();
        Large { buffer, start, digests, digested: 0, by_pages, parts: 1 }
    }

    /// Takes the first `length` bytes of `from`, which lie at `at` in the file.
    fn take(&mut self, at: u64, from: &B, length: u64) -> Result<()> {
        let into =
            at.checked_sub(self.start).ok_or_else(|| Error::new(ErrorKind::Internal, "a part begins too early"))?;
        self.buffer.copy(into, from, 0..length)?;
        if !self.digests.is_empty() && into == self.digested {
            self.digested += length;
            update(&mut self.digests, from, 0..length)?;
        }
        Ok(())
    }

    /// Digests what was not; whether there is more.
    fn digest_more(&mut self) -> Result<bool> {
        let Large { buffer, digests, digested, .. } = self;
        if digests.is_empty() {
            return Ok(false);
        }
        let end = buffer.byte_length().min(*digested + SEGMENT_BYTES);
        update(digests, buffer, *digested..end)?;
        *digested = end;
        Ok(end < buffer.byte_length())
    }

    /// The component, and the digests that it has.
    fn finish(self) -> Result<(Received<B>, Vec<ComponentDigest>)> {
        let stated = self.digests.iter().map(|(stated, _)| *stated).collect();
        let verified = compare_all(self.digests)?.or(self.by_pages.then_some("blake3"));
        Ok((Received { buffer: Some(self.buffer), verified }, stated))
    }
}

impl<S: Source> Operation<S> {
    /// Whether the component comes in parts, for the first of which its buffer is allocated here.
    pub(super) fn begin_large(&self, order: usize, index: usize, component: &Component) -> Result<bool> {
        if self.large.borrow().contains_key(&(order, index)) {
            return Ok(true);
        }
        let keep = self.keep(order, component)?;
        let is_large = keep.end.saturating_sub(keep.start) > MAX_DIRECT_BYTES && keep.end <= stored_length(component);
        if !self.keeps(order) || component.encoding != Encoding::Raw || !is_large {
            return Ok(false);
        }
        let is_whole = keep == (0..stored_length(component));
        let digests = self.digests(order, component, is_whole);
        let start = component.range.start + keep.start;
        let by_pages = self.pages_of(order, index).is_some();
        let buffer = match self.take_into(order) {
            Some(buffer) => buffer,
            None => BufferOf::<S>::allocate(keep.end - keep.start)?,
        };
        self.large.borrow_mut().insert((order, index), Large::new(buffer, start, digests, by_pages));
        Ok(true)
    }

    /// Whether several connections can bring what is being read.
    pub(super) fn is_divisible(&self, purpose: Purpose) -> bool {
        key(purpose).is_ok_and(|key| self.large.borrow().contains_key(&key))
    }

    /// Another connection brings a part of a large component.
    pub(super) fn add_part(&self, purpose: Purpose) {
        if let Ok(key) = key(purpose)
            && let Some(large) = self.large.borrow_mut().get_mut(&key)
        {
            large.parts += 1;
        }
    }

    fn take_part(&self, purpose: Purpose, at: u64, from: &BufferOf<S>, length: u64) -> Result<()> {
        self.large.borrow_mut().get_mut(&key(purpose)?).ok_or_else(unplanned)?.take(at, from, length)
    }

    /// The component, if its last part has come.
    fn end_part(&self, purpose: Purpose) -> Result<Option<Large<BufferOf<S>>>> {
        let (key, mut all) = (key(purpose)?, self.large.borrow_mut());
        let large = all.get_mut(&key).ok_or_else(unplanned)?;
        large.parts = large.parts.saturating_sub(1);
        Ok(if large.parts == 0 { all.remove(&key) } else { None })
    }
}

fn update<B: Buffer>(digests: &mut [(ComponentDigest, Hasher)], from: &B, range: Range<u64>) -> Result<()> {
    from.inspect(range, &mut |bytes| {
        digests.iter_mut().for_each(|(_, hasher)| hasher.update(bytes));
        Ok(())
    })
}

pub(super) fn key(purpose: Purpose) -> Result<(usize, usize)> {
    match purpose {
        Purpose::Component { order, component } => Ok((order, component)),
        Purpose::Gap => Err(unplanned()),
    }
}

fn stored_length(component: &Component) -> u64 {
    component.range.end - component.range.start
}

impl<S: Source> RunReader<S> {
    /// Reads a part of a large component, of which another connection may take the end meanwhile. Gives the component
    /// if it was the last part.
    pub(super) async fn large(
        &self,
        reading: &mut Reading<S>,
        wanted: &Wanted<Purpose>,
        component: &Component,
        name: &str,
    ) -> Result<Option<Arrival<BufferOf<S>>>> {
        let mut checks = self.checks();
        while reading.position < self.share.end_of_current() {
            let (at, end) = (reading.position, self.share.end_of_current());
            let count = (end - at).min(SCRATCH_BYTES);
            self.share.claim(at + count);
            let chunk = reading.chunk(count).await?.ok_or_else(|| cut(wanted.range.start, at, end))?;
            let length = chunk.length;
            if checks.is_needed() {
                let mut at = at;
                chunk.buffer.inspect(0..length, &mut |bytes| {
                    checks.stored(at, bytes)?;
                    at += bytes.len() as u64;
                    Ok(())
                })?;
            }
            self.operation.take_part(wanted.purpose, at, chunk.buffer, length)?;
            self.arrived(at..at + length, Some(name));
        }
        let Some(mut large) = self.operation.end_part(wanted.purpose)? else { return Ok(None) };
        while large.digest_more()? {
            Rc::clone(&self.file).source.pause(0).await;
        }
        let (received, digests) = large.finish()?;
        self.file.confirm_contents(component, &digests);
        let (order, index) = key(wanted.purpose)?;
        Ok(Some(future::ready(Ok((order, index, received))).boxed_local()))
    }
}
