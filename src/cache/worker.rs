//! The cache worker: processes the requests of a page one after the other.

use super::UserCache;
use super::backend::CacheBackend;
use super::kv_cache::KvCache;
use super::message::{CacheReply, Request};
use super::opfs::{Directory, storage_error};
use super::status::Status;
use super::store::{BroadcastChannel, Store};
#[cfg(feature = "js")]
use crate::browser::deferred;
use crate::browser::message::Message;
use crate::browser::timer::pause;
#[cfg(feature = "js")]
use crate::deferred::Code;
use crate::digest::from_hex;
use crate::error::{Error, ErrorKind, Result};
use futures::StreamExt;
use futures::channel::mpsc;
use futures::future::{self, Either, FutureExt, LocalBoxFuture};
use futures::stream::Peekable;
use js_sys::{Array, Reflect, Uint8Array};
use std::pin::{Pin, pin};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// Idle time after which all logs are flushed and closed. A flush takes longer than many writes.
const IDLE_MS: u64 = 1_000;

pub(super) enum Event {
    /// A request of the page.
    Message(Message<Request>),
    /// Another worker needs the log of this name.
    LogRequested(String),
}

/// Starts to process the messages to this worker.
#[cfg_attr(feature = "js", wasm_bindgen(js_name = serveCache))]
#[allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]
pub fn serve_cache() {
    let (sender, events) = mpsc::unbounded();
    let messages = sender.clone();
    listen(&js_sys::global(), move |event| {
        // A message that cannot be decoded gets no answer: the page's request times out.
        if let Some(message) = Message::decode(&event) {
            messages.unbounded_send(Event::Message(message)).ok(); // the loop below never ends
        }
    });
    spawn_local(async move {
        match open_store(sender).await {
            Ok(store) => run(Ok(Box::new(store)), None, events.peekable(), Box::new(post)).await,
            // Private windows may have IndexedDB but no OPFS.
            Err(error) => run_kv_cache(None, Some(error), events, Box::new(post)).await,
        }
    });
}

async fn open_store(sender: mpsc::UnboundedSender<Event>) -> Result<Store> {
    if !Directory::is_supported() {
        return Err(Error::new(ErrorKind::Unsupported, "the browser has no synchronous file access in workers"));
    }
    let channel = BroadcastChannel::new("weightstream cache").map_err(storage_error)?;
    listen(&channel, move |event: JsValue| {
        if let Some(name) = Reflect::get(&event, &"data".into()).ok().and_then(|data| data.as_string()) {
            sender.unbounded_send(Event::LogRequested(name)).ok();
        }
    });
    Store::new(channel).await
}

/// Processes events as [`run`] does, with the cache in `user_cache` or else in IndexedDB.
pub(super) fn run_kv_cache(
    user_cache: Option<UserCache>,
    opfs_error: Option<Error>,
    events: mpsc::UnboundedReceiver<Event>,
    post: Box<dyn Fn(Message<CacheReply>)>,
) -> LocalBoxFuture<'static, ()> {
    async move {
        let mut events = events.peekable();
        while Pin::new(&mut events).peek().await.is_some() {
            match open_kv_cache(user_cache.clone()).await {
                // The code cannot be loaded now. The next request tries again.
                Err(error) if error.kind == ErrorKind::Network => {
                    if let Some(Event::Message(Message { number, body })) = events.next().await {
                        let body = match body {
                            Request::Status => CacheReply::Status(Status::unavailable(&error)),
                            _ => CacheReply::Failed { message: error.what },
                        };
                        post(Message { number, body });
                    }
                }
                store => return run(store, opfs_error, events, post).await,
            }
        }
    }
    .boxed_local()
}

async fn open_kv_cache(user_cache: Option<UserCache>) -> Result<Box<dyn CacheBackend>> {
    #[cfg(feature = "js")]
    deferred::load(Code::Databases).await?;
    KvCache::open(user_cache).await
}

/// Processes events until all senders are dropped. `opfs_error` says why OPFS is not used. `post` sends each
/// answer.
async fn run(
    mut store: Result<Box<dyn CacheBackend>>,
    opfs_error: Option<Error>,
    mut events: Peekable<mpsc::UnboundedReceiver<Event>>,
    post: Box<dyn Fn(Message<CacheReply>)>,
) {
    // Holds a copy of a piece in wasm memory while its checksum is computed and it is written.
    let mut scratch = Vec::new();
    loop {
        let is_open = store.as_ref().is_ok_and(|store| store.is_open());
        let event = if is_open {
            match future::select(events.next(), pin!(pause(IDLE_MS))).await {
                Either::Left((event, _)) => event,
                Either::Right(_) => {
                    if let Ok(store) = &mut store {
                        store.close_all();
                    }
                    continue;
                }
            }
        } else {
            events.next().await
        };
        match (event, &mut store) {
            (None, _) => return,
            (Some(Event::LogRequested(name)), Ok(store)) => store.release(&name),
            (Some(Event::LogRequested(_)), Err(_)) => {}
            (Some(Event::Message(Message { number, body })), store) => {
                let answer = match (body, store) {
                    (Request::Status, store) => Ok(CacheReply::Status(Status::of(store, opfs_error.as_ref()))),
                    (request, Ok(store)) => serve(store.as_mut(), request, &mut scratch).await,
                    (request, Err(error)) => answer_without_cache(&request).ok_or_else(|| error.clone()),
                };
                let body = answer.unwrap_or_else(|error| CacheReply::Failed { message: error.what });
                post(Message { number, body });
            }
        }
    }
}

/// The answer if there is no cache. Listing and deletion succeed, because the cache is empty.
fn answer_without_cache(request: &Request) -> Option<CacheReply> {
    match request {
        Request::List => Some(CacheReply::Files(Vec::new())),
        Request::Clear | Request::Delete { .. } => Some(CacheReply::Done),
        _ => None,
    }
}

async fn serve(store: &mut dyn CacheBackend, request: Request, scratch: &mut Vec<u8>) -> Result<CacheReply> {
    Ok(match request {
        Request::Status => CacheReply::Done, // `run` has answered
        Request::Open { url } => CacheReply::Version(store.version(&url).await?),
        Request::Read { url, version, start, end, end_of_interest, buffer } => {
            let (count, next) = store.read(&url, &version, start..end, end_of_interest, &buffer).await?;
            CacheReply::Read { count, next, buffer }
        }
        Request::Write { url, version, start, byte_length, buffer } => {
            let bytes = Uint8Array::new(&buffer).subarray(0, byte_length as u32);
            scratch.resize(bytes.length() as usize, 0);
            bytes.copy_to(scratch);
            store.write(&url, &version, start, scratch).await?;
            CacheReply::Written { buffer }
        }
        Request::Note { content, url, version, start, byte_length } => {
            if let Some(content) = from_hex(&content) {
                store.note(&content, &url, &version, start..start.saturating_add(byte_length)).await?;
            }
            CacheReply::Done
        }
        Request::Locate { contents } => {
            let contents: Vec<_> = contents.iter().map(|content| from_hex(content)).collect();
            CacheReply::Locations(store.locate(&contents).await?)
        }
        Request::Delete { url, version } => {
            store.delete(&url, version.as_deref()).await?;
            CacheReply::Done
        }
        Request::List => CacheReply::Files(store.list().await?),
        Request::Clear => {
            store.clear().await?;
            CacheReply::Done
        }
    })
}

fn post(answer: Message<CacheReply>) {
    let scope: Scope = js_sys::global().unchecked_into();
    // If this fails, the page's request times out and the page stops using the cache.
    let (message, transferred) = answer.encode();
    scope.post_message(&message, &transferred).ok();
}

/// Sets the `onmessage` handler for the lifetime of the worker.
fn listen(target: &JsValue, on_message: impl FnMut(JsValue) + 'static) {
    let listener = Closure::<dyn FnMut(JsValue)>::new(on_message);
    Reflect::set(target, &"onmessage".into(), &listener.into_js_value()).ok(); // an event target accepts any listener
}

#[wasm_bindgen]
extern "C" {
    type Scope;
    #[wasm_bindgen(method, catch, js_name = postMessage)]
    fn post_message(this: &Scope, message: &JsValue, transferred: &Array) -> Result<(), JsValue>;
}
