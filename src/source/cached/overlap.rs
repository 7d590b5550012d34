//! Whether what the server sends continues what is cached. Where no strong ETag proves it, the last cached bytes are
//! requested once more and compared: halves of two versions must never be joined.

use super::{CachedFile, Version};
use crate::cache::end_of_stretch;
use crate::error::{Error, ErrorKind, Result};
use crate::source::js_buffer::JsBuffer;
use crate::source::stream::StreamBody;
use crate::source::{Answer, Buffer};
use js_sys::Uint8Array;
use std::ops::Range;

/// How many cached bytes are compared: half as many after each failure, so that a line that breaks within them still
/// gets further.
pub(super) const OVERLAP_BYTES: u64 = 64 << 10;
const LEAST_OVERLAP_BYTES: u64 = 256;

/// What a server that ignores ranges sends before the bytes that are wanted passes through a buffer of this size.
const SCRATCH_BYTES: u64 = 256 << 10;

/// The last cached bytes before those that are requested.
struct Known {
    start: u64,
    bytes: JsBuffer,
}

/// Requests `asked`, which continues bytes of the version `cached`, if that is known. The body begins where `asked`
/// does.
///
/// # Errors
/// `CHANGED` where the server says, or its bytes show, that the file is another; those of the network.
pub(super) async fn continued(
    file: &CachedFile,
    asked: Range<u64>,
    cached: Option<&Version>,
) -> Result<(Answer<StreamBody>, Option<Version>)> {
    let Some(cached) = cached else {
        let (answer, version) = file.fetch(asked.clone()).await?;
        return pass_over(file, answer, asked.start, None).await.map(|answer| (answer, version));
    };
    if cached.identity.etag.is_some() {
        let (answer, version) = file.fetch(asked.clone()).await?;
        if answer.identity.etag == cached.identity.etag {
            return pass_over(file, answer, asked.start, None).await.map(|answer| (answer, version));
        }
        check_identity(&answer, cached)?;
    }
    let known = known_before(file, asked.start, cached).await?;
    let from = known.as_ref().map_or(asked.start, |known| known.start);
    let (answer, version) = file.fetch(from..asked.end).await?;
    check_identity(&answer, cached)?;
    let passed = pass_over(file, answer, asked.start, known.as_ref()).await.inspect_err(|_| {
        file.overlap_bytes.set((file.overlap_bytes.get() / 2).max(LEAST_OVERLAP_BYTES));
    });
    Ok((passed?, version))
}

fn check_identity(answer: &Answer<StreamBody>, cached: &Version) -> Result<()> {
    match answer.identity.change_since(&cached.identity) {
        Some(change) => Err(Error::new(ErrorKind::Changed, format!("the file changed while it was loaded: {change}"))),
        None => Ok(()),
    }
}

/// The cached bytes that end at `end`, as many as are compared; `None` where they are not there any more.
async fn known_before(file: &CachedFile, end: u64, cached: &Version) -> Result<Option<Known>> {
    let mut start = end.saturating_sub(file.overlap_bytes.get());
    while start < end {
        let range = start..end.min(end_of_stretch(start));
        let reply = file.cache.read(cached.key(file), &cached.name, range, end, file.cache.stretch());
        let (count, next, buffer) = reply.bytes().await?;
        if count > 0 && start + count == end {
            let bytes = JsBuffer::owned(Uint8Array::new(&buffer).slice(0, count as u32));
            file.cache.recycle(buffer);
            return Ok(Some(Known { start, bytes }));
        }
        file.cache.recycle(buffer);
        start = (start + count).max(next).max(start + 1);
    }
    Ok(None)
}

/// Reads a body on to `position`, comparing what is known on the way.
async fn pass_over(
    file: &CachedFile,
    mut answer: Answer<StreamBody>,
    position: u64,
    known: Option<&Known>,
) -> Result<Answer<StreamBody>> {
    let mut scratch = JsBuffer::allocate(SCRATCH_BYTES.min(position.saturating_sub(answer.start)))?;
    while answer.start < position {
        let at = 0..scratch.byte_length().min(position - answer.start);
        let count = answer.body.read(&mut scratch, at).await?;
        if count == 0 {
            let what = format!("the transfer ended at byte {}, before byte {position}", answer.start);
            return Err(Error::new(ErrorKind::Truncated, what).at(answer.start..position).transient());
        }
        if let Some(known) = known
            && !known.is_continued_by(answer.start, &scratch, count)?
        {
            file.reject(); // or every later load would fail for the same reason
            let what = "the file changed while it was loaded: the server sends other bytes than those that are cached";
            return Err(Error::new(ErrorKind::Changed, what).at(answer.start..position));
        }
        answer.start += count;
    }
    Ok(answer)
}

impl Known {
    /// Whether the first `count` of `bytes`, which begin at `start` in the file, are what is known there.
    fn is_continued_by(&self, start: u64, bytes: &JsBuffer, count: u64) -> Result<bool> {
        let both = start.max(self.start)..(start + count).min(self.start + self.bytes.byte_length());
        if both.is_empty() {
            return Ok(true);
        }
        let collect = |buffer: &JsBuffer, from: u64| {
            let mut collected = Vec::new();
            buffer.inspect(both.start - from..both.end - from, &mut |piece| {
                collected.extend_from_slice(piece);
                Ok(())
            })?;
            Ok::<_, Error>(collected)
        };
        Ok(collect(bytes, start)? == collect(&self.bytes, self.start)?)
    }
}
