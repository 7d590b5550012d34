//! Checks that a response continues the cached bytes. Without a strong ETag, the last cached bytes are requested again
//! and compared, so that bytes of two versions are never mixed.

use super::file::CachedFile;
use super::version::Version;
use crate::cache::end_of_read;
use crate::error::{Error, ErrorKind, Result};
use crate::source::js_buffer::JsBuffer;
use crate::source::stream::StreamBody;
use crate::source::{Body, Buffer, RangeResponse};
use js_sys::Uint8Array;
use std::ops::Range;

/// [`CachedFile::overlap_bytes`] is not halved below this.
const MIN_OVERLAP_BYTES: u64 = 256;

/// Size of the buffer for skipped bytes, which servers that ignore Range send before the requested ones.
const SCRATCH_BYTES: u64 = 256 << 10;

/// The last cached bytes before those that are requested.
struct KnownBytes {
    start: u64,
    bytes: JsBuffer,
}

/// Requests `requested`, which continues bytes of the version `cached`, if that is known. The body starts at the start
/// of `requested`.
///
/// # Errors
/// `CHANGED` if the headers or the bytes show that the file has changed; those of the network.
pub(super) async fn request_continuation(
    file: &CachedFile,
    requested: Range<u64>,
    cached: Option<&Version>,
) -> Result<(RangeResponse<StreamBody>, Option<Version>)> {
    let Some(cached) = cached else {
        let (answer, version) = file.fetch(requested.clone()).await?;
        return skip_to(file, answer, requested.start, None).await.map(|answer| (answer, version));
    };
    if cached.identity.etag.is_some() {
        let (answer, version) = file.fetch(requested.clone()).await?;
        if answer.identity.etag == cached.identity.etag {
            return skip_to(file, answer, requested.start, None).await.map(|answer| (answer, version));
        }
        check_identity(&answer, cached)?;
    }
    let known = read_known(file, requested.start, cached).await?;
    let from = known.as_ref().map_or(requested.start, |known| known.start);
    let (answer, version) = file.fetch(from..requested.end).await?;
    check_identity(&answer, cached)?;
    let passed = skip_to(file, answer, requested.start, known.as_ref()).await.inspect_err(|_| {
        file.overlap_bytes.set((file.overlap_bytes.get() / 2).max(MIN_OVERLAP_BYTES));
    });
    Ok((passed?, version))
}

fn check_identity(answer: &RangeResponse<StreamBody>, cached: &Version) -> Result<()> {
    match answer.identity.change_since(&cached.identity) {
        Some(change) => Err(Error::new(ErrorKind::Changed, format!("the file changed while it was loaded: {change}"))),
        None => Ok(()),
    }
}

/// Returns the cached bytes to compare, which end at `end`. `None` if they are no longer cached.
async fn read_known(file: &CachedFile, end: u64, cached: &Version) -> Result<Option<KnownBytes>> {
    let mut start = end.saturating_sub(file.overlap_bytes.get());
    while start < end {
        let range = start..end.min(end_of_read(start));
        let reply = file.cache.read(cached.key(&file.key), &cached.name, range, end, file.cache.read_buffer());
        let (count, next, buffer) = reply.bytes().await?;
        if count > 0 && start + count == end {
            let bytes = JsBuffer::owned(Uint8Array::new(&buffer).slice(0, count as u32));
            file.cache.recycle(buffer);
            return Ok(Some(KnownBytes { start, bytes }));
        }
        file.cache.recycle(buffer);
        start = (start + count).max(next).max(start + 1);
    }
    Ok(None)
}

/// Skips a body up to `position`, and compares the skipped bytes with `known`.
async fn skip_to(
    file: &CachedFile,
    mut answer: RangeResponse<StreamBody>,
    position: u64,
    known: Option<&KnownBytes>,
) -> Result<RangeResponse<StreamBody>> {
    let mut scratch = JsBuffer::allocate(SCRATCH_BYTES.min(position.saturating_sub(answer.start)))?;
    while answer.start < position {
        let at = 0..scratch.byte_length().min(position - answer.start);
        let count = answer.body.read(&mut scratch, at).await?;
        if count == 0 {
            let what = format!("the transfer ended at byte {}, before byte {position}", answer.start);
            return Err(Error::new(ErrorKind::Truncated, what).at(answer.start..position).transient());
        }
        if let Some(known) = known
            && !known.matches(answer.start, &scratch, count)?
        {
            file.reject(); // otherwise every later load would fail for the same reason
            let what = "the file changed while it was loaded: the server's bytes differ from the cached ones";
            return Err(Error::new(ErrorKind::Changed, what).at(answer.start..position));
        }
        answer.start += count;
    }
    Ok(answer)
}

impl KnownBytes {
    /// Whether the first `count` bytes of `bytes`, at the offset `start` of the file, equal the known bytes.
    fn matches(&self, start: u64, bytes: &JsBuffer, count: u64) -> Result<bool> {
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
