//! The worker's side: it does tasks, several at a time as their bytes come, each message at once.

use super::message::{Answer, Request};
use crate::error::{Error, ErrorKind, Result};
use crate::loader::{Job, Received, Task};
use crate::source::Buffer;
use crate::source::js_buffer::JsBuffer;
use js_sys::{Array, ArrayBuffer, Reflect, Uint8Array};
use std::collections::HashMap;
use wasm_bindgen::prelude::*;

/// Begins to do what this worker is asked.
#[wasm_bindgen(js_name = serveJobs)]
#[allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]
pub fn serve_jobs() {
    let mut jobs = HashMap::new();
    let asked = Closure::<dyn FnMut(JsValue)>::new(move |event: JsValue| {
        let message: Array = Reflect::get(&event, &"data".into()).unwrap_or_default().unchecked_into();
        if let Some((number, request)) = Request::read(&message) {
            serve(&mut jobs, number, request);
        }
    });
    let scope = js_sys::global();
    Reflect::set(&scope, &"onmessage".into(), &asked.into_js_value()).ok(); // an event target takes any listener
    post(0, Answer::Ready);
}

fn serve(jobs: &mut HashMap<u32, Job<JsBuffer>>, number: u32, request: Request) {
    let outcome = match request {
        Request::Begin { task, into } => Job::new(task, into.map(JsBuffer::borrowed)).map(|job| {
            jobs.insert(number, job);
        }),
        Request::Chunk { chunk, length } => {
            let pushed = jobs.get_mut(&number).map_or(Ok(false), |job| take(job, &chunk, length));
            post(number, Answer::Taken { chunk, wants_more: matches!(pushed, Ok(true)) });
            pushed.map(drop)
        }
        Request::Finish => {
            jobs.remove(&number).map_or(Ok(()), |job| job.finish().map(|received| done(number, received)))
        }
        Request::Digest { task, bytes } => digest(task, bytes).map(|received| done(number, received)),
        Request::Drop => {
            jobs.remove(&number);
            Ok(())
        }
    };
    if let Err(error) = outcome {
        jobs.remove(&number);
        post(number, Answer::Failed(error));
    }
}

/// Whether there is use for more.
fn take(job: &mut Job<JsBuffer>, chunk: &ArrayBuffer, length: u32) -> Result<bool> {
    if job.wants_more() {
        let chunk = JsBuffer::borrowed(Uint8Array::new(chunk));
        chunk.inspect(0..u64::from(length), &mut |bytes| job.push(bytes))?;
    }
    Ok(job.wants_more())
}

fn digest(task: Task, bytes: Uint8Array) -> Result<Received<JsBuffer>> {
    let length = u64::from(bytes.length());
    let mut job = Job::new(task, Some(JsBuffer::borrowed(bytes)))?;
    job.filled(length, None)?;
    job.finish()
}

fn done(number: u32, Received { buffer, verified }: Received<JsBuffer>) {
    // Shared memory is where it belongs already.
    let buffer = buffer.and_then(|buffer| JsValue::from(buffer.bytes().buffer()).dyn_into().ok());
    post(number, Answer::Done { buffer, verified });
}

fn post(number: u32, answer: Answer) {
    let (message, transferred) = answer.write(number);
    let scope: Scope = js_sys::global().unchecked_into();
    if scope.post_message(&message, &transferred).is_err() {
        let error = Error::new(ErrorKind::Internal, "a worker cannot give back what it did");
        let (message, transferred) = Answer::Failed(error).write(number);
        scope.post_message(&message, &transferred).ok();
    }
}

#[wasm_bindgen]
extern "C" {
    type Scope;
    #[wasm_bindgen(method, catch, js_name = postMessage)]
    fn post_message(this: &Scope, message: &Array, transferred: &Array) -> Result<(), JsValue>;
}
