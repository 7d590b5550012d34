//! Who answers a page: a worker, or where there can be none this page itself.

use super::{Client, Port};
use crate::browser::timer::pause;
use crate::browser::worker::{self as page_worker, Worker};
use crate::cache::Own;
use crate::cache::indexed::Database;
use crate::cache::message::Request;
use crate::cache::shelf::Shelf;
use crate::cache::status::{Kind, Status};
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

/// A worker that was started and does not say so for so long never will. It takes a tenth of a second.
const START_MS: u64 = 5_000;

/// A worker that failed is replaced so often. What fails again and again is not worth the wait.
const MAX_STARTS: u32 = 3;

thread_local! {
    static CLIENT: RefCell<Option<Rc<Client>>> = const { RefCell::new(None) };
    static STARTS: Cell<u32> = const { Cell::new(0) };
}

impl Client {
    /// The cache of this page. Whether it can keep anything is said by [`Choice::open`](crate::cache::Choice::open).
    pub(crate) fn get() -> Rc<Self> {
        let known = CLIENT.with_borrow(Option::clone);
        if let Some(client) = known
            && (client.failure.borrow().is_none() || STARTS.get() >= MAX_STARTS)
        {
            return client;
        }
        STARTS.set(STARTS.get() + 1);
        let client = Rc::new(Client::new(Port::Nobody));
        client.start();
        CLIENT.set(Some(Rc::clone(&client)));
        client
    }

    /// IndexedDB, where others of this origin that have nothing else may have kept files: service workers, for example.
    /// `None` where there is nothing of the kind.
    pub(crate) async fn of_others() -> Option<Rc<Self>> {
        if Client::get().status().await.kind == Kind::Database || !Database::exists().await {
            return None;
        }
        let client = Rc::new(Client::new(Port::Nobody));
        client.serve_here(Shelf::open().boxed_local());
        Some(client)
    }

    /// A cache that the caller gave.
    pub(crate) fn of(own: Own) -> Rc<Self> {
        let client = Rc::new(Client::new(Port::Nobody));
        client.serve_here(future::ready(Ok(Shelf::of(own))).boxed_local());
        client
    }

    /// Where files are kept. A worker that does not start is replaced by this page and IndexedDB.
    pub(in crate::cache) fn status(self: &Rc<Self>) -> LocalBoxFuture<'_, Status> {
        self.learn_status().boxed_local()
    }

    async fn learn_status(self: &Rc<Self>) -> Status {
        let mut known = self.status.lock().await;
        if let Some(status) = &*known {
            return status.clone();
        }
        let mut told = self.ask_status().await;
        if let Err(fault) = &told
            && !matches!(*self.port.borrow(), Port::Here(_))
        {
            self.do_without_worker(fault.clone());
            told = self.ask_status().await;
        }
        let status = told.unwrap_or_else(|fault| Status::nothing(&fault));
        *known = Some(status.clone());
        status
    }

    /// Why there is no worker, although there should be one.
    pub(in crate::cache) fn start_fault(&self) -> Option<Error> {
        self.start_fault.borrow().clone()
    }

    /// Starts the worker. Whether it really starts turns out later.
    fn start(self: &Rc<Self>) {
        let is_there = |name: &str| Reflect::has(&js_sys::global(), &name.into()).unwrap_or(false);
        if !is_there("Worker") {
            return self.serve_here(Shelf::open().boxed_local()); // in service workers, for example
        }
        match page_worker::start("cache") {
            Ok(worker) => {
                self.listen(&worker);
                self.port.replace(Port::Worker(worker));
            }
            Err(cause) => self.do_without_worker(no_worker(&text_of(&cause))),
        }
    }

    fn do_without_worker(self: &Rc<Self>, fault: Error) {
        self.give_up(fault.clone());
        self.failure.take();
        self.start_fault.replace(Some(fault));
        self.serve_here(Shelf::open().boxed_local());
    }

    fn serve_here(self: &Rc<Self>, shelf: LocalBoxFuture<'static, Result<Shelf>>) {
        let (sender, events) = mpsc::unbounded();
        self.port.replace(Port::Here(sender));
        let asking = Rc::downgrade(self);
        let answer = move |answer, _| {
            if let Some(client) = asking.upgrade() {
                client.answered(answer);
            }
        };
        let why_not_files = self.start_fault();
        spawn_local(async move { worker::run_shelf(shelf.await, why_not_files, events, Box::new(answer)).await });
    }

    fn ask_status(self: &Rc<Self>) -> LocalBoxFuture<'_, Result<Status>> {
        self.await_status().boxed_local()
    }

    async fn await_status(self: &Rc<Self>) -> Result<Status> {
        let answered = self.post(Request::Status)?;
        let fault = match future::select(answered, pin!(pause(START_MS))).await {
            Either::Left((Ok(answer), _)) => return Status::read(answer.get(2)).ok_or_else(|| no_worker("")),
            Either::Left((Err(_), _)) => self.failure.borrow().clone(),
            Either::Right(_) => Some(no_worker("it does not answer")),
        };
        Err(fault.unwrap_or_else(|| no_worker("")))
    }

    fn listen(self: &Rc<Self>, worker: &Worker) {
        let client = Rc::clone(self);
        let answered = Closure::<dyn FnMut(JsValue)>::new(move |event: JsValue| {
            client.answered(Reflect::get(&event, &"data".into()).unwrap_or_default().unchecked_into());
        });
        worker.set_onmessage(&answered.into_js_value());
        let client = Rc::clone(self);
        let failed = Closure::<dyn FnMut(JsValue)>::new(move |event: JsValue| {
            // What nobody handles goes on to the page, or to the worker that loads, and is an error of that.
            let prevent =
                Reflect::get(&event, &"preventDefault".into()).and_then(|method| method.dyn_into::<Function>());
            prevent.and_then(|method| method.call0(&event)).ok();
            if matches!(*client.port.borrow(), Port::Worker(_)) {
                client.give_up(no_worker(&text_of(&event)));
            }
        });
        worker.set_onerror(&failed.into_js_value());
    }

    pub(super) fn give_up(&self, error: Error) {
        self.failure.borrow_mut().get_or_insert(error);
        self.waiting.borrow_mut().clear();
        self.until_there_is_room.borrow_mut().clear();
        if let Port::Worker(worker) = &*self.port.borrow() {
            page_worker::end(worker);
        }
    }
}

fn no_worker(reason: &str) -> Error {
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    let what = format!(
        "the cache's worker failed{reason}; check that weightstream.worker.js is served, is bundled as a module and is \
         allowed by the page"
    );
    Error::new(ErrorKind::Io, what)
}

/// What an exception or an error event says.
fn text_of(cause: &JsValue) -> String {
    Reflect::get(cause, &"message".into()).ok().and_then(|text| text.as_string()).unwrap_or_default()
}
