//! The cache's worker: it does what pages ask, one thing after the other.

use super::contents::Content;
use super::keep::Keep;
use super::message::Request;
use super::opfs::{Folder, failed};
use super::shelf::Shelf;
use super::status::Status;
use super::store::{BroadcastChannel, Store};
use crate::browser::timer::pause;
use crate::error::{Error, ErrorKind, Result};
use futures::StreamExt;
use futures::channel::mpsc;
use futures::future::{self, Either, FutureExt, LocalBoxFuture};
use js_sys::{Array, ArrayBuffer, Reflect, Uint8Array};
use std::pin::pin;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// What was written is flushed, and all logs are closed, once nothing was asked for so long: a flush takes longer than
/// many writes.
const IDLE_MS: u64 = 1_000;

pub(super) enum Event {
    /// A page asks.
    Asked(Array),
    /// Another worker wants the log of this name.
    Called(String),
}

/// Begins to answer the messages that this worker gets.
#[wasm_bindgen(js_name = serveCache)]
#[allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]
pub fn serve_cache() {
    let (sender, events) = mpsc::unbounded();
    let asked = sender.clone();
    listen(&js_sys::global(), move |data| {
        asked.unbounded_send(Event::Asked(data.unchecked_into())).ok(); // the loop below never ends
    });
    spawn_local(async move {
        match open_store(sender).await {
            Ok(store) => run(Ok(store), None, events, Box::new(post)).await,
            // Private windows may have the one and not the other.
            Err(error) => run_shelf(Shelf::open().boxed_local().await, Some(error), events, Box::new(post)).await,
        }
    });
}

async fn open_store(sender: mpsc::UnboundedSender<Event>) -> Result<Store> {
    if !Folder::can_be() {
        return Err(Error::new(ErrorKind::Unsupported, "the browser has no files for workers"));
    }
    let channel = BroadcastChannel::new("weightstream cache").map_err(failed)?;
    listen(&channel, move |data: JsValue| {
        if let Some(name) = data.as_string() {
            sender.unbounded_send(Event::Called(name)).ok();
        }
    });
    Store::new(channel).await
}

/// [`run`], of which there is one copy for workers and pages.
pub(super) fn run_shelf(
    shelf: Result<Shelf>,
    why_not_files: Option<Error>,
    events: mpsc::UnboundedReceiver<Event>,
    post: Box<dyn Fn(Array, Array)>,
) -> LocalBoxFuture<'static, ()> {
    run(shelf, why_not_files, events, post).boxed_local()
}

/// Does one thing after the other, until nobody is left who could ask. `why_not_files` says why the files are not in
/// the origin private file system; `post` gets each answer, and the buffers in it.
async fn run<K: Keep>(
    mut store: Result<K>,
    why_not_files: Option<Error>,
    mut events: mpsc::UnboundedReceiver<Event>,
    post: Box<dyn Fn(Array, Array)>,
) {
    // One that is read into wasm memory on its way to the disk, where its checksum is taken.
    let mut scratch = Vec::new();
    loop {
        let is_open = store.as_ref().is_ok_and(Keep::is_open);
        let event = if is_open {
            match future::select(events.next(), pin!(pause(IDLE_MS))).await {
                Either::Left((event, _)) => event,
                Either::Right(_) => {
                    if let Ok(store) = &mut store {
                        store.rest();
                    }
                    continue;
                }
            }
        } else {
            events.next().await
        };
        match (event, &mut store) {
            (None, _) => return,
            (Some(Event::Called(name)), Ok(store)) => store.give_up(&name),
            (Some(Event::Called(_)), Err(_)) => {}
            (Some(Event::Asked(message)), store) => {
                let (buffer, outcome) = match (Request::read(&message), store) {
                    (Ok(Request::Status), store) => (None, Ok(Status::of(store, why_not_files.as_ref()).write())),
                    (Ok(request), Ok(store)) => serve(store, request, &mut scratch).await,
                    (Ok(request), Err(error)) => (None, without(&request).ok_or_else(|| error.clone())),
                    (Err(error), _) => (None, Err(error)),
                };
                let transferred = buffer.iter().collect();
                post(answer(&message.get(0), buffer, outcome), transferred);
            }
        }
    }
}

/// The answer of a browser that has nowhere to keep files: where nothing is, there is nothing to list and to forget.
fn without(request: &Request) -> Option<JsValue> {
    match request {
        Request::List => Some(Array::new().into()),
        Request::Clear | Request::Delete { .. } => Some(JsValue::UNDEFINED),
        _ => None,
    }
}

/// The answer, and the buffer that the page gets back.
async fn serve(
    store: &mut impl Keep,
    request: Request,
    scratch: &mut Vec<u8>,
) -> (Option<ArrayBuffer>, Result<JsValue>) {
    match request {
        Request::Status => (None, Ok(JsValue::UNDEFINED)), // was answered already
        Request::Open { url } => (None, store.version(&url).await.map(JsValue::from)),
        Request::Read { url, version, start, end, end_of_interest, buffer } => {
            let read = store.read(&url, &version, start..end, end_of_interest, &buffer).await;
            let pair = read.map(|(count, next)| Array::of2(&(count as f64).into(), &(next as f64).into()).into());
            (Some(buffer), pair)
        }
        Request::Write { url, version, start, byte_length, buffer } => {
            let bytes = Uint8Array::new(&buffer).subarray(0, byte_length as u32);
            scratch.resize(bytes.length() as usize, 0);
            bytes.copy_to(scratch);
            let written = store.write(&url, &version, start, scratch).await;
            (Some(buffer), written.map(|()| JsValue::UNDEFINED))
        }
        Request::Note { content, url, version, start, byte_length } => {
            let range = start..start.saturating_add(byte_length);
            let noted = match parse_content(&content) {
                Some(content) => store.note(&content, &url, &version, range).await,
                None => Ok(()),
            };
            (None, noted.map(|()| JsValue::UNDEFINED))
        }
        Request::Locate { contents } => {
            let contents: Vec<_> = contents.iter().map(|content| parse_content(&content.as_string()?)).collect();
            (None, store.locate(&contents).await.map(JsValue::from))
        }
        Request::Delete { url, version } => {
            (None, store.delete(&url, version.as_deref()).await.map(|()| JsValue::UNDEFINED))
        }
        Request::List => (None, store.list().await.map(JsValue::from)),
        Request::Clear => (None, store.clear().await.map(|()| JsValue::UNDEFINED)),
    }
}

fn parse_content(text: &str) -> Option<Content> {
    blake3::Hash::from_hex(text).ok().map(|hash| *hash.as_bytes())
}

/// `[id, what is wrong, the answer, the buffer]`
fn answer(id: &JsValue, buffer: Option<ArrayBuffer>, outcome: Result<JsValue>) -> Array {
    let buffer = buffer.map_or(JsValue::UNDEFINED, JsValue::from);
    match outcome {
        Ok(answer) => Array::of4(id, &JsValue::UNDEFINED, &answer, &buffer),
        Err(error) => Array::of4(id, &error.what.into(), &JsValue::UNDEFINED, &buffer),
    }
}

fn post(message: Array, transferred: Array) {
    let scope: Scope = js_sys::global().unchecked_into();
    // What cannot be posted is missed by the page, which gives the cache up then.
    scope.post_message(&message, &transferred).ok();
}

/// Listens for as long as the worker lives.
fn listen(target: &JsValue, mut heard: impl FnMut(JsValue) + 'static) {
    let listener = Closure::<dyn FnMut(JsValue)>::new(move |event: JsValue| {
        heard(Reflect::get(&event, &"data".into()).unwrap_or(JsValue::UNDEFINED));
    });
    Reflect::set(target, &"onmessage".into(), &listener.into_js_value()).ok(); // an event target takes any listener
}

#[wasm_bindgen]
extern "C" {
    type Scope;
    #[wasm_bindgen(method, catch, js_name = postMessage)]
    fn post_message(this: &Scope, message: &Array, transferred: &Array) -> Result<(), JsValue>;
}
