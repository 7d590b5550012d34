//! The client of the cache: starts the worker and sends requests to it. If the worker cannot be started or does not
//! reply, the page accesses IndexedDB itself.

mod start;

use super::backend::{CachedFile, ContentLocation};
use super::message::{CacheReply, Request};
use super::record::{read_identity, write_identity};
use super::status::Status;
use super::worker::Event;
use super::{PIECE_BYTES, READ_BYTES};
use crate::browser::message::Message;
use crate::browser::navigator::navigator;
use crate::browser::timer::pause;
use crate::browser::worker::Worker;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use crate::small_map::SmallMap;
use futures::channel::{mpsc, oneshot};
use futures::future::{self, Either, FutureExt, LocalBoxFuture};
use futures::lock::Mutex;
use js_sys::{ArrayBuffer, Function, Promise, Reflect};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};

/// Time limit for a reply. After it, the cache is no longer used: a load must not wait for its cache.
const REPLY_TIMEOUT_MS: u64 = 10_000;

/// Maximum number of pending writes. If the disk is slower than the network, the load slows down instead of filling the
/// memory.
const MAX_PENDING_WRITES: usize = 16;

/// Maximum number of spare read buffers: the pending reads of one connection, and the buffer that it consumes.
const MAX_SPARE_READ_BUFFERS: usize = 3;

/// A client of the cache.
#[derive(Debug)]
pub(crate) struct Client {
    port: RefCell<Port>,
    /// The location of the cache, once it is known.
    status: Mutex<Option<Status>>,
    /// Why the worker could not be started.
    start_error: RefCell<Option<Error>>,
    waiting: RefCell<SmallMap<u32, oneshot::Sender<CacheReply>>>,
    next_id: Cell<u32>,
    /// Why the cache is no longer used.
    failure: RefCell<Option<Error>>,
    /// Spare buffers for writes. Allocation of memory costs ten times as much as the copy into it.
    spare: RefCell<Vec<ArrayBuffer>>,
    /// Spare buffers for reads.
    spare_read_buffers: RefCell<Vec<ArrayBuffer>>,
    pending_writes: Cell<usize>,
    write_waiters: RefCell<VecDeque<oneshot::Sender<()>>>,
    has_requested_persistence: Cell<bool>,
}

/// The recipient of requests.
#[derive(Debug)]
enum Port {
    Worker(Worker),
    /// A task on this page, which accesses IndexedDB or the caller's cache object.
    Page(mpsc::UnboundedSender<Event>),
    /// Not connected yet.
    Unconnected,
}

/// A pending reply.
#[derive(Debug)]
pub(crate) struct Reply {
    client: Rc<Client>,
    answer: Result<oneshot::Receiver<CacheReply>>,
}

impl Client {
    /// Returns the cached version of the file, if any.
    pub(crate) async fn open(self: &Rc<Self>, url: &str) -> Result<Option<Identity>> {
        match self.request(Request::Open { url: url.to_owned() }).answer().await? {
            CacheReply::Version(version) => Ok(version.map(|version| read_identity(&version))),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads the first bytes of a range of a version into `buffer`: see [`Reply::bytes`]. If the first byte is not
    /// cached, the worker searches for cached bytes up to `end_of_interest`.
    pub(crate) fn read(
        self: &Rc<Self>,
        url: &str,
        version: &str,
        range: Range<u64>,
        end_of_interest: u64,
        buffer: ArrayBuffer,
    ) -> Reply {
        let (url, version) = (url.to_owned(), version.to_owned());
        self.request(Request::Read { url, version, start: range.start, end: range.end, end_of_interest, buffer })
    }

    /// Waits while there are too many pending writes.
    pub(crate) async fn wait_for_pending_writes(&self) {
        while self.pending_writes.get() >= MAX_PENDING_WRITES && self.failure.borrow().is_none() {
            let (sender, receiver) = oneshot::channel();
            self.write_waiters.borrow_mut().push_back(sender);
            receiver.await.ok(); // dropped if the cache has failed
        }
    }

    /// Writes the first `byte_length` bytes of `buffer` at the offset `start` of the file. The caller need not await
    /// the reply.
    pub(crate) fn write(
        self: &Rc<Self>,
        url: &str,
        version: &str,
        start: u64,
        byte_length: u64,
        buffer: ArrayBuffer,
    ) -> Reply {
        self.request_persistence();
        self.pending_writes.set(self.pending_writes.get() + 1);
        let (url, version) = (url.to_owned(), version.to_owned());
        self.request(Request::Write { url, version, start, byte_length, buffer })
    }

    /// Must be called when a write has ended.
    pub(crate) fn write_ended(&self) {
        self.pending_writes.set(self.pending_writes.get().saturating_sub(1));
        if let Some(next) = self.write_waiters.borrow_mut().pop_front() {
            next.send(()).ok(); // the waiting task may have been cancelled
        }
    }

    /// Records the content ID of a range of a version, so that loads from other URLs find it. An empty range removes
    /// the record.
    pub(crate) fn note(self: &Rc<Self>, content: &str, url: &str, version: &str, range: Range<u64>) -> Reply {
        let (content, url, version) = (content.to_owned(), url.to_owned(), version.to_owned());
        let (start, byte_length) = (range.start, range.end - range.start);
        self.request(Request::Note { content, url, version, start, byte_length })
    }

    /// Finds the locations of contents.
    pub(crate) async fn locate(self: &Rc<Self>, contents: &[String]) -> Result<Vec<Option<ContentLocation>>> {
        match self.request(Request::Locate { contents: contents.to_vec() }).answer().await? {
            CacheReply::Locations(locations) => Ok(locations),
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes a file. If `version` is given, deletes only that version.
    pub(crate) async fn delete(self: &Rc<Self>, url: &str, version: Option<String>) -> Result<()> {
        self.request(Request::Delete { url: url.to_owned(), version }).done().await
    }

    /// Lists the cached files.
    pub(crate) async fn list(self: &Rc<Self>) -> Result<Vec<CachedFile>> {
        match self.request(Request::List).answer().await? {
            CacheReply::Files(files) => Ok(files),
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes all files.
    pub(crate) async fn clear(self: &Rc<Self>) -> Result<()> {
        self.request(Request::Clear).done().await
    }

    /// Returns a buffer of [`PIECE_BYTES`].
    pub(crate) fn piece_buffer(&self) -> ArrayBuffer {
        self.spare.borrow_mut().pop().unwrap_or_else(|| ArrayBuffer::new(PIECE_BYTES as u32))
    }

    /// Returns a buffer of [`READ_BYTES`].
    pub(crate) fn read_buffer(&self) -> ArrayBuffer {
        self.spare_read_buffers.borrow_mut().pop().unwrap_or_else(|| ArrayBuffer::new(READ_BYTES as u32))
    }

    /// Keeps a buffer for reuse, if it has one of these lengths.
    pub(crate) fn recycle(&self, buffer: ArrayBuffer) {
        let (spare, max_count) = match u64::from(buffer.byte_length()) {
            PIECE_BYTES => (&self.spare, MAX_PENDING_WRITES),
            READ_BYTES => (&self.spare_read_buffers, MAX_SPARE_READ_BUFFERS),
            _ => return,
        };
        let mut spare = spare.borrow_mut();
        if spare.len() < max_count {
            spare.push(buffer);
        }
    }

    fn new(port: Port) -> Client {
        Client {
            port: RefCell::new(port),
            status: Mutex::default(),
            start_error: RefCell::default(),
            waiting: RefCell::default(),
            next_id: Cell::new(1),
            failure: RefCell::default(),
            spare: RefCell::default(),
            spare_read_buffers: RefCell::default(),
            pending_writes: Cell::new(0),
            write_waiters: RefCell::default(),
            has_requested_persistence: Cell::new(false),
        }
    }

    fn handle_answer(&self, Message { number, body }: Message<CacheReply>) {
        let waiting = self.waiting.borrow_mut().remove(&number);
        if let Some(waiting) = waiting {
            waiting.send(body).ok(); // the requesting task may have been cancelled
        }
    }

    fn request(self: &Rc<Self>, request: Request) -> Reply {
        Reply { client: Rc::clone(self), answer: self.post(request) }
    }

    fn post(&self, request: Request) -> Result<oneshot::Receiver<CacheReply>> {
        if let Some(failure) = &*self.failure.borrow() {
            return Err(failure.clone());
        }
        let number = self.next_id.replace(self.next_id.get().wrapping_add(1));
        let message = Message { number, body: request };
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().add(number, sender);
        let is_posted = match &*self.port.borrow() {
            Port::Worker(worker) => {
                let (message, transferred) = message.encode();
                worker.post_message(&message, &transferred).is_ok()
            }
            Port::Page(events) => events.unbounded_send(Event::Message(message)).is_ok(),
            Port::Unconnected => false,
        };
        if is_posted { Ok(receiver) } else { Err(Error::new(ErrorKind::Io, "the cache worker accepts no messages")) }
    }

    /// Requests persistent storage once, so that the browser does not evict the cache when the disk is full. The cache
    /// does not depend on the result.
    fn request_persistence(&self) {
        if self.has_requested_persistence.replace(true) || matches!(*self.port.borrow(), Port::Page(_)) {
            return;
        }
        let storage = navigator("storage").unwrap_or_default();
        let promise = Reflect::get(&storage, &"persist".into())
            .and_then(|function| function.dyn_into::<Function>())
            .and_then(|function| function.call0(&storage))
            .and_then(|promise| promise.dyn_into::<Promise>());
        if let Ok(promise) = promise {
            spawn_local(async move { drop(JsFuture::from(promise).await) });
        }
    }
}

impl Reply {
    /// Returns the number of bytes, the position after them (or, if there are none, the end of the gap), and the
    /// buffer.
    pub(crate) async fn bytes(self) -> Result<(u64, u64, ArrayBuffer)> {
        match self.answer().await? {
            CacheReply::Read { count, next, buffer } => Ok((count, next, buffer)),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the buffer of the request for reuse.
    pub(crate) async fn buffer(self) -> Result<ArrayBuffer> {
        match self.answer().await? {
            CacheReply::Written { buffer } => Ok(buffer),
            other => Err(unexpected(&other)),
        }
    }

    /// Waits until the request has been processed.
    pub(crate) async fn done(self) -> Result<()> {
        self.answer().await.map(drop)
    }

    fn answer(self) -> LocalBoxFuture<'static, Result<CacheReply>> {
        self.settle().boxed_local() // boxed to avoid a copy of its code at every call site
    }

    async fn settle(self) -> Result<CacheReply> {
        let Reply { client, answer } = self;
        let reply = match future::select(answer?, pin!(pause(REPLY_TIMEOUT_MS))).await {
            Either::Left((reply, _)) => reply.ok(),
            Either::Right(_) => {
                client.fail(Error::new(ErrorKind::Io, "the cache worker does not answer"));
                None
            }
        };
        let Some(answer) = reply else {
            let failure = client.failure.borrow().clone();
            return Err(failure.unwrap_or_else(|| Error::new(ErrorKind::Io, "the cache worker was stopped")));
        };
        match answer {
            CacheReply::Failed { message } => Err(Error::new(ErrorKind::Io, message)),
            answer => Ok(answer),
        }
    }
}

fn unexpected(answer: &CacheReply) -> Error {
    Error::new(ErrorKind::Internal, format!("the cache worker sent an unexpected answer: {answer:?}"))
}

/// Encodes a version for messages.
pub(crate) fn version_of(identity: &Identity) -> String {
    write_identity(identity)
}

/// Decodes the output of [`version_of`].
pub(crate) fn identity_of(version: &str) -> Identity {
    read_identity(version)
}
