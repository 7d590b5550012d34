//! A range server for model files: what `weightstream serve DIR` runs, and what the project's own
//! browser tests load from.
//!
//! HTTP/1.1 with keep-alive, one thread a connection. It answers `Range`, conditional requests and
//! CORS preflights as a web app expects them, and file bodies go from the page cache to the socket
//! through `sendfile` where the system has it.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! use weightstream_cli::serve::Server;
//!
//! let server = Server::new().mount("/models", "models").bind("127.0.0.1:0")?.spawn();
//! println!("{}/models/tiny.safetensors", server.url());
//! # Ok(())
//! # }
//! ```
//!
//! Every file below a mounted folder is readable by every page that can reach the server
//! (`Access-Control-Allow-Origin: *`); therefore names that begin with a dot are never served, and
//! neither is a symbolic link that leads out of its folder.

mod answer;
mod connection;
mod connections;
mod listing;
mod range;
mod real_file;
mod request;
mod response;
mod send;
mod site;
mod validators;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use connection::Exchange;
use connections::Connections;
use site::Site;

/// How long a connection may keep the server waiting, unless [`Server::timeout`] says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Each connection costs a thread: a client that opens them without end must not exhaust the
/// machine. For those beyond, others that wait for their clients are closed.
const MAX_CONNECTIONS: usize = 256;

/// The pause after a failed `accept`. It fails when the process is out of file descriptors, until connections have
/// ended; trying again at once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A connection's thread parses a head of 16 KiB and walks a few paths; the default stack of 2 MiB
/// would be reserved for nothing.
const STACK_BYTES: usize = 256 * 1024;

type OnRequest = dyn Fn(&Exchange) + Send + Sync;

/// What to serve and how; [`Server::bind`] opens the port.
#[derive(Default)]
pub struct Server {
    mounts: Vec<(String, PathBuf)>,
    isolated: bool,
    timeout: Option<Duration>,
    on_request: Option<Box<OnRequest>>,
}

impl Server {
    /// A server that serves nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves the folder (or the one file) at `path` under the URL path `prefix`. Of several mounts
    /// that match, the one with the longest prefix answers; `"/"` matches everything.
    #[must_use]
    pub fn mount(mut self, prefix: &str, path: impl Into<PathBuf>) -> Self {
        self.mounts.push((prefix.to_owned(), path.into()));
        self
    }

    /// Whether pages served from here are cross-origin isolated (COOP and COEP), which
    /// `SharedArrayBuffer` demands.
    #[must_use]
    pub fn isolated(mut self, isolated: bool) -> Self {
        self.isolated = isolated;
        self
    }

    /// How long a connection may keep the server waiting, for a request to begin or for room to send
    /// more of a body, before it is closed. 60 seconds by default. A head that has begun must be whole
    /// within 10 seconds; and where there are very many connections, those that wait for their clients
    /// are closed earlier.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Calls `report` after each request, on the thread of its connection.
    #[must_use]
    pub fn on_request(mut self, report: impl Fn(&Exchange) + Send + Sync + 'static) -> Self {
        self.on_request = Some(Box::new(report));
        self
    }

    /// Opens the port (0 takes a free one). From here on clients can connect; they are answered
    /// once the server runs.
    ///
    /// # Errors
    /// If a mounted path does not exist, or the address cannot be bound.
    pub fn bind(self, address: impl ToSocketAddrs) -> io::Result<Bound> {
        let site = Site::new(self.mounts)?;
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Shared {
            site,
            isolated: self.isolated,
            timeout: self.timeout.unwrap_or(TIMEOUT),
            on_request: self.on_request,
            connections: Connections::new(MAX_CONNECTIONS),
            requests: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
        };
        Ok(Bound { listener, address, shared: Arc::new(shared) })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("mounts", &self.mounts).field("isolated", &self.isolated).finish_non_exhaustive()
    }
}

/// A server with an open port, not yet answering.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Bound {
    /// The server's origin, such as `http://127.0.0.1:8080`, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers requests on this thread for as long as the process lives.
    pub fn run(self) {
        accept(&self.listener, &self.shared);
    }

    /// Answers requests in the background until the returned [`Running`] is stopped or dropped.
    #[must_use]
    pub fn spawn(self) -> Running {
        let Self { listener, address, shared } = self;
        let acceptor = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || accept(&listener, &shared))
        };
        Running { address, shared, acceptor: Some(acceptor) }
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A server that answers in the background. Dropping it stops it.
pub struct Running {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Running {
    /// The server's origin, such as `http://127.0.0.1:8080`, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The number of requests whose head has been read so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// The bytes of bodies handed to the system for sending so far, heads not counted. It may lag
    /// behind what a client has just received; after [`Running::stop`] it is exact.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.shared.bytes_sent.load(Ordering::Relaxed)
    }

    /// Closes the port and every connection, also in the middle of a body. Returns when they are
    /// closed; a second call does nothing.
    pub fn stop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else {
            return;
        };
        self.shared.connections.close();
        // `accept` cannot be interrupted: a last connection wakes it, and it finds the doors
        // closed.
        let woken = TcpStream::connect_timeout(&reachable(self.address), Duration::from_secs(1));
        if woken.is_ok() || acceptor.is_finished() {
            let _ = acceptor.join();
        }
        self.shared.connections.wait_until_gone();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What all connections of one server have in common.
struct Shared {
    site: Site,
    isolated: bool,
    timeout: Duration,
    on_request: Option<Box<OnRequest>>,
    connections: Connections,
    requests: AtomicU64,
    bytes_sent: AtomicU64,
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let stream = match stream {
            Ok(stream) => stream,
            // The client has gone already.
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {
                continue;
            }
            Err(_) => {
                shared.connections.shrink();
                thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        let Some(id) = shared.connections.admit(stream) else {
            return;
        };
        let worker = Arc::clone(shared);
        let started = thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(move || worker.connections.attend(id, |connection| connection::serve(connection, &worker)));
        if started.is_err() {
            shared.connections.attend(id, |_| ());
            shared.connections.shrink();
        }
    }
}

/// A server bound to all interfaces is reached through loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
