//! Starts the cache worker, or a replacement for it on the page.

use super::{Client, Port};
use crate::browser::message::Message;
use crate::browser::timer::{now_ms, pause};
use crate::browser::worker::{self as page_worker, Worker, script};
use crate::cache::UserCache;
use crate::cache::backend::Kind;
use crate::cache::indexed::Database;
use crate::cache::message::{CacheReply, Request};
use crate::cache::status::Status;
use crate::cache::worker;
use crate::error::{Error, ErrorKind, Result};
use futures::channel::mpsc;
use futures::future::{self, Either, FutureExt, LocalBoxFuture};
use js_sys::{Function, Reflect};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// Time limit for the start of a worker, which usually takes 0.1 s.
const START_MS: u64 = 5_000;

/// Maximum number of workers that are started within [`RESTART_MS`]. A worker that fails is started again, because the
/// cause may have passed, such as a lost connection. A permanent cause must not delay every load.
const MAX_STARTS: usize = 8;
const RESTART_MS: f64 = 30_000.0;

thread_local! {
    static CLIENT: RefCell<Option<Rc<Client>>> = const { RefCell::new(None) };
    /// The times of the last starts, in milliseconds since the start of the page.
    static STARTS: Cell<[f64; MAX_STARTS]> = const { Cell::new([f64::NEG_INFINITY; MAX_STARTS]) };
    /// The cache in the object that the platform provides, for example a folder in Node.js.
    static OF_PLATFORM: RefCell<Option<Rc<Client>>> = const { RefCell::new(None) };
}

impl Client {
    /// The cache of this page. [`CacheOption::open`](crate::cache::CacheOption::open) checks whether it is available.
    /// If its worker has failed, this call starts another one.
    pub(crate) fn get() -> Rc<Self> {
        let known = CLIENT.with_borrow(Option::clone);
        if let Some(client) = known
            && (!client.has_lost_worker() || !may_start())
        {
            return client;
        }
        let client = Rc::new(Client::new(Port::Unconnected));
        client.start();
        CLIENT.set(Some(Rc::clone(&client)));
        client
    }

    /// The cache in IndexedDB, if this page uses OPFS. Other contexts of the origin without OPFS, such as service
    /// workers, may have cached files there. `None` if the database does not exist or is the cache of this page.
    pub(crate) async fn indexed_db_of_others(self: &Rc<Self>) -> Option<Rc<Self>> {
        if self.status().await.kind == Kind::Database || !Database::exists().await {
            return None;
        }
        let client = Rc::new(Client::new(Port::Unconnected));
        client.serve_on_page(None);
        Some(client)
    }

    /// The cache in the object that the platform provides in place of the storage of a browser.
    pub(crate) fn of_platform() -> Option<Rc<Self>> {
        OF_PLATFORM.with_borrow(Option::clone)
    }

    /// Sets the object that the platform provides, once for each instance of the module.
    #[cfg(feature = "js")]
    pub(crate) fn set_platform(user_cache: UserCache) {
        OF_PLATFORM.with_borrow_mut(|client| _ = client.get_or_insert_with(|| Client::with_user_cache(user_cache)));
    }

    /// A cache object that the caller provides.
    pub(crate) fn with_user_cache(user_cache: UserCache) -> Rc<Self> {
        let client = Rc::new(Client::new(Port::Unconnected));
        client.serve_on_page(Some(user_cache));
        client
    }

    /// Returns the location of the cache. If the worker does not start, this page accesses IndexedDB itself.
    pub(in crate::cache) fn status(self: &Rc<Self>) -> LocalBoxFuture<'_, Status> {
        self.determine_status().boxed_local()
    }

    async fn determine_status(self: &Rc<Self>) -> Status {
        let mut known = self.status.lock().await;
        if let Some(status) = &*known {
            return status.clone();
        }
        let mut result = self.request_status().await;
        if result.is_err() && self.failure.borrow().is_none() {
            record_starts(MAX_STARTS); // it does not answer: every further start would take as long
        } else if result.is_err() && may_start() {
            self.failure.take();
            self.start();
            result = self.request_status().await;
        }
        if let Err(error) = &result
            && !matches!(*self.port.borrow(), Port::Page(_))
        {
            self.replace_worker(error.clone());
            result = self.request_status().await;
        }
        let status = result.unwrap_or_else(|error| Status::unavailable(&error));
        if status.kind != Kind::Unavailable {
            *known = Some(status.clone());
        }
        status
    }

    /// Why the worker could not be started.
    pub(in crate::cache) fn start_error(&self) -> Option<Error> {
        self.start_error.borrow().clone()
    }

    /// Whether the worker could not be started or has failed since.
    fn has_lost_worker(&self) -> bool {
        self.start_error.borrow().is_some() || self.failure.borrow().is_some()
    }

    /// Starts the worker. A failure may be reported later.
    fn start(self: &Rc<Self>) {
        let exists = |name: &str| Reflect::has(&js_sys::global(), &name.into()).unwrap_or(false);
        if !exists("Worker") {
            return self.serve_on_page(None); // in service workers, for example
        }
        record_starts(1);
        match page_worker::start("cache") {
            Ok(worker) => {
                self.listen(&worker);
                self.port.replace(Port::Worker(worker));
            }
            Err(cause) => self.replace_worker(worker_error(&text_of(&cause))),
        }
    }

    fn replace_worker(self: &Rc<Self>, error: Error) {
        self.fail(error.clone());
        self.failure.take();
        self.start_error.replace(Some(error));
        self.serve_on_page(None);
    }

    /// Stores files in `user_cache`, or else in IndexedDB, by a task on this page.
    fn serve_on_page(self: &Rc<Self>, user_cache: Option<UserCache>) {
        let (sender, events) = mpsc::unbounded();
        self.port.replace(Port::Page(sender));
        let weak_client = Rc::downgrade(self);
        let answer = move |answer| {
            if let Some(client) = weak_client.upgrade() {
                client.handle_answer(answer);
            }
        };
        let opfs_error = self.start_error();
        spawn_local(worker::run_kv_cache(user_cache, opfs_error, events, Box::new(answer)));
    }

    fn request_status(self: &Rc<Self>) -> LocalBoxFuture<'_, Result<Status>> {
        self.await_status().boxed_local()
    }

    async fn await_status(self: &Rc<Self>) -> Result<Status> {
        let reply = self.post(Request::Status)?;
        let error = match future::select(reply, pin!(pause(START_MS))).await {
            Either::Left((Ok(CacheReply::Status(status)), _)) => return Ok(status),
            Either::Left((Ok(_), _)) => None,
            Either::Left((Err(_), _)) => self.failure.borrow().clone(),
            Either::Right(_) => Some(worker_error("it does not answer")),
        };
        Err(error.unwrap_or_else(|| worker_error("")))
    }

    fn listen(self: &Rc<Self>, worker: &Worker) {
        let client = Rc::clone(self);
        let on_message = Closure::<dyn FnMut(JsValue)>::new(move |event: JsValue| match Message::decode(&event) {
            Some(answer) => client.handle_answer(answer),
            None => client.fail(worker_error("it sends unknown messages")),
        });
        worker.set_onmessage(&on_message.into_js_value());
        let client = Rc::clone(self);
        let on_error = Closure::<dyn FnMut(JsValue)>::new(move |event: JsValue| {
            // An unhandled error event would be reported as an error of the page or of the worker that loads.
            let prevent =
                Reflect::get(&event, &"preventDefault".into()).and_then(|method| method.dyn_into::<Function>());
            prevent.and_then(|method| method.call0(&event)).ok();
            if matches!(*client.port.borrow(), Port::Worker(_)) {
                client.fail(worker_error(&text_of(&event)));
            }
        });
        worker.set_onerror(&on_error.into_js_value());
    }

    pub(super) fn fail(&self, error: Error) {
        self.failure.borrow_mut().get_or_insert(error);
        self.waiting.take();
        self.write_waiters.borrow_mut().clear();
        if let Port::Worker(worker) = &*self.port.borrow() {
            page_worker::end(worker);
        }
    }
}

fn may_start() -> bool {
    let [oldest, ..] = STARTS.get();
    now_ms() - oldest > RESTART_MS
}

fn record_starts(count: usize) {
    let mut starts = STARTS.get();
    starts.rotate_left(count.min(MAX_STARTS));
    starts.iter_mut().rev().take(count).for_each(|start| *start = now_ms());
    STARTS.set(starts);
}

fn worker_error(reason: &str) -> Error {
    let unknown = concat!("check that ", script!(), " is served, is bundled as a module and is allowed by the page");
    let reason = if reason.is_empty() { unknown } else { reason.trim_end_matches('.') };
    Error::new(ErrorKind::Io, format!("the cache worker failed: {reason}"))
}

/// The message of an exception or an error event.
fn text_of(cause: &JsValue) -> String {
    Reflect::get(cause, &"message".into()).ok().and_then(|text| text.as_string()).unwrap_or_default()
}
