//! A proxy that simulates a slow connection: all connections share one bandwidth, and each request is delayed.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::Result;

/// The bandwidth: 100 Mb/s.
const BYTES_PER_SECOND: f64 = 12.5e6;

/// The latency of a request and its response.
const ROUND_TRIP: Duration = Duration::from_millis(40);

/// Small enough that connections share the bandwidth fairly, large enough for accurate sleeps.
const PACKET_BYTES: usize = 16 << 10;

/// A running proxy. Dropping it stops accepting connections; open ones end with their client.
pub(super) struct ThrottledProxy {
    pub(super) url: String,
    address: std::net::SocketAddr,
    has_ended: Arc<AtomicBool>,
}

impl ThrottledProxy {
    /// Starts a proxy to the server at this origin.
    pub(super) fn to(origin: &str) -> Result<ThrottledProxy> {
        let server = origin.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let proxy = ThrottledProxy { url: format!("http://{address}"), address, has_ended: Arc::clone(&has_ended) };
        let busy_until = Arc::new(Mutex::new(Instant::now()));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if has_ended.load(Ordering::Relaxed) {
                    return;
                }
                let (server, busy_until) = (server.clone(), Arc::clone(&busy_until));
                thread::spawn(move || connect(client, &server, &busy_until));
            }
        });
        Ok(proxy)
    }
}

impl Drop for ThrottledProxy {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address); // wakes the accepting thread
    }
}

/// Copies bytes in both directions until one side closes the connection. An error closes the connection.
fn connect(client: TcpStream, server: &str, busy_until: &Mutex<Instant>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    let (client_reader, server_writer) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || copy(client_reader, server_writer, |_| sleep(ROUND_TRIP)));
    copy(server, client, |bytes| {
        // Packets of all connections are sent one after another.
        let mut free = busy_until.lock().unwrap_or_else(PoisonError::into_inner);
        *free = (*free).max(Instant::now()) + Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND);
        let arrives = *free;
        drop(free);
        sleep(arrives.saturating_duration_since(Instant::now()));
    })
}

fn copy(mut from: TcpStream, mut to: TcpStream, wait: impl Fn(usize)) -> io::Result<()> {
    let mut packet = vec![0; PACKET_BYTES];
    loop {
        let length = from.read(&mut packet)?;
        if length == 0 {
            return to.shutdown(Shutdown::Write);
        }
        wait(length);
        to.write_all(packet.get(..length).unwrap_or_default())?;
    }
}
