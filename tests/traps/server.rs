//! A scripted HTTP server on 127.0.0.1. It records the requests and the number of bytes that it sent.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The size of the writes in which a body is sent.
const PIECE_BYTES: usize = 16 << 10;

const CUT_PAUSE: Duration = Duration::from_millis(100);

/// The end of a body with chunked transfer encoding.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A request, and the number of body bytes that were sent in response.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Counted from 0, over all connections.
    pub(crate) number: usize,
    pub(crate) method: String,
    pub(crate) path: String,
    /// The `Range` header, half-open. It ends at `usize::MAX` if the header has no end.
    pub(crate) range: Option<Range<usize>>,
    /// The headers, with names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) at: Instant,
    pub(crate) sent: usize,
    /// Whether the client closed the connection before the whole response was sent.
    pub(crate) is_abandoned: bool,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Generates the bytes of a range of a file that is not in memory.
type Generate = fn(Range<usize>) -> Vec<u8>;

/// A response.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// A body that is generated while it is sent, instead of `body`: the range, and the function that generates it.
    generated: Option<(Range<usize>, Generate)>,
    then: Then,
    /// The pause after each piece of the body.
    pause: Duration,
    link: Option<Link>,
}

/// A network link of limited bandwidth that several bodies share.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    piece: Duration,
    free_at: Arc<Mutex<Instant>>,
}

impl Link {
    pub(crate) fn new(piece_ms: u64) -> Self {
        Link { piece: Duration::from_millis(piece_ms), free_at: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Waits until the next piece may be sent.
    fn wait(&self) {
        let turn = {
            let mut free_at = self.free_at.lock().unwrap();
            *free_at = Instant::now().max(*free_at) + self.piece;
            *free_at
        };
        thread::sleep(turn.saturating_duration_since(Instant::now()));
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    /// The connection serves the next request.
    KeepAlive,
    /// The connection is closed once the client has read the bytes.
    Close,
    /// The connection is closed.
    Abort,
    /// The server sends nothing more, and the connection stays open.
    Stall,
    /// The server sends nothing at all, not even headers, and the connection stays open.
    Silence,
}

impl Reply {
    pub(crate) fn new(status: u16, body: &[u8]) -> Self {
        let reply = Reply {
            status,
            headers: Vec::new(),
            body: body.to_vec(),
            generated: None,
            then: Then::KeepAlive,
            pause: Duration::ZERO,
            link: None,
        };
        reply.with("Content-Length", &body.len().to_string())
    }

    /// A range of a file of `file_length` bytes, whose bytes are generated.
    pub(crate) fn generated(range: Range<usize>, file_length: usize, generate: Generate) -> Self {
        let content_range = format!("bytes {}-{}/{file_length}", range.start, range.end - 1);
        let reply = Reply::new(206, b"").with("Content-Range", &content_range);
        Reply { generated: Some((range.clone(), generate)), ..reply.with("Content-Length", &range.len().to_string()) }
    }

    /// Replaces the body.
    pub(crate) fn with_body(self, body: &[u8]) -> Self {
        let reply = Reply { body: body.to_vec(), ..self };
        reply.with("Content-Length", &body.len().to_string())
    }

    /// Sets a header.
    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        let mut reply = self.without(name);
        reply.headers.push((name.to_owned(), value.to_owned()));
        reply
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// Closes the connection after this number of body bytes.
    pub(crate) fn cut_after(mut self, bytes: usize) -> Self {
        if bytes < self.body.len() {
            self.body.truncate(bytes);
            self.then = Then::Close;
        }
        self
    }

    /// Closes the connection immediately after this number of body bytes, which may break bytes in transit.
    pub(crate) fn abort_after(mut self, bytes: usize) -> Self {
        self.body.truncate(bytes);
        self.then = Then::Abort;
        self
    }

    /// Stops sending after this number of body bytes, but does not close the connection.
    pub(crate) fn stall_after(mut self, bytes: usize) -> Self {
        self.body.truncate(bytes);
        self.then = Then::Stall;
        self
    }

    /// Sends nothing, but does not close the connection.
    pub(crate) fn silent(self) -> Self {
        Reply { then: Then::Silence, ..self }
    }

    /// Sends the whole body with chunked transfer encoding, but not the chunk that ends it, and does not close the
    /// connection.
    pub(crate) fn without_end(self) -> Self {
        let mut reply = self.chunked();
        reply.body.truncate(reply.body.len() - LAST_CHUNK.len());
        Reply { then: Then::Stall, ..reply }
    }

    /// Pauses after every piece of 16 KiB.
    pub(crate) fn slowly(mut self, pause_ms: u64) -> Self {
        self.pause = Duration::from_millis(pause_ms);
        self
    }

    /// Sends the body over a link that it shares with others.
    pub(crate) fn over(self, link: &Link) -> Self {
        Reply { link: Some(link.clone()), ..self }
    }

    /// Sends the body with chunked transfer encoding, so its length is unknown until its end.
    pub(crate) fn chunked(mut self) -> Self {
        let mut body = Vec::new();
        for chunk in self.body.chunks(10_000) {
            body.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            body.extend(chunk);
            body.extend(b"\r\n");
        }
        body.extend(LAST_CHUNK);
        self.body = body;
        self.without("Content-Length").with("Transfer-Encoding", "chunked")
    }
}

/// The correct response to a request for `file`: the range, the whole file, or 416.
pub(crate) fn answer(file: &[u8], request: &Request) -> Reply {
    match &request.range {
        None => whole(file),
        Some(range) if range.start >= file.len() => {
            Reply::new(416, b"").with("Content-Range", &format!("bytes */{}", file.len()))
        }
        Some(range) => {
            let range = range.start..range.end.min(file.len());
            let content_range = format!("bytes {}-{}/{}", range.start, range.end - 1, file.len());
            Reply::new(206, &file[range]).with("ETag", "\"v1\"").with("Content-Range", &content_range)
        }
    }
}

/// The request as a server understands it that sends at most `limit` bytes of a range.
pub(crate) fn limited(request: &Request, limit: usize) -> Request {
    let range = request.range.clone().map(|range| range.start..range.end.min(range.start + limit));
    Request { range, ..request.clone() }
}

/// The whole file, as a server without support for Range sends it.
pub(crate) fn whole(file: &[u8]) -> Reply {
    Reply::new(200, file).with("ETag", "\"v1\"")
}

/// A running server. Dropping it closes the port.
pub(crate) struct Server {
    origin: String,
    shared: Arc<Shared>,
}

struct Shared {
    script: Box<dyn Fn(&Request) -> Reply + Send + Sync>,
    requests: Mutex<Vec<Request>>,
    /// How many bodies are being sent, and the maximum that were sent at the same time.
    sending: Mutex<(usize, usize)>,
    is_closed: AtomicBool,
}

impl Server {
    pub(crate) fn new(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let (requests, sending, is_closed) = Default::default();
        let shared = Arc::new(Shared { script: Box::new(script), requests, sending, is_closed });
        let acceptor = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if acceptor.is_closed.load(Ordering::Relaxed) {
                    break;
                }
                let shared = Arc::clone(&acceptor);
                thread::spawn(move || shared.serve(stream));
            }
        });
        Server { origin, shared }
    }

    /// The URL of `path`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    /// Closes the port.
    pub(crate) fn close(&self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        TcpStream::connect(self.origin.trim_start_matches("http://")).ok(); // wakes the acceptor
        thread::sleep(CUT_PAUSE); // until it has ended
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The ranges that were requested so far.
    pub(crate) fn ranges(&self) -> Vec<Range<usize>> {
        self.requests().into_iter().map(|request| request.range.unwrap_or(0..usize::MAX)).collect()
    }

    /// The maximum number of bodies that were sent at the same time.
    pub(crate) fn max_concurrent(&self) -> usize {
        self.shared.sending.lock().unwrap().1
    }

    /// The number of body bytes that were sent so far.
    pub(crate) fn sent(&self) -> usize {
        self.requests().iter().map(|request| request.sent).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        TcpStream::connect(self.origin.trim_start_matches("http://")).ok(); // wakes the acceptor
    }
}

impl Shared {
    /// Serves the requests of a connection until either side closes it.
    fn serve(&self, mut stream: TcpStream) {
        stream.set_nodelay(true).ok();
        while let Some(request) = self.receive(&mut stream) {
            if self.is_closed.load(Ordering::Relaxed) {
                return; // a dropped server does not respond on open connections
            }
            let reply = (self.script)(&request);
            if reply.then == Then::Silence {
                return self.wait_for_close(&mut stream, &request);
            }
            let headers = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<String>();
            let head = format!("HTTP/1.1 {} X\r\n{headers}\r\n", reply.status);
            if stream.write_all(head.as_bytes()).is_err() {
                return;
            }
            let is_sent = {
                let _sending = Sending::new(&self.sending);
                self.send_body(&mut stream, &request, &reply)
            };
            if !is_sent {
                self.requests.lock().unwrap()[request.number].is_abandoned = true;
                return;
            }
            match reply.then {
                Then::KeepAlive => {}
                Then::Close => {
                    // Waits until the client has read the bytes: browsers discard received bytes that the page has not
                    // read yet when a connection breaks.
                    thread::sleep(if reply.body.is_empty() { Duration::ZERO } else { CUT_PAUSE });
                    return;
                }
                Then::Abort => return drop(stream.shutdown(Shutdown::Both)),
                Then::Stall | Then::Silence => return self.wait_for_close(&mut stream, &request),
            }
        }
    }

    /// Waits until the client closes the connection.
    fn wait_for_close(&self, stream: &mut TcpStream, request: &Request) {
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok();
        let is_closed = matches!(stream.read(&mut [0]), Ok(0));
        self.requests.lock().unwrap()[request.number].is_abandoned = is_closed;
    }

    /// Sends the body. Returns whether all of it was sent.
    fn send_body(&self, stream: &mut TcpStream, request: &Request, reply: &Reply) -> bool {
        let length = reply.generated.as_ref().map_or(reply.body.len(), |(range, _)| range.len());
        for start in (0..length).step_by(PIECE_BYTES) {
            let piece = start..length.min(start + PIECE_BYTES);
            if let Some(link) = &reply.link {
                link.wait();
            }
            let sent = match &reply.generated {
                Some((range, generate)) => {
                    stream.write_all(&generate(range.start + piece.start..range.start + piece.end))
                }
                None => stream.write_all(&reply.body[piece.clone()]),
            };
            if sent.is_err() {
                return false;
            }
            self.requests.lock().unwrap()[request.number].sent += piece.len();
            thread::sleep(reply.pause);
        }
        true
    }

    fn receive(&self, stream: &mut TcpStream) -> Option<Request> {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.lines();
        let (method, rest) = lines.next()?.split_once(' ')?;
        let (method, path) = (method.to_owned(), rest.split(' ').next()?.to_owned());
        let pair = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let headers: Vec<_> = lines.filter_map(pair).collect();
        let mut requests = self.requests.lock().unwrap();
        let (number, at) = (requests.len(), Instant::now());
        let mut request = Request { number, method, path, range: None, headers, at, sent: 0, is_abandoned: false };
        request.range = request.header("range").map(|value| {
            let (first, last) = value.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
            let end = if last.is_empty() { usize::MAX } else { last.parse::<usize>().unwrap() + 1 };
            first.parse().unwrap()..end
        });
        requests.push(request.clone());
        Some(request)
    }
}

/// Counts a body that is being sent, until it is dropped.
struct Sending<'a>(&'a Mutex<(usize, usize)>);

impl<'a> Sending<'a> {
    fn new(sending: &'a Mutex<(usize, usize)>) -> Self {
        let mut counts = sending.lock().unwrap();
        counts.0 += 1;
        counts.1 = counts.1.max(counts.0);
        Sending(sending)
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap().0 -= 1;
    }
}
