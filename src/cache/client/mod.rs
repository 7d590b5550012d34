//! The page's side of the cache: starts the worker, and asks it. Where no worker can be started, or the one that was
//! started does not answer, the page keeps files in IndexedDB by itself.

mod start;

use super::message::Request;
use super::record::{read_identity, write_identity};
use super::status::Status;
use super::worker::Event;
use super::{PIECE_BYTES, STRETCH_BYTES};
use crate::browser::navigator::navigator;
use crate::browser::timer::pause;
use crate::browser::worker::Worker;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use futures::channel::{mpsc, oneshot};
use futures::future::{self, Either, FutureExt, LocalBoxFuture};
use futures::lock::Mutex;
use js_sys::{Array, ArrayBuffer, Function, Promise, Reflect};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};

/// A worker that does not answer for so long is given up: a load must not wait for its cache.
const PATIENCE_MS: u64 = 10_000;

/// So many pieces may be on their way to the disk. A disk that is slower than the network slows the load down, rather
/// than filling the memory.
const MAX_PIECES_ON_THEIR_WAY: usize = 16;

/// So many buffers for reads are kept for the next ones: what one connection has on its way, and what it takes from.
const MAX_SPARE_STRETCHES: usize = 3;

/// The cache, as a page asks it.
#[derive(Debug)]
pub(crate) struct Client {
    port: RefCell<Port>,
    /// Where files are kept, once that is known.
    status: Mutex<Option<Status>>,
    /// Why this page keeps them itself, where a worker should.
    start_fault: RefCell<Option<Error>>,
    waiting: RefCell<HashMap<u32, oneshot::Sender<Array>>>,
    next_id: Cell<u32>,
    /// Why the cache is not asked any more.
    failure: RefCell<Option<Error>>,
    /// Buffers for pieces: fresh memory costs ten times as much as the copy into it.
    spare: RefCell<Vec<ArrayBuffer>>,
    /// The same for what is read.
    spare_stretches: RefCell<Vec<ArrayBuffer>>,
    on_their_way: Cell<usize>,
    until_there_is_room: RefCell<VecDeque<oneshot::Sender<()>>>,
    has_asked_to_persist: Cell<bool>,
}

/// Who answers.
#[derive(Debug)]
enum Port {
    Worker(Worker),
    /// This page itself, from what the caller gave or from IndexedDB.
    Here(mpsc::UnboundedSender<Event>),
    /// Nobody yet.
    Nobody,
}

/// What was asked, and not yet answered.
#[derive(Debug)]
pub(crate) struct Reply {
    client: Rc<Client>,
    answer: Result<oneshot::Receiver<Array>>,
}

/// Where a content is kept.
#[derive(Debug)]
pub(crate) struct Located {
    /// Under which key,
    pub(crate) key: String,
    /// in which version of its file,
    pub(crate) version: String,
    /// from which byte on,
    pub(crate) start: u64,
    /// and how long it is, if all of it is there.
    pub(crate) byte_length: Option<u64>,
}

impl Client {
    /// Which version of the file is kept, if one is.
    pub(crate) async fn open(self: &Rc<Self>, url: &str) -> Result<Option<Identity>> {
        let answer = self.ask(Request::Open { url: url.to_owned() }).answer().await?;
        let version = answer.get(2).as_string();
        Ok(version.map(|version| read_identity(&version)))
    }

    /// Asks for the first bytes of a range of that version, as many as the buffer takes: see [`Reply::bytes`]. Where
    /// there are none, all up to `end_of_interest` is of interest.
    pub(crate) fn read(
        self: &Rc<Self>,
        url: &str,
        version: &str,
        range: Range<u64>,
        end_of_interest: u64,
        buffer: ArrayBuffer,
    ) -> Reply {
        let (url, version) = (url.to_owned(), version.to_owned());
        self.ask(Request::Read { url, version, start: range.start, end: range.end, end_of_interest, buffer })
    }

    /// Waits where too many pieces are on their way to the disk.
    pub(crate) async fn wait_for_room(&self) {
        while self.on_their_way.get() >= MAX_PIECES_ON_THEIR_WAY && self.failure.borrow().is_none() {
            let (sender, receiver) = oneshot::channel();
            self.until_there_is_room.borrow_mut().push_back(sender);
            receiver.await.ok(); // dropped where the cache was given up
        }
    }

    /// Keeps the first `byte_length` bytes of `buffer`, which the file has from `start`. The reply needs no waiting
    /// for.
    pub(crate) fn write(
        self: &Rc<Self>,
        url: &str,
        version: &str,
        start: u64,
        byte_length: u64,
        buffer: ArrayBuffer,
    ) -> Reply {
        self.ask_to_persist();
        self.on_their_way.set(self.on_their_way.get() + 1);
        let (url, version) = (url.to_owned(), version.to_owned());
        self.ask(Request::Write { url, version, start, byte_length, buffer })
    }

    /// Notes that a write has ended.
    pub(crate) fn written(&self) {
        self.on_their_way.set(self.on_their_way.get().saturating_sub(1));
        if let Some(next) = self.until_there_is_room.borrow_mut().pop_front() {
            next.send(()).ok(); // whoever waited may have been stopped
        }
    }

    /// Notes that bytes of a version have a content, so that they are found under any URL. No bytes at all: that it is
    /// not to be found there any more.
    pub(crate) fn note(self: &Rc<Self>, content: &str, url: &str, version: &str, range: Range<u64>) -> Reply {
        let (content, url, version) = (content.to_owned(), url.to_owned(), version.to_owned());
        let (start, byte_length) = (range.start, range.end - range.start);
        self.ask(Request::Note { content, url, version, start, byte_length })
    }

    /// Where contents are kept, if they are.
    pub(crate) async fn locate(self: &Rc<Self>, contents: &[String]) -> Result<Vec<Option<Located>>> {
        let contents = contents.iter().map(|content| JsValue::from_str(content)).collect();
        let places: Array = self.ask(Request::Locate { contents }).answer().await?.get(2).unchecked_into();
        let place = |place: JsValue| {
            let place: Array = place.dyn_into().ok()?;
            let number = |at: u32| place.get(at).as_f64().map(|number| number as u64);
            let (key, version, start) = (place.get(0).as_string()?, place.get(1).as_string()?, number(2)?);
            Some(Located { key, version, start, byte_length: number(3) })
        };
        Ok(places.iter().map(place).collect())
    }

    /// Forgets a file; only if it is of this version, where one is named.
    pub(crate) async fn delete(self: &Rc<Self>, url: &str, version: Option<String>) -> Result<()> {
        self.ask(Request::Delete { url: url.to_owned(), version }).answer().await.map(drop)
    }

    /// What is kept: an array of `[key, bytes that it takes, length of the file, milliseconds since 1970]`.
    pub(crate) async fn list(self: &Rc<Self>) -> Result<Array> {
        Ok(self.ask(Request::List).answer().await?.get(2).unchecked_into())
    }

    /// Forgets everything.
    pub(crate) async fn clear(self: &Rc<Self>) -> Result<()> {
        self.ask(Request::Clear).answer().await.map(drop)
    }

    /// A buffer of [`PIECE_BYTES`].
    pub(crate) fn buffer(&self) -> ArrayBuffer {
        self.spare.borrow_mut().pop().unwrap_or_else(|| ArrayBuffer::new(PIECE_BYTES as u32))
    }

    /// A buffer of [`STRETCH_BYTES`].
    pub(crate) fn stretch(&self) -> ArrayBuffer {
        self.spare_stretches.borrow_mut().pop().unwrap_or_else(|| ArrayBuffer::new(STRETCH_BYTES as u32))
    }

    /// Takes a buffer back.
    pub(crate) fn recycle(&self, buffer: ArrayBuffer) {
        let (spare, most) = match u64::from(buffer.byte_length()) {
            PIECE_BYTES => (&self.spare, MAX_PIECES_ON_THEIR_WAY),
            STRETCH_BYTES => (&self.spare_stretches, MAX_SPARE_STRETCHES),
            _ => return,
        };
        let mut spare = spare.borrow_mut();
        if spare.len() < most {
            spare.push(buffer);
        }
    }

    fn new(port: Port) -> Client {
        Client {
            port: RefCell::new(port),
            status: Mutex::default(),
            start_fault: RefCell::default(),
            waiting: RefCell::default(),
            next_id: Cell::new(1),
            failure: RefCell::default(),
            spare: RefCell::default(),
            spare_stretches: RefCell::default(),
            on_their_way: Cell::new(0),
            until_there_is_room: RefCell::default(),
            has_asked_to_persist: Cell::new(false),
        }
    }

    fn answered(&self, answer: Array) {
        let id = answer.get(0).as_f64().unwrap_or_default() as u32;
        let waiting = self.waiting.borrow_mut().remove(&id);
        if let Some(waiting) = waiting {
            waiting.send(answer).ok(); // whoever asked may have been stopped
        }
    }

    fn ask(self: &Rc<Self>, request: Request) -> Reply {
        Reply { client: Rc::clone(self), answer: self.post(request) }
    }

    fn post(&self, request: Request) -> Result<oneshot::Receiver<Array>> {
        if let Some(failure) = &*self.failure.borrow() {
            return Err(failure.clone());
        }
        let (message, buffer) = request.write();
        let id = self.next_id.replace(self.next_id.get().wrapping_add(1));
        message.unshift(&id.into());
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(id, sender);
        let is_posted = match &*self.port.borrow() {
            Port::Worker(worker) => worker.post_message(&message, &buffer.iter().collect()).is_ok(),
            Port::Here(events) => events.unbounded_send(Event::Asked(message)).is_ok(),
            Port::Nobody => false,
        };
        if is_posted { Ok(receiver) } else { Err(Error::new(ErrorKind::Io, "the cache takes no messages")) }
    }

    /// Asks the browser once not to clear away what is kept when the disk is full. It decides by itself, and its answer
    /// changes nothing here.
    fn ask_to_persist(&self) {
        if self.has_asked_to_persist.replace(true) || matches!(*self.port.borrow(), Port::Here(_)) {
            return;
        }
        let storage = navigator("storage").unwrap_or_default();
        let asked = Reflect::get(&storage, &"persist".into())
            .and_then(|function| function.dyn_into::<Function>())
            .and_then(|function| function.call0(&storage))
            .and_then(|promise| promise.dyn_into::<Promise>());
        if let Ok(asked) = asked {
            spawn_local(async move { drop(JsFuture::from(asked).await) });
        }
    }
}

impl Reply {
    /// How many bytes came, in which buffer; where none did, from where on there are some again.
    pub(crate) async fn bytes(self) -> Result<(u64, u64, ArrayBuffer)> {
        let answer = self.answer().await?;
        let numbers: Array = answer.get(2).unchecked_into();
        let number = |at: u32| numbers.get(at).as_f64().unwrap_or_default() as u64;
        Ok((number(0), number(1), answer.get(3).unchecked_into()))
    }

    /// The buffer that was sent, for other use.
    pub(crate) async fn buffer(self) -> Result<ArrayBuffer> {
        Ok(self.answer().await?.get(3).unchecked_into())
    }

    /// The whole answer: `[id, nothing, the answer, the buffer]`.
    pub(crate) fn answer(self) -> LocalBoxFuture<'static, Result<Array>> {
        self.settle().boxed_local() // or the compiler copies all of it to wherever something is asked
    }

    async fn settle(self) -> Result<Array> {
        let Reply { client, answer } = self;
        let answered = match future::select(answer?, pin!(pause(PATIENCE_MS))).await {
            Either::Left((answered, _)) => answered.ok(),
            Either::Right(_) => {
                client.give_up(Error::new(ErrorKind::Io, "the cache does not answer"));
                None
            }
        };
        let Some(answer) = answered else {
            let failure = client.failure.borrow().clone();
            return Err(failure.unwrap_or_else(|| Error::new(ErrorKind::Io, "the cache is gone")));
        };
        match answer.get(1).as_string() {
            Some(what) => {
                if let Ok(buffer) = answer.get(3).dyn_into() {
                    client.recycle(buffer);
                }
                Err(Error::new(ErrorKind::Io, what))
            }
            None => Ok(answer),
        }
    }
}

/// A version as messages say it.
pub(crate) fn version_of(identity: &Identity) -> String {
    write_identity(identity)
}

/// What [`version_of`] was of.
pub(crate) fn identity_of(version: &str) -> Identity {
    read_identity(version)
}
