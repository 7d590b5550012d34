//! Runs a future to completion on this thread, for calls that block.

use crate::error::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Unparks the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    /// Whether this is the thread of a model.
    static SERVES_MODEL: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as that of a model, which runs the callbacks of its calls.
pub(super) fn mark_model_thread() {
    SERVES_MODEL.set(true);
}

/// Runs `work` to completion. Unlike those of executors, it can be called in their tasks, which it blocks.
///
/// # Errors
/// Those of `work`; `INVALID_ARGUMENT` on the thread of a model, which would wait for itself.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    if SERVES_MODEL.get() {
        let error = Error::new(ErrorKind::InvalidArgument, "a callback of a model made a call that blocks");
        return Err(error.advise("Send what it reports to another thread, and call the model there."));
    }
    wait(work)
}

/// Runs `work` to completion on any thread.
pub(super) fn wait<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
