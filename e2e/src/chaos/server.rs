//! A server that cuts, stalls, answers late, lies and changes files, and counts what it sends.

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

const PIECE_BYTES: usize = 16 << 10;

/// What goes wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The connection closes in the middle of the body.
    Cut,
    /// Nothing more comes, and the connection stays open.
    Stall,
    /// The answer comes after those to later requests.
    Late,
    /// The body comes slowly.
    Slow,
    /// 503, or 429 with `Retry-After`.
    Busy,
    /// 404.
    Gone,
    /// A 206 for another range than was asked for.
    OtherRange,
    /// A 200 with the whole file.
    IgnoredRange,
    /// A login page with status 200.
    Page,
    /// The same bytes under another ETag.
    OtherTag,
    /// From now on the files are another version.
    Changed,
    /// 401 without a header that lets pages of other origins see it.
    Unauthorized,
    /// A 206 that does not say which bytes it brings.
    Unproven,
    /// A body that is one byte longer than its range.
    Longer,
}

/// How a server tells versions of a file from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validator {
    StrongETag,
    /// Another weak ETag with every answer.
    WeakETag,
    /// Another strong ETag with every answer.
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

    /// Whether a client can notice by it that a file has changed.
    fn tells_versions(self) -> bool {
        matches!(self, Validator::StrongETag | Validator::LastModified)
    }
}

impl Fault {
    /// Whether a load should go on after it.
    pub fn passes(self) -> bool {
        use Fault::{Busy, Cut, IgnoredRange, Late, Slow, Stall, Unproven};
        matches!(self, Cut | Stall | Late | Slow | Busy | IgnoredRange | Unproven)
    }
}

/// What a load may still survive comes more often than what must end it.
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

/// The most that a resumed request overlaps what was received before, where no strong ETag proves that the file is the
/// same.
const MAX_OVERLAP_BYTES: u64 = 128 << 10;

/// What was sent.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    pub requests: u64,
    pub bytes: u64,
    /// Those of them that were sent in answer to a range of another.
    pub bytes_of_ignored_ranges: u64,
    /// How many may have been sent twice, because requests overlap where no strong ETag proves that the file is the
    /// same.
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
    /// How many of a hundred answers have a fault.
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
                thread::spawn(move || shared.attend(stream));
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

    /// From now on nothing goes wrong.
    pub fn behave(&self) {
        self.shared.fault_percent.store(0, Ordering::Relaxed);
    }

    /// Whether what it sends can be cached: something must tell versions of a file from each other.
    pub fn can_be_cached(&self) -> bool {
        self.shared.validator.tells_versions()
    }

    /// The version that is served.
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

    /// Answers one request after the other, until either side closes the connection.
    fn attend(&self, stream: TcpStream) {
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

    /// Whether the connection can serve the next request.
    fn answer(&self, request: &Request, to: &mut TcpStream) -> bool {
        let (number, mut random) = {
            let mut sent = self.sent();
            sent.requests += 1;
            sent.overlap_bytes += if self.validator == Validator::StrongETag { 0 } else { MAX_OVERLAP_BYTES };
            (sent.requests, self.random.fork(sent.requests))
        };
        // The first answer decides whether there is a load at all: it fails seldom.
        let fault_percent = self.fault_percent.load(Ordering::Relaxed);
        let chance = if number == 1 { fault_percent / 4 } else { fault_percent };
        // That a file has changed cannot be noticed where nothing tells its versions from each other.
        let fault = random.pick(&FAULTS).filter(|fault| *fault != Fault::Changed || self.validator.tells_versions());
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
        let asked = request.range.clone().unwrap_or(0..file.len());
        let asked = asked.start.min(file.len())..asked.end.min(file.len());
        let is_range = request.range.is_some() && fault != Some(Fault::IgnoredRange);
        let (status, sent, stated) = match fault {
            Some(Fault::Busy) if random.percent(50) => return self.send(to, "503 Busy", "", b"", None, false),
            Some(Fault::Busy) => return self.send(to, "429 Busy", "Retry-After: 0\r\n", b"", None, false),
            Some(Fault::Unauthorized) => return send_unauthorized(to),
            Some(Fault::Gone) => return self.send(to, "404 Not Found", "", b"", None, false),
            Some(Fault::Page) => return self.send(to, "200 OK", "", PAGE, None, false),
            Some(Fault::OtherRange) if is_range && asked.end - asked.start > 1 && asked.start > 0 => {
                ("206 Partial Content", asked.start - 1..asked.end - 1, asked.start - 1..asked.end - 1)
            }
            _ if asked.is_empty() && is_range => return self.send(to, "416 Unsatisfiable", "", b"", None, false),
            _ if is_range => ("206 Partial Content", asked.clone(), asked.clone()),
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
        for piece in body.chunks(PIECE_BYTES) {
            sent = sent
                && to.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).is_ok()
                && to.write_all(piece).is_ok()
                && to.write_all(b"\r\n").is_ok();
            self.count(piece.len(), sent && is_ignored_range);
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
        for piece in body.get(..end).unwrap_or_default().chunks(PIECE_BYTES) {
            if to.write_all(piece).is_err() {
                return false;
            }
            self.count(piece.len(), is_ignored_range);
            if matches!(ending, Some(Ending::Slow)) {
                thread::sleep(Duration::from_millis(2));
            }
        }
        match ending {
            Some(Ending::Close(_)) => false,
            Some(Ending::Stall(_)) => {
                to.set_read_timeout(Some(Duration::from_secs(5))).ok();
                to.peek(&mut [0]).ok(); // until the client has gone
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

/// What lets pages of other origins see it all.
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
