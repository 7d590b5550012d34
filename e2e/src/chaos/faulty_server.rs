//! The script of a faulty HTTP server that cuts, stalls and delays responses, sends wrong ones and changes files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::model::Model;
use super::random::Random;
use crate::trap_test::traps::server::{self as scripted_server, Reply, Request};

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

    fn add_to(self, reply: Reply, version: usize, number: usize) -> Reply {
        match self {
            Validator::StrongETag => reply.with("ETag", &format!("\"v{version}\"")),
            Validator::WeakETag => reply.with("ETag", &format!("W/\"{number}\"")),
            Validator::RandomETag => reply.with("ETag", &format!("\"{number}\"")),
            Validator::LastModified => {
                reply.with("Last-Modified", &format!("Sun, 0{} Nov 2026 00:00:00 GMT", version + 1))
            }
            Validator::Nothing => reply,
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
    /// The maximum number of bytes sent twice because of overlapping requests (see `MAX_OVERLAP_BYTES`).
    pub overlap_bytes: u64,
    pub faults: BTreeMap<Fault, u64>,
}

/// A running server. Dropping it closes the port.
pub struct Server {
    server: scripted_server::Server,
    script: Arc<Script>,
}

struct Script {
    model: Arc<Model>,
    random: Random,
    validator: Validator,
    /// The percentage of responses with a fault.
    fault_percent: AtomicU64,
    has_changed: AtomicBool,
    faults: Mutex<BTreeMap<Fault, u64>>,
    /// The numbers of the requests whose range was ignored.
    ignored_ranges: Mutex<BTreeSet<usize>>,
}

impl Server {
    pub fn new(model: Arc<Model>, random: Random, fault_percent: u64) -> Self {
        let (has_changed, faults, ignored_ranges) = Default::default();
        let fault_percent = AtomicU64::new(fault_percent);
        let is_ordinary = random.fork(0).percent(50);
        let validator = random.fork(0).pick(&Validator::ALL).filter(|_| !is_ordinary).unwrap_or(Validator::StrongETag);
        let script = Script { model, random, validator, fault_percent, has_changed, faults, ignored_ranges };
        let script = Arc::new(script);
        let running = Arc::clone(&script);
        Server { server: scripted_server::Server::new(move |request| running.reply(request)), script }
    }

    /// The URL of the model.
    pub fn url(&self) -> String {
        self.server.url(&format!("/{}", self.script.model.entry))
    }

    pub fn sent(&self) -> Sent {
        let requests = self.server.requests();
        let ignored = lock(&self.script.ignored_ranges);
        let bytes = |request: &Request| request.sent as u64;
        let overlaps = if self.script.validator == Validator::StrongETag { 0 } else { requests.len() as u64 };
        Sent {
            requests: requests.len() as u64,
            bytes: requests.iter().map(bytes).sum(),
            bytes_of_ignored_ranges: requests.iter().filter(|it| ignored.contains(&it.number)).map(bytes).sum(),
            overlap_bytes: overlaps * MAX_OVERLAP_BYTES,
            faults: lock(&self.script.faults).clone(),
        }
    }

    /// Disables all further faults.
    pub fn stop_faults(&self) {
        self.script.fault_percent.store(0, Ordering::Relaxed);
    }

    /// Whether clients can cache the files, which requires a validator that identifies versions.
    pub fn can_be_cached(&self) -> bool {
        self.script.validator.detects_changes()
    }

    /// The number of the version that is served.
    pub fn version(&self) -> usize {
        usize::from(self.script.has_changed.load(Ordering::Relaxed))
    }
}

impl Script {
    fn reply(&self, request: &Request) -> Reply {
        let mut random = self.random.fork(request.number as u64 + 1);
        let fault = self.fault(request.number, &mut random);
        match fault {
            Some(Fault::Changed) => self.has_changed.store(true, Ordering::Relaxed),
            Some(Fault::Late) => thread::sleep(Duration::from_millis(random.within(1..60))),
            _ => {}
        }
        let version = usize::from(self.has_changed.load(Ordering::Relaxed));
        let path = request.path.trim_start_matches('/');
        let file = self.model.versions.get(version).and_then(|version| version.files.get(path));
        match (fault, file) {
            (Some(Fault::Busy), _) if random.percent(50) => readable(Reply::new(503, b"")),
            (Some(Fault::Busy), _) => readable(Reply::new(429, b"").with("Retry-After", "0")),
            (Some(Fault::Unauthorized), _) => Reply::new(401, b""),
            (Some(Fault::Gone), _) | (_, None) => readable(Reply::new(404, b"")),
            (Some(Fault::Page), _) => readable(Reply::new(200, PAGE)),
            (fault, Some(file)) => {
                let reply = readable(self.file_reply(request, file, fault));
                let reply = match fault {
                    Some(Fault::OtherTag) if self.validator == Validator::StrongETag => reply.with("ETag", "\"other\""),
                    _ => self.validator.add_to(reply, version, request.number),
                };
                let length = file.len().min(request.range.as_ref().map_or(usize::MAX, ExactSizeIterator::len)) as u64;
                match fault {
                    Some(Fault::Cut) => reply.abort_after(random.within(0..length) as usize),
                    Some(Fault::Stall) => reply.stall_after(random.within(0..length) as usize),
                    Some(Fault::Slow) => reply.slowly(2),
                    _ => reply,
                }
            }
        }
    }

    fn fault(&self, number: usize, random: &mut Random) -> Option<Fault> {
        // Without the first response there is no load at all, so it rarely has a fault.
        let fault_percent = self.fault_percent.load(Ordering::Relaxed);
        let chance = if number == 0 { fault_percent / 4 } else { fault_percent };
        // Without a validator that identifies versions, a client cannot detect that a file has changed.
        let fault = random.pick(&FAULTS).filter(|fault| *fault != Fault::Changed || self.validator.detects_changes());
        let fault = fault.filter(|_| random.percent(chance))?;
        *lock(&self.faults).entry(fault).or_default() += 1;
        Some(fault)
    }

    /// The file, or the requested range of it.
    fn file_reply(&self, request: &Request, file: &[u8], fault: Option<Fault>) -> Reply {
        let Some(range) = request.range.clone().filter(|_| fault != Some(Fault::IgnoredRange)) else {
            lock(&self.ignored_ranges).insert(request.number);
            return Reply::new(200, file);
        };
        let range = range.start.min(file.len())..range.end.min(file.len());
        if range.is_empty() {
            return Reply::new(416, b"");
        }
        let bytes = |range: std::ops::Range<usize>| file.get(range).unwrap_or_default();
        let partial = |range: std::ops::Range<usize>| {
            let content_range = format!("bytes {}-{}/{}", range.start, range.end - 1, file.len());
            Reply::new(206, bytes(range)).with("Content-Range", &content_range)
        };
        match fault {
            Some(Fault::OtherRange) if range.len() > 1 && range.start > 0 => partial(range.start - 1..range.end - 1),
            Some(Fault::Unproven) => {
                lock(&self.ignored_ranges).insert(request.number);
                Reply::new(206, bytes(range)).chunked()
            }
            Some(Fault::Longer) => {
                let longer = range.start..file.len().min(range.end + 1);
                partial(range).with_body(bytes(longer)).chunked()
            }
            _ => partial(range),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds CORS headers that let pages of other origins read the response and its headers.
fn readable(reply: Reply) -> Reply {
    reply
        .with("Access-Control-Allow-Origin", "*")
        .with("Access-Control-Expose-Headers", "Content-Range, ETag, Retry-After")
}

const PAGE: &[u8] = b"<!DOCTYPE html><html><title>Welcome to the Wi-Fi of the hotel</title></html>";
