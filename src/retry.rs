//! Decides when to retry after a failure. The policy has no clock; the caller waits.

use crate::error::Error;
use crate::setters::plain_setters as setters;

/// The number of retries and the delays between them.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct RetryPolicy {
    pub(crate) max_attempts: u32,
    pub(crate) base_delay_ms: u64,
    pub(crate) max_delay_ms: u64,
    pub(crate) max_retry_after_ms: u64,
    pub(crate) stall_ms: u64,
}

impl RetryPolicy {
    setters! {
        /// Maximum number of consecutive failures; 6 by default. Received bytes reset the count, so that a long
        /// download over an unstable connection can complete. 0 disables retries.
        max_attempts: u32;
        /// The delay after the first failure in milliseconds; 250 by default. Each further failure doubles it.
        base_delay_ms: u64;
        /// The maximum delay in milliseconds, unless the server requests a longer one with `Retry-After`; 8 seconds by
        /// default. That one is extended by a random time of up to half of it, but at most by this maximum.
        max_delay_ms: u64;
        /// The maximum `Retry-After` in milliseconds that is waited for; one minute by default. A longer one makes the
        /// request fail.
        max_retry_after_ms: u64;
        /// A connection that receives no data for this many milliseconds is closed and replaced; 20 seconds by default.
        stall_ms: u64;
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        // 6 attempts wait about 15 s in total: as long as a switch from Wi-Fi to a mobile network takes.
        RetryPolicy {
            max_attempts: 6,
            base_delay_ms: 250,
            max_delay_ms: 8_000,
            max_retry_after_ms: 60_000,
            stall_ms: 20_000,
        }
    }
}

/// Maximum number of consecutive failures before the first response for a model: most likely there will never be one,
/// and a user who mistyped a host name should not wait.
const MAX_ATTEMPTS_BEFORE_FIRST_ANSWER: u32 = 2;

/// The first response for a model. An HTTP status counts as a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstAnswer {
    Received,
    Awaited,
}

impl RetryPolicy {
    /// The delay in milliseconds after `failures` consecutive failures, the last of which is `error`; `None` if it is
    /// not retried. `random` is between 0 and 1. It spreads the retries of clients that failed at the same time.
    pub(crate) fn delay_ms(&self, error: &Error, failures: u32, first: FirstAnswer, random: f64) -> Option<u64> {
        let has_answered = first == FirstAnswer::Received || error.context.status.is_some();
        let allowed =
            if has_answered { self.max_attempts } else { self.max_attempts.min(MAX_ATTEMPTS_BEFORE_FIRST_ANSWER) };
        if !error.is_transient || failures > allowed {
            return None;
        }
        let doubled = self.base_delay_ms.saturating_mul(1 << failures.saturating_sub(1).min(20));
        let own = (doubled.min(self.max_delay_ms) as f64 * (0.5 + random / 2.0)) as u64;
        match error.context.retry_after_ms {
            Some(wait) if wait > self.max_retry_after_ms => None,
            // Clients that failed at the same time receive the same time. They must not return together either.
            Some(wait) => {
                let jitter = (wait / 2).min(self.max_delay_ms) as f64 * random;
                Some(own.max(wait.saturating_add(jitter as u64)))
            }
            None => Some(own),
        }
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn transient() -> Error {
        Error::new(ErrorKind::Network, "x").transient()
    }

    #[test]
    fn doubles_the_delay_up_to_the_maximum() {
        let policy = RetryPolicy { max_attempts: 9, ..RetryPolicy::default() };
        let delays: Vec<_> = (1..=8).map(|n| policy.delay_ms(&transient(), n, FirstAnswer::Received, 1.0)).collect();
        assert_eq!(delays, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000].map(Some));
        assert_eq!(policy.delay_ms(&transient(), 1, FirstAnswer::Received, 0.0), Some(125));
    }

    #[test]
    fn stops_after_the_maximum_number_of_consecutive_failures() {
        let policy = RetryPolicy::default();
        assert!(policy.delay_ms(&transient(), 6, FirstAnswer::Received, 0.5).is_some());
        assert_eq!(policy.delay_ms(&transient(), 7, FirstAnswer::Received, 0.5), None);
        assert_eq!(policy.delay_ms(&transient(), 3, FirstAnswer::Awaited, 0.5), None);
        assert!(policy.delay_ms(&transient().with_status(503), 6, FirstAnswer::Awaited, 0.5).is_some());
    }

    #[test]
    fn does_not_retry_permanent_errors() {
        let permanent = Error::new(ErrorKind::Http, "forbidden").with_status(403);
        assert_eq!(RetryPolicy::default().delay_ms(&permanent, 1, FirstAnswer::Received, 0.5), None);
    }

    #[test]
    fn honours_retry_after_up_to_the_maximum() {
        let mut error = transient();
        error.context.retry_after_ms = Some(5_000);
        assert_eq!(RetryPolicy::default().delay_ms(&error, 1, FirstAnswer::Received, 0.0), Some(5_000));
        error.context.retry_after_ms = Some(3_600_000);
        assert_eq!(RetryPolicy::default().delay_ms(&error, 1, FirstAnswer::Received, 0.5), None);
    }

    #[test]
    fn spreads_clients_that_receive_the_same_retry_after() {
        let mut error = transient();
        let mut latest = |retry_after_ms, failures| {
            error.context.retry_after_ms = Some(retry_after_ms);
            RetryPolicy::default().delay_ms(&error, failures, FirstAnswer::Received, 1.0)
        };
        assert_eq!(latest(5_000, 1), Some(7_500));
        assert_eq!(latest(60_000, 1), Some(68_000)); // at most `max_delay_ms` more
        assert_eq!(latest(0, 4), Some(2_000)); // never less than without the header
    }
}
