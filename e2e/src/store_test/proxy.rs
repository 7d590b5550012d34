//! A proxy that counts the bytes that are sent to a server, and can stop in the middle.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::Result;

/// The size of the pieces that are forwarded.
const PIECE_BYTES: usize = 64 << 10;

pub(super) struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    /// The number of bytes that clients have sent.
    sent: AtomicU64,
    /// The proxy forwards nothing after this many bytes.
    limit: u64,
}

impl Proxy {
    /// Forwards connections to `server` until clients have sent `limit` bytes.
    pub(super) fn start(server: u16, limit: u64) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, state) = (listener.local_addr()?, Arc::new(State { sent: AtomicU64::new(0), limit }));
        let proxy = Proxy { address, state: Arc::clone(&state) };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)) else { return };
                let state = Arc::clone(&state);
                if let (Ok(from_client), Ok(to_server)) = (client.try_clone(), upstream.try_clone()) {
                    thread::spawn(move || forward(from_client, to_server, Some(&state)));
                }
                thread::spawn(move || forward(upstream, client, None));
            }
        });
        Ok(proxy)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn sent_bytes(&self) -> u64 {
        self.state.sent.load(Ordering::SeqCst)
    }

    /// Whether the limit is reached.
    pub(super) fn is_stopped(&self) -> bool {
        self.sent_bytes() >= self.state.limit
    }
}

/// Copies until the end of the connection. At the limit, it holds the connection open without forwarding anything.
fn forward(mut from: TcpStream, mut to: TcpStream, counted: Option<&State>) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        if let Some(state) = counted {
            while state.sent.load(Ordering::SeqCst) >= state.limit {
                thread::park();
            }
            state.sent.fetch_add(length as u64, Ordering::SeqCst);
        }
        if piece.get(..length).is_none_or(|bytes| to.write_all(bytes).is_err()) {
            break;
        }
    }
    to.shutdown(Shutdown::Both).ok(); // may be closed already
    from.shutdown(Shutdown::Both).ok();
}
