//! When to try again: a policy without a clock. Whoever has one does the waiting.

use crate::error::Error;
use crate::setters::setters;

/// How often to try again, and how long to wait.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Policy {
    /// How many failures in a row are borne, counted since bytes last arrived: so a long download over a bad
    /// line still ends. 0 for none.
    pub max_attempts: u32,
    /// The wait after the first failure; each further one doubles it.
    pub base_delay_ms: u64,
    /// The longest wait of our own choosing.
    pub max_delay_ms: u64,
    /// A server's `Retry-After` beyond this is reported instead of waited for.
    pub max_retry_after_ms: u64,
    /// A connection that brings nothing for so long is given up and replaced.
    pub stall_ms: u64,
}

impl Policy {
    setters! {
        with_max_attempts max_attempts: u32;
        with_base_delay_ms base_delay_ms: u64;
        with_max_delay_ms max_delay_ms: u64;
        with_max_retry_after_ms max_retry_after_ms: u64;
        with_stall_ms stall_ms: u64;
    }
}

impl Default for Policy {
    fn default() -> Self {
        // 6 attempts wait some 15 s in all: about as long as a change from Wi-Fi to mobile takes.
        Policy {
            max_attempts: 6,
            base_delay_ms: 250,
            max_delay_ms: 8_000,
            max_retry_after_ms: 60_000,
            stall_ms: 20_000,
        }
    }
}

/// How many failures in a row are borne by a file that never answered: most likely it never will, and
/// whoever mistyped a host's name should not wait.
const MAX_ATTEMPTS_BEFORE_FIRST_ANSWER: u32 = 2;

impl Policy {
    /// How long to wait after `failures` failures in a row, the last of which is `error`; `None` to give up.
    /// `has_answered` says whether the file was ever there; a status is an answer, too: the host exists. `random` is
    /// from 0 to 1: it spreads the clients of a server that failed them all at once.
    pub(crate) fn delay_ms(&self, error: &Error, failures: u32, has_answered: bool, random: f64) -> Option<u64> {
        let has_answered = has_answered || error.place.status.is_some();
        let borne =
            if has_answered { self.max_attempts } else { self.max_attempts.min(MAX_ATTEMPTS_BEFORE_FIRST_ANSWER) };
        if !error.is_transient || failures > borne {
            return None;
        }
        let doubled = self.base_delay_ms.saturating_mul(1 << failures.saturating_sub(1).min(20));
        let own = (doubled.min(self.max_delay_ms) as f64 * (0.5 + random / 2.0)) as u64;
        match error.place.retry_after_ms {
            Some(wait) if wait > self.max_retry_after_ms => None,
            Some(wait) => Some(own.max(wait)),
            None => Some(own),
        }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn transient() -> Error {
        Error::new(ErrorKind::Network, "x").transient()
    }

    #[test]
    fn waits_twice_as_long_after_each_failure_up_to_a_limit() {
        let policy = Policy { max_attempts: 9, ..Policy::default() };
        let delays: Vec<_> = (1..=8).map(|n| policy.delay_ms(&transient(), n, true, 1.0)).collect();
        assert_eq!(delays, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000].map(Some));
        assert_eq!(policy.delay_ms(&transient(), 1, true, 0.0), Some(125));
    }

    #[test]
    fn gives_up_after_so_many_failures_in_a_row() {
        let policy = Policy::default();
        assert!(policy.delay_ms(&transient(), 6, true, 0.5).is_some());
        assert_eq!(policy.delay_ms(&transient(), 7, true, 0.5), None);
        assert_eq!(policy.delay_ms(&transient(), 3, false, 0.5), None);
        assert!(policy.delay_ms(&transient().with_status(503), 6, false, 0.5).is_some());
    }

    #[test]
    fn what_will_not_pass_is_not_tried_again() {
        let lasting = Error::new(ErrorKind::Http, "forbidden").with_status(403);
        assert_eq!(Policy::default().delay_ms(&lasting, 1, true, 0.5), None);
    }

    #[test]
    fn waits_as_long_as_the_server_asks_within_reason() {
        let mut error = transient();
        error.place.retry_after_ms = Some(5_000);
        assert_eq!(Policy::default().delay_ms(&error, 1, true, 0.5), Some(5_000));
        error.place.retry_after_ms = Some(3_600_000);
        assert_eq!(Policy::default().delay_ms(&error, 1, true, 0.5), None);
    }
}
