//! The body of a range: cached bytes come from the cache, the others from the server.

use super::content::Location;
use super::file::CachedFile;
use super::lease::active;
use super::overlap;
use super::read_ahead::ReadAhead;
use super::version::Version;
use super::writer::CacheWriter;
use crate::browser::timer::pause;
use crate::cache::end_of_read;
use crate::error::Result;
use crate::source::js_buffer::JsBuffer;
use crate::source::stream::StreamBody;
use crate::source::{Body, Buffer, RangeResponse};
use js_sys::{ArrayBuffer, Uint8Array};
use std::ops::Range;
use std::rc::Rc;

/// How long to wait for the next bytes that another tab is downloading. After this time, this tab downloads the rest of
/// the file, too: the browser may have suspended the other tab, which writes what it receives at least once a second.
const PEER_WAIT_MS: u64 = 3_000;

/// Interval at which the cache is checked for these bytes.
const POLL_INTERVAL_MS: u64 = 50;

/// The body of a range of a cached file.
#[derive(Debug)]
pub(crate) struct CachedBody {
    file: Rc<CachedFile>,
    /// The version of the file. It does not change after the first byte.
    version: Option<Version>,
    position: u64,
    end: u64,
    segment: Segment,
    writer: CacheWriter,
    read_ahead: ReadAhead,
    is_cached: bool,
}

#[derive(Debug)]
enum Segment {
    None,
    Cached(Chunk),
    /// Bytes of a file of the previous revision, which are cached for this file, too.
    Copied(Chunk),
    Network(Transfer),
}

/// Bytes from the cache.
#[derive(Debug)]
struct Chunk {
    buffer: ArrayBuffer,
    left: Range<u32>,
}

/// Bytes from the server.
#[derive(Debug)]
struct Transfer {
    body: StreamBody,
    /// End of the range that was requested; the cache contains the bytes after it.
    until: u64,
}

/// A request of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    /// The first one, which may adopt the version that another tab downloads.
    First,
    /// A later one, for bytes of the same version.
    Next,
}

impl CachedBody {
    pub(super) async fn start(file: Rc<CachedFile>, range: Range<u64>) -> Result<RangeResponse<Self>> {
        // For a range beyond the end of the file, the server reports the error.
        let end = range.end.min(file.length().filter(|length| range.start < *length).unwrap_or(range.end));
        let writer = CacheWriter::new(Rc::clone(&file));
        let (segment, read_ahead, is_cached) = (Segment::None, ReadAhead::new(Rc::clone(&file)), false);
        let (version, position) = (file.version(), range.start);
        let mut body = CachedBody { file, version, position, end, segment, writer, read_ahead, is_cached };
        let found = body.next_request(Request::First).await?;
        let requested = match (found, &body.version) {
            (None, Some(Version { identity, .. })) => {
                let identity = identity.clone();
                body.file.contents.set_version(body.version.as_ref());
                body.end = body.end.min(identity.length.unwrap_or(body.end));
                let end = Some(body.end).filter(|end| identity.length.is_some_and(|length| *end <= length));
                let (start, file_length) = (range.start, identity.length);
                return Ok(RangeResponse {
                    end,
                    file_length,
                    is_cached: true,
                    identity,
                    ..RangeResponse::new(start, body)
                });
            }
            (requested, _) => requested.unwrap_or(range),
        };
        let (answer, version) = active(body.writer.lease.as_ref(), body.file.fetch(requested.clone())).await?;
        let RangeResponse { start, end, file_length, is_whole_file, is_page, identity, body: stream, .. } = answer;
        body.file.contents.set_version(version.as_ref());
        body.version = version.clone();
        body.writer.version = version;
        if is_whole_file {
            (body.position, body.end) = (0, end.unwrap_or(u64::MAX));
        }
        let until = if is_whole_file { body.end } else { end_of_response(&requested, end, file_length) };
        body.segment = Segment::Network(Transfer { body: stream, until });
        // If the response is shorter because the rest is cached or was not sent, the body continues with the rest.
        let continued = body.end.min(file_length.unwrap_or(u64::MAX));
        let end = if until < continued && !is_whole_file { Some(continued) } else { end };
        Ok(RangeResponse { end, file_length, is_whole_file, is_page, identity, ..RangeResponse::new(start, body) })
    }

    /// Goes on with a response to a request for `range`, of which the bytes before `position` were read already.
    #[cfg(feature = "js")]
    pub(super) fn resume(
        file: Rc<CachedFile>,
        range: &Range<u64>,
        response: &RangeResponse<()>,
        stream: StreamBody,
        position: u64,
        writer: CacheWriter,
    ) -> Self {
        let version = writer.version.clone();
        let end = response.end.unwrap_or(if response.is_whole_file { u64::MAX } else { range.end });
        let segment = Segment::Network(Transfer { body: stream, until: end });
        let read_ahead = ReadAhead::new(Rc::clone(&file));
        CachedBody { file, version, position, end, segment, writer, read_ahead, is_cached: false }
    }

    /// Whether the last read returned bytes from the cache.
    pub(crate) fn is_cached(&self) -> bool {
        self.is_cached
    }

    /// Implements [`Body::read`](crate::source::Body::read).
    ///
    /// # Errors
    /// Those of [`Body::read`](crate::source::Body::read), and `CHANGED` if the server has another version of the file.
    pub(crate) async fn read(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        loop {
            match &mut self.segment {
                Segment::Cached(chunk) if chunk.can_replace(into, &at) => {
                    let replaced = std::mem::replace(&mut into.bytes, Uint8Array::new(&chunk.buffer));
                    self.read_ahead.reuse(&replaced);
                    self.segment = Segment::None; // `into` owns the buffer now
                    self.position += at.end;
                    self.is_cached = true;
                    return Ok(at.end);
                }
                Segment::Cached(chunk) if !chunk.left.is_empty() => {
                    let count = chunk.take(into, &at)?;
                    self.position += count;
                    self.is_cached = true;
                    return Ok(count);
                }
                Segment::Copied(chunk) if !chunk.left.is_empty() => {
                    let count = chunk.take(into, &at)?;
                    self.keep(into, at.start, count).await;
                    self.is_cached = true;
                    return Ok(count);
                }
                Segment::Network(transfer) if self.position < transfer.until => {
                    let limit = at.end.min(at.start.saturating_add(transfer.until - self.position));
                    if self.writer.lease.as_ref().is_some_and(|lease| !lease.is_held()) {
                        // The download was paused. If another tab has the lease now, both go on.
                        self.writer.lease = self.file.try_lease().await.unwrap_or_default();
                    }
                    let lease = self.writer.lease.clone();
                    let count = active(lease.as_ref(), transfer.body.read(into, at.start..limit)).await?;
                    if count > 0 {
                        into.check_attached()?; // the caller may have detached its memory
                        active(lease.as_ref(), self.keep(into, at.start, count)).await;
                        self.is_cached = false;
                    }
                    return Ok(count);
                }
                _ if self.position >= self.end => return Ok(0),
                _ => self.advance().await?,
            }
        }
    }

    /// Caches the next bytes, which are in `into`, and advances the position.
    pub(super) async fn keep(&mut self, into: &JsBuffer, start: u64, count: u64) {
        let bytes = into.bytes.subarray(start as u32, (start + count) as u32);
        self.writer.push(self.position, &bytes).await;
        self.position += count;
    }

    /// Selects the source of the next bytes, and sends a request if they are not cached.
    async fn advance(&mut self) -> Result<()> {
        if let Segment::Cached(chunk) | Segment::Copied(chunk) = std::mem::replace(&mut self.segment, Segment::None) {
            self.file.cache.recycle(chunk.buffer);
        }
        let Some(requested) = self.next_request(Request::Next).await? else { return Ok(()) };
        let continuation = overlap::request_continuation(&self.file, requested.clone(), self.version.as_ref());
        let (answer, version) = active(self.writer.lease.as_ref(), continuation).await?;
        self.writer.version = version;
        let RangeResponse { is_whole_file, end, file_length, body, .. } = answer;
        let until = if is_whole_file { self.end } else { end_of_response(&requested, end, file_length) };
        self.segment = Segment::Network(Transfer { body, until });
        Ok(())
    }

    /// Reads the next bytes from the cache, or returns the range to request from the server. If another tab is
    /// downloading the file, waits for the bytes that it caches.
    async fn next_request(&mut self, request: Request) -> Result<Option<Range<u64>>> {
        let mut waited_ms = 0;
        loop {
            let outcome = self.read_cache().await.inspect_err(|error| self.file.disable_writes(error));
            if outcome != Ok(None)
                && let Some(version) = self.version.take_if(|version| version.other_key.is_some())
            {
                self.file.handle_missing_bytes(&version).await?;
                self.version = self.file.version();
                continue;
            }
            let missing = match outcome {
                Ok(None) => return Ok(None),
                Ok(Some(missing)) => missing,
                Err(_) => return Ok(Some(self.position..self.end)),
            };
            let has_lease = self.writer.lease.as_ref().is_some_and(|lease| lease.is_held());
            if self.file.writes_disabled.get() || has_lease {
                return Ok(Some(missing));
            }
            match self.file.try_lease().await {
                Ok(Some(lease)) => {
                    self.writer.lease = Some(lease);
                    if waited_ms == 0 {
                        return Ok(Some(missing));
                    }
                }
                Ok(None) if waited_ms < PEER_WAIT_MS && !self.file.is_peer_stalled.get() => {
                    pause(POLL_INTERVAL_MS).await;
                    waited_ms += POLL_INTERVAL_MS;
                }
                Ok(None) => {
                    self.file.is_peer_stalled.set(true);
                    return Ok(Some(missing));
                }
                Err(_) => return Ok(Some(missing)),
            }
            if request == Request::First && self.version.is_none() {
                self.file.look_up().await?;
                self.version = self.file.version();
            }
        }
    }

    /// Reads the next bytes from the cache: those of this file, or of another file with the same content. Returns the
    /// gap if they are not cached.
    async fn read_cache(&mut self) -> Result<Option<Range<u64>>> {
        let Some(missing) = self.read_own_file().await? else { return Ok(None) };
        self.file.contents.locate().await?;
        let same = self.file.contents.find(self.position);
        let is_copy = same.is_none();
        // Copied bytes are cached under the version of this file, which the server has stated.
        let version = self.version.clone().filter(|version| version.other_key.is_none());
        if is_copy && version.is_some() {
            self.file.previous.locate(&self.file.cache).await?;
        }
        let previous = version.as_ref().and_then(|_| self.file.previous.find(self.position));
        if let Some(Location { key, version: other, range }) = same.or(previous) {
            let end = range.end.min(range.start.saturating_add(self.end - self.position));
            let cache = &self.file.cache;
            let first = range.start..end.min(end_of_read(range.start));
            let (count, next, buffer) = cache.read(&key, &other, first, end, cache.read_buffer()).bytes().await?;
            let chunk = Chunk { buffer, left: 0..count as u32 };
            match (count, is_copy) {
                (0, true) => self.file.previous.skip(self.position, next.saturating_sub(range.start)),
                (0, false) => self.file.contents.remove_location(self.position),
                (_, true) => {
                    self.file.previous.mark_used(self.position);
                    self.writer.version = version;
                    self.segment = Segment::Copied(chunk);
                    return Ok(None);
                }
                (_, false) => {
                    self.file.contents.mark_used(self.position);
                    self.segment = Segment::Cached(chunk);
                    return Ok(None);
                }
            }
            cache.recycle(chunk.buffer);
        }
        let mut missing = missing.start..self.file.contents.request_end(missing);
        if version.is_some() {
            missing.end = self.file.previous.request_end(missing.clone());
        }
        Ok(Some(missing))
    }

    async fn read_own_file(&mut self) -> Result<Option<Range<u64>>> {
        let Some(version) = &self.version else { return Ok(Some(self.position..self.end)) };
        let (count, next, buffer) = self.read_ahead.reply(version, self.position..self.end).bytes().await?;
        if count == 0 {
            self.file.cache.recycle(buffer);
            return Ok(Some(self.position..next.clamp(self.position + 1, self.end)));
        }
        self.read_ahead.start_reads(version, next..self.end);
        self.segment = Segment::Cached(Chunk { buffer, left: 0..count as u32 });
        Ok(None)
    }
}

/// The end of the bytes that a response contains, which a server may choose below the end of the request. After the
/// end of the file, nothing more is requested.
fn end_of_response(requested: &Range<u64>, end: Option<u64>, file_length: Option<u64>) -> u64 {
    match (end, file_length) {
        (Some(end), Some(length)) if end < length => end.min(requested.end),
        _ => requested.end,
    }
}

impl Chunk {
    /// Whether the buffer of this chunk can replace that of `into`, which is still unused.
    fn can_replace(&self, into: &JsBuffer, at: &Range<u64>) -> bool {
        let all = 0..self.buffer.byte_length();
        into.is_ours() && self.left == all && *at == (0..u64::from(all.end)) && into.byte_length() == at.end
    }

    /// Copies the next bytes to `into`, and returns their number.
    fn take(&mut self, into: &JsBuffer, at: &Range<u64>) -> Result<u64> {
        let count = u64::from(self.left.end - self.left.start).min(at.end - at.start);
        let bytes = Uint8Array::new_with_byte_offset_and_length(&self.buffer, self.left.start, count as u32);
        into.put(at.start, &bytes)?; // the caller may have detached its memory
        self.left.start += count as u32;
        Ok(count)
    }
}
