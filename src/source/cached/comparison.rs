//! Checks whether the server's file equals a file that was cached under another URL. Headers cannot show this, so the
//! whole file is downloaded again and its digest is compared.

use crate::browser::timer::pause;
use crate::codec::digest::{Hasher, compare};
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::source::fetch::FetchSource;
use crate::source::js_buffer::JsBuffer;
use crate::source::{Body, Buffer, RangeResponse};
use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen_futures::spawn_local;

const CHUNK_BYTES: u64 = 1 << 20;

/// Interval at which waiting tasks check whether the comparison has ended.
const POLL_INTERVAL_MS: u64 = 50;

/// A comparison that all connections share. It continues when a waiting task is cancelled and retried.
#[derive(Debug, Default)]
pub(super) struct Comparison(Rc<RefCell<State>>);

#[derive(Debug, Default)]
enum State {
    #[default]
    NotStarted,
    Running,
    Done(Result<RangeResponse<()>>),
}

impl Comparison {
    /// Returns the response if the server's file has this digest.
    ///
    /// # Errors
    /// `CHANGED` if it has another digest; those of the network. The next call after an error starts a new comparison.
    pub(super) async fn outcome(
        &self,
        source: &FetchSource,
        byte_length: u64,
        digest: Digest,
    ) -> Result<RangeResponse<()>> {
        if matches!(*self.0.borrow(), State::NotStarted | State::Done(Err(_))) {
            self.0.replace(State::Running);
            let (state, source) = (Rc::clone(&self.0), source.clone());
            spawn_local(async move {
                let outcome = fetch(&source, byte_length, digest).await;
                state.replace(State::Done(outcome));
            });
        }
        loop {
            if let State::Done(outcome) = &*self.0.borrow() {
                return outcome.clone();
            }
            pause(POLL_INTERVAL_MS).await;
        }
    }
}

async fn fetch(source: &FetchSource, byte_length: u64, digest: Digest) -> Result<RangeResponse<()>> {
    let mut answer = source.read(0..byte_length).await?;
    let (mut hasher, mut chunk, mut position) = (Hasher::new(digest), JsBuffer::allocate(CHUNK_BYTES)?, 0);
    let has_same_length = answer.identity.length.is_none_or(|length| length == byte_length);
    while has_same_length && position < byte_length {
        let count = answer.body.read(&mut chunk, 0..CHUNK_BYTES.min(byte_length - position)).await?;
        if count == 0 {
            let what = format!("the transfer ended at byte {position} of {byte_length}");
            return Err(Error::new(ErrorKind::Truncated, what).transient());
        }
        chunk.inspect(0..count, &mut |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        position += count;
    }
    if has_same_length && compare(hasher.finish(), digest).is_ok() {
        return Ok(answer.map(drop));
    }
    let what = "bytes that were cached under another URL have been deleted, and the server's file differs from them";
    Err(Error::new(ErrorKind::Changed, what).advise("Open the model again: it will be downloaded."))
}
