//! Requests for the next bytes of a reader. Each response must be of the version of the file that was read before: it
//! proves that, or overlaps the last bytes.

use super::RangeReader;
use crate::deferred::Code;
use crate::error::{Error, ErrorKind, Result};
use crate::format::HEAD_BYTES;
use crate::loader::transfer::SCRATCH_BYTES;
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::next_request::NextRequest;
use crate::loader::transfer::overlap::{
    MAX_OVERLAP_HALVINGS, MIN_OVERLAP_BYTES, OVERLAP_BYTES, OVERLAP_WITH_ETAG_BYTES,
};
use crate::loader::transfer::remote::{Proof, Remote};
use crate::loader::transfer::truncated::{too_limited, truncated_error};
use crate::source::{Buffer, BufferOf, Source};
use futures::future::{self, FutureExt};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// A component of at most this length is allocated before the length of the file is known.
const MAX_UNCHECKED_BYTES: u64 = 1 << 20;

impl<S: Source> RangeReader<S> {
    /// Sends the request for the range. Returns the body once the head of the response is checked.
    pub(crate) async fn begin(mut self) -> Result<Remote<S::Body>> {
        loop {
            match self.connect().await {
                Ok(remote) => return Ok(remote),
                Err(error) => self.recover(error).await?,
            }
        }
    }

    /// Checks that the file has the bytes of a component before memory is allocated for it. If its length is unknown
    /// and the component is large, the response to the request for it says it, as far as the server does.
    ///
    /// # Errors
    /// `TRUNCATED` if it has not; those of the request.
    pub(crate) async fn check_length(&mut self, component: &Range<u64>) -> Result<()> {
        let is_large = component.end - component.start > MAX_UNCHECKED_BYTES;
        let has_known = self.known_at < self.known.len();
        while is_large && self.file.length().is_none() && !has_known && self.remote.is_none() {
            match self.connect_at_position().await {
                Ok(remote) => self.remote = Some(remote),
                Err(error) => self.recover(error).await?,
            }
        }
        match self.file.length() {
            Some(length) if component.end > length => {
                let what = format!("the file has only {length} bytes");
                Err(Error::new(ErrorKind::Truncated, what).at(component.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Requests the next bytes and discards those before the current position. A server that limits every response may
    /// need several requests to get there.
    pub(super) async fn connect_at_position(&mut self) -> Result<Remote<S::Body>> {
        let mut reached = 0;
        loop {
            let remote = self.connect().await?;
            self.remote_start = remote.position;
            let remote = self.skip(remote).await?;
            let is_used_up = remote.end == Some(remote.position);
            let is_end_of_file = self.file.length().is_none_or(|length| length <= self.position);
            if remote.position == self.position && (!is_used_up || is_end_of_file) {
                return Ok(remote);
            }
            // The response ended before new bytes. The next one does so too, unless it starts at a block that was new.
            if !self.file.must_overlap() || remote.position <= reached {
                return Err(too_limited(self.remote_start, self.position));
            }
            reached = remote.position;
        }
    }

    /// Requests the next bytes. If bytes were read before and nothing proves that the file is unchanged, the request
    /// overlaps the last of those bytes.
    pub(super) async fn connect(&mut self) -> Result<Remote<S::Body>> {
        if let Some(signed) = self.file.signed.as_ref().filter(|_| !self.is_check) {
            self.file.source.host().load_code(Code::Blake3).await?; // with which blocks are compared later
            let check = signed.check(async |take| {
                let mut reader = RangeReader::for_check(Rc::clone(&self.file), u64::MAX);
                while let Some(chunk) = reader.chunk(SCRATCH_BYTES).await? {
                    chunk.buffer.inspect(0..chunk.length, take)?;
                }
                Ok(())
            });
            check.boxed_local().await?; // boxed, because the check uses such a reader itself
            self.file.learn_signed_length();
        }
        if !self.is_check && self.file.needs_head_check() {
            let reader = RangeReader::for_check(Rc::clone(&self.file), HEAD_BYTES);
            let file = Rc::clone(&self.file);
            // Boxed, because the check uses such a reader itself. Both requests are sent at once.
            let checking = async move { file.check_head(reader).await }.boxed_local();
            let (checked, remote) = future::join(checking, self.connect_checked()).await;
            return checked.and(remote);
        }
        self.connect_checked().await
    }

    /// Requests the next bytes, without the checks of the content of the file.
    async fn connect_checked(&mut self) -> Result<Remote<S::Body>> {
        if let Some(response) = self.next_request.as_mut().and_then(|next| next.take(self.position)) {
            let remote = self.with_timeout(|_| response).await?;
            if remote.proof == Proof::Strong {
                return Ok(remote);
            }
        }
        let (end, known) = (self.end.get(), self.tail.range());
        let end = self.next_request.as_ref().map_or(end, |_| NextRequest::<S>::end(self.position, end));
        // The overlap is halved after each failure, so that a connection that breaks within it still makes progress.
        let halved = self.max_overlap_bytes >> self.failures.saturating_sub(1).min(MAX_OVERLAP_HALVINGS);
        let overlap_bytes = halved.max(MIN_OVERLAP_BYTES);
        let overlapped = known.start.max(known.end.saturating_sub(overlap_bytes)).min(self.position);
        if let Some(parked) = self.file.take_parked(&(self.position..end)) {
            return Ok(parked);
        }
        if !known.is_empty() && !self.file.expects_proof() {
            return self.request(overlapped..end).await;
        }
        let remote = self.request(self.position..end).await?;
        let needs_proof = self.is_cut.get() && self.file.server_repeats_etag();
        if needs_proof && known.is_empty() && remote.proof != Proof::Strong {
            return Err(unproven(self.position..end));
        }
        if known.is_empty() || remote.proof == Proof::Strong || remote.position <= overlapped {
            return Ok(remote);
        }
        drop(remote);
        self.request(overlapped..end).await
    }

    async fn request(&mut self, range: Range<u64>) -> Result<Remote<S::Body>> {
        self.with_timeout(|file| async move { file.request(range).await }.boxed_local()).await
    }

    /// Sends the next request before `remote` is read completely, if requests are limited. Without a strong ETag, the
    /// next request must overlap the bytes before it, which are not known yet.
    pub(super) fn request_ahead(&mut self, remote: &Remote<S::Body>) {
        let (end, file) = (self.end.get(), &self.file);
        if let Some(next) = &mut self.next_request
            && let Some(current_end) = remote.end
            && remote.proof == Proof::Strong
        {
            let send = |range| {
                let file = Rc::clone(file);
                async move { file.request(range).await }.boxed_local()
            };
            next.advance(self.position, current_end, end, send);
        }
    }

    /// Records the bytes that were read into `at` of `into`, at the current position. Bytes that were received before
    /// must be the same.
    pub(super) fn keep_overlap(&mut self, into: &BufferOf<S>, at: Range<u64>) -> Result<()> {
        let start = self.position;
        let end = start + (at.end - at.start);
        if start < self.tail.range().end {
            let (tail, mut position) = (&self.tail, start);
            into.inspect(at.clone(), &mut |bytes| {
                tail.compare(position, bytes)?;
                position += bytes.len() as u64;
                Ok(())
            })?;
        }
        let kept_bytes = match self.file.expects_proof() {
            _ if self.file.source.is_immutable() => return Ok(()),
            true if self.file.has_stable_etag() => OVERLAP_WITH_ETAG_BYTES,
            _ => OVERLAP_BYTES,
        };
        let kept = start.max(end.saturating_sub(kept_bytes))..end;
        let (tail, mut position) = (&mut self.tail, kept.start);
        into.inspect(at.start + (kept.start - start)..at.end, &mut |bytes| {
            tail.push(position, bytes);
            position += bytes.len() as u64;
            Ok(())
        })
    }

    /// A reader of the file as it is stored, from its start to `end`, for a check that other readers wait for.
    fn for_check(file: Rc<ModelFile<S>>, end: u64) -> Self {
        RangeReader { is_check: true, ..RangeReader::new(file, 0, Rc::new(Cell::new(end)), Vec::new()) }
    }

    /// Reads and discards the body up to the current position, which may be most of the file, or up to the end of a
    /// response that is shorter.
    async fn skip(&mut self, mut remote: Remote<S::Body>) -> Result<Remote<S::Body>> {
        let file = Rc::clone(&self.file);
        let mut scratch = BufferOf::<S>::allocate(SCRATCH_BYTES.min(self.position - remote.position))?;
        while remote.position < self.position && remote.end != Some(remote.position) {
            let start = remote.position;
            let at = 0..scratch.byte_length().min(self.position - start);
            let count = self.with_timeout(|_| remote.read(&mut scratch, at, &file.stats).boxed_local()).await?;
            if count == 0 {
                return Err(truncated_error(0, start, self.end.get()));
            }
            let (tail, mut at) = (&self.tail, start);
            scratch.inspect(0..count, &mut |bytes| {
                file.check_known(at, bytes)?;
                tail.compare(at, bytes)?;
                at += bytes.len() as u64;
                Ok(())
            })?;
        }
        Ok(remote)
    }
}

/// The error for a part of a tensor that may be of another version than its other parts.
fn unproven(range: Range<u64>) -> Error {
    let what = "the server sent a part of a tensor without the strong ETag of the other parts, so that it may be of \
                another version";
    let advice = "Let all servers of the host send the same strong ETag for the same file, or none.";
    Error::new(ErrorKind::Changed, what).at(range).transient().advise(advice)
}
