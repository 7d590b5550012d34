//! What the loader needs of the program that runs it, besides bytes: a clock, waiting, random numbers, and code that is
//! loaded on demand.

#[cfg(http_client)]
mod tokio;

#[cfg(http_client)]
pub use tokio::TokioHost;

use crate::deferred::Code;
use crate::error::Result;
use futures::FutureExt;
use futures::future::{self, LocalBoxFuture};

/// The clock and the like of a platform. The loader has none of its own, so that it runs in browsers, natively and in
/// tests.
pub trait Host {
    /// A monotonic clock in milliseconds, which measures the throughput. If it stands still, the loader uses only one
    /// connection.
    fn now_ms(&self) -> u64;

    /// Waits for `delay_ms` milliseconds. Dropping the future cancels the wait.
    fn pause(&self, delay_ms: u64) -> LocalBoxFuture<'static, ()>;

    /// A random number between 0 and 1, for the jitter of retry delays.
    fn random(&self) -> f64;

    /// Loads code that is not part of the program from the start, as in the npm package. By default, none is missing.
    ///
    /// # Errors
    /// `NETWORK` if the code cannot be loaded.
    #[doc(hidden)]
    fn load_code(&self, code: Code) -> LocalBoxFuture<'static, Result<()>> {
        let _ = code;
        future::ready(Ok(())).boxed_local()
    }
}

/// For bytes in memory, which arrive at once and never fail: no time passes, and waits end immediately.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NoWaiting;

impl Host for NoWaiting {
    /// The clock stands still: a copy is not faster with several connections.
    fn now_ms(&self) -> u64 {
        0
    }

    fn pause(&self, _: u64) -> LocalBoxFuture<'static, ()> {
        future::ready(()).boxed_local()
    }

    fn random(&self) -> f64 {
        0.5
    }
}
