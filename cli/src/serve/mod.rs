//! A range server for model files, which `weightstream serve DIR` and the browser tests use.
//!
//! The server supports HTTP/1.1 with keep-alive, with one thread per connection. It handles `Range`, conditional
//! requests and CORS preflights, and sends files with `sendfile` where available.
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
//! Every page that can reach the server can read every file below a mounted folder (`Access-Control-Allow-Origin: *`).
//! Therefore, names that begin with a dot and symbolic links that point outside their folder are never served.

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

/// The default of [`Server::timeout`].
const TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of connections. Each connection needs a thread, and a client that opens many connections must not
/// exhaust the system. Beyond the limit, connections that wait for their clients are closed.
const MAX_CONNECTIONS: usize = 256;

/// The pause after a failed `accept`. It fails while the process is out of file descriptors; an immediate retry would
/// only waste processor time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// The stack size of a connection's thread, which parses a head of 16 KiB and a few paths. The default of 2 MiB is not
/// needed.
const STACK_BYTES: usize = 256 * 1024;

type OnRequest = dyn Fn(&Exchange) + Send + Sync;

/// The configuration of a server; [`Server::bind`] opens the port.
#[derive(Default)]
pub struct Server {
    mounts: Vec<(String, PathBuf)>,
    isolated: bool,
    timeout: Option<Duration>,
    on_request: Option<Box<OnRequest>>,
}

impl Server {
    /// Creates a server without mounts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves the folder (or the single file) at `path` under the URL path `prefix`. If several mounts match, the one
    /// with the longest prefix is used; `"/"` matches everything.
    #[must_use]
    pub fn mount(mut self, prefix: &str, path: impl Into<PathBuf>) -> Self {
        self.mounts.push((prefix.to_owned(), path.into()));
        self
    }

    /// Sets whether served pages are cross-origin isolated (COOP and COEP), which `SharedArrayBuffer` requires.
    #[must_use]
    pub fn isolated(mut self, isolated: bool) -> Self {
        self.isolated = isolated;
        self
    }

    /// Sets how long the server waits for a request to begin, or for a client to receive more of a body, before it
    /// closes the connection. The default is 60 seconds. A request head must be complete within 10 seconds of its first
    /// byte. If there are very many connections, those that wait for their clients are closed earlier.
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

    /// Opens the port (0 selects a free port). Clients can connect from now on; they are answered when the server runs.
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

/// A server with an open port that does not answer requests yet.
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

    /// Answers requests on this thread, and does not return.
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

    /// The number of body bytes passed to the system for sending so far, without heads. It may be lower than what a
    /// client has just received; after [`Running::stop`] it is exact.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.shared.bytes_sent.load(Ordering::Relaxed)
    }

    /// Closes the port and every connection, also during a response. Returns when they are closed. A second call does
    /// nothing.
    pub fn stop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else {
            return;
        };
        self.shared.connections.close();
        // `accept` cannot be interrupted: a last connection wakes the thread, which then finds the server closed.
        let woken = TcpStream::connect_timeout(&reachable(self.address), Duration::from_secs(1));
        if woken.is_ok() || acceptor.is_finished() {
            let _ = acceptor.join();
        }
        self.shared.connections.wait_until_closed();
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

/// The state that all connections of a server share.
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
            // The client has already disconnected.
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
            .spawn(move || worker.connections.handle(id, |connection| connection::serve(connection, &worker)));
        if started.is_err() {
            shared.connections.handle(id, |_| ());
            shared.connections.shrink();
        }
    }
}

/// Returns the address to connect to: loopback for a server bound to all interfaces.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
