//! The lines of clients.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

/// A simulated line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) bits_per_second: f64,
    /// The delay of each request.
    pub(crate) latency: Duration,
}

/// Like the queue of a router. Delays below this are left to later packets, because timers have 1 ms.
const QUEUE: Duration = Duration::from_millis(2);

impl Line {
    pub(crate) const fn new(megabits_per_second: u32, latency_ms: u64) -> Line {
        Line { bits_per_second: megabits_per_second as f64 * 1e6, latency: Duration::from_millis(latency_ms) }
    }

    pub(crate) fn into_queue(self) -> Queue {
        Queue { line: self, free: Cell::new(Instant::now()) }
    }
}

/// A line with the packets that wait for it. All connections of a client share it.
pub(crate) struct Queue {
    line: Line,
    /// When the last packet has been sent.
    free: Cell<Instant>,
}

impl Queue {
    /// A line with a tenth of the bandwidth.
    pub(crate) fn slower(&self) -> Queue {
        Line { bits_per_second: self.line.bits_per_second / 10.0, ..self.line }.into_queue()
    }

    /// Waits as long as a request travels.
    pub(crate) async fn delay(&self) {
        sleep(self.line.latency).await;
    }

    /// Waits until so many bytes have been sent, after all bytes before them.
    pub(crate) async fn send(&self, bytes: usize) {
        let now = Instant::now();
        let sent = self.free.get().max(now) + Duration::from_secs_f64(bytes as f64 * 8.0 / self.line.bits_per_second);
        self.free.set(sent);
        if sent > now + QUEUE {
            sleep_until(sent).await;
        }
    }
}
