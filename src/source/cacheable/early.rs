//! Bytes that are read before the cache has started, and what the cache is told once it has.

use super::CacheableSource;
use crate::browser::lock::Lock;
use crate::error::Result;
use crate::index::CopiedRange;
use crate::source::cached::{CachedSource, EarlyResponse, Hint};
use crate::source::js_buffer::JsBuffer;
use crate::source::stream::StreamBody;
use crate::source::{Body, RangeResponse};
use futures::future::{FutureExt, LocalBoxFuture};
use js_sys::Uint8Array;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

/// Maximum number of bytes of a loader that wait for the cache. What is read beyond them is not cached: even at 1 Gb/s,
/// they take half a second, in which a cache usually starts.
const MAX_PENDING_BYTES: u64 = 64 << 20;

/// What waits for the cache of a file, in the order in which it came.
pub(super) struct Pending {
    actions: RefCell<VecDeque<Action>>,
    /// The pending bytes of all files of the loader.
    total_bytes: Rc<Cell<u64>>,
    /// The lease of the download, until the cache has started.
    lock: RefCell<Option<Lock>>,
}

enum Action {
    Hint(Hint),
    /// Ranges that are equal to those of other files.
    Copies(Vec<CacheableSource>, Vec<CopiedRange>),
    /// Bytes of the file at this offset.
    Bytes(Rc<EarlyResponse>, u64, Uint8Array),
}

/// The body of a response to a read that did not wait for the cache.
#[derive(Debug)]
pub(crate) struct EarlyBody {
    file: CacheableSource,
    body: StreamBody,
    response: Rc<EarlyResponse>,
    position: u64,
}

impl Pending {
    pub(super) fn new(total_bytes: Rc<Cell<u64>>) -> Self {
        Pending { actions: RefCell::default(), total_bytes, lock: RefCell::default() }
    }

    pub(super) fn push_hint(&self, hint: Hint) {
        self.actions.borrow_mut().push_back(Action::Hint(hint));
    }

    pub(super) fn push_copies(&self, files: Vec<CacheableSource>, ranges: Vec<CopiedRange>) {
        self.actions.borrow_mut().push_back(Action::Copies(files, ranges));
    }

    fn push_bytes(&self, response: &Rc<EarlyResponse>, position: u64, bytes: Uint8Array) {
        self.total_bytes.set(self.total_bytes.get() + u64::from(bytes.length()));
        self.actions.borrow_mut().push_back(Action::Bytes(Rc::clone(response), position, bytes));
    }

    pub(super) fn set_lock(&self, lock: Lock) {
        self.lock.replace(Some(lock));
    }

    pub(super) fn is_leased(&self) -> bool {
        self.lock.borrow().is_some()
    }

    pub(super) fn take_lock(&self) -> Option<Lock> {
        self.lock.take()
    }

    fn pop(&self) -> Option<Action> {
        let action = self.actions.borrow_mut().pop_front();
        if let Some(Action::Bytes(_, _, bytes)) = &action {
            self.total_bytes.set(self.total_bytes.get().saturating_sub(u64::from(bytes.length())));
        }
        action
    }

    pub(super) fn clear(&self) {
        while self.pop().is_some() {}
    }
}

/// Passes everything pending to the cache.
pub(super) fn apply(pending: Rc<Pending>, cached: CachedSource) -> LocalBoxFuture<'static, ()> {
    apply_all(pending, cached).boxed_local()
}

async fn apply_all(pending: Rc<Pending>, cached: CachedSource) {
    while let Some(action) = pending.pop() {
        match action {
            Action::Hint(hint) => cached.accept(hint),
            Action::Copies(files, ranges) => {
                let mut all = Vec::new();
                for file in &files {
                    all.extend(file.ready.clone().await);
                }
                if all.len() == files.len() {
                    cached.expect_copies(&all, &ranges);
                }
            }
            Action::Bytes(response, position, bytes) => cached.write_early(&response, position, &bytes).await,
        }
    }
}

impl EarlyBody {
    pub(super) fn start(file: &CacheableSource, answer: RangeResponse<StreamBody>) -> RangeResponse<Self> {
        let head = RangeResponse {
            end: answer.end,
            file_length: answer.file_length,
            is_whole_file: answer.is_whole_file,
            identity: answer.identity.clone(),
            ..RangeResponse::new(answer.start, ())
        };
        let response = Rc::new(EarlyResponse::new(head));
        let (file, position) = (file.clone(), answer.start);
        answer.map(|body| EarlyBody { file, body, response, position })
    }

    /// Implements [`Body::read`](crate::source::Body::read).
    ///
    /// # Errors
    /// Those of [`Body::read`](crate::source::Body::read).
    pub(super) async fn read(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        let start = at.start;
        let count = self.body.read(into, at).await?;
        into.check_attached()?; // the caller may have detached its memory
        let bytes = into.bytes().subarray(start as u32, (start + count) as u32);
        self.keep(&bytes).await;
        self.position += count;
        Ok(count)
    }

    /// Caches the next bytes, now or once the cache has started.
    async fn keep(&self, bytes: &Uint8Array) {
        let CacheableSource { ready, pending, .. } = &self.file;
        if bytes.length() == 0 {
            return;
        }
        match ready.peek().cloned() {
            Some(Some(cached)) => cached.write_early(&self.response, self.position, bytes).await,
            None if pending.total_bytes.get() < MAX_PENDING_BYTES => {
                pending.push_bytes(&self.response, self.position, bytes.slice(0, bytes.length()));
            }
            _ => {}
        }
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("total_bytes", &self.total_bytes).finish_non_exhaustive()
    }
}
