//! Request heads, read off a connection (RFC 9112).

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long a head may be on its way, from its first byte to its last. It fits into a packet or a few; a client that is
/// slower does not mean to get an answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A client that sends an endless head must not fill the memory.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Browsers send about twenty headers.
const MAX_HEADERS: usize = 96;

/// A request's head. Bodies have no meaning for a server of files.
pub(super) struct Request {
    pub(super) method: String,
    /// The path of the target, still percent-encoded, without the query.
    pub(super) path: String,
    /// What follows the path: empty, or the query with its question mark.
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

/// What comes next on a connection.
pub(super) enum Next {
    Request(Request),
    /// The client cannot be understood: a last response with this status and reason, then the end.
    Refused(u16, &'static str),
    /// The client closed the connection or fell silent between requests.
    End,
}

/// The request heads of one connection, in order. Bytes that came with a head but belong to the
/// next one are kept for it.
pub(super) struct Heads<'a> {
    stream: &'a TcpStream,
    timeout: Duration,
    buffer: Vec<u8>,
}

impl<'a> Heads<'a> {
    pub(super) fn new(stream: &'a TcpStream, timeout: Duration) -> Self {
        Self { stream, timeout, buffer: Vec::new() }
    }

    /// Reads the next head. It must begin within the timeout, and the whole of it come within a shorter one: a client
    /// that sends a byte now and then does not hold its thread for ever.
    pub(super) fn next(&mut self) -> io::Result<Next> {
        let mut deadline = Instant::now() + self.timeout;
        let mut has_begun = false;
        loop {
            if !has_begun && !self.buffer.is_empty() {
                has_begun = true;
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
                let silent = self.buffer.is_empty();
                return Ok(if silent { Next::End } else { Next::Refused(408, "the request's head is incomplete") });
            }
        }
    }

    /// False if there is no more, or not in time.
    fn read_more(&mut self, deadline: Instant) -> io::Result<bool> {
        let patience = deadline.saturating_duration_since(Instant::now());
        if patience.is_zero() {
            return Ok(false);
        }
        self.stream.set_read_timeout(Some(patience))?;
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
            return Parsed::Refused(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
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
        return Parsed::Refused(400, "an HTTP/1.1 request names its Host once");
    }
    request.keep_alive = version == 1 && !asks_to_close(&request) && !has_body(&request);
    Parsed::Complete(request, byte_length)
}

/// Path and query of a target, which a proxy's client gives as a whole URL (RFC 9112, section
/// 3.2.2).
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

fn asks_to_close(request: &Request) -> bool {
    request
        .headers("connection")
        .flat_map(|value| value.split(','))
        .any(|option| option.trim().eq_ignore_ascii_case("close"))
}

/// A body is not read; the connection ends after the response, lest the body be taken for the next
/// request.
fn has_body(request: &Request) -> bool {
    request.header("transfer-encoding").is_some()
        || request.headers("content-length").any(|length| length.trim() != "0")
}
