//! The bytes of a range: what is kept comes from the cache, the rest from the server.

use super::ahead::Ahead;
use super::content::Place;
use super::keep::Keeper;
use super::{CachedFile, Version, overlap};
use crate::browser::lock::Lock;
use crate::browser::timer::pause;
use crate::cache::end_of_stretch;
use crate::error::Result;
use crate::source::js_buffer::JsBuffer;
use crate::source::stream::StreamBody;
use crate::source::{Answer, Buffer};
use js_sys::{ArrayBuffer, Uint8Array};
use std::ops::Range;
use std::rc::Rc;

/// How long to wait for bytes that another tab is fetching, since the last of them came. It may have been put to sleep:
/// then this one fetches them, too.
const PATIENCE_MS: u64 = 4_000;

/// How often to look whether they have come.
const LOOK_INTERVAL_MS: u64 = 50;

/// The bytes of a range on their way.
#[derive(Debug)]
pub struct CachedBody {
    file: Rc<CachedFile>,
    /// The version that is read: once there are bytes, no other follows.
    version: Option<Version>,
    position: u64,
    end: u64,
    now: Now,
    keeper: Keeper,
    ahead: Ahead,
    is_cached: bool,
}

#[derive(Debug)]
enum Now {
    Nothing,
    Kept(Chunk),
    Coming(Coming),
}

/// Bytes from the cache.
#[derive(Debug)]
struct Chunk {
    buffer: ArrayBuffer,
    left: Range<u32>,
}

/// Bytes from the server.
#[derive(Debug)]
struct Coming {
    body: StreamBody,
    /// From here on the cache has them.
    until: u64,
}

impl CachedBody {
    pub(super) async fn begin(file: Rc<CachedFile>, range: Range<u64>) -> Result<Answer<Self>> {
        // Beyond the end of the file the server is asked, which says so.
        let end = range.end.min(file.length().filter(|length| range.start < *length).unwrap_or(range.end));
        let keeper = Keeper::new(Rc::clone(&file));
        let (now, ahead, is_cached) = (Now::Nothing, Ahead::new(Rc::clone(&file)), false);
        let (version, position) = (file.version(), range.start);
        let mut body = CachedBody { file, version, position, end, now, keeper, ahead, is_cached };
        let found = body.find(true).await?;
        let asked = match (found, &body.version) {
            (None, Some(Version { identity, .. })) => {
                let identity = identity.clone();
                body.file.contents.begin(body.version.as_ref());
                body.end = body.end.min(identity.length.unwrap_or(body.end));
                let end = Some(body.end).filter(|end| identity.length.is_some_and(|length| *end <= length));
                let (start, file_length) = (range.start, identity.length);
                return Ok(Answer { start, end, file_length, is_whole_file: false, identity, body });
            }
            (asked, _) => asked.unwrap_or(range),
        };
        let (answer, version) = body.file.fetch(asked.clone()).await?;
        let Answer { start, end, file_length, is_whole_file, identity, body: stream } = answer;
        body.file.contents.begin(version.as_ref());
        body.version = version.clone();
        body.keeper.version = version;
        if is_whole_file {
            (body.position, body.end) = (0, end.unwrap_or(u64::MAX));
        }
        let until = if is_whole_file { body.end } else { asked.end };
        body.now = Now::Coming(Coming { body: stream, until });
        // Where less was asked for because the rest is kept, the body goes on with that.
        let end = if asked.end < body.end && !is_whole_file { Some(body.end) } else { end };
        Ok(Answer { start, end, file_length, is_whole_file, identity, body })
    }

    /// Whether the bytes that were read last came from the cache.
    pub fn is_cached(&self) -> bool {
        self.is_cached
    }

    /// As [`Body::read`](crate::source::Body::read).
    ///
    /// # Errors
    /// As for [`Body::read`](crate::source::Body::read), and `CHANGED` if the server has another version of
    /// the file now.
    pub async fn read(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        loop {
            match &mut self.now {
                Now::Kept(chunk) if chunk.is_what_goes_into(into, &at) => {
                    let replaced = std::mem::replace(&mut into.bytes, Uint8Array::new(&chunk.buffer));
                    self.ahead.reuse(&replaced);
                    self.now = Now::Nothing; // the buffer is the tensor's
                    self.position += at.end;
                    self.is_cached = true;
                    return Ok(at.end);
                }
                Now::Kept(chunk) if !chunk.left.is_empty() => {
                    let count = chunk.take(into, &at)?;
                    self.position += count;
                    self.is_cached = true;
                    return Ok(count);
                }
                Now::Coming(coming) if self.position < coming.until => {
                    let most = at.end.min(at.start.saturating_add(coming.until - self.position));
                    let count = coming.body.read(into, at.start..most).await?;
                    if count > 0 {
                        let bytes = into.bytes.subarray(at.start as u32, (at.start + count) as u32);
                        self.keeper.take(self.position, &bytes).await;
                        self.position += count;
                        self.is_cached = false;
                    }
                    return Ok(count);
                }
                _ if self.position >= self.end => return Ok(0),
                _ => self.go_on().await?,
            }
        }
    }

    /// Finds where the next bytes come from.
    async fn go_on(&mut self) -> Result<()> {
        if let Now::Kept(chunk) = std::mem::replace(&mut self.now, Now::Nothing) {
            self.file.cache.recycle(chunk.buffer);
        }
        let Some(asked) = self.find(false).await? else { return Ok(()) };
        let (answer, version) = overlap::continued(&self.file, asked.clone(), self.version.as_ref()).await?;
        self.keeper.version = version;
        let Answer { is_whole_file, body, .. } = answer;
        let until = if is_whole_file { self.end } else { asked.end };
        self.now = Now::Coming(Coming { body, until });
        Ok(())
    }

    /// Takes the next bytes from the cache, or says what to ask the server for. Where another tab is fetching the file,
    /// waits for what it keeps; where that may be another version than was known, `is_first` says whether it will do.
    async fn find(&mut self, is_first: bool) -> Result<Option<Range<u64>>> {
        let mut waited_ms = 0;
        loop {
            let looked = self.look().await.inspect_err(|error| self.file.give_up(error));
            if looked != Ok(None)
                && let Some(version) = self.version.take_if(|version| version.elsewhere.is_some())
            {
                self.file.lose(&version).await?;
                self.version = self.file.version();
                continue;
            }
            let missing = match looked {
                Ok(None) => return Ok(None),
                Ok(Some(missing)) => missing,
                Err(_) => return Ok(Some(self.position..self.end)),
            };
            if self.file.is_quiet.get() || self.keeper.lease.is_some() {
                return Ok(Some(missing));
            }
            let own = self.file.lease.borrow().upgrade();
            if own.is_some() {
                self.keeper.lease = own;
                return Ok(Some(missing));
            }
            match Lock::try_now(&self.file.lease_name()).await {
                Ok(Some(lock)) => {
                    let lease = Rc::new(lock);
                    *self.file.lease.borrow_mut() = Rc::downgrade(&lease);
                    self.keeper.lease = Some(lease);
                    if waited_ms == 0 {
                        return Ok(Some(missing));
                    }
                }
                Ok(None) if waited_ms < PATIENCE_MS => {
                    pause(LOOK_INTERVAL_MS).await;
                    waited_ms += LOOK_INTERVAL_MS;
                }
                _ => return Ok(Some(missing)),
            }
            if is_first && self.version.is_none() {
                self.file.look_up().await?;
                self.version = self.file.version();
            }
        }
    }

    /// Takes the next bytes from the cache, of this file or of another that has the same; the stretch that is missing
    /// where there are none.
    async fn look(&mut self) -> Result<Option<Range<u64>>> {
        let Some(missing) = self.look_here().await? else { return Ok(None) };
        self.file.contents.locate(&self.file).await?;
        if let Some(Place { key, version, range }) = self.file.contents.find(self.position) {
            let end = range.end.min(range.start.saturating_add(self.end - self.position));
            let cache = &self.file.cache;
            let stretch = range.start..end.min(end_of_stretch(range.start));
            let (count, _, buffer) = cache.read(&key, &version, stretch, end, cache.stretch()).bytes().await?;
            if count > 0 {
                self.file.contents.note_use(self.position);
                self.now = Now::Kept(Chunk { buffer, left: 0..count as u32 });
                return Ok(None);
            }
            self.file.cache.recycle(buffer);
            self.file.contents.forget(self.position);
        }
        Ok(Some(missing.start..self.file.contents.cut(missing)))
    }

    async fn look_here(&mut self) -> Result<Option<Range<u64>>> {
        let Some(version) = &self.version else { return Ok(Some(self.position..self.end)) };
        let (count, next, buffer) = self.ahead.reply(version, self.position..self.end).bytes().await?;
        if count == 0 {
            self.file.cache.recycle(buffer);
            return Ok(Some(self.position..next.clamp(self.position + 1, self.end)));
        }
        self.ahead.ask(version, next..self.end);
        self.now = Now::Kept(Chunk { buffer, left: 0..count as u32 });
        Ok(None)
    }
}

impl Chunk {
    /// Whether its buffer can take the place of that of `into`, which has nothing in it yet.
    fn is_what_goes_into(&self, into: &JsBuffer, at: &Range<u64>) -> bool {
        let all = 0..self.buffer.byte_length();
        into.is_ours() && self.left == all && *at == (0..u64::from(all.end)) && into.byte_length() == at.end
    }

    /// Copies the next bytes, and says how many.
    fn take(&mut self, into: &JsBuffer, at: &Range<u64>) -> Result<u64> {
        let count = u64::from(self.left.end - self.left.start).min(at.end - at.start);
        let bytes = Uint8Array::new_with_byte_offset_and_length(&self.buffer, self.left.start, count as u32);
        into.put(at.start, &bytes)?; // the caller may have detached its memory
        self.left.start += count as u32;
        Ok(count)
    }
}
