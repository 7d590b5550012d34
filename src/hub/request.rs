//! Requests to a hub: they are repeated while a failure may pass.

use super::refusal::refusal;
use super::{Address, Reply};
use crate::error::Result;
use crate::host::Host;
use crate::retry::{FirstAnswer, RetryPolicy};
use crate::status::status_error;

/// Sends the requests of this module.
pub(crate) trait Transport {
    /// Requests a URL of the hub with the token. A response of any status is a [`Reply`]. Reads bodies of JSON and
    /// plain text only, as far as [`Reply::can_take`].
    async fn get(&self, url: &str, accept: &str) -> Result<Reply>;

    fn host(&self) -> &dyn Host;
}

/// Sends a request until a response arrives that is not transient.
///
/// # Errors
/// `HTTP` for a response that denies access to the repository; those of the transport.
pub(super) async fn reply_to(address: &Address, url: &str, accept: &str, transport: &impl Transport) -> Result<Reply> {
    let policy = RetryPolicy::default();
    let mut failures = 0;
    loop {
        let error = match transport.get(url, accept).await {
            Ok(reply) => {
                if let Some(error) = refusal(address, &reply) {
                    return Err(error.in_file(&address.unpinned()));
                }
                let error = status_error(reply.status, reply.retry_after_ms);
                if !error.is_transient {
                    return Ok(reply);
                }
                error
            }
            Err(error) => error,
        };
        failures += 1;
        match policy.delay_ms(&error, failures, FirstAnswer::Awaited, transport.host().random()) {
            Some(delay_ms) => transport.host().pause(delay_ms).await,
            None => return Err(error.in_file(url)),
        }
    }
}
