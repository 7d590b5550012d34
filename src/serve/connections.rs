//! The connections that are open: how many there may be, and how they all end when the server
//! stops.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a stopping server waits for its connections. Their sockets are shut, so only a slow
/// `on_request` could hold one.
const FAREWELL: Duration = Duration::from_secs(5);

/// The set of open connections.
pub(super) struct Connections {
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    open: HashMap<u64, Arc<TcpStream>>,
    next_id: u64,
    closed: bool,
}

impl Connections {
    /// Room for at most `limit` at a time.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Takes a new connection in, as soon as there is room; `None` once the server has been
    /// stopped.
    pub(super) fn admit(&self, stream: TcpStream) -> Option<u64> {
        let full = |state: &mut State| !state.closed && state.open.len() >= self.limit;
        let mut state = self.changed.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return None;
        }
        let id = state.next_id;
        state.next_id += 1;
        state.open.insert(id, Arc::new(stream));
        Some(id)
    }

    /// Runs `conversation` over an admitted connection, which ends with it, also by a panic.
    pub(super) fn attend(&self, id: u64, conversation: impl FnOnce(&TcpStream)) {
        let _departure = Departure { connections: self, id };
        let stream = self.lock().open.get(&id).cloned();
        if let Some(stream) = stream {
            conversation(&stream);
        }
    }

    /// Admits no more connections and shuts those that are open.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for stream in state.open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.changed.notify_all();
    }

    /// Waits for the threads of all connections to be done.
    pub(super) fn wait_until_gone(&self) {
        let _ = self.changed.wait_timeout_while(self.lock(), FAREWELL, |state| !state.open.is_empty());
    }

    /// A thread that panicked left the map whole: each change is one insertion or removal.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Departure<'a> {
    connections: &'a Connections,
    id: u64,
}

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.id);
        self.connections.changed.notify_all();
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use std::io;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn admits_another_connection_only_when_one_has_ended() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let connect = || TcpStream::connect(listener.local_addr()?);
        let connections = Connections::new(1);
        let (first, second) = (connect()?, connect()?);
        assert_eq!(connections.admit(first), Some(0));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| connections.admit(second));
            connections.attend(0, |_| {
                thread::sleep(Duration::from_millis(20));
                assert!(!waiting.is_finished());
            });
            assert_eq!(waiting.join().ok(), Some(Some(1)));
        });
        connections.close();
        assert_eq!(connections.admit(connect()?), None);
        Ok(())
    }
}
