//! A slow line to a server: one rate for all connections together, and a delay before each request.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::Result;

/// 100 Mb/s.
const BYTES_PER_SECOND: f64 = 12.5e6;

/// What a request takes to get there and its answer to come back.
const ROUND_TRIP: Duration = Duration::from_millis(40);

/// Few enough that the line is shared fairly, many enough that sleeping for them is exact.
const PACKET_BYTES: usize = 16 << 10;

/// Ends when the value does; connections that are open end with their client.
pub(super) struct Line {
    pub(super) url: String,
    address: std::net::SocketAddr,
    has_ended: Arc<AtomicBool>,
}

impl Line {
    /// A line to the server at this origin.
    pub(super) fn to(origin: &str) -> Result<Line> {
        let server = origin.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let line = Line { url: format!("http://{address}"), address, has_ended: Arc::clone(&has_ended) };
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
        Ok(line)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address); // wakes the thread that accepts
    }
}

/// Carries bytes both ways until one side ends. An error is the end of the connection, which is all that either would
/// see.
fn connect(client: TcpStream, server: &str, busy_until: &Mutex<Instant>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    let (asking, asked) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || carry(asking, asked, |_| sleep(ROUND_TRIP)));
    carry(server, client, |bytes| {
        // Each packet has the line for itself, after those of all connections that came before it.
        let mut free = busy_until.lock().unwrap_or_else(PoisonError::into_inner);
        *free = (*free).max(Instant::now()) + Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND);
        let arrives = *free;
        drop(free);
        sleep(arrives.saturating_duration_since(Instant::now()));
    })
}

fn carry(mut from: TcpStream, mut to: TcpStream, wait: impl Fn(usize)) -> io::Result<()> {
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
