//! A URL whose bytes are kept: what is there is not fetched, and what is fetched is kept.
//!
//! The server is asked once, for one byte, whether the file is still the version that is kept. A conditional request
//! would do the same for nothing, but across origins `If-None-Match` costs a preflight that few hosts answer, while a
//! range needs none and `Last-Modified` can always be read. Without a connection, what is kept is trusted (`word`).
//! Where it is known beforehand what the file must be, and all of it is kept under whatever URL, the server is not
//! asked at all.
//!
//! Bytes that came with credentials are kept apart from all others ([`key`](crate::cache::key)), also those that are
//! found by a digest. They, and those of signed URLs, are used only after the server has answered that the file may
//! still be read, or where no server can be reached.

mod ahead;
mod body;
mod content;
mod keep;
mod naming;
mod overlap;
mod reach;
mod same;
mod word;

use super::Answer;
use super::fetch::FetchSource;
use super::stream::StreamBody;
use crate::browser::lock::Lock;
use crate::cache::client::{Client, version_of};
use crate::cache::{PIECE_BYTES, key};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use crate::index::Digest;
pub(crate) use body::CachedBody;
use content::Contents;
use futures::lock::Mutex;
pub(crate) use naming::Naming;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::{Rc, Weak};
use wasm_bindgen_futures::spawn_local;

/// A file at a URL, with the cache before it.
#[derive(Debug, Clone)]
pub struct CachedSource {
    file: Rc<CachedFile>,
}

/// What the files of one loader tell of the cache.
#[derive(Debug, Default)]
pub(crate) struct Report {
    error: RefCell<Option<String>>,
}

#[derive(Debug)]
struct CachedFile {
    source: FetchSource,
    cache: Rc<Client>,
    naming: Naming,
    /// What its bytes are cached under.
    key: String,
    /// A hash of the credentials that requests for it carry.
    partition: Option<String>,
    /// Whether not everybody may read it, as far as its requests tell: its cached bytes need the server's permission.
    is_private: bool,
    report: Rc<Report>,
    /// Whether the cache was asked what it has.
    is_open: Mutex<bool>,
    /// The version that is read, as soon as that is known.
    version: RefCell<Option<Version>>,
    /// Held while this page fetches the file, so that other tabs wait for what it keeps.
    lease: RefCell<Weak<Lock>>,
    /// Nothing more is kept of it.
    is_quiet: Cell<bool>,
    /// How many cached bytes are compared with what the server sends behind them.
    overlap_bytes: Cell<u64>,
    contents: Contents,
    /// Where what is read into a buffer of its own begins, and where it ends.
    buffers: RefCell<BTreeMap<u64, u64>>,
}

#[derive(Debug, Clone)]
struct Version {
    identity: Identity,
    name: Rc<str>,
    /// The key under which it is kept, where that is another file's: then the server's file may be anything.
    elsewhere: Option<Rc<str>>,
}

impl CachedSource {
    /// The file of `source`, kept in `cache`.
    ///
    /// # Errors
    /// Those of [`Naming::name`].
    pub(crate) fn new(source: FetchSource, cache: Rc<Client>, naming: Naming, report: Rc<Report>) -> Result<Self> {
        let (name, partition) = (naming.name(source.name())?, source.partition());
        let is_private = partition.is_some() || name != source.name();
        let key = key::join(partition.as_deref(), &name);
        let (is_open, version, lease, is_quiet, contents, buffers) = Default::default();
        let file = CachedFile {
            source,
            cache,
            naming,
            key,
            partition,
            is_private,
            report,
            is_open,
            version,
            lease,
            is_quiet,
            overlap_bytes: Cell::new(overlap::OVERLAP_BYTES),
            contents,
            buffers,
        };
        Ok(CachedSource { file: Rc::new(file) })
    }

    /// The file that is asked for what is not kept.
    pub fn source(&self) -> &FetchSource {
        &self.file.source
    }

    /// The same for another file of the model.
    ///
    /// # Errors
    /// As for [`CachedSource::new`].
    pub fn with(&self, source: FetchSource) -> Result<Self> {
        let CachedFile { cache, naming, report, .. } = &*self.file;
        CachedSource::new(source, Rc::clone(cache), naming.clone(), Rc::clone(report))
    }

    /// As [`Source::expect_whole`](super::Source::expect_whole).
    pub fn expect_whole(&self, digest: &Digest) {
        self.file.contents.expect_whole(digest);
    }

    /// As [`Source::expect`](super::Source::expect).
    pub fn expect(&self, range: Range<u64>, digest: &Digest) {
        self.file.contents.expect(&self.file, range, digest);
    }

    /// As [`Source::reject`](super::Source::reject).
    pub fn reject(&self) {
        self.file.reject();
    }

    /// As [`Source::expect_buffers`](super::Source::expect_buffers).
    pub fn expect_buffers(&self, ranges: Vec<Range<u64>>) {
        let large = ranges.into_iter().filter(|range| range.end.saturating_sub(range.start) >= PIECE_BYTES);
        self.file.buffers.borrow_mut().extend(large.map(|range| (range.start, range.end)));
    }

    /// As [`Source::confirm`](super::Source::confirm).
    pub fn confirm(&self, range: Range<u64>, digest: &Digest) {
        content::confirm(&self.file, range, digest);
    }

    /// As [`Source::read`](super::Source::read).
    ///
    /// # Errors
    /// As for [`Source::read`](super::Source::read). A cache that fails is no error.
    pub async fn read(&self, range: Range<u64>) -> Result<Answer<CachedBody>> {
        self.file.open().await?;
        CachedBody::begin(Rc::clone(&self.file), range).await
    }
}

impl Report {
    /// Why something is not kept, if something is not.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.borrow().clone()
    }

    pub(crate) fn note(&self, error: &Error) {
        self.error.borrow_mut().get_or_insert_with(|| error.what.clone());
    }
}

impl CachedFile {
    fn version(&self) -> Option<Version> {
        self.version.borrow().clone()
    }

    fn length(&self) -> Option<u64> {
        self.version.borrow().as_ref().and_then(|version| version.identity.length)
    }

    /// Learns once what is kept.
    async fn open(&self) -> Result<()> {
        let mut is_open = self.is_open.lock().await;
        if !*is_open {
            // Where it is known what the file must be, the server need not be asked what it is, but whether it may be
            // read.
            match self.contents.locate_whole(self).await {
                Ok(Some(version)) => {
                    if self.is_private {
                        word::ask(self).await?;
                    }
                    *self.version.borrow_mut() = Some(version);
                }
                Ok(None) => self.look_up().await?,
                Err(error) => self.give_up(&error),
            }
            *is_open = true;
        }
        Ok(())
    }

    /// Learns which version is kept, and whether the server still has it. Another one is forgotten.
    async fn look_up(&self) -> Result<()> {
        let kept = match self.cache.open(&self.key).await {
            Ok(Some(kept)) => kept,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.give_up(&error);
                return Ok(());
            }
        };
        if self.is_current(&kept).await? {
            *self.version.borrow_mut() = Some(Version::new(kept));
        } else if let Err(error) = self.cache.delete(&self.key, Some(version_of(&kept))).await {
            self.give_up(&error);
        }
        Ok(())
    }

    async fn is_current(&self, kept: &Identity) -> Result<bool> {
        Ok(word::ask(self).await?.is_none_or(|identity| kept.is_confirmed_by(&identity)))
    }

    /// Takes a version that the server told, if it can be told from the next one.
    fn adopt<B>(&self, answer: &Answer<B>) -> Option<Version> {
        let identity = &answer.identity;
        let what = if identity.etag.is_none() && identity.last_modified.is_none() {
            "the server gives neither an ETag nor a Last-Modified date, so that nothing tells whether a file has changed"
        } else if answer.is_whole_file && answer.file_length.is_none() {
            "the server does not say how long the file is"
        } else {
            let version = Version::new(identity.clone());
            *self.version.borrow_mut() = Some(version.clone());
            return Some(version);
        };
        self.give_up(&Error::new(ErrorKind::Unsupported, what));
        None
    }

    /// Bytes of a version that is kept elsewhere are missing: the server is asked for them. Where some were read
    /// already, its file must be the same.
    ///
    /// # Errors
    /// `CHANGED` where it is not: a mixture must not come out.
    async fn lose(&self, version: &Version) -> Result<()> {
        self.contents.lose_whole(self, version);
        let same = if self.contents.has_begun() { self.contents.compare(self, version).await? } else { None };
        if self.version().is_some_and(|version| version.elsewhere.is_none()) {
            return Ok(()); // another connection missed them, too
        }
        *self.version.borrow_mut() = None;
        self.look_up().await?;
        if let Some(answer) = same
            && !self.version().is_some_and(|version| version.identity.is_confirmed_by(&answer.identity))
        {
            self.adopt(&answer);
        }
        Ok(())
    }

    /// What is read into a buffer of its own at `start`, or next behind it.
    fn buffer_from(&self, start: u64) -> Option<Range<u64>> {
        self.buffers.borrow().range(start..).next().map(|(start, end)| *start..*end)
    }

    fn give_up(&self, error: &Error) {
        self.report.note(error);
        self.is_quiet.set(true);
    }

    /// Asks the server, and says as which version what it sends can be kept: another answer may be of another one.
    async fn fetch(&self, range: Range<u64>) -> Result<(Answer<StreamBody>, Option<Version>)> {
        let answer = self.source.read(range).await?;
        let version = match self.version() {
            Some(version) if version.identity.is_confirmed_by(&answer.identity) => Some(version),
            Some(version) if answer.identity.change_since(&version.identity).is_none() => None,
            // What is kept of the old version goes once something of the new one is kept.
            _ => self.adopt(&answer),
        };
        Ok((answer, version))
    }

    /// Forgets what is kept and turned out to be wrong: of this file all, of what came from another file's cache only
    /// that it would be there. That file may be right, and is another model's.
    fn reject(&self) {
        self.is_quiet.set(true);
        self.contents.take_back(self);
        let Some(version) = self.version() else { return };
        if version.elsewhere.is_some() {
            return self.contents.lose_whole(self, &version);
        }
        let (cache, key) = (Rc::clone(&self.cache), self.key.clone());
        // If it fails, nothing can be done.
        spawn_local(async move { drop(cache.delete(&key, Some(version.name.to_string())).await) });
    }

    fn lease_name(&self) -> String {
        format!("weightstream load {}", self.key)
    }
}

impl Version {
    fn new(identity: Identity) -> Self {
        Version { name: version_of(&identity).into(), identity, elsewhere: None }
    }

    /// The key under which it is kept.
    fn key<'a>(&'a self, file: &'a CachedFile) -> &'a str {
        self.elsewhere.as_deref().unwrap_or(&file.key)
    }
}
