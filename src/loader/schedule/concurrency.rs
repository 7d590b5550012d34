//! Decides how many connections to use: one is added for as long as the last added connection increased the throughput.
//!
//! This module has no clock. Callers pass the current time.

/// Minimum length of a measurement window. Shorter windows measure the size of chunks rather than the throughput.
const WINDOW_MS: u64 = 250;

/// Minimum length of a measurement window, in multiples of the newest connection's time to first byte: a connection
/// needs several round trips to reach its full throughput.
const WINDOW_LATENCIES: u64 = 4;

/// Minimum gain of a connection, relative to the average throughput of the connections before it. If each connection is
/// throttled individually, the gain is about 1. If the connections share a saturated link, it is about 0.
const MIN_GAIN: f64 = 0.5;

/// Measures the throughput of one operation's connections and adapts their number.
#[derive(Debug)]
pub(crate) struct ConcurrencyController {
    max_connections: usize,
    allowed: usize,
    /// Which connection numbers are in use.
    running: Vec<bool>,
    /// Maximum number of connections that were open at once.
    peak: usize,
    /// The connection that was added last and its start time, until its first byte arrives.
    newest: Option<(usize, u64)>,
    latency_ms: u64,
    /// The current measurement window: its start time and the bytes received since.
    window: Option<(u64, u64)>,
    bytes_per_ms: Option<f64>,
    /// The throughput before the last connection was added.
    previous_bytes_per_ms: Option<f64>,
    has_settled: bool,
    has_grown: bool,
}

impl ConcurrencyController {
    pub(crate) fn new(max_connections: usize) -> Self {
        ConcurrencyController {
            max_connections: max_connections.max(1),
            allowed: 1,
            running: Vec::new(),
            peak: 0,
            newest: None,
            latency_ms: 0,
            window: None,
            bytes_per_ms: None,
            previous_bytes_per_ms: None,
            has_settled: false,
            has_grown: false,
        }
    }

    /// The current limit on connections.
    pub(crate) fn allowed(&self) -> usize {
        self.allowed
    }

    /// Whether the limit was raised since the last call.
    pub(crate) fn has_grown(&mut self) -> bool {
        std::mem::take(&mut self.has_grown)
    }

    /// The bytes that one connection receives in one measurement window, at the current throughput. A new connection
    /// should have at least this much to read. `None` before the first measurement.
    pub(crate) fn window_bytes(&self) -> Option<u64> {
        Some((self.bytes_per_ms? / self.running().max(1) as f64 * self.window_ms() as f64) as u64)
    }

    /// Registers a connection that starts a request. Returns the lowest free connection number.
    pub(crate) fn begins(&mut self, now_ms: u64) -> usize {
        let free = self.running.iter().position(|is_running| !is_running).unwrap_or(self.running.len());
        self.running.resize(self.running.len().max(free + 1), false);
        self.set(free, true);
        if self.running() > self.peak {
            self.peak = self.running();
            self.newest = Some((free, now_ms));
        }
        free
    }

    /// Unregisters a connection.
    pub(crate) fn ends(&mut self, connection: usize) {
        self.set(connection, false);
        self.newest.take_if(|(newest, _)| *newest == connection);
    }

    /// Restarts the measurement, because something other than the network delayed the bytes.
    pub(crate) fn restart(&mut self) {
        self.window = None;
    }

    /// Records bytes that arrived over a connection.
    pub(crate) fn arrived(&mut self, connection: usize, bytes: u64, now_ms: u64) {
        if let Some((newest, since_ms)) = self.newest {
            if newest == connection {
                self.latency_ms = now_ms.saturating_sub(since_ms);
                (self.newest, self.window) = (None, Some((now_ms, 0)));
            }
            return;
        }
        let (since_ms, so_far) = self.window.unwrap_or((now_ms, 0));
        let (bytes, passed_ms) = (so_far + bytes, now_ms.saturating_sub(since_ms));
        self.window = Some((since_ms, bytes));
        if passed_ms >= self.window_ms() {
            self.window = Some((now_ms, 0));
            self.measured(bytes as f64 / passed_ms as f64);
        }
    }

    fn running(&self) -> usize {
        self.running.iter().filter(|is_running| **is_running).count()
    }

    fn set(&mut self, connection: usize, is_running: bool) {
        if let Some(running) = self.running.get_mut(connection) {
            *running = is_running;
        }
    }

    fn window_ms(&self) -> u64 {
        WINDOW_MS.max(self.latency_ms.saturating_mul(WINDOW_LATENCIES))
    }

    fn measured(&mut self, bytes_per_ms: f64) {
        self.bytes_per_ms = Some(bytes_per_ms);
        // If fewer connections run than are allowed, the gain of another connection cannot be measured.
        if self.has_settled || self.running() < self.allowed {
            return;
        }
        let needed = |previous: f64| previous * (1.0 + MIN_GAIN / (self.allowed - 1).max(1) as f64);
        if self.previous_bytes_per_ms.is_some_and(|previous| bytes_per_ms < needed(previous)) {
            // The last connection finishes its current range, but is not replaced: it gains too little.
            self.has_settled = true;
            self.allowed -= 1;
        } else if self.allowed < self.max_connections {
            self.previous_bytes_per_ms = Some(bytes_per_ms);
            self.allowed += 1;
            self.has_grown = true;
        }
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    /// The number of connections that are opened, if `bytes_per_ms` gives the total throughput of n connections.
    fn settles_at(max_connections: usize, latency_ms: u64, bytes_per_ms: impl Fn(usize) -> u64) -> usize {
        let mut concurrency = ConcurrencyController::new(max_connections);
        let (mut running, mut starts) = (0, Vec::new());
        for now_ms in 0..60_000 {
            while running < concurrency.allowed() {
                running += 1;
                starts.push(now_ms);
                assert_eq!(concurrency.begins(now_ms), running - 1);
            }
            let started = starts.iter().filter(|start| now_ms >= **start + latency_ms).count();
            for connection in 0..started {
                concurrency.arrived(connection, bytes_per_ms(started) / started as u64, now_ms);
            }
        }
        running
    }

    #[test]
    fn grows_to_the_limit_if_each_connection_is_throttled() {
        for (max_connections, latency_ms) in [(1, 0), (4, 0), (4, 300), (16, 40)] {
            let throttled = |connections: usize| connections as u64 * 10_000;
            assert_eq!(settles_at(max_connections, latency_ms, throttled), max_connections);
        }
    }

    #[test]
    fn stops_after_a_connection_without_gain() {
        for latency_ms in [0, 40, 300] {
            assert_eq!(settles_at(8, latency_ms, |_| 100_000), 2);
            assert_eq!(settles_at(8, latency_ms, |connections| 100_000 + 1000 * connections as u64), 2);
        }
    }

    #[test]
    fn stops_when_the_link_is_saturated() {
        assert_eq!(settles_at(8, 20, |connections| 30_000.min(connections as u64 * 10_000)), 4);
    }

    #[test]
    fn does_not_replace_a_connection_without_gain() {
        let mut concurrency = ConcurrencyController::new(4);
        concurrency.begins(0);
        for now_ms in 0..4 * WINDOW_MS {
            if concurrency.has_grown() {
                concurrency.begins(now_ms);
            }
            for connection in 0..concurrency.running() {
                concurrency.arrived(connection, 1_000 / concurrency.running() as u64, now_ms);
            }
        }
        assert_eq!((concurrency.peak, concurrency.allowed()), (2, 1));
    }

    #[test]
    fn a_transfer_shorter_than_a_window_uses_one_connection() {
        let mut concurrency = ConcurrencyController::new(4);
        concurrency.begins(0);
        for now_ms in 0..WINDOW_MS {
            concurrency.arrived(0, 1_000_000, now_ms);
        }
        assert_eq!(concurrency.allowed(), 1);
    }

    #[test]
    fn does_not_measure_time_spent_waiting_for_memory() {
        let mut concurrency = ConcurrencyController::new(4);
        concurrency.begins(0);
        for now_ms in 0..10 * WINDOW_MS {
            concurrency.arrived(0, 1_000, now_ms);
            if now_ms % 100 == 0 {
                concurrency.restart();
            }
        }
        assert_eq!(concurrency.allowed(), 1);
    }
}
