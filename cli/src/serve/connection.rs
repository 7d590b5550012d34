//! One connection: reads requests and answers them in order, until the client or the server closes it.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::connections::Connection;
use super::request::{Heads, Next, Request};
use super::response::Response;
use super::send::fit_send_buffer;
use super::{Shared, answer};

/// The limits for reading and discarding the remaining input of a client before its connection is closed.
const LINGER_BYTES: u64 = 1024 * 1024;
const LINGER: Duration = Duration::from_secs(1);

/// A request and its result, for a log.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The method, such as `GET`.
    pub method: String,
    /// The requested path, percent-encoded, without the query.
    pub path: String,
    /// The value of the `Range` header.
    pub range: Option<String>,
    /// The status of the response.
    pub status: u16,
    /// The number of body bytes passed to the system; fewer than `Content-Length` if the client disconnected.
    pub bytes_sent: u64,
    /// From the end of the request's head to the end of the response.
    pub elapsed: Duration,
}

/// Serves a connection until it ends. A client that disconnects is not an error of the server, so errors are ignored.
pub(super) fn serve(connection: &Connection<'_>, shared: &Shared) {
    let _ = serve_requests(connection, shared);
}

fn serve_requests(connection: &Connection<'_>, shared: &Shared) -> io::Result<()> {
    let stream = connection.stream();
    stream.set_nodelay(true)?;
    fit_send_buffer(stream)?;
    stream.set_write_timeout(Some(shared.timeout))?;
    let mut heads = Heads::new(stream, shared.timeout);
    loop {
        match heads.next()? {
            Next::End => return Ok(()),
            Next::Refused(status, why) => {
                Response::text(status, why).isolated(shared.isolated).closing().send(stream, "GET", &mut |_| ())?;
                return linger(stream);
            }
            Next::Request(request) => {
                if !connection.mark_busy() {
                    return Ok(());
                }
                respond(connection, shared, &request)?;
                if !connection.mark_idle() {
                    return Ok(());
                }
                if !request.keep_alive {
                    return linger(stream);
                }
            }
        }
    }
}

fn respond(connection: &Connection<'_>, shared: &Shared, request: &Request) -> io::Result<()> {
    let began = Instant::now();
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let mut response = answer::answer(&shared.site, request).isolated(shared.isolated);
    if !request.keep_alive {
        response = response.closing();
    }
    let mut bytes_sent = 0;
    let sent = response.send(connection.stream(), &request.method, &mut |byte_length| {
        connection.mark_busy();
        bytes_sent += byte_length;
        shared.bytes_sent.fetch_add(byte_length, Ordering::Relaxed);
    });
    if let Some(report) = &shared.on_request {
        report(&Exchange {
            method: request.method.clone(),
            path: request.path.clone(),
            range: request.header("range").map(str::to_owned),
            status: response.status,
            bytes_sent,
            elapsed: began.elapsed(),
        });
    }
    sent
}

/// Closes the sending side and reads the rest of the request (RFC 9112, section 9.6). Closing a socket with unread
/// bytes would reset the connection, and the client could lose the response.
fn linger(stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let deadline = Instant::now() + LINGER;
    let mut scratch = [0; 4096];
    let mut left = LINGER_BYTES;
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() || left == 0 {
            return Ok(());
        }
        stream.set_read_timeout(Some(remaining))?;
        match (&*stream).read(&mut scratch)? {
            0 => return Ok(()),
            count => left = left.saturating_sub(count as u64),
        }
    }
}
