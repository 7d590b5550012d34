//! The host of pages and workers.

use super::timer;
use crate::host::Host;
use futures::FutureExt;
use futures::future::LocalBoxFuture;

/// Timers and random numbers of the browser, and the deferred code of the npm package.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BrowserHost;

impl Host for BrowserHost {
    fn now_ms(&self) -> u64 {
        timer::now_ms() as u64
    }

    fn pause(&self, delay_ms: u64) -> LocalBoxFuture<'static, ()> {
        timer::pause(delay_ms).boxed_local()
    }

    fn random(&self) -> f64 {
        js_sys::Math::random()
    }

    #[cfg(feature = "js")]
    fn load_code(&self, code: crate::deferred::Code) -> LocalBoxFuture<'static, crate::error::Result<()>> {
        super::deferred::load(code).boxed_local()
    }
}
