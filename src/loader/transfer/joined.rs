//! Files of raw bytes that follow each other, read as one file.
//!
//! Each of them is read like any other file: its responses are of one version, a broken connection is resumed, and the
//! signature is compared. The length of each must be known before any byte can be found.

use super::file::ModelFile;
use super::range_reader::RangeReader;
use super::remote::{Joined, Proof, Remote};
use super::truncated::truncated_error;
use super::unpack::FileBody;
use crate::algorithm::Algorithm;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Part;
use crate::retry::RetryPolicy;
use crate::source::{Buffer, BufferOf, ModelSource, ReadBody, Source};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::rc::Rc;

/// The number of files whose lengths are requested at the same time: as many connections as browsers open to a host.
const LENGTHS_AT_ONCE: usize = 6;

/// Each file has its own time limit: this one only ends a read that nothing else ends. Timers of browsers have 31 bits.
const STALL_MS: u64 = 24 * 3600 * 1000;

/// How reads of all files together are repeated: not at all, because those of each file are.
fn retry_policy() -> RetryPolicy {
    RetryPolicy { max_attempts: 0, stall_ms: STALL_MS, ..RetryPolicy::default() }
}

/// Files whose bytes follow each other.
struct JoinedFiles<S: Source> {
    files: Vec<Rc<ModelFile<S>>>,
    /// The end of each file in all bytes, once the lengths are known.
    ends: OnceCell<Vec<u64>>,
}

/// The file that `file` names `first`, with the bytes of all `files`.
///
/// # Errors
/// Those of the source, for a name of a file that it cannot have.
pub(crate) fn join<S: ModelSource>(
    file: &ModelFile<S>,
    first: &Part,
    files: Vec<ModelFile<S>>,
) -> Result<ModelFile<S>> {
    let files = files.into_iter().map(Rc::new).collect();
    file.joined(first, Rc::new(JoinedFiles { files, ends: OnceCell::new() }), retry_policy())
}

impl<S: Source> Joined<S::Body> for JoinedFiles<S> {
    fn request(self: Rc<Self>, range: Range<u64>) -> LocalBoxFuture<'static, Result<(Remote<S::Body>, u64)>> {
        let request = async move {
            let length = self.length().await?;
            let end = range.end.min(length);
            let body = JoinedBody { files: self, reader: None, left: range.start.min(end)..end };
            let body = FileBody::Joined(Box::new(body));
            let (position, end, proof) = (range.start, Some(end), Proof::Strong);
            Ok((Remote { body, position, end, is_from_start: false, proof }, length))
        };
        request.boxed_local()
    }

    fn keep_one_version(&self) {
        self.files.iter().for_each(|file| file.keep_one_version());
    }

    fn signed_by(&self) -> Option<Algorithm> {
        self.files.first()?.signed_by()
    }
}

impl<S: Source> JoinedFiles<S> {
    /// The length of all files together.
    async fn length(&self) -> Result<u64> {
        if self.ends.get().is_none() {
            let learning = stream::iter(&self.files).map(|file| length_of(Rc::clone(file)));
            let lengths: Vec<u64> = learning.buffered(LENGTHS_AT_ONCE).try_collect().await?;
            let mut end = 0u64;
            let ends = lengths.into_iter().map(|length| {
                end = end.saturating_add(length);
                end
            });
            self.ends.set(ends.collect()).ok(); // another call may have learnt the same
        }
        Ok(self.ends.get().and_then(|ends| ends.last().copied()).unwrap_or(0))
    }

    /// A reader of the bytes of `range` that are in the same file as the first of them.
    fn reader(&self, range: &Range<u64>) -> Option<RangeReader<S>> {
        let ends = self.ends.get()?;
        let number = ends.partition_point(|end| *end <= range.start);
        let (file, end) = (self.files.get(number)?, ends.get(number)?);
        let start = number.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
        let range = range.start - start..range.end.min(*end) - start;
        Some(file.start(range.clone(), Rc::new(Cell::new(range.end))))
    }
}

/// Requests the start of a file, whose response states its length.
async fn length_of<S: Source>(file: Rc<ModelFile<S>>) -> Result<u64> {
    file.learn_length().await?;
    file.length().ok_or_else(|| {
        let what = "the server does not state the length of this file, which begins a part of the tensors' bytes";
        let error = Error::new(ErrorKind::Unsupported, what).in_file(file.source.name());
        error.advise("Let the server answer Range requests, or write the weights to one file.")
    })
}

/// A range of files whose bytes follow each other.
struct JoinedBody<S: Source> {
    files: Rc<JoinedFiles<S>>,
    reader: Option<RangeReader<S>>,
    /// The range that was not read yet.
    left: Range<u64>,
}

impl<S: Source> JoinedBody<S> {
    async fn read_some(&mut self, into: &mut BufferOf<S>, at: Range<u64>) -> Result<u64> {
        while !self.left.is_empty() {
            let Some(reader) = &mut self.reader else {
                self.reader = self.files.reader(&self.left);
                match self.reader {
                    Some(_) => continue,
                    None => break,
                }
            };
            if reader.position == reader.end() {
                self.reader = None;
                continue;
            }
            let limit = (at.end - at.start).min(reader.end() - reader.position);
            let Some(chunk) = reader.chunk(limit).await? else { break };
            into.copy(at.start, chunk.buffer, 0..chunk.length)?;
            self.left.start += chunk.length;
            return Ok(chunk.length);
        }
        match self.left.is_empty() {
            true => Ok(0),
            false => Err(truncated_error(self.left.start, self.left.start, self.left.end)),
        }
    }
}

impl<S: Source> ReadBody<BufferOf<S>> for JoinedBody<S> {
    fn read<'a>(&'a mut self, into: &'a mut BufferOf<S>, at: Range<u64>) -> LocalBoxFuture<'a, Result<u64>> {
        self.read_some(into, at).boxed_local()
    }
}
