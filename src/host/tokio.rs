//! The host of native programs.

use super::Host;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// Timers of tokio. Waiting requires a tokio runtime with time.
#[derive(Debug, Clone, Copy)]
pub struct TokioHost {
    start: Instant,
}

impl Default for TokioHost {
    fn default() -> Self {
        TokioHost { start: Instant::now() }
    }
}

#[doc(hidden)]
impl Host for TokioHost {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn pause(&self, delay_ms: u64) -> LocalBoxFuture<'static, ()> {
        tokio::time::sleep(Duration::from_millis(delay_ms)).boxed_local()
    }

    fn random(&self) -> f64 {
        RandomState::new().hash_one(0) as f64 / u64::MAX as f64
    }
}
