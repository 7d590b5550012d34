//! A proxy that simulates a slow connection: all connections share one bandwidth, and each request is delayed. It can
//! also break a connection in the middle of a model.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::Result;

/// A simulated connection.
#[derive(Clone, Copy)]
pub(super) struct Line {
    /// `None`: as fast as the machine.
    bytes_per_second: Option<f64>,
    /// The latency of a request and its response.
    round_trip: Duration,
}

/// 100 Mb/s.
pub(super) const SLOW: Line = Line { bytes_per_second: Some(12.5e6), round_trip: Duration::from_millis(40) };

/// 50 Mb/s, as on a phone with a good connection.
pub(super) const PHONE: Line = Line { bytes_per_second: Some(6.25e6), round_trip: Duration::from_millis(40) };

/// 20 Mb/s, as on a phone.
pub(super) const MOBILE: Line = Line { bytes_per_second: Some(2.5e6), round_trip: Duration::from_millis(40) };

/// As fast as the machine.
pub(super) const UNLIMITED: Line = Line { bytes_per_second: None, round_trip: Duration::ZERO };

/// Small enough that connections share the bandwidth fairly, large enough for accurate sleeps.
const PACKET_BYTES: usize = 16 << 10;

/// The files of models, as opposed to pages and scripts.
const MODELS: &[u8] = b"GET /models/";

/// A running proxy. Dropping it stops accepting connections; open ones end with their client.
pub(super) struct ThrottledProxy {
    pub(super) url: String,
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    server: String,
    line: Line,
    busy_until: Mutex<Instant>,
    sent_bytes: AtomicU64,
    models: Mutex<ModelTraffic>,
    has_ended: AtomicBool,
}

/// What was sent of models.
#[derive(Default)]
struct ModelTraffic {
    bytes: u64,
    /// The number of bytes after which one connection breaks.
    cut_after: Option<u64>,
}

impl ThrottledProxy {
    /// Starts a proxy to the server at this origin.
    pub(super) fn to(origin: &str, line: Line) -> Result<ThrottledProxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server: origin.trim_start_matches("http://").to_owned(),
            line,
            busy_until: Mutex::new(Instant::now()),
            sent_bytes: AtomicU64::new(0),
            models: Mutex::default(),
            has_ended: AtomicBool::new(false),
        });
        let proxy = ThrottledProxy { url: format!("http://{address}"), address, shared: Arc::clone(&shared) };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.has_ended.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&shared);
                thread::spawn(move || connect(client, &shared));
            }
        });
        Ok(proxy)
    }

    /// The number of bytes that all responses have taken so far.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.shared.sent_bytes.load(Ordering::Relaxed)
    }

    /// Counts the bytes of models from 0. With `cut_after`, the connection that sends the byte at this number breaks.
    pub(super) fn count_from_zero(&self, cut_after: Option<u64>) {
        *lock(&self.shared.models) = ModelTraffic { bytes: 0, cut_after };
    }

    /// The number of bytes of models that were sent. Fails if a connection should have broken and did not.
    pub(super) fn model_bytes(&self) -> Result<u64> {
        let models = lock(&self.shared.models);
        anyhow::ensure!(models.cut_after.is_none(), "no connection broke: only {} bytes were sent", models.bytes);
        Ok(models.bytes)
    }
}

impl Drop for ThrottledProxy {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address); // wakes the accepting thread
    }
}

/// Copies bytes in both directions until one side closes the connection. An error closes the connection.
fn connect(client: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let server = TcpStream::connect(&shared.server)?;
    let (client_reader, server_writer) = (client.try_clone()?, server.try_clone()?);
    let (both, line) = ([client.try_clone()?, server.try_clone()?], shared.line);
    let is_model = Arc::new(AtomicBool::new(false));
    let requested = Arc::clone(&is_model);
    thread::spawn(move || {
        // A browser sends no request before it has the response to the one before, and each in one packet.
        copy(client_reader, server_writer, |packet| {
            requested.store(packet.starts_with(MODELS), Ordering::Relaxed);
            sleep(line.round_trip);
            true
        })
    });
    let copied = copy(server, client, |packet| {
        shared.delay(packet.len());
        shared.sent_bytes.fetch_add(packet.len() as u64, Ordering::Relaxed);
        !is_model.load(Ordering::Relaxed) || shared.count(packet.len())
    });
    for stream in both {
        let _ = stream.shutdown(Shutdown::Both); // it may be closed already
    }
    copied
}

impl Shared {
    /// Waits until a packet has arrived. Packets of all connections are sent one after another.
    fn delay(&self, bytes: usize) {
        let Some(bytes_per_second) = self.line.bytes_per_second else { return };
        let mut free = lock(&self.busy_until);
        *free = (*free).max(Instant::now()) + Duration::from_secs_f64(bytes as f64 / bytes_per_second);
        let arrives = *free;
        drop(free);
        sleep(arrives.saturating_duration_since(Instant::now()));
    }

    /// Counts a packet of a model. Returns false if the connection breaks.
    fn count(&self, bytes: usize) -> bool {
        let mut models = lock(&self.models);
        models.bytes += bytes as u64;
        let breaks = models.cut_after.is_some_and(|after| models.bytes >= after);
        if breaks {
            models.cut_after = None;
        }
        !breaks
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies until the end, or until `pass` returns false.
fn copy(mut from: TcpStream, mut to: TcpStream, mut pass: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let mut buffer = vec![0; PACKET_BYTES];
    loop {
        let length = from.read(&mut buffer)?;
        let packet = buffer.get(..length).unwrap_or_default();
        if packet.is_empty() {
            return to.shutdown(Shutdown::Write);
        }
        if !pass(packet) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        to.write_all(packet)?;
    }
}
