//! Whether the server's file is the one of which bytes came from another URL's cache. Nothing that the server says
//! could tell: all of the file is fetched once more, and has the digest that it should or not.

use crate::browser::timer::pause;
use crate::codec::digest::{Hasher, compare};
use crate::error::{Error, ErrorKind, Result};
use crate::index::Digest;
use crate::source::fetch::FetchSource;
use crate::source::js_buffer::JsBuffer;
use crate::source::{Answer, Buffer};
use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen_futures::spawn_local;

const CHUNK_BYTES: u64 = 1 << 20;

/// How often to look whether the comparison has ended.
const LOOK_INTERVAL_MS: u64 = 50;

/// At most one comparison, for all connections. It goes on while those that wait for it lose their patience and ask
/// again.
#[derive(Debug, Default)]
pub(super) struct Comparison(Rc<RefCell<State>>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Nothing,
    UnderWay,
    Done(Result<Answer<()>>),
}

impl Comparison {
    /// What the server answered, if its file has these bytes.
    ///
    /// # Errors
    /// `CHANGED` where it has others; those of the network, after which whoever tries again begins anew.
    pub(super) async fn outcome(&self, source: &FetchSource, byte_length: u64, digest: Digest) -> Result<Answer<()>> {
        if matches!(*self.0.borrow(), State::Nothing | State::Done(Err(_))) {
            self.0.replace(State::UnderWay);
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
            pause(LOOK_INTERVAL_MS).await;
        }
    }
}

async fn fetch(source: &FetchSource, byte_length: u64, digest: Digest) -> Result<Answer<()>> {
    let mut answer = source.read(0..byte_length).await?;
    let (mut hasher, mut chunk, mut position) = (Hasher::new(digest), JsBuffer::allocate(CHUNK_BYTES)?, 0);
    let is_as_long = answer.identity.length.is_none_or(|length| length == byte_length);
    while is_as_long && position < byte_length {
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
    if is_as_long && compare(hasher.finish(), digest).is_ok() {
        return Ok(answer.map(drop));
    }
    let what = "bytes of it that were kept under another URL are gone, and the server's file is another";
    Err(Error::new(ErrorKind::Changed, what).advise("Open the model again: it will be fetched."))
}
