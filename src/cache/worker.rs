//! The cache's worker: it does what pages ask, one thing after the other.

use super::message::Request;
use super::store::{BroadcastChannel, Store};
use crate::error::Result;
use crate::source::timer::pause;
use futures::StreamExt;
use futures::channel::mpsc;
use futures::future::{self, Either};
use js_sys::{Array, ArrayBuffer, Reflect, Uint8Array};
use std::pin::pin;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// What was written is flushed, and all logs are closed, once nothing was asked for so long: a flush takes longer than
/// many writes.
const IDLE_MS: u64 = 1_000;

enum Event {
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
        let store = match BroadcastChannel::new("weightstream cache") {
            Ok(channel) => {
                let called = move |data: JsValue| {
                    if let Some(name) = data.as_string() {
                        sender.unbounded_send(Event::Called(name)).ok();
                    }
                };
                listen(&channel, called);
                Store::new(channel).await
            }
            Err(cause) => Err(super::opfs::failed(cause)),
        };
        run(store, events).await;
    });
}

async fn run(mut store: Result<Store>, mut events: mpsc::UnboundedReceiver<Event>) {
    // One that is read into wasm memory on its way to the disk, where its checksum is taken.
    let mut scratch = Vec::new();
    loop {
        let is_open = store.as_ref().is_ok_and(Store::is_open);
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
            (Some(Event::Asked(message)), Err(error)) => answer(&message.get(0), None, Err(error.clone())),
            (Some(Event::Asked(message)), Ok(store)) => {
                let (buffer, outcome) = match Request::read(&message) {
                    Ok(request) => serve(store, request, &mut scratch).await,
                    Err(error) => (None, Err(error)),
                };
                answer(&message.get(0), buffer, outcome);
            }
        }
    }
}

/// The answer, and the buffer that the page gets back.
async fn serve(store: &mut Store, request: Request, scratch: &mut Vec<u8>) -> (Option<ArrayBuffer>, Result<JsValue>) {
    match request {
        Request::Open { url } => (None, store.version(&url).await.map(JsValue::from)),
        Request::Read { url, version, start, end, buffer } => {
            let read = store.read(&url, &version, start, end, &buffer).await;
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
            let noted = store.note(&content, &url, &version, start..start.saturating_add(byte_length)).await;
            (None, noted.map(|()| JsValue::UNDEFINED))
        }
        Request::Locate { contents } => (None, store.locate(&contents).await.map(JsValue::from)),
        Request::Delete { url, version } => {
            (None, store.delete(&url, version.as_deref()).await.map(|()| JsValue::UNDEFINED))
        }
        Request::List => (None, store.list().await.map(JsValue::from)),
        Request::Clear => (None, store.clear().await.map(|()| JsValue::UNDEFINED)),
    }
}

/// `[id, what is wrong, the answer, the buffer]`
fn answer(id: &JsValue, buffer: Option<ArrayBuffer>, outcome: Result<JsValue>) {
    let transferred: Array = buffer.iter().collect();
    let buffer = buffer.map_or(JsValue::UNDEFINED, JsValue::from);
    let message = match outcome {
        Ok(answer) => Array::of4(id, &JsValue::UNDEFINED, &answer, &buffer),
        Err(error) => Array::of4(id, &error.what.into(), &JsValue::UNDEFINED, &buffer),
    };
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
