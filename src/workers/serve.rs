//! The worker's side: runs several tasks concurrently, and handles each message as it arrives.

use super::message::{JobReply, Request};
use super::webcrypto::WebCrypto;
use crate::browser::message::Message;
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::{Job, Pool, Received, Task, TaskError};
use crate::source::Buffer;
use crate::source::js_buffer::JsBuffer;
use js_sys::{Array, ArrayBuffer, Reflect, Uint8Array};
use std::collections::HashMap;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// Starts to handle the messages that the page sends to this worker.
#[cfg_attr(feature = "js", wasm_bindgen(js_name = serveJobs))]
#[allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]
pub fn serve_jobs() {
    let mut jobs = HashMap::new();
    let on_message = Closure::<dyn FnMut(JsValue)>::new(move |event: JsValue| {
        // The page ends a worker that leaves a message without an answer.
        if let Some(Message { number, body }) = Message::decode(&event) {
            serve(&mut jobs, number, body);
        }
    });
    let scope = js_sys::global();
    Reflect::set(&scope, &"onmessage".into(), &on_message.into_js_value()).ok(); // an event target takes any listener
    post(0, JobReply::Ready);
}

fn serve(jobs: &mut HashMap<u32, Job<JsBuffer>>, number: u32, request: Request) {
    let outcome = match request {
        Request::Begin { task, into } => Job::new(task, into.map(JsBuffer::borrowed)).map(|job| {
            jobs.insert(number, job);
        }),
        Request::Chunk { chunk, length, at } => {
            let pushed = jobs.get_mut(&number).map_or(Ok(false), |job| push_chunk(job, &chunk, length, at));
            post(number, JobReply::Taken { chunk, wants_more: matches!(pushed, Ok(true)) });
            pushed.map(drop)
        }
        Request::Finish => {
            jobs.remove(&number).map_or(Ok(()), |job| job.finish().map(|received| post_result(number, received)))
        }
        Request::Digest { task, bytes } => digest(number, task, bytes),
        Request::Drop => {
            jobs.remove(&number);
            Ok(())
        }
    };
    if let Err(error) = outcome {
        jobs.remove(&number);
        post(number, JobReply::Failed(error));
    }
}

/// Passes a chunk to the job. Returns whether the job needs more bytes.
fn push_chunk(job: &mut Job<JsBuffer>, chunk: &ArrayBuffer, length: u32, mut at: Option<u64>) -> Result<bool> {
    if job.wants_more() {
        let chunk = JsBuffer::borrowed(Uint8Array::new(chunk));
        chunk.inspect(0..u64::from(length), &mut |bytes| {
            job.push_at(at, bytes)?;
            at = at.map(|at| at + bytes.len() as u64);
            Ok(())
        })?;
    }
    Ok(job.wants_more())
}

/// Runs a task over raw bytes. The Web Crypto API, if it takes the task, completes it later.
fn digest(number: u32, task: Task, bytes: Uint8Array) -> Result<()> {
    let mut buffer = JsBuffer::borrowed(bytes);
    if let Some(crypto) = WebCrypto::detect().filter(|crypto| crypto.takes_whole(&task)) {
        buffer = match crypto.digest(&task, buffer) {
            Ok(outcome) => {
                spawn_local(async move {
                    match outcome.await {
                        Ok(received) => post_result(number, received),
                        Err(TaskError::Failed(error)) => post(number, JobReply::Failed(error)),
                        Err(TaskError::WorkerLost) => {} // not of this thread
                    }
                });
                return Ok(());
            }
            Err(buffer) => buffer,
        };
    }
    let length = buffer.byte_length();
    let mut job = Job::new(task, Some(buffer))?;
    job.filled(length, None)?;
    job.finish().map(|received| post_result(number, received))
}

fn post_result(number: u32, Received { buffer, verified, blocks }: Received<JsBuffer>) {
    // Shared memory is not transferred: the page has access to it already.
    let buffer = buffer.and_then(|buffer| JsValue::from(buffer.bytes().buffer()).dyn_into().ok());
    post(number, JobReply::Done { buffer, verified, blocks });
}

fn post(number: u32, answer: JobReply) {
    if try_post(number, answer).is_err() {
        let error = Error::new(ErrorKind::Internal, "a worker cannot transfer its result");
        try_post(number, JobReply::Failed(error)).ok(); // if it fails, the page ends the worker
    }
}

fn try_post(number: u32, answer: JobReply) -> Result<(), JsValue> {
    let (message, transferred) = Message { number, body: answer }.encode();
    let scope: Scope = js_sys::global().unchecked_into();
    scope.post_message(&message, &transferred)
}

#[wasm_bindgen]
extern "C" {
    type Scope;
    #[wasm_bindgen(method, catch, js_name = postMessage)]
    fn post_message(this: &Scope, message: &JsValue, transferred: &Array) -> Result<(), JsValue>;
}
