//! One file of a model: the bytes that are known so far, and readers for the rest.

mod head;
mod hints;
mod parts;
mod request;
mod version;

use crate::algorithm::Algorithm;
use crate::codec::pages::Pages;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{self, MediaType};
use crate::identity::Identity;
use crate::index::{Component, Digest, PageTable};
use crate::loader::transfer::known_blocks::KnownBlocks;
use crate::loader::transfer::range_reader::RangeReader;
use crate::loader::transfer::remote::{Joined, Proof, Remote};
use crate::loader::transfer::seen_blocks::SeenBlocks;
use crate::loader::transfer::signed::SignedContent;
use crate::loader::transfer::stats::Stats;
use crate::retry::{FirstAnswer, RetryPolicy};
use crate::source::Source;
use crate::window::Window;
use futures::FutureExt;
use futures::lock::Mutex;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The length of the first read. It is speculative: most headers fit, so that most files open in one round trip.
pub const FIRST_READ_BYTES: u64 = 64 << 10;

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
    /// The files whose bytes follow each other in this one.
    pub(crate) joined: Option<Rc<dyn Joined<S::Body>>>,
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
            joined: None,
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
        match &self.joined {
            Some(joined) => joined.signed_by(),
            None => self.signed.as_ref()?.algorithm(),
        }
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
}
