//! A proxy that gives each client a line of its own, with a bandwidth and a latency. It can break responses, answer
//! with 503, and simulate an outage of the whole service.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::connection;
use crate::faults::{Fate, Faults, Outage};
use crate::line::Line;

/// A running proxy. Dropping it closes all its connections.
pub(crate) struct Proxy {
    /// The address of each line, in order.
    pub(crate) addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    thread: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

/// The state of a proxy that its thread and its owner share.
pub(crate) struct Shared {
    pub(crate) server: SocketAddr,
    faults: Faults,
    start: Instant,
    /// The fate of all requests during an outage.
    outage: Mutex<Option<Fate>>,
    random: Mutex<fastrand::Rng>,
    requests: Mutex<Vec<Request>>,
}

/// A request, and its response when that is complete.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The number of the line.
    pub(crate) client: usize,
    /// When it arrived, since the start of the proxy.
    pub(crate) at: Duration,
    /// `None` if there was no response.
    pub(crate) status: Option<u16>,
    /// Whether the cache states that it had the response.
    pub(crate) is_hit: bool,
    /// The number of bytes of the body that were sent.
    pub(crate) bytes: u64,
    /// Whether the whole response was sent.
    pub(crate) is_whole: bool,
    /// Whether the proxy broke the response. If not, and it is not whole, the client ended it.
    pub(crate) is_cut: bool,
}

impl Proxy {
    /// Starts a proxy to `server` with these lines. The seed determines the faults.
    pub(crate) fn start(server: SocketAddr, lines: &[Line], faults: Faults, seed: u64) -> Result<Proxy> {
        let listeners = lines.iter().map(|_| TcpListener::bind("127.0.0.1:0")).collect::<io::Result<Vec<_>>>()?;
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
        let shared = Arc::new(Shared {
            server,
            faults,
            start: Instant::now(),
            outage: Mutex::new(None),
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            requests: Mutex::default(),
        });
        let lines: Vec<_> = listeners.into_iter().zip(lines.iter().copied()).collect();
        let (stop, stopped) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let for_thread = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let serving = LocalSet::new();
            for (client, (listener, line)) in lines.into_iter().enumerate() {
                serving.spawn_local(accept(listener, client, line, Arc::clone(&for_thread)));
            }
            runtime.block_on(serving.run_until(stopped)).ok(); // an error is the end of the owner, too
        });
        Ok(Proxy { addresses, shared, thread: Some((stop, thread)) })
    }

    /// The address of the first line.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.addresses.first().copied().context("the proxy has no line")
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// Breaks all responses, and lets all requests fail until [`Proxy::end_outage`].
    pub(crate) fn begin_outage(&self, outage: Outage, length: Duration) {
        *lock(&self.shared.outage) = Some(outage.fate(SystemTime::now(), length));
    }

    /// Ends an outage. Returns the time since the start of the proxy.
    pub(crate) fn end_outage(&self) -> Duration {
        *lock(&self.shared.outage) = None;
        self.now()
    }

    /// The time since the start of the proxy.
    pub(crate) fn now(&self) -> Duration {
        self.shared.start.elapsed()
    }

    /// Ends the proxy. An error is a panic of its thread.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        let Some((stop, thread)) = self.thread.take() else { return Ok(()) };
        stop.send(()).ok(); // it may have ended already
        thread.join().map_err(|_| anyhow!("the proxy panicked"))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.join().ok(); // `stop` reports it
    }
}

impl Shared {
    /// Records a request. Returns its number and what happens to it.
    pub(crate) fn record(&self, client: usize) -> (usize, Fate) {
        let fate = lock(&self.outage).unwrap_or_else(|| self.faults.fate(&mut lock(&self.random)));
        let mut requests = lock(&self.requests);
        let at = self.start.elapsed();
        requests.push(Request { client, at, status: None, is_hit: false, bytes: 0, is_whole: false, is_cut: false });
        (requests.len() - 1, fate)
    }

    /// Changes the record of a request.
    pub(crate) fn update(&self, request: usize, change: impl FnOnce(&mut Request)) {
        if let Some(request) = lock(&self.requests).get_mut(request) {
            change(request);
        }
    }

    pub(crate) fn is_out(&self) -> bool {
        lock(&self.outage).is_some()
    }
}

/// Accepts the connections of one client.
async fn accept(listener: TcpListener, client: usize, line: Line, shared: Arc<Shared>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let line = Rc::new(line.into_queue());
    loop {
        let (stream, _) = listener.accept().await?;
        let (line, shared) = (Rc::clone(&line), Arc::clone(&shared));
        tokio::task::spawn_local(async move {
            // An error closes the connection, like every end.
            connection::serve(stream, client, &line, &shared).await.ok();
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
