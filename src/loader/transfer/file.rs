//! One file of a model: the bytes that are known so far, and readers for the rest.

mod hints;
mod parts;
mod version;

use crate::algorithm::Algorithm;
use crate::codec::pages::Pages;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format::{self, MediaType};
use crate::identity::Identity;
use crate::index::{Component, Digest, PageTable, Parsed};
use crate::loader::transfer::known_blocks::KnownBlocks;
use crate::loader::transfer::range_reader::RangeReader;
use crate::loader::transfer::remote::{Proof, Remote};
use crate::loader::transfer::seen_blocks::{SeenBlocks, SeenBody};
use crate::loader::transfer::signed::{SignedContent, StoredBody};
use crate::loader::transfer::stats::Stats;
use crate::loader::transfer::truncated::{too_limited, truncated_error};
use crate::loader::transfer::unpack::{FileBody, NextBody, Unpacked};
use crate::retry::{FirstAnswer, RetryPolicy};
use crate::source::{Body, Buffer, RangeResponse, Source};
use crate::window::{Stop, Window};
use futures::FutureExt;
use futures::lock::Mutex;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The length of the first read. It is speculative: most headers fit, so that most files open in one round trip.
pub const FIRST_READ_BYTES: u64 = 64 << 10;

/// Bytes that the third consecutive read of a header requests in addition. The length of such a header is unknown; the
/// response is dropped when the parser has enough bytes. A header therefore takes at most three requests, whatever its
/// size.
const HEADER_READ_AHEAD_BYTES: u64 = 128 << 20;

/// A file of a model.
pub(crate) struct ModelFile<S: Source> {
    pub(crate) source: S,
    /// What the signature of the model states about the file.
    pub(crate) signed: Option<SignedContent>,
    window: RefCell<Window<'static>>,
    identity: RefCell<Option<Identity>>,
    /// The component of the stored file that decodes to the model file, if the file is compressed as a whole.
    packed: RefCell<Option<Component>>,
    /// The rest of a response body, kept for the next read. Either the body can only be read from the start of the file
    /// (the server ignores ranges, or the file is packed), or it was requested ahead.
    parked: RefCell<Option<Remote<S::Body>>>,
    /// Whether the last response body started at the start of the file, whatever range was requested.
    comes_from_start: Cell<bool>,
    filling: Mutex<()>,
    /// The number of consecutive header reads that continued the read before, and the end of the last one.
    continued: Cell<(u32, u64)>,
    /// The page digests that were read so far, by the offset of their table.
    pages: RefCell<HashMap<u64, Arc<Pages>>>,
    pub(crate) blocks: KnownBlocks,
    pub(crate) stats: Rc<Stats>,
    /// Whether the file consists of raw bytes: no format's header, checksums or footer are expected.
    pub(crate) is_raw: bool,
    /// The media type of the last response.
    media_type: Cell<MediaType>,
    /// Whether the start of a file of raw bytes was checked. Held while it is checked.
    head_checked: Mutex<bool>,
    retry: RetryPolicy,
    has_failed: Cell<bool>,
    /// Whether two responses had the same strong ETag, so that the ETag can be trusted.
    has_stable_etag: Cell<bool>,
    /// Whether the later one was not from the cache: some servers send a random ETag with every response.
    server_repeats_etag: Cell<bool>,
    /// Whether a later response had no strong ETag.
    lost_etag: Cell<bool>,
    /// The blocks that were read, if all reads of the file must be of one version.
    seen: OnceCell<Rc<SeenBlocks>>,
    /// Whether a response was not proven to be of the same version as those before it.
    lacks_proof: Cell<bool>,
}

/// A response with bytes of the stored file.
struct StoredResponse<B: Body> {
    body: StoredBody<B>,
    start: u64,
    /// The end up to which the body can be read.
    end: Option<u64>,
    is_whole_file: bool,
    file_length: Option<u64>,
    proof: Proof,
}

impl<S: Source> ModelFile<S> {
    pub(crate) fn new(source: S, stats: Rc<Stats>, retry: RetryPolicy) -> Self {
        ModelFile {
            source,
            signed: None,
            window: RefCell::new(Window::new(None)),
            identity: RefCell::default(),
            packed: RefCell::default(),
            parked: RefCell::default(),
            comes_from_start: Cell::new(false),
            filling: Mutex::new(()),
            continued: Cell::default(),
            pages: RefCell::default(),
            blocks: KnownBlocks::default(),
            stats,
            is_raw: false,
            media_type: Cell::new(MediaType::Other),
            head_checked: Mutex::new(false),
            retry,
            has_failed: Cell::new(false),
            has_stable_etag: Cell::new(false),
            server_repeats_etag: Cell::new(false),
            lost_etag: Cell::new(false),
            seen: OnceCell::new(),
            lacks_proof: Cell::new(false),
        }
    }

    /// The signed digest of the whole file.
    pub(crate) fn signed_digest(&self) -> Option<Digest> {
        self.signed.as_ref().and_then(SignedContent::digest)
    }

    /// The algorithm of the signed digests, with which all bytes are compared before they are returned.
    pub(crate) fn signed_by(&self) -> Option<Algorithm> {
        self.signed.as_ref()?.algorithm()
    }

    /// Sets the length of a file that has no readable bytes to learn it from.
    pub(crate) fn set_length(&self, length: u64) {
        self.window.borrow_mut().set_file_length(length);
    }

    /// Sets the length of a file that was compared with its signature, if the server does not state it.
    pub(crate) fn learn_signed_length(&self) {
        let blocks = self.signed.as_ref().and_then(SignedContent::blocks);
        if let Some(blocks) = blocks.filter(|_| self.length().is_none() && self.packed.borrow().is_none()) {
            self.set_length(blocks.file_length());
        }
    }

    /// The file's length in bytes, if it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        self.window.borrow().file_length()
    }

    /// Like [`ModelFile::length`], but of the compressed file if it is compressed as a whole.
    pub(crate) fn file_length(&self) -> Option<u64> {
        self.packed.borrow().as_ref().map_or_else(|| self.length(), |component| Some(component.range.end))
    }

    /// Like [`ModelFile::length`], but `None` for a file that is compressed as a whole.
    pub(crate) fn stored_length(&self) -> Option<u64> {
        self.length().filter(|_| self.packed.borrow().is_none())
    }

    /// Reads the file's header and index. If the file is compressed as a whole, reads those of the decoded file.
    pub(crate) async fn parse(self: &Rc<Self>) -> Result<Parsed> {
        let component = match self.parse_with(format::parse).await? {
            Parsed::Packed(component) => component,
            parsed => return Ok(parsed),
        };
        let packed_length = component.range.end - component.range.start;
        *self.window.borrow_mut() = Window::new(component.decoded_length).unpacked_from(Some(packed_length));
        *self.parked.borrow_mut() = None;
        *self.packed.borrow_mut() = Some(component);
        match self.parse_with(format::parse).await? {
            // Tools write only one layer. More layers would multiply the decoded size of a small file.
            Parsed::Packed(_) => Err(malformed("a compressed file holds another one").in_file(self.source.name())),
            parsed => Ok(parsed),
        }
    }

    /// Calls `parse` repeatedly, and fetches the bytes that it needs, until it returns a result or fails.
    pub(crate) async fn parse_with<T>(self: &Rc<Self>, parse: impl Fn(&Window) -> Result<T, Stop>) -> Result<T> {
        let outcome = loop {
            let outcome = parse(&self.window.borrow());
            match outcome {
                Ok(found) => break Ok(found),
                Err(Stop::Failed(error)) => break Err(self.reject_if_corrupt(error)),
                Err(Stop::Need(range)) => self.fill(range).await.map_err(|e| e.in_file(self.source.name()))?,
                Err(Stop::Deferred(code)) => self.source.host().load_code(code).await?,
            }
        };
        self.parked.borrow_mut().take_if(|parked| !parked.is_from_start);
        outcome
    }

    /// Like [`ModelFile::parse_with`], but fetches nothing. `None` if bytes are missing.
    pub(crate) fn try_parse<T>(&self, parse: impl Fn(&Window) -> Result<T, Stop>) -> Result<Option<T>> {
        match parse(&self.window.borrow()) {
            Ok(found) => Ok(Some(found)),
            Err(Stop::Need(_) | Stop::Deferred(_)) => Ok(None),
            Err(Stop::Failed(error)) => Err(self.reject_if_corrupt(error)),
        }
    }

    /// Reads a table of page digests, unless it was read already.
    pub(crate) async fn read_pages(self: &Rc<Self>, table: &PageTable) -> Result<()> {
        if self.known_pages(table).is_none() {
            self.fetch_pages(table).boxed_local().await?; // boxed, because it is deferred
        }
        Ok(())
    }

    async fn fetch_pages(self: &Rc<Self>, table: &PageTable) -> Result<()> {
        let pages = self.parse_with(|window| format::page_digests(window, table)).await?;
        self.pages.borrow_mut().insert(table.at.start, Arc::new(pages));
        Ok(())
    }

    /// A table of page digests, if it was read.
    pub(crate) fn known_pages(&self, table: &PageTable) -> Option<Arc<Pages>> {
        self.pages.borrow().get(&table.at.start).cloned()
    }

    /// Adds the file's name to the error. If the content of the file is wrong, tells the source to reject it.
    pub(crate) fn reject_if_corrupt(&self, error: Error) -> Error {
        if matches!(error.kind, ErrorKind::Checksum | ErrorKind::Format | ErrorKind::Signature) {
            self.source.reject();
        }
        error.in_file(self.source.name())
    }

    /// Requests the start of a file whose length is unknown, because the response states the length.
    pub(crate) async fn learn_length(self: &Rc<Self>) -> Result<()> {
        match self.parse_with(|window| window.get(0..1).map(drop)).await {
            Err(error) if error.kind == ErrorKind::Truncated => Ok(()), // it is empty
            outcome => outcome,
        }
    }

    /// Adds bytes that were read from a stream to the known bytes.
    pub(crate) fn remember(&self, start: u64, bytes: &[u8]) {
        self.window.borrow_mut().insert(start, bytes);
    }

    /// A reader of `range`: known bytes are read from memory, the rest from the source. `end` is the end of the range,
    /// which may be lowered later.
    pub(crate) fn start(self: &Rc<Self>, range: Range<u64>, end: Rc<Cell<u64>>) -> RangeReader<S> {
        let known = self.window.borrow().known_from(range.start, range.end).to_vec();
        RangeReader::new(Rc::clone(self), range.start, end, known)
    }

    /// Keeps the rest of a reader's body, if the file would otherwise be read from its start again.
    pub(crate) fn finish(&self, reading: RangeReader<S>) {
        if let Some(remote) = reading.into_remote().filter(|remote| remote.is_from_start) {
            *self.parked.borrow_mut() = Some(remote);
        }
    }

    /// Keeps a response body for the next read.
    pub(crate) fn park(&self, body: Remote<S::Body>) {
        *self.parked.borrow_mut() = Some(body);
    }

    /// Whether response bodies start at the start of the file, whatever range is requested.
    pub(crate) fn comes_from_start(&self) -> bool {
        self.comes_from_start.get()
    }

    /// Compares bytes that were received again with the known bytes. A response body that is not the requested range
    /// can be something else, such as the login page of a Wi-Fi network.
    pub(crate) fn check_known(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let window = self.window.borrow();
        let known = window.known_from(start, start + bytes.len() as u64);
        if bytes.starts_with(known) {
            return Ok(());
        }
        let what = "the server sent different bytes at the start of the file than before";
        let error = Error::new(ErrorKind::Changed, what);
        Err(error.at(start..start + known.len() as u64))
    }

    /// The rest of an earlier response, if it contains `range`. The known bytes before `range` are from the same
    /// response.
    pub(crate) fn take_parked(&self, range: &Range<u64>) -> Option<Remote<S::Body>> {
        let parked = self.parked.borrow_mut().take_if(|parked| parked.contains(range))?;
        Some(Remote { proof: Proof::Strong, ..parked })
    }

    /// Requests `range` from the source and checks the response. The body starts at the start of `range` or before it.
    pub(crate) async fn request(self: &Rc<Self>, range: Range<u64>) -> Result<Remote<S::Body>> {
        if let Some(parked) = self.take_parked(&range) {
            return Ok(parked);
        }
        let packed = self.packed.borrow().clone();
        let stored = packed.as_ref().map_or(range.clone(), |component| component.range.clone());
        let StoredResponse { body, start, end, is_whole_file, file_length, proof } =
            self.request_stored(stored).await?;
        self.comes_from_start.set(is_whole_file || packed.is_some());
        if let Some(component) = packed {
            let decoded_length = component.decoded_length;
            let unpacked = Unpacked::new(body, start..end.unwrap_or(u64::MAX), component, Rc::clone(&self.stats))?;
            let body = FileBody::Unpacked(Box::new(unpacked.continued_by(self.rest_of_packed())));
            return Ok(Remote { body, position: 0, end: decoded_length, is_from_start: true, proof });
        }
        if let Some(length) = file_length {
            self.window.borrow_mut().set_file_length(length);
        }
        Ok(Remote { body: FileBody::Stored(body), position: start, end, is_from_start: is_whole_file, proof })
    }

    /// Requests `range` of the stored file, but nothing beyond its end: some servers refuse that.
    async fn request_stored(&self, range: Range<u64>) -> Result<StoredResponse<S::Body>> {
        self.stats.count_request();
        let length = self.file_length().filter(|length| range.start < *length).unwrap_or(u64::MAX);
        let range = range.start..range.end.min(length);
        // `None` only for the reader that compares the file with its signature: others wait for it.
        let blocks = self.signed.as_ref().and_then(SignedContent::blocks);
        let range = blocks.as_ref().map_or(range.clone(), |blocks| blocks.around(&range));
        let (answer, proof, seen) = self.request_one_version(range).await?;
        let RangeResponse { start, end, file_length, is_whole_file, is_page, body, .. } = answer;
        self.media_type.set(if is_page { MediaType::Page } else { MediaType::Other });
        let known_length = file_length.or(self.length());
        let comparable_end = |end| match (&seen, &blocks) {
            (Some(seen), _) => seen.readable_end(end, known_length),
            (None, Some(blocks)) => blocks.readable_end(end),
            (None, None) => end,
        };
        let end = end.map(comparable_end);
        let body = match seen {
            Some(seen) => StoredBody::Seen(Box::new(SeenBody::new(body, start, seen, known_length))),
            None => StoredBody::new(body, start, blocks)?,
        };
        Ok(StoredResponse { body, start, end, is_whole_file, file_length, proof })
    }

    /// Requests the rest of a file that is compressed as a whole, from the end of a response that was limited.
    fn rest_of_packed(self: &Rc<Self>) -> NextBody<StoredBody<S::Body>> {
        let file = Rc::downgrade(self); // the file keeps the body
        Box::new(move |range: Range<u64>| {
            let file = file.upgrade();
            let request = async move {
                let Some(file) = file else { return Err(Error::new(ErrorKind::Closed, "the model is closed")) };
                let StoredResponse { body, start, end, proof, .. } = file.request_stored(range.clone()).await?;
                let is_same_version = proof == Proof::Strong || file.signed.is_some();
                match start == range.start {
                    true if is_same_version => Ok((body, end.unwrap_or(u64::MAX))),
                    true => Err(too_limited(start, range.start)),
                    false => Err(truncated_error(0, range.start, range.end)),
                }
            };
            request.boxed_local()
        })
    }

    /// Whether the start of the file must be checked before bytes of it are returned: a file of raw bytes has no magic,
    /// so a web page in its place would be taken for weights.
    pub(crate) fn needs_head_check(&self) -> bool {
        self.is_raw && self.head_checked.try_lock().is_none_or(|checked| !*checked)
    }

    /// Checks the start of a file of raw bytes, once.
    ///
    /// # Errors
    /// `UNSUPPORTED` if the file is a text; those of the source.
    pub(crate) async fn check_head(self: &Rc<Self>, mut reader: RangeReader<S>) -> Result<()> {
        let mut checked = self.head_checked.lock().await;
        while !*checked {
            let outcome = format::check_headerless(&self.window.borrow(), self.media_type.get());
            match outcome {
                Ok(()) => *checked = true,
                Err(Stop::Failed(error)) => {
                    self.source.reject();
                    return Err(self.reject_if_corrupt(error));
                }
                Err(Stop::Need(range)) => match reader.chunk(range.end.saturating_sub(reader.position)).await? {
                    Some(chunk) => {
                        let mut at = chunk.start;
                        chunk.buffer.inspect(0..chunk.length, &mut |bytes| {
                            self.remember(at, bytes);
                            at += bytes.len() as u64;
                            Ok(())
                        })?;
                    }
                    None => *checked = true, // the file is shorter than any page
                },
                Err(Stop::Deferred(code)) => self.source.host().load_code(code).await?,
            }
        }
        Ok(())
    }

    /// Whether any connection to this file has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    pub(crate) fn record_failure(&self) {
        self.has_failed.set(true);
    }

    /// The delay before the next attempt; `None` if the error is not retried.
    pub(crate) fn retry_delay_ms(&self, error: &Error, failures: u32) -> Option<u64> {
        // Another file of the model counts: its host exists, and most models have one host.
        let has_answered = self.identity.borrow().is_some() || self.stats.bytes_received() > 0;
        let first_answer = if has_answered { FirstAnswer::Received } else { FirstAnswer::Awaited };
        self.retry.delay_ms(error, failures, first_answer, self.source.host().random())
    }

    pub(crate) fn stall_ms(&self) -> u64 {
        self.retry.stall_ms
    }

    async fn fill(self: &Rc<Self>, needed: Range<u64>) -> Result<()> {
        let _one_at_a_time = self.filling.lock().await;
        let wanted = {
            let window = self.window.borrow();
            if window.missing(&needed).is_empty() {
                return Ok(()); // another caller fetched the bytes meanwhile
            }
            window.missing(&widen(needed, &window))
        };
        let mut reading = self.start(wanted.clone(), Rc::new(Cell::new(self.request_end(&wanted))));
        while reading.position < wanted.end {
            let mut at = reading.position;
            let Some(chunk) = reading.chunk(wanted.end - at).await? else { break };
            chunk.buffer.inspect(0..chunk.length, &mut |bytes| {
                self.window.borrow_mut().insert(at, bytes);
                at += bytes.len() as u64;
                Ok(())
            })?;
        }
        self.window.borrow_mut().shrink_to_fit(); // before the parser allocates much more
        let end = reading.position;
        self.continued.set((self.continued.get().0, end));
        if end < wanted.end {
            match self.length() {
                // The end of the body shows the file's length. The parser then reports that the file is too short.
                None => self.window.borrow_mut().set_file_length(end),
                Some(length) if end < length.min(wanted.end) => {
                    return Err(truncated_error(wanted.start, end, wanted.end));
                }
                Some(_) => {}
            }
        }
        *self.parked.borrow_mut() = reading.into_remote();
        Ok(())
    }

    /// The end of a request for `wanted`. The request reads far ahead if it continues the two reads before it.
    fn request_end(&self, wanted: &Range<u64>) -> u64 {
        let parked = self.parked.borrow();
        if let Some(end) = parked.as_ref().filter(|parked| parked.contains(wanted)).and_then(|parked| parked.end) {
            return end.max(wanted.end);
        }
        let (times, end) = self.continued.get();
        let times = if wanted.start == end { times + 1 } else { 0 };
        self.continued.set((times, end));
        let ahead = if times > 2 { HEADER_READ_AHEAD_BYTES } else { 0 };
        let end_of_file = self.length().unwrap_or(u64::MAX);
        wanted.end.max(wanted.end.saturating_add(ahead).min(end_of_file))
    }
}

/// Extends a read to at least [`FIRST_READ_BYTES`], because a round trip takes longer than reading them: forwards from
/// the header, backwards from the end of the file.
fn widen(needed: Range<u64>, window: &Window) -> Range<u64> {
    let end_of_file = window.file_length().unwrap_or(u64::MAX);
    if needed.end == end_of_file {
        let wide = needed.start.min(needed.end.saturating_sub(FIRST_READ_BYTES))..needed.end;
        // If parts of the range are known already, the first missing range may end before the needed bytes.
        return if window.missing(&wide).end == wide.end { wide } else { needed };
    }
    let start = window.missing(&needed).start;
    needed.start..needed.end.max(start.saturating_add(FIRST_READ_BYTES)).min(end_of_file.max(needed.end))
}
