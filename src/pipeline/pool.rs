//! The interface to threads that process components while the loader's thread continues to read.

use super::job::Received;
use super::task::Task;
use crate::error::{Error, Result};
use futures::future::LocalBoxFuture;
use std::rc::Rc;

/// Runs tasks on other threads. A pool may refuse any task; the loader's own thread then runs it.
pub trait Pool<B> {
    /// Announces that a call will read this many bytes of heavy tasks ([`Task::is_heavy`]).
    fn expect(&self, bytes: u64);

    /// A buffer for the next chunk: one that was passed to [`Work::push`] and is free again, if there is any.
    fn chunk(&self) -> Option<B>;

    /// Starts a task on another thread; `None` if the pool refuses it. `into` is the caller's destination buffer, if
    /// there is one: memory that threads [share](crate::buffer::Buffer::share).
    fn begin(&self, task: &Task, into: Option<B>) -> Option<Rc<dyn Work<B>>>;

    /// Whether the pool accepts a raw component for [`Pool::digest`] once all of its bytes have arrived.
    fn takes_whole(&self, task: &Task) -> bool;

    /// Digests a whole raw component on another thread. The outcome returns the buffer.
    ///
    /// # Errors
    /// The `buffer`, if the pool refuses the task.
    fn digest(&self, task: &Task, buffer: B) -> Result<Outcome<B>, B>;
}

/// A task that runs on another thread. Dropping it cancels the task.
pub trait Work<B> {
    /// Like [`Job::wants_more`](super::Job::wants_more), but updated with a delay.
    fn wants_more(&self) -> bool;

    /// Sends the next stored bytes. The future completes when the pool accepts more bytes. It returns whether it had to
    /// wait.
    fn push(&self, chunk: StoredChunk<B>) -> LocalBoxFuture<'static, Result<bool, TaskError>>;

    /// Finishes the task, after the last stored byte. The outcome has no buffer if the bytes are in the caller's.
    fn finish(self: Rc<Self>) -> Outcome<B>;
}

/// Stored bytes for a task: the first `length` bytes of a buffer.
#[derive(Debug)]
pub struct StoredChunk<B> {
    /// The buffer.
    pub buffer: B,
    /// The number of bytes.
    pub length: u64,
    /// The offset of the bytes in the file, if they are of one of several streams that are read side by side.
    pub at: Option<u64>,
}

impl<B> StoredChunk<B> {
    /// Bytes that follow those of the last chunk.
    pub fn next(buffer: B, length: u64) -> Self {
        StoredChunk { buffer, length, at: None }
    }
}

/// The future result of a task.
pub type Outcome<B> = LocalBoxFuture<'static, Result<Received<B>, TaskError>>;

/// Why a task failed.
#[derive(Debug, Clone)]
pub enum TaskError {
    /// The task itself failed, as it would have on the loader's own thread.
    Failed(Error),
    /// The thread was lost, with all data that it had received.
    WorkerLost,
}
