//! A file at a URL that Cross-Origin Storage may have, which all sites share.
//!
//! Any site may have stored a file there, and the browser need not have compared it. All of it is therefore read and
//! compared with its SHA-256 before a byte is passed on; any other file is as if there were none. A file that was not
//! there is stored once all its bytes were read: from this site's own cache, because Cross-Origin Storage takes whole
//! files only, and an interrupted download must go on after a reload.

mod storage;

use super::blob::BlobSource;
use super::cached::CachedSource;
use super::coverage::Coverage;
use super::js_buffer::JsBuffer;
use super::web::{SharedBody, SharedFile, WebBody, WebSource};
use super::{Body, Buffer, CacheHints, RangeResponse, Source};
use crate::browser::timer::pause;
use crate::cache::pending;
use crate::codec::digest::{self, Hasher};
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use futures::future::{FutureExt, LocalBoxFuture};
use futures::lock::Mutex;
use js_sys::Uint8Array;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use storage::Storage;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;

/// The size of the buffer through which a file is compared.
const SCRATCH_BYTES: u64 = 1 << 20;

/// How often and how long to wait for bytes that were read to be written to the cache, which writes them at the latest
/// after a second.
const MAX_WAITS: u32 = 20;
const WAIT_MS: u64 = 250;

/// Reads the file of `own` from Cross-Origin Storage if that has it, by an object of `cache/cross_origin_storage.js`.
#[inline(never)] // so that its code is deferred
pub(super) fn opened(own: WebSource, object: &JsValue) -> WebSource {
    match Storage::new(object) {
        Some(storage) => WebSource::shared(Rc::new(CrossOriginFile::new(own, storage))),
        None => own,
    }
}

struct CrossOriginFile {
    /// The file at its URL, with its cache.
    own: WebSource,
    storage: Storage,
    /// The SHA-256 of the whole file, if it is known.
    digest: Cell<Option<Digest>>,
    /// Whether the storage was asked. Held while it is.
    is_asked: Mutex<bool>,
    found: RefCell<Option<BlobSource>>,
    /// Whether bytes of the file in the storage were passed on.
    was_read: Cell<bool>,
    /// The bytes that were read from the URL or the cache; `None` once the file is complete.
    coverage: RefCell<Option<Coverage>>,
}

impl CrossOriginFile {
    fn new(own: WebSource, storage: Storage) -> Self {
        let (digest, is_asked, found, was_read) = Default::default();
        let coverage = RefCell::new(storage.is_written.then(Coverage::default));
        CrossOriginFile { own, storage, digest, is_asked, found, was_read, coverage }
    }

    /// Requests a range of the file in the storage, or else of the one at the URL.
    async fn request(self: Rc<Self>, range: Range<u64>) -> Result<RangeResponse<WebBody>> {
        self.ask_once().await;
        let found = self.found.borrow().clone();
        let (answer, is_found) = match found.map(|found| found.read(range.clone())) {
            Some(Ok(answer)) => (answer.map(WebBody::of_stream), true),
            other => {
                if let Some(Err(error)) = other {
                    self.lose(&error);
                }
                if self.was_read.get() {
                    // The file at the URL may be another one, and nothing compares the two.
                    let what = "the file in Cross-Origin Storage, of which a part was read, cannot be read any more";
                    return Err(Error::new(ErrorKind::Changed, what).advise("Open the model again."));
                }
                (self.own.read(range).boxed_local().await?, false)
            }
        };
        let (position, length) = (answer.start, answer.file_length);
        let shared = |body| CrossOriginBody { file: self, body, position, length, is_found };
        Ok(answer.map(|body| WebBody::shared(Box::new(shared(body)))))
    }

    /// Asks the storage before the first read.
    async fn ask_once(&self) {
        let mut is_asked = self.is_asked.lock().await;
        if !*is_asked {
            *self.found.borrow_mut() = self.find().boxed_local().await;
            *is_asked = true;
        }
    }

    async fn find(&self) -> Option<BlobSource> {
        let Some(digest) = self.digest.get() else {
            self.storage.count_unknown();
            return None;
        };
        if self.own.is_private() {
            self.coverage.take();
            self.storage.note("files that are requested with headers, credentials or a token are not shared");
            return None;
        }
        if self.own.holds(&digest).await {
            return None; // it need not be compared again
        }
        let found = BlobSource::new(self.storage.find(&digest.to_string()).await?);
        match compare(&found, digest).await {
            Ok(()) => {
                self.storage.accept();
                Some(found)
            }
            Err(error) => {
                self.storage.note(&format!("the file in Cross-Origin Storage is not used: {}", error.what));
                None
            }
        }
    }

    /// Goes on without a file that was found, because it can no longer be read.
    fn lose(&self, error: &Error) {
        if self.found.take().is_some() {
            self.storage.note(&format!("the file in Cross-Origin Storage cannot be read: {}", error.what));
        }
    }

    /// States that bytes were read from the URL or the cache. The last ones begin to store the file.
    fn add(self: &Rc<Self>, range: Range<u64>, length: Option<u64>) {
        let mut coverage = self.coverage.borrow_mut();
        let (Some(read), Some(digest)) = (&mut *coverage, self.digest.get()) else { return };
        read.insert(range);
        if let Some(length) = length.filter(|length| read.is_whole(*length)) {
            *coverage = None;
            let file = Rc::clone(self);
            spawn_local(async move { file.store(digest, length).await });
        }
    }

    /// Stores the file, also if its loader is closed meanwhile.
    async fn store(&self, digest: Digest, length: u64) {
        pending::stored().await;
        let Some(cached) = self.own.cached() else {
            return self.storage.note("files are stored in Cross-Origin Storage from the cache, and there is none");
        };
        let sha256 = digest.to_string();
        if self.storage.begin(&sha256).await {
            let copied = self.copy(cached, digest, length).await;
            self.storage.end(&sha256, copied.is_ok()).await;
            if let Err(Some(error)) = copied {
                self.storage.note(&format!("a file is not stored in Cross-Origin Storage: {}", error.what));
            }
        }
    }

    /// Copies the file piece by piece, and compares its digest. The error is `None` if the storage has reported it.
    async fn copy(&self, cached: &CachedSource, digest: Digest, length: u64) -> Result<(), Option<Error>> {
        let (mut hasher, sha256, mut position) = (Hasher::new(digest), digest.to_string(), 0);
        while position < length {
            let bytes = next_piece(cached, position..length).await?;
            position += u64::from(bytes.length());
            let buffer = JsBuffer::owned(bytes);
            buffer.inspect(0..buffer.byte_length(), &mut |bytes| {
                hasher.update(bytes);
                Ok(())
            })?;
            if !self.storage.write(&sha256, buffer.bytes).await {
                return Err(None);
            }
        }
        digest::compare(hasher.finish(), digest)?;
        Ok(())
    }
}

/// The cached bytes at the start of a range, which may not be written yet.
async fn next_piece(cached: &CachedSource, range: Range<u64>) -> Result<Uint8Array> {
    for _ in 0..MAX_WAITS {
        if let Some(bytes) = cached.cached_piece(range.clone()).await {
            return Ok(bytes);
        }
        pause(WAIT_MS).await;
    }
    Err(Error::new(ErrorKind::Io, "the cache does not have all of its bytes"))
}

/// Compares all bytes of a file with its digest.
async fn compare(file: &BlobSource, stated: Digest) -> Result<()> {
    let (mut hasher, mut buffer) = (Hasher::new(stated), JsBuffer::allocate(SCRATCH_BYTES)?);
    let mut body = file.read(0..u64::MAX)?.body;
    loop {
        let count = body.read(&mut buffer, 0..SCRATCH_BYTES).await?;
        if count == 0 {
            return digest::compare(hasher.finish(), stated).map(drop);
        }
        buffer.inspect(0..count, &mut |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
    }
}

impl SharedFile for CrossOriginFile {
    fn own(&self) -> &WebSource {
        &self.own
    }

    fn beside(&self, own: WebSource) -> Rc<dyn SharedFile> {
        Rc::new(CrossOriginFile::new(own, self.storage.clone()))
    }

    fn is_found(&self) -> bool {
        self.found.borrow().is_some()
    }

    fn expect_whole(&self, digest: &Digest) {
        if matches!(digest, Digest::Sha256(_)) {
            self.digest.set(Some(*digest));
        }
    }

    fn read(self: Rc<Self>, range: Range<u64>) -> LocalBoxFuture<'static, Result<RangeResponse<WebBody>>> {
        self.request(range).boxed_local()
    }
}

/// The body of a range of a [`CrossOriginFile`].
struct CrossOriginBody {
    file: Rc<CrossOriginFile>,
    body: WebBody,
    position: u64,
    /// The length of the file.
    length: Option<u64>,
    is_found: bool,
}

impl CrossOriginBody {
    /// Reads the next bytes. If the file in the storage cannot be read, the next request is for the one at the URL.
    async fn read_next(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        let read = self.body.read(into, at).boxed_local().await;
        let count = if self.is_found { read.inspect_err(|error| self.file.lose(error))? } else { read? };
        let start = self.position;
        self.position += count;
        if self.is_found {
            self.file.was_read.set(true);
        } else {
            self.file.add(start..self.position, self.length);
        }
        Ok(count)
    }
}

impl SharedBody for CrossOriginBody {
    fn read<'a>(&'a mut self, into: &'a mut JsBuffer, at: Range<u64>) -> LocalBoxFuture<'a, Result<u64>> {
        self.read_next(into, at).boxed_local()
    }

    fn is_cached(&self) -> bool {
        self.is_found || self.body.is_cached()
    }
}
