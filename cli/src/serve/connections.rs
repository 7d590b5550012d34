//! The open connections: the limit on their number, which one is evicted for a new one, and how they all end when the
//! server stops.
//!
//! Clients that never finish a request must not block others. At the limit, a connection that waits for its client is
//! evicted, never one whose client is receiving bytes. There are two groups of waiting connections: those that have not
//! sent a whole request yet, and those between two requests. The larger group loses its oldest connection, so that
//! neither half-open connections nor idle ones can evict all of the others.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a stopping server waits for its connections. Their sockets are closed, so only a slow `on_request` can
/// delay them.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// If every connection is being answered, one whose client has received nothing for this long is evicted: it is
/// probably paused, and can request the rest again.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a new connection at the limit checks for a stalled one.
const STALL_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of evicted connections whose threads have not ended yet. It bounds the number of threads while a
/// client opens connections without end.
const MAX_EVICTED: usize = 64;

/// The limit is never lowered below this number: a browser needs several connections for a page and a model, and so few
/// connections are not what exhausts the file descriptors.
const MIN_CONNECTIONS: usize = 8;

/// The set of open connections.
pub(super) struct Connections {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    limit: usize,
    open: HashMap<u64, Open>,
    /// Evicted connections whose threads have not ended yet.
    evicted: usize,
    next_id: u64,
    closed: bool,
}

struct Open {
    stream: Arc<TcpStream>,
    phase: Phase,
    since: Instant,
}

/// What a connection is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It is waiting for its first request.
    New,
    /// A request was answered, and it is waiting for the next request or the end.
    Idle,
    /// A request is being answered.
    Busy,
}

impl Connections {
    /// Creates a set of at most `limit` connections.
    pub(super) fn new(limit: usize) -> Self {
        let state = State { limit, open: HashMap::new(), evicted: 0, next_id: 0, closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Adds a new connection. At the limit, evicts another connection; if none can be evicted, waits until one ends.
    /// Returns `None` if the server has been stopped.
    pub(super) fn admit(&self, stream: TcpStream) -> Option<u64> {
        let mut state = self.lock();
        while !state.closed && !state.can_admit() {
            state = self.changed.wait_timeout(state, STALL_CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.closed {
            return None;
        }
        let id = state.next_id;
        state.next_id += 1;
        state.open.insert(id, Open { stream: Arc::new(stream), phase: Phase::New, since: Instant::now() });
        Some(id)
    }

    /// Lowers the limit and evicts the connections above it, because the process has no file descriptors left: each
    /// connection needs one, and another one for the file that it sends.
    pub(super) fn shrink(&self) {
        let mut state = self.lock();
        let fewer = state.open.len() / 4 * 3;
        if fewer >= MIN_CONNECTIONS {
            state.limit = fewer.min(state.limit);
            while state.open.len() > state.limit && state.close_one() {}
        }
    }

    /// Runs `handler` with an admitted connection. The connection is removed when `handler` returns or panics.
    pub(super) fn handle(&self, id: u64, handler: impl FnOnce(&Connection<'_>)) {
        let _guard = RemoveOnDrop { connections: self, id };
        let stream = self.lock().open.get(&id).map(|open| Arc::clone(&open.stream));
        if let Some(stream) = stream {
            handler(&Connection { connections: self, id, stream });
        }
    }

    /// Stops admitting connections, and shuts down the open ones.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for open in state.open.values() {
            let _ = open.stream.shutdown(Shutdown::Both);
        }
        self.changed.notify_all();
    }

    /// Waits for the threads of all connections to end.
    pub(super) fn wait_until_closed(&self) {
        let is_busy = |state: &mut State| !state.open.is_empty() || state.evicted > 0;
        let _ = self.changed.wait_timeout_while(self.lock(), SHUTDOWN_TIMEOUT, is_busy);
    }

    /// Ignores poisoning: each change is one insertion or removal, so a panic leaves the map consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An admitted connection, for its thread.
pub(super) struct Connection<'a> {
    connections: &'a Connections,
    id: u64,
    stream: Arc<TcpStream>,
}

impl Connection<'_> {
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Call before a response, and whenever the client has received bytes. Returns false if the connection was evicted.
    pub(super) fn mark_busy(&self) -> bool {
        self.enter(Phase::Busy)
    }

    /// Call after a response. Returns false if the connection was evicted.
    pub(super) fn mark_idle(&self) -> bool {
        self.enter(Phase::Idle)
    }

    fn enter(&self, phase: Phase) -> bool {
        let mut state = self.connections.lock();
        let Some(open) = state.open.get_mut(&self.id) else { return false };
        (open.phase, open.since) = (phase, Instant::now());
        true
    }
}

impl State {
    /// Whether one more connection is allowed, after evicting one if necessary.
    fn can_admit(&mut self) -> bool {
        self.open.len() < self.limit || self.close_one()
    }

    /// Evicts one connection. Returns false if none can be evicted.
    fn close_one(&mut self) -> bool {
        if self.evicted >= MAX_EVICTED {
            return false;
        }
        let count = |phase| self.open.values().filter(|open| open.phase == phase).count();
        let larger = if count(Phase::New) >= count(Phase::Idle) { Phase::New } else { Phase::Idle };
        let Some(id) = self.oldest(larger, Duration::ZERO).or_else(|| self.oldest(Phase::Busy, STALL_TIMEOUT)) else {
            return false;
        };
        if let Some(open) = self.open.remove(&id) {
            let _ = open.stream.shutdown(Shutdown::Both);
            self.evicted += 1;
        }
        true
    }

    /// Returns the connection that has been in this phase for the longest time, and at least for `at_least`.
    fn oldest(&self, phase: Phase, at_least: Duration) -> Option<u64> {
        let candidates = self.open.iter().filter(|(_, open)| open.phase == phase && open.since.elapsed() >= at_least);
        candidates.min_by_key(|(id, open)| (open.since, **id)).map(|(id, _)| *id)
    }
}

struct RemoveOnDrop<'a> {
    connections: &'a Connections,
    id: u64,
}

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        let mut state = self.connections.lock();
        if state.open.remove(&self.id).is_none() {
            state.evicted = state.evicted.saturating_sub(1);
        }
        drop(state);
        self.connections.changed.notify_all();
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use std::io::{self, Read};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Returns both ends of a new connection.
    fn connect(listener: &TcpListener) -> io::Result<(TcpStream, TcpStream)> {
        let client = TcpStream::connect(listener.local_addr()?)?;
        Ok((client, listener.accept()?.0))
    }

    /// Whether the server has closed the connection.
    fn is_closed(mut client: &TcpStream) -> bool {
        client.set_read_timeout(Some(Duration::from_millis(20))).is_ok() && matches!(client.read(&mut [0]), Ok(0))
    }

    #[test]
    fn evicts_the_oldest_waiting_connection() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let connections = Connections::new(3);
        let clients: Vec<_> = (0..3).map(|_| connect(&listener)).collect::<io::Result<_>>()?;
        let clients: Vec<_> = clients.into_iter().map(|(client, server)| (client, connections.admit(server))).collect();
        connections.handle(0, |busy| {
            assert!(busy.mark_busy());
            let (_fourth, server) = connect(&listener).unwrap();
            assert_eq!(connections.admit(server), Some(3));
            assert_eq!(clients.iter().map(|(client, _)| is_closed(client)).collect::<Vec<_>>(), [false, true, false]);
            assert!(busy.mark_idle());
        });
        let mut was_handled = false;
        connections.handle(1, |_| was_handled = true);
        assert!(!was_handled);
        Ok(())
    }

    #[test]
    fn neither_group_of_waiting_connections_evicts_the_other() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let connections = Connections::new(4);
        let (answered, server) = connect(&listener)?;
        assert_eq!(connections.admit(server), Some(0));
        thread::scope(|scope| {
            connections.handle(0, |idle| {
                assert!(idle.mark_busy() && idle.mark_idle());
                let half_open: Vec<_> = (0..20)
                    .map(|_| {
                        let (client, server) = connect(&listener).unwrap();
                        let id = connections.admit(server).unwrap();
                        let connections = &connections;
                        scope.spawn(move || connections.handle(id, |it| drop(it.stream().read(&mut [0]))));
                        client
                    })
                    .collect();
                assert!(!is_closed(&answered));
                assert_eq!(half_open.iter().filter(|client| !is_closed(client)).count(), 3);
                connections.close();
            });
        });
        Ok(())
    }

    #[test]
    fn waits_for_the_end_of_a_busy_connection() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let connections = Connections::new(1);
        let (first, second) = (connect(&listener)?, connect(&listener)?);
        assert_eq!(connections.admit(first.1), Some(0));
        thread::scope(|scope| {
            let mut waiting = None;
            connections.handle(0, |busy| {
                assert!(busy.mark_busy());
                let admitted = waiting.insert(scope.spawn(|| connections.admit(second.1)));
                thread::sleep(Duration::from_millis(20));
                assert!(!admitted.is_finished());
            });
            assert_eq!(waiting.and_then(|admitted| admitted.join().ok()), Some(Some(1)));
        });
        connections.close();
        assert_eq!(connections.admit(connect(&listener)?.1), None);
        Ok(())
    }
}
