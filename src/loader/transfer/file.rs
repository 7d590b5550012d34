//! One file of a model, read bit by bit: its known bytes, and readings that continue from them.

use crate::codec::pages::Pages;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format;
use crate::identity::Identity;
use crate::index::{Component, ComponentDigest, Digest, PageTable, Parsed, Part};
use crate::loader::transfer::range_reader::{Proof, RangeReader, Remote, cut};
use crate::loader::transfer::stats::Stats;
use crate::loader::transfer::unpack::{FileBody, Unpacked};
use crate::plan::DEFAULT_COALESCE_GAP_BYTES;
use crate::retry::Policy;
use crate::source::{Answer, Buffer, Source};
use crate::window::{Stop, Window};
use futures::lock::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The first read is speculative: most heads fit, so that most files open in one round trip.
pub const FIRST_READ_BYTES: u64 = 64 << 10;

/// A head that goes on behind two reads is of a length that nobody knows: the third one asks for so much more, and is
/// given up when the parser has what it needs. So a head costs three requests at most, whatever its size.
const HEAD_AHEAD_BYTES: u64 = 128 << 20;

/// A file of a model.
pub(crate) struct ModelFile<S: Source> {
    pub(crate) source: S,
    window: RefCell<Window<'static>>,
    identity: RefCell<Option<Identity>>,
    /// What of the stored file decodes to the file that is read; `None` where it is read as it is stored.
    packed: RefCell<Option<Component>>,
    /// The rest of a body: of one that can only be read from its start, from a server that ignores ranges or of a
    /// packed file, or of one that was asked for ahead. Kept so that what comes next is not read anew.
    parked: RefCell<Option<Remote<S::Body>>>,
    /// Whether the last answer was such a body.
    comes_from_start: Cell<bool>,
    filling: Mutex<()>,
    /// How often what was read went on where the read before it had ended, and where that was.
    continued: Cell<(u32, u64)>,
    /// The digests of pages that were needed so far, by where they are.
    pages: RefCell<HashMap<u64, Arc<Pages>>>,
    pub(crate) stats: Rc<Stats>,
    retry: Policy,
    has_broken: Cell<bool>,
    /// Whether two answers had the same strong ETag, so that it can be believed.
    has_stable_etag: Cell<bool>,
}

impl<S: Source> ModelFile<S> {
    pub(crate) fn new(source: S, stats: Rc<Stats>, retry: Policy) -> Self {
        ModelFile {
            source,
            window: RefCell::new(Window::new(None)),
            identity: RefCell::default(),
            packed: RefCell::default(),
            parked: RefCell::default(),
            comes_from_start: Cell::new(false),
            filling: Mutex::new(()),
            continued: Cell::default(),
            pages: RefCell::default(),
            stats,
            retry,
            has_broken: Cell::new(false),
            has_stable_etag: Cell::new(false),
        }
    }

    /// Another file of the model, of which nothing is known yet.
    pub(crate) fn part(&self, part: &Part) -> Result<Self> {
        let source = match &part.url {
            Some(url) => self.source.elsewhere(url, &part.path),
            None => self.source.part(&part.path),
        };
        let source = source.map_err(|e| e.in_file(self.source.name()))?;
        Ok(ModelFile::new(source, Rc::clone(&self.stats), self.retry))
    }

    /// Tells the source which digest the whole file should have, before anything of it is read.
    pub(crate) fn expect_whole(&self, digest: Option<Digest>) {
        if let Some(digest) = digest.filter(Digest::is_strong) {
            self.source.expect_whole(&digest);
        }
    }

    /// Tells the source which digest a component should have.
    pub(crate) fn expect_content<'a>(
        &self,
        component: &Component,
        stated: impl IntoIterator<Item = &'a ComponentDigest>,
    ) {
        self.each_content(component, stated, |digest| self.source.expect(component.range.clone(), digest));
    }

    /// Tells the source what is about to be read whole into buffers.
    pub(crate) fn expect_buffers(&self, ranges: Vec<Range<u64>>) {
        if self.packed.borrow().is_none() {
            self.source.expect_buffers(ranges);
        }
    }

    /// Tells the source that a component has come whole and has these digests.
    pub(crate) fn confirm_contents(&self, component: &Component, digests: &[ComponentDigest]) {
        self.each_content(component, digests, |digest| self.source.confirm(component.range.clone(), digest));
    }

    /// Tells the source that all of the file has come and has this digest.
    pub(crate) fn confirm_whole(&self, digest: &Digest) {
        if let Some(length) = self.stored_length().filter(|_| digest.is_strong()) {
            self.source.confirm(0..length, digest);
        }
    }

    /// What of a component's digests stands for its bytes, as they lie in the file. Only those that are worth a
    /// request: around them the file has bytes that are in no other.
    fn each_content<'a>(
        &self,
        component: &Component,
        stated: impl IntoIterator<Item = &'a ComponentDigest>,
        tell: impl Fn(&Digest),
    ) {
        let is_worth_it = component.range.end.saturating_sub(component.range.start) >= DEFAULT_COALESCE_GAP_BYTES;
        if is_worth_it && self.packed.borrow().is_none() {
            stated.into_iter().filter_map(|stated| stated.content(component.encoding)).for_each(tell);
        }
    }

    /// The file's length in bytes, where it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        self.window.borrow().file_length()
    }

    /// As [`ModelFile::length`], unless what is read is what the stored file decodes to.
    pub(crate) fn stored_length(&self) -> Option<u64> {
        self.length().filter(|_| self.packed.borrow().is_none())
    }

    /// Reads the file's header and index; where it is compressed as a whole, those of what it decodes to.
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
            // One layer is all that any tool writes; more would multiply what a small file can decode to.
            Parsed::Packed(_) => Err(malformed("a compressed file holds another one").in_file(self.source.name())),
            parsed => Ok(parsed),
        }
    }

    /// Calls `look` until it has the bytes that it needs, fetching what it stops for.
    pub(crate) async fn parse_with<T>(self: &Rc<Self>, look: impl Fn(&Window) -> Result<T, Stop>) -> Result<T> {
        let outcome = loop {
            let outcome = look(&self.window.borrow());
            match outcome {
                Ok(found) => break Ok(found),
                Err(Stop::Failed(error)) => break Err(self.blame(error)),
                Err(Stop::Need(range)) => self.fill(range).await.map_err(|e| e.in_file(self.source.name()))?,
            }
        };
        self.parked.borrow_mut().take_if(|parked| !parked.is_from_start);
        outcome
    }

    /// As [`ModelFile::parse_with`], but only if the bytes are known already.
    pub(crate) fn try_parse<T>(&self, look: impl Fn(&Window) -> Result<T, Stop>) -> Result<Option<T>> {
        match look(&self.window.borrow()) {
            Ok(found) => Ok(Some(found)),
            Err(Stop::Need(_)) => Ok(None),
            Err(Stop::Failed(error)) => Err(self.blame(error)),
        }
    }

    /// Reads the digests of pages, unless they are known.
    pub(crate) async fn read_pages(self: &Rc<Self>, table: &PageTable) -> Result<()> {
        if self.known_pages(table).is_none() {
            let pages = self.parse_with(|window| format::page_digests(window, table)).await?;
            self.pages.borrow_mut().insert(table.at.start, Arc::new(pages));
        }
        Ok(())
    }

    /// The digests of pages that were read.
    pub(crate) fn known_pages(&self, table: &PageTable) -> Option<Arc<Pages>> {
        self.pages.borrow().get(&table.at.start).cloned()
    }

    /// The error in its place. Where it is about what the bytes are, the source learns of it.
    pub(crate) fn blame(&self, error: Error) -> Error {
        if matches!(error.kind, ErrorKind::Checksum | ErrorKind::Format) {
            self.source.reject();
        }
        error.in_file(self.source.name())
    }

    /// Adds bytes that came by on a stream to the known ones.
    pub(crate) fn remember(&self, start: u64, bytes: &[u8]) {
        self.window.borrow_mut().insert(start, bytes);
    }

    /// Begins to read `range`: what is known of it comes from memory, the rest from the source. `end` is where it ends,
    /// which may come nearer.
    pub(crate) fn start(self: &Rc<Self>, range: Range<u64>, end: Rc<Cell<u64>>) -> RangeReader<S> {
        let known = self.window.borrow().known_from(range.start, range.end).to_vec();
        RangeReader::new(Rc::clone(self), range.start, end, known)
    }

    /// Keeps the rest of a reading, if it would otherwise be read from the start of the file again.
    pub(crate) fn finish(&self, reading: RangeReader<S>) {
        if let Some(remote) = reading.into_remote().filter(|remote| remote.is_from_start) {
            *self.parked.borrow_mut() = Some(remote);
        }
    }

    /// Whether bodies of this file begin at its start, whatever range is asked for.
    pub(crate) fn comes_from_start(&self) -> bool {
        self.comes_from_start.get()
    }

    /// Compares bytes that come by once more with those that are known: a body that is not the range asked for may be
    /// of anything, such as the page of a Wi-Fi that wants a login.
    pub(crate) fn check_known(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let window = self.window.borrow();
        let known = window.known_from(start, start + bytes.len() as u64);
        if bytes.starts_with(known) {
            return Ok(());
        }
        let error = Error::new(ErrorKind::Changed, "the server sends other bytes than before where the file begins");
        Err(error.at(start..start + known.len() as u64))
    }

    /// The rest of an earlier answer, if it brings `range`. What is known before that came by the same answer.
    pub(crate) fn take_parked(&self, range: &Range<u64>) -> Option<Remote<S::Body>> {
        let parked = self.parked.borrow_mut().take_if(|parked| parked.brings(range))?;
        Some(Remote { proof: Proof::Strong, ..parked })
    }

    /// Asks the source for `range`. The answer is checked; its body begins at the range's start or before it.
    pub(crate) async fn ask(&self, range: Range<u64>) -> Result<Remote<S::Body>> {
        if let Some(parked) = self.take_parked(&range) {
            return Ok(parked);
        }
        self.stats.count_request();
        let packed = self.packed.borrow().clone();
        let stored = packed.as_ref().map_or(range.clone(), |component| component.range.clone());
        let answer = self.source.read(stored).await?;
        let proof = self.check_identity(&answer.identity)?;
        let Answer { start, end, file_length, is_whole_file, body, .. } = answer;
        self.comes_from_start.set(is_whole_file || packed.is_some());
        if let Some(component) = packed {
            let end = component.decoded_length;
            let body = FileBody::Unpacked(Box::new(Unpacked::new(body, start, component, Rc::clone(&self.stats))?));
            return Ok(Remote { body, position: 0, end, is_from_start: true, proof });
        }
        if let Some(length) = file_length {
            self.window.borrow_mut().set_file_length(length);
        }
        Ok(Remote { body: FileBody::Stored(body), position: start, end, is_from_start: is_whole_file, proof })
    }

    /// Whether no connection to this file has failed so far.
    pub(crate) fn never_broke(&self) -> bool {
        !self.has_broken.get()
    }

    pub(crate) fn note_break(&self) {
        self.has_broken.set(true);
    }

    /// How long to wait before another try; `None` to give up.
    pub(crate) fn retry_delay_ms(&self, error: &Error, failures: u32) -> Option<u64> {
        let has_answered = self.identity.borrow().is_some();
        self.retry.delay_ms(error, failures, has_answered, self.source.random())
    }

    pub(crate) fn stall_ms(&self) -> u64 {
        self.retry.stall_ms
    }

    async fn fill(self: &Rc<Self>, needed: Range<u64>) -> Result<()> {
        let _one_at_a_time = self.filling.lock().await;
        let wanted = {
            let window = self.window.borrow();
            if window.missing(&needed).is_empty() {
                return Ok(()); // another caller fetched it meanwhile
            }
            window.missing(&widen(needed, &window))
        };
        let mut reading = self.start(wanted.clone(), Rc::new(Cell::new(self.look_ahead(&wanted))));
        while reading.position < wanted.end {
            let mut at = reading.position;
            let Some(chunk) = reading.chunk(wanted.end - at).await? else { break };
            chunk.buffer.inspect(0..chunk.length, &mut |bytes| {
                self.window.borrow_mut().insert(at, bytes);
                at += bytes.len() as u64;
                Ok(())
            })?;
        }
        self.window.borrow_mut().shrink_to_fit(); // before a parser takes much more
        let end = reading.position;
        self.continued.set((self.continued.get().0, end));
        if end < wanted.end {
            match self.length() {
                // Only now the length is known: the parse that asked for more will say so.
                None => self.window.borrow_mut().set_file_length(end),
                Some(length) if end < length.min(wanted.end) => return Err(cut(wanted.start, end, wanted.end)),
                Some(_) => {}
            }
        }
        *self.parked.borrow_mut() = reading.into_remote();
        Ok(())
    }

    /// Where to end a request for `wanted`: much later, if it goes on where the two reads before it ended.
    fn look_ahead(&self, wanted: &Range<u64>) -> u64 {
        if let Some(end) = self.parked.borrow().as_ref().filter(|parked| parked.brings(wanted)).and_then(|it| it.end) {
            return end.max(wanted.end);
        }
        let (times, end) = self.continued.get();
        let times = if wanted.start == end { times + 1 } else { 0 };
        self.continued.set((times, end));
        let ahead = if times > 2 { HEAD_AHEAD_BYTES } else { 0 };
        let end_of_file = self.length().unwrap_or(u64::MAX);
        wanted.end.max(wanted.end.saturating_add(ahead).min(end_of_file))
    }

    /// Whether an answer will probably prove by its strong ETag that it is of the same version as those before it.
    pub(crate) fn expects_proof(&self) -> bool {
        self.source.is_immutable() || self.identity.borrow().as_ref().is_some_and(|known| known.etag.is_some())
    }

    /// Whether two answers had the same strong ETag.
    pub(crate) fn has_stable_etag(&self) -> bool {
        self.has_stable_etag.get()
    }

    /// Whether different answers can bring parts of one tensor: something must tell versions of the file from each
    /// other.
    pub(crate) fn has_validator(&self) -> bool {
        let has = |known: &Identity| known.etag.is_some() || known.last_modified.is_some();
        self.source.is_immutable() || self.identity.borrow().as_ref().is_some_and(has)
    }

    fn check_identity(&self, now: &Identity) -> Result<Proof> {
        let mut identity = self.identity.borrow_mut();
        let earlier = identity.get_or_insert_with(Identity::default);
        if let Some(change) = now.change_since(earlier) {
            return Err(Error::new(ErrorKind::Changed, format!("the file changed while it was loaded: {change}")));
        }
        let has_same_etag = now.etag.is_some() && now.etag == earlier.etag;
        self.has_stable_etag.set(self.has_stable_etag.get() || has_same_etag);
        let proof = match now.last_modified.is_some() && now.last_modified == earlier.last_modified {
            _ if has_same_etag || self.source.is_immutable() => Proof::Strong,
            true => Proof::Weak,
            false => Proof::None,
        };
        earlier.learn(now);
        Ok(proof)
    }
}

/// A round trip costs more than 64 KiB: reads at least so much, forward from the head, backward from the tail.
fn widen(needed: Range<u64>, window: &Window) -> Range<u64> {
    let end_of_file = window.file_length().unwrap_or(u64::MAX);
    if needed.end == end_of_file {
        let wide = needed.start.min(needed.end.saturating_sub(FIRST_READ_BYTES))..needed.end;
        // Where some of it is known already, the first stretch that is missing may end before what is needed.
        return if window.missing(&wide).end == wide.end { wide } else { needed };
    }
    let start = window.missing(&needed).start;
    needed.start..needed.end.max(start.saturating_add(FIRST_READ_BYTES)).min(end_of_file.max(needed.end))
}
