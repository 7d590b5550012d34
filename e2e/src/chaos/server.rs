//! A faulty HTTP server that cuts, stalls and delays responses, sends wrong ones and changes files. It counts the bytes
//! that it sends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::model::Model;
use super::random::Random;

const CHUNK_BYTES: usize = 16 << 10;

/// A fault of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The connection closes before the end of the body.
    Cut,
    /// The body stops, and the connection stays open.
    Stall,
    /// The response is delayed, so that later requests may be answered first.
    Late,
    /// The body is sent slowly.
    Slow,
    /// 503, or 429 with `Retry-After`.
    Busy,
    /// 404.
    Gone,
    /// A 206 with a different range than requested.
    OtherRange,
    /// A 200 with the whole file.
    IgnoredRange,
    /// A 200 with an HTML login page.
    Page,
    /// The same bytes with another ETag.
    OtherTag,
    /// From this response on, the other version of the files is served.
    Changed,
    /// A 401 without CORS headers.
    Unauthorized,
    /// A 206 without `Content-Range`.
    Unproven,
    /// A body that is one byte longer than the range.
    Longer,
}

/// The validator that the server sends to identify a version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validator {
    StrongETag,
    /// A different weak ETag in every response.
    WeakETag,
    /// A different strong ETag in every response.
    RandomETag,
    LastModified,
    Nothing,
}

impl Validator {
    const ALL: [Validator; 5] = [
        Validator::StrongETag,
        Validator::WeakETag,
        Validator::RandomETag,
        Validator::LastModified,
        Validator::Nothing,
    ];

    fn header(self, version: usize, number: u64) -> String {
        match self {
            Validator::StrongETag => format!("ETag: \"v{version}\"\r\n"),
            Validator::WeakETag => format!("ETag: W/\"{number}\"\r\n"),
            Validator::RandomETag => format!("ETag: \"{number}\"\r\n"),
            Validator::LastModified => format!("Last-Modified: Sun, 0{} Nov 2026 00:00:00 GMT\r\n", version + 1),
            Validator::Nothing => String::new(),
        }
    }

    /// Whether a client can use it to detect that a file has changed.
    fn detects_changes(self) -> bool {
        matches!(self, Validator::StrongETag | Validator::LastModified)
    }
}

impl Fault {
    /// Whether a load should recover from the fault.
    pub fn is_transient(self) -> bool {
        use Fault::{Busy, Cut, IgnoredRange, Late, Slow, Stall, Unproven};
        matches!(self, Cut | Stall | Late | Slow | Busy | IgnoredRange | Unproven)
    }
}

/// The faults to choose from. Transient faults are listed several times, so that they are more frequent than others.
const FAULTS: [Fault; 22] = [
    Fault::Cut,
    Fault::Cut,
    Fault::Cut,
    Fault::Cut,
    Fault::Stall,
    Fault::Stall,
    Fault::Late,
    Fault::Late,
    Fault::Late,
    Fault::Slow,
    Fault::Slow,
    Fault::Busy,
    Fault::Busy,
    Fault::IgnoredRange,
    Fault::Gone,
    Fault::OtherRange,
    Fault::Page,
    Fault::OtherTag,
    Fault::Changed,
    Fault::Unauthorized,
    Fault::Unproven,
    Fault::Longer,
];

/// The maximum overlap of a resumed request with bytes that were already received. Requests overlap when no strong ETag
/// proves that the file is unchanged.
const MAX_OVERLAP_BYTES: u64 = 128 << 10;

/// Counters of what the server sent.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    pub requests: u64,
    pub bytes: u64,
    /// Bytes of responses that ignored the requested range.
    pub bytes_of_ignored_ranges: u64,
    /// The maximum number of bytes sent twice because of overlapping requests (see [`MAX_OVERLAP_BYTES`]).
    pub overlap_bytes: u64,
    pub faults: BTreeMap<Fault, u64>,
}

/// A running server. Dropping it closes the port.
pub struct Server {
    address: String,
    shared: Arc<Shared>,
}

struct Shared {
    model: Arc<Model>,
    random: Random,
    validator: Validator,
    /// The percentage of responses with a fault.
    fault_percent: AtomicU64,
    has_changed: AtomicBool,
    is_closed: AtomicBool,
    sent: Mutex<Sent>,
}

impl Server {
    pub fn new(model: Arc<Model>, random: Random, fault_percent: u64) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let (has_changed, is_closed, sent) = Default::default();
        let fault_percent = AtomicU64::new(fault_percent);
        let is_ordinary = random.fork(0).percent(50);
        let validator = random.fork(0).pick(&Validator::ALL).filter(|_| !is_ordinary).unwrap_or(Validator::StrongETag);
        let shared = Arc::new(Shared { model, random, validator, fault_percent, has_changed, is_closed, sent });
        let acceptor = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if acceptor.is_closed.load(Ordering::Relaxed) {
                    break;
                }
                let shared = Arc::clone(&acceptor);
                thread::spawn(move || shared.serve_connection(stream));
            }
        });
        Ok(Server { address, shared })
    }

    /// The URL of the model.
    pub fn url(&self) -> String {
        format!("http://{}/{}", self.address, self.shared.model.entry)
    }

    pub fn sent(&self) -> Sent {
        self.shared.sent().clone()
    }

    /// Disables all further faults.
    pub fn stop_faults(&self) {
        self.shared.fault_percent.store(0, Ordering::Relaxed);
    }

    /// Whether clients can cache the files, which requires a validator that identifies versions.
    pub fn can_be_cached(&self) -> bool {
        self.shared.validator.detects_changes()
    }

    /// The number of the version that is served.
    pub fn version(&self) -> usize {
        usize::from(self.shared.has_changed.load(Ordering::Relaxed))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        TcpStream::connect(&self.address).ok(); // wakes the acceptor
    }
}

struct Request {
    path: String,
    range: Option<Range<usize>>,
}

impl Shared {
    fn sent(&self) -> std::sync::MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers requests one after another until either side closes the connection.
    fn serve_connection(&self, stream: TcpStream) {
        stream.set_nodelay(true).ok();
        let Ok(writer) = stream.try_clone() else { return };
        let (mut reader, mut writer) = (BufReader::new(stream), writer);
        while let Some(request) = receive(&mut reader) {
            if !self.answer(&request, &mut writer) {
                writer.shutdown(Shutdown::Both).ok();
                return;
            }
        }
    }

    /// Answers a request. Returns whether the connection can be reused.
    fn answer(&self, request: &Request, to: &mut TcpStream) -> bool {
        let (number, mut random) = {
            let mut sent = self.sent();
            sent.requests += 1;
            sent.overlap_bytes += if self.validator == Validator::StrongETag { 0 } else { MAX_OVERLAP_BYTES };
            (sent.requests, self.random.fork(sent.requests))
        };
        // Without the first response there is no load at all, so it rarely has a fault.
        let fault_percent = self.fault_percent.load(Ordering::Relaxed);
        let chance = if number == 1 { fault_percent / 4 } else { fault_percent };
        // Without a validator that identifies versions, a client cannot detect that a file has changed.
        let fault = random.pick(&FAULTS).filter(|fault| *fault != Fault::Changed || self.validator.detects_changes());
        let fault = fault.filter(|_| random.percent(chance));
        if let Some(fault) = fault {
            *self.sent().faults.entry(fault).or_default() += 1;
        }
        match fault {
            Some(Fault::Changed) => self.has_changed.store(true, Ordering::Relaxed),
            Some(Fault::Late) => thread::sleep(Duration::from_millis(random.within(1..60))),
            _ => {}
        }
        let version = usize::from(self.has_changed.load(Ordering::Relaxed));
        let Some(file) = self.model.versions.get(version).and_then(|version| version.files.get(&request.path)) else {
            return self.send(to, "404 Not Found", "", b"", None, false);
        };
        let requested = request.range.clone().unwrap_or(0..file.len());
        let requested = requested.start.min(file.len())..requested.end.min(file.len());
        let is_range = request.range.is_some() && fault != Some(Fault::IgnoredRange);
        let (status, sent, stated) = match fault {
            Some(Fault::Busy) if random.percent(50) => return self.send(to, "503 Busy", "", b"", None, false),
            Some(Fault::Busy) => return self.send(to, "429 Busy", "Retry-After: 0\r\n", b"", None, false),
            Some(Fault::Unauthorized) => return send_unauthorized(to),
            Some(Fault::Gone) => return self.send(to, "404 Not Found", "", b"", None, false),
            Some(Fault::Page) => return self.send(to, "200 OK", "", PAGE, None, false),
            Some(Fault::OtherRange) if is_range && requested.end - requested.start > 1 && requested.start > 0 => {
                ("206 Partial Content", requested.start - 1..requested.end - 1, requested.start - 1..requested.end - 1)
            }
            _ if requested.is_empty() && is_range => return self.send(to, "416 Unsatisfiable", "", b"", None, false),
            _ if is_range => ("206 Partial Content", requested.clone(), requested.clone()),
            _ => ("200 OK", 0..file.len(), 0..0),
        };
        let mut headers = match fault {
            Some(Fault::OtherTag) if self.validator == Validator::StrongETag => "ETag: \"other\"\r\n".to_owned(),
            _ => self.validator.header(version, number),
        };
        if fault == Some(Fault::Unproven) && is_range {
            return self.send_chunked(to, &headers, file.get(sent).unwrap_or_default(), true);
        }
        if is_range {
            headers += &format!("Content-Range: bytes {}-{}/{}\r\n", stated.start, stated.end - 1, file.len());
        }
        let body = file.get(sent.clone()).unwrap_or_default();
        if fault == Some(Fault::Longer) && is_range {
            let longer = file.get(sent.start..sent.end + 1).unwrap_or(body);
            return self.send_chunked(to, &headers, longer, false);
        }
        let ending = match fault {
            Some(Fault::Cut) => Some(Ending::Close(random.within(0..body.len() as u64) as usize)),
            Some(Fault::Stall) => Some(Ending::Stall(random.within(0..body.len() as u64) as usize)),
            Some(Fault::Slow) => Some(Ending::Slow),
            _ => None,
        };
        self.send(to, status, &headers, body, ending, !is_range)
    }

    /// Sends a 206 without `Content-Length`.
    fn send_chunked(&self, to: &mut TcpStream, headers: &str, body: &[u8], is_ignored_range: bool) -> bool {
        let head = format!("HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n{EXPOSED}{headers}\r\n");
        let mut sent = to.write_all(head.as_bytes()).is_ok();
        for chunk in body.chunks(CHUNK_BYTES) {
            sent = sent
                && to.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).is_ok()
                && to.write_all(chunk).is_ok()
                && to.write_all(b"\r\n").is_ok();
            self.count(chunk.len(), sent && is_ignored_range);
        }
        sent && to.write_all(b"0\r\n\r\n").is_ok()
    }

    fn count(&self, bytes: usize, is_ignored_range: bool) {
        let mut sent = self.sent();
        sent.bytes += bytes as u64;
        sent.bytes_of_ignored_ranges += if is_ignored_range { bytes as u64 } else { 0 };
    }

    fn send(
        &self,
        to: &mut TcpStream,
        status: &str,
        headers: &str,
        body: &[u8],
        ending: Option<Ending>,
        is_ignored_range: bool,
    ) -> bool {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{EXPOSED}{headers}\r\n", body.len());
        if to.write_all(head.as_bytes()).is_err() {
            return false;
        }
        let end = match ending {
            Some(Ending::Close(at) | Ending::Stall(at)) => at,
            _ => body.len(),
        };
        for chunk in body.get(..end).unwrap_or_default().chunks(CHUNK_BYTES) {
            if to.write_all(chunk).is_err() {
                return false;
            }
            self.count(chunk.len(), is_ignored_range);
            if matches!(ending, Some(Ending::Slow)) {
                thread::sleep(Duration::from_millis(2));
            }
        }
        match ending {
            Some(Ending::Close(_)) => false,
            Some(Ending::Stall(_)) => {
                to.set_read_timeout(Some(Duration::from_secs(5))).ok();
                to.peek(&mut [0]).ok(); // until the client closes the connection
                false
            }
            Some(Ending::Slow) | None => true,
        }
    }
}

fn send_unauthorized(to: &mut TcpStream) -> bool {
    to.write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n").is_ok()
}

enum Ending {
    Close(usize),
    Stall(usize),
    Slow,
}

/// CORS headers that let pages of other origins read the response and its headers.
const EXPOSED: &str = "Access-Control-Allow-Origin: *\r\n\
                       Access-Control-Expose-Headers: Content-Range, ETag, Retry-After\r\n";

const PAGE: &[u8] = b"<!DOCTYPE html><html><title>Welcome to the Wi-Fi of the hotel</title></html>";

fn receive(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let path = lines.first()?.split(' ').nth(1)?.trim_start_matches('/').to_owned();
    let range = lines.iter().find_map(|line| {
        let (first, last) = line
            .to_lowercase()
            .strip_prefix("range: bytes=")?
            .split_once('-')
            .map(|(first, last)| (first.to_owned(), last.to_owned()))?;
        Some(first.parse().ok()?..last.parse::<usize>().ok()?.saturating_add(1))
    });
    Some(Request { path, range })
}
