//! Threads beside the loader's own, which do the work on components while it reads on.

use crate::error::{Error, Result};
use crate::loader::decode::job::{Received, Task};
use futures::future::LocalBoxFuture;
use std::rc::Rc;

/// Has tasks done on other threads. It may refuse any: then the loader's own thread does it.
pub trait Pool<B> {
    /// A call is about to bring so many bytes that take time to decode or to digest.
    fn expect(&self, bytes: u64);

    /// A buffer for the next chunk that is read: one that came with [`Work::push`] and was done with, if there is any.
    fn chunk(&self) -> Option<B>;

    /// Gives a task to another thread. `into` is where its bytes go, if the caller said: memory that threads
    /// [share](crate::source::Buffer::share).
    fn begin(&self, task: &Task, into: Option<B>) -> Option<Rc<dyn Work<B>>>;

    /// Whether it would digest the raw component of a task once all of its bytes are there: [`Pool::digest`].
    fn takes_whole(&self, task: &Task) -> bool;

    /// Gives a whole raw component to another thread, and gets it back once it was digested. One that is refused comes
    /// back as the error.
    ///
    /// # Errors
    /// The `buffer`, if the pool refuses the task.
    fn digest(&self, task: &Task, buffer: B) -> Result<Outcome<B>, B>;
}

/// A task that another thread does. Dropping it ends it.
pub trait Work<B> {
    /// As [`Job::wants_more`](crate::loader::Job::wants_more), but told a little later.
    fn wants_more(&self) -> bool;

    /// Hands over the next stored bytes: the first `length` of `chunk`. Ready once there is use for more, and says
    /// whether that took a while.
    fn push(&self, chunk: B, length: u64) -> LocalBoxFuture<'static, Result<bool, TaskError>>;

    /// Ends the task, after the last stored byte. No buffer comes where the caller's was written to.
    fn finish(self: Rc<Self>) -> Outcome<B>;
}

/// What comes of a task.
pub type Outcome<B> = LocalBoxFuture<'static, Result<Received<B>, TaskError>>;

/// Why a task was not done.
#[derive(Debug, Clone)]
pub enum TaskError {
    /// As the loader's own thread would have failed.
    Failed(Error),
    /// The thread is gone, with all that it was given.
    WorkerLost,
}
