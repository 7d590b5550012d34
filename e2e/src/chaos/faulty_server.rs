//! The script of a faulty HTTP server that cuts, stalls and delays responses, sends wrong ones and changes files.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::faults::{CHOICE, Fault};
use super::habits::Habits;
use super::model::Model;
use super::random::Random;
use crate::trap_test::traps::server::{self as scripted_server, Reply, Request};

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

impl Sent {
    /// Whether a load should recover from all faults.
    pub fn is_transient(&self) -> bool {
        self.faults.keys().all(|fault| fault.is_transient())
    }

    /// Whether one of the faults may cause an error with this code.
    pub fn explains(&self, code: &str) -> bool {
        self.faults.keys().any(|fault| fault.codes().contains(&code))
    }
}

/// A running server. Dropping it closes the port.
pub struct Server {
    server: scripted_server::Server,
    script: Arc<Script>,
}

struct Script {
    model: Arc<Model>,
    random: Random,
    habits: Habits,
    /// The percentage of responses with a fault.
    fault_percent: AtomicU64,
    has_changed: AtomicBool,
    /// Whether faults are disabled, also those that are habits.
    is_faultless: AtomicBool,
    faults: Mutex<BTreeMap<Fault, u64>>,
    /// The numbers of the requests whose range was ignored.
    ignored_ranges: Mutex<BTreeSet<usize>>,
}

impl Server {
    pub fn new(model: Arc<Model>, random: Random, fault_percent: u64) -> Self {
        let habits = Habits::new(random.fork(0));
        Server::start(model, random, habits, fault_percent)
    }

    /// A server with the same validators and without faults.
    pub fn faultless(model: Arc<Model>, random: Random) -> Self {
        let habits = Habits::new(random.fork(0)).of_an_ordinary_server();
        Server::start(model, random, habits, 0)
    }

    fn start(model: Arc<Model>, random: Random, habits: Habits, fault_percent: u64) -> Self {
        let (has_changed, is_faultless, faults, ignored_ranges) = Default::default();
        let fault_percent = AtomicU64::new(fault_percent);
        let script = Script { model, random, habits, fault_percent, has_changed, is_faultless, faults, ignored_ranges };
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
        let overlaps = if self.script.habits.validator.is_strong() { 0 } else { requests.len() as u64 };
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
        self.script.is_faultless.store(true, Ordering::Relaxed);
    }

    pub fn habits(&self) -> &Habits {
        &self.script.habits
    }

    /// The number of the version that is served once faults are disabled.
    pub fn version(&self) -> usize {
        usize::from(self.script.has_changed.load(Ordering::Relaxed))
    }
}

impl Script {
    fn reply(&self, request: &Request) -> Reply {
        let mut random = self.random.fork(request.number as u64 + 1);
        let is_faultless = self.is_faultless.load(Ordering::Relaxed);
        let fault = if is_faultless { None } else { self.fault(request.number, &mut random) };
        match fault {
            Some(Fault::Changed) => self.has_changed.store(true, Ordering::Relaxed),
            Some(Fault::Late) => thread::sleep(Duration::from_millis(random.within(1..60))),
            _ => {}
        }
        let current = usize::from(self.has_changed.load(Ordering::Relaxed));
        let back_end = if is_faultless { 0 } else { self.habits.back_end(request.number, &mut random) };
        let (version, other) = self.habits.version(back_end, current);
        let path = request.path.trim_start_matches('/');
        let file = self.model.versions.get(version).and_then(|version| version.files.get(path));
        match (fault, file) {
            (Some(Fault::Silence), _) => Reply::new(200, b"").silent(),
            (Some(Fault::Busy), _) if random.percent(50) => readable(Reply::new(503, b"")),
            (Some(Fault::Busy), _) => readable(Reply::new(429, b"").with("Retry-After", "0")),
            (Some(Fault::Unauthorized), _) => Reply::new(401, b""),
            (Some(Fault::Gone), _) | (_, None) => readable(Reply::new(404, b"")),
            (Some(fault), Some(file)) if fault.is_page() => readable(page_reply(request, file, fault)),
            (fault, Some(file)) => {
                other.into_iter().for_each(|other| self.count(other));
                let reply = readable(self.file_reply(request, file, fault, &mut random));
                let reply = self.habits.add_to(reply, back_end, version, request);
                let is_other_tag = fault == Some(Fault::OtherTag) && self.habits.validator.is_strong();
                let reply = if is_other_tag { reply.with("ETag", "\"other\"") } else { reply };
                let length = file.len().min(request.range.as_ref().map_or(usize::MAX, ExactSizeIterator::len)) as u64;
                match fault {
                    Some(Fault::Cut) => reply.abort_after(random.within(0..length) as usize),
                    Some(Fault::Stall) => reply.stall_after(random.within(0..length) as usize),
                    Some(Fault::Endless) => reply.without_end(),
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
        let fault = random.pick(&CHOICE).filter(|fault| *fault != Fault::Changed || self.habits.may_change());
        let fault = fault.filter(|_| random.percent(chance))?;
        // A short response is counted when its length is known.
        if fault != Fault::Short {
            self.count(fault);
        }
        Some(fault)
    }

    fn count(&self, fault: Fault) {
        *lock(&self.faults).entry(fault).or_default() += 1;
    }

    /// The file, or the requested range of it.
    fn file_reply(&self, request: &Request, file: &[u8], fault: Option<Fault>, random: &mut Random) -> Reply {
        let Some(range) = request.range.clone().filter(|_| fault != Some(Fault::IgnoredRange)) else {
            lock(&self.ignored_ranges).insert(request.number);
            return Reply::new(200, file);
        };
        if let Some((refusal, fault)) = self.habits.refusal(request, file.len()) {
            self.count(fault);
            return refusal;
        }
        let range = clamped(&range, file);
        if range.is_empty() {
            return Reply::new(416, b"");
        }
        let partial = |range: Range<usize>| partial(&range, file, bytes(file, &range));
        match fault {
            Some(Fault::OtherRange) if range.len() > 1 && range.start > 0 => partial(range.start - 1..range.end - 1),
            Some(Fault::Unproven) => {
                lock(&self.ignored_ranges).insert(request.number);
                Reply::new(206, bytes(file, &range)).chunked()
            }
            Some(Fault::Longer) => {
                let longer = range.start..file.len().min(range.end + 1);
                partial(range).with_body(bytes(file, &longer)).chunked()
            }
            Some(Fault::Short) if range.len() > 1 => {
                self.count(Fault::Short);
                partial(range.start..range.start + random.within(1..range.len() as u64) as usize)
            }
            _ => match self.habits.cap(range.len()) {
                Some(max_bytes) => {
                    self.count(Fault::Capped);
                    partial(range.start..range.start + max_bytes)
                }
                None => partial(range),
            },
        }
    }
}

/// A page in place of the file, or of the requested range.
fn page_reply(request: &Request, file: &[u8], fault: Fault) -> Reply {
    let range = request.range.as_ref().map(|range| clamped(range, file)).filter(|range| !range.is_empty());
    let reply = match (fault, range) {
        (Fault::PageAsRange, Some(range)) => partial(&range, file, &page(range.clone())),
        (Fault::PageForRange, Some(range)) => partial(&range, file, &page(0..PAGE.len().min(range.len() / 2))),
        (Fault::Page, _) => Reply::new(200, PAGE),
        _ => Reply::new(200, &page(0..file.len())),
    };
    reply.with("Content-Type", "text/html; charset=utf-8")
}

/// The bytes of a range of a page of any length.
pub fn page(range: Range<usize>) -> Vec<u8> {
    PAGE.iter().copied().cycle().skip(range.start % PAGE.len()).take(range.len()).collect()
}

fn partial(range: &Range<usize>, file: &[u8], body: &[u8]) -> Reply {
    let content_range = format!("bytes {}-{}/{}", range.start, range.end - 1, file.len());
    Reply::new(206, body).with("Content-Range", &content_range)
}

fn bytes<'a>(file: &'a [u8], range: &Range<usize>) -> &'a [u8] {
    file.get(range.clone()).unwrap_or_default()
}

fn clamped(range: &Range<usize>, file: &[u8]) -> Range<usize> {
    range.start.min(file.len())..range.end.min(file.len())
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
