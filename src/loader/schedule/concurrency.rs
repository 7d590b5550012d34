//! How many connections pay: one is added while the last one that was added raised the throughput.
//!
//! No clock: whoever has one tells the time with each arrival.

/// Throughput is measured over at least so long: shorter stretches tell more of chunks than of the line.
const WINDOW_MS: u64 = 250;

/// And over so many times what the newest connection took to bring its first byte: a connection needs some round trips
/// to come up to speed.
const WINDOW_LATENCIES: u64 = 4;

/// A connection pays if it adds at least this much of what each of those before it brings. Where every connection is
/// throttled by itself it adds all of it; on a shared line next to nothing.
const LEAST_SHARE: f64 = 0.5;

/// Watches what arrives over the connections of one operation.
#[derive(Debug)]
pub(crate) struct ConcurrencyController {
    max_connections: usize,
    allowed: usize,
    /// Which numbers of connections are taken.
    running: Vec<bool>,
    /// The most connections that there were at once.
    most: usize,
    /// The connection that was added last, and when, until its first byte comes.
    newest: Option<(usize, u64)>,
    latency_ms: u64,
    /// What has arrived since when.
    window: Option<(u64, u64)>,
    bytes_per_ms: Option<f64>,
    /// The throughput before the last connection was added.
    before: Option<f64>,
    has_settled: bool,
    has_grown: bool,
}

impl ConcurrencyController {
    pub(crate) fn new(max_connections: usize) -> Self {
        ConcurrencyController {
            max_connections: max_connections.max(1),
            allowed: 1,
            running: Vec::new(),
            most: 0,
            newest: None,
            latency_ms: 0,
            window: None,
            bytes_per_ms: None,
            before: None,
            has_settled: false,
            has_grown: false,
        }
    }

    /// How many connections there may be.
    pub(crate) fn allowed(&self) -> usize {
        self.allowed
    }

    /// Whether more connections are allowed than when this was last asked.
    pub(crate) fn has_grown(&mut self) -> bool {
        std::mem::take(&mut self.has_grown)
    }

    /// A connection is to be worth its request for one window at least: so many bytes, at the pace of those that there
    /// are. `None` until it is known.
    pub(crate) fn window_bytes(&self) -> Option<u64> {
        Some((self.bytes_per_ms? / self.running().max(1) as f64 * self.window_ms() as f64) as u64)
    }

    /// A connection asks for bytes. Gives it the lowest number that no other has.
    pub(crate) fn begins(&mut self, now_ms: u64) -> usize {
        let free = self.running.iter().position(|taken| !taken).unwrap_or(self.running.len());
        self.running.resize(self.running.len().max(free + 1), false);
        self.set(free, true);
        if self.running() > self.most {
            self.most = self.running();
            self.newest = Some((free, now_ms));
        }
        free
    }

    /// The connection has ended.
    pub(crate) fn ends(&mut self, connection: usize) {
        self.set(connection, false);
        self.newest.take_if(|(newest, _)| *newest == connection);
    }

    /// What arrives was held up by something other than the line: it is measured anew.
    pub(crate) fn restart(&mut self) {
        self.window = None;
    }

    /// Bytes have arrived over a connection.
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
        self.running.iter().filter(|taken| **taken).count()
    }

    fn set(&mut self, connection: usize, is_running: bool) {
        if let Some(taken) = self.running.get_mut(connection) {
            *taken = is_running;
        }
    }

    fn window_ms(&self) -> u64 {
        WINDOW_MS.max(self.latency_ms.saturating_mul(WINDOW_LATENCIES))
    }

    fn measured(&mut self, bytes_per_ms: f64) {
        self.bytes_per_ms = Some(bytes_per_ms);
        // Where there was nothing for another connection to do, nothing is known of what it would have brought.
        if self.has_settled || self.running() < self.allowed {
            return;
        }
        let needed = |before: f64| before * (1.0 + LEAST_SHARE / (self.allowed - 1).max(1) as f64);
        if self.before.is_some_and(|before| bytes_per_ms < needed(before)) {
            // Once it has read what it took, it is not worth another request, nor what would be cut off for it.
            self.has_settled = true;
            self.allowed -= 1;
        } else if self.allowed < self.max_connections {
            self.before = Some(bytes_per_ms);
            self.allowed += 1;
            self.has_grown = true;
        }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    /// How many connections are opened where so many together bring so many bytes a millisecond.
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
    fn grows_to_the_ceiling_where_each_connection_is_throttled_by_itself() {
        for (max_connections, latency_ms) in [(1, 0), (4, 0), (4, 300), (16, 40)] {
            let throttled = |connections: usize| connections as u64 * 10_000;
            assert_eq!(settles_at(max_connections, latency_ms, throttled), max_connections);
        }
    }

    #[test]
    fn a_second_connection_that_brings_nothing_is_the_last() {
        for latency_ms in [0, 40, 300] {
            assert_eq!(settles_at(8, latency_ms, |_| 100_000), 2);
            assert_eq!(settles_at(8, latency_ms, |connections| 100_000 + 1000 * connections as u64), 2);
        }
    }

    #[test]
    fn stops_where_the_line_is_full() {
        assert_eq!(settles_at(8, 20, |connections| 30_000.min(connections as u64 * 10_000)), 4);
    }

    #[test]
    fn a_connection_that_did_not_pay_is_not_replaced() {
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
        assert_eq!((concurrency.most, concurrency.allowed()), (2, 1));
    }

    #[test]
    fn what_ends_within_a_window_takes_one_connection() {
        let mut concurrency = ConcurrencyController::new(4);
        concurrency.begins(0);
        for now_ms in 0..WINDOW_MS {
            concurrency.arrived(0, 1_000_000, now_ms);
        }
        assert_eq!(concurrency.allowed(), 1);
    }

    #[test]
    fn a_time_that_was_spent_waiting_for_room_is_not_measured() {
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
