//! Reads request heads from a connection (RFC 9112).

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The maximum time from the first to the last byte of a head. A head fits in a few packets, so slower clients are
/// probably malicious.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum length of a head. Prevents a client from exhausting memory.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The maximum number of headers. Browsers send about twenty.
const MAX_HEADERS: usize = 96;

/// The head of a request. The server ignores bodies.
pub(super) struct Request {
    pub(super) method: String,
    /// The path of the target, percent-encoded, without the query.
    pub(super) path: String,
    /// The query with its question mark, or empty.
    pub(super) query: String,
    /// Whether the connection stays open for another request.
    pub(super) keep_alive: bool,
    headers: Vec<(String, String)>,
}

impl Request {
    /// The first header of this name, given in lower case.
    pub(super) fn header<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.headers(name).next()
    }

    /// All headers of this name, given in lower case.
    pub(super) fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The next event on a connection.
pub(super) enum Next {
    Request(Request),
    /// The request is invalid: the server sends a last response with this status and reason.
    Refused(u16, &'static str),
    /// The client closed the connection, or the timeout between requests has expired.
    End,
}

/// Reads the request heads of one connection, in order. Buffers bytes that belong to the next head.
pub(super) struct Heads<'a> {
    stream: &'a TcpStream,
    timeout: Duration,
    buffer: Vec<u8>,
}

impl<'a> Heads<'a> {
    pub(super) fn new(stream: &'a TcpStream, timeout: Duration) -> Self {
        Self { stream, timeout, buffer: Vec::new() }
    }

    /// Reads the next head. It must begin within the timeout, and be complete within [`HEAD_TIMEOUT`], so that a client
    /// that sends single bytes slowly cannot block its thread forever.
    pub(super) fn next(&mut self) -> io::Result<Next> {
        let mut deadline = Instant::now() + self.timeout;
        let mut has_started = false;
        loop {
            if !has_started && !self.buffer.is_empty() {
                has_started = true;
                deadline = deadline.min(Instant::now() + HEAD_TIMEOUT);
            }
            match parse(&self.buffer) {
                Parsed::Complete(request, byte_length) if byte_length <= MAX_HEAD_BYTES => {
                    self.buffer.drain(..byte_length);
                    return Ok(Next::Request(request));
                }
                Parsed::Refused(status, why) => return Ok(Next::Refused(status, why)),
                _ if self.buffer.len() > MAX_HEAD_BYTES => {
                    return Ok(Next::Refused(431, "the request's head is longer than 16 KiB"));
                }
                _ => {}
            }
            if !self.read_more(deadline)? {
                let is_idle = self.buffer.is_empty();
                return Ok(if is_idle { Next::End } else { Next::Refused(408, "the request's head is incomplete") });
            }
        }
    }

    /// Reads more bytes. Returns false at the end of the stream, or if the deadline has passed.
    fn read_more(&mut self, deadline: Instant) -> io::Result<bool> {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Ok(false);
        }
        self.stream.set_read_timeout(Some(remaining))?;
        let mut piece = [0; 4096];
        match (&*self.stream).read(&mut piece) {
            Ok(count) => {
                self.buffer.extend_from_slice(piece.get(..count).unwrap_or_default());
                Ok(count > 0)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => Ok(true),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(false),
                _ => Err(error),
            },
        }
    }
}

enum Parsed {
    Complete(Request, usize),
    Partial,
    Refused(u16, &'static str),
}

fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let byte_length = match head.parse(bytes) {
        Ok(httparse::Status::Complete(byte_length)) => byte_length,
        Ok(httparse::Status::Partial) => return Parsed::Partial,
        Err(httparse::Error::TooManyHeaders) => {
            return Parsed::Refused(431, "the request has too many headers");
        }
        Err(httparse::Error::Version) => {
            return Parsed::Refused(505, "only HTTP/1.0 and HTTP/1.1 are supported");
        }
        Err(_) => return Parsed::Refused(400, "the request is not HTTP"),
    };
    let (Some(method), Some(target), Some(version)) = (head.method, head.path, head.version) else {
        return Parsed::Refused(400, "the request is not HTTP");
    };
    let (path, query) = split_target(target);
    let headers = head
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned()));
    let mut request = Request { method: method.to_owned(), path, query, keep_alive: false, headers: headers.collect() };
    if version == 1 && request.headers("host").count() != 1 {
        return Parsed::Refused(400, "an HTTP/1.1 request must have one Host header");
    }
    request.keep_alive = version == 1 && !has_connection_close(&request) && !has_body(&request);
    Parsed::Complete(request, byte_length)
}

/// Splits a target into path and query. Clients of a proxy send an absolute URL (RFC 9112, section 3.2.2).
fn split_target(target: &str) -> (String, String) {
    let local = match target.strip_prefix("http://") {
        Some(rest) => rest.find(['/', '?']).and_then(|at| rest.get(at..)).unwrap_or("/"),
        None => target,
    };
    match local.split_once('?') {
        Some((path, query)) => (path.to_owned(), format!("?{query}")),
        None => (local.to_owned(), String::new()),
    }
}

fn has_connection_close(request: &Request) -> bool {
    request
        .headers("connection")
        .flat_map(|value| value.split(','))
        .any(|option| option.trim().eq_ignore_ascii_case("close"))
}

/// Whether the request has a body. Bodies are not read: the connection is closed after the response, so that the body
/// is not parsed as the next request.
fn has_body(request: &Request) -> bool {
    request.header("transfer-encoding").is_some()
        || request.headers("content-length").any(|length| length.trim() != "0")
}
