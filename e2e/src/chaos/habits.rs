//! What a server does with every response, unlike the faults of single responses.

use super::faults::Fault;
use super::random::Random;
use crate::trap_test::traps::server::{Reply, Request};

/// The validator that a server sends to identify a version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validator {
    StrongETag,
    LastModified,
    StrongETagAndLastModified,
    /// A different weak ETag in every response.
    WeakETag,
    /// A different strong ETag in every response.
    RandomETag,
    /// The same Last-Modified date for all versions.
    EqualDate,
    Nothing,
}

impl Validator {
    const ALL: [Validator; 7] = [
        Validator::StrongETag,
        Validator::LastModified,
        Validator::StrongETagAndLastModified,
        Validator::WeakETag,
        Validator::RandomETag,
        Validator::EqualDate,
        Validator::Nothing,
    ];

    /// Adds the validators of a version, which has a `name` of its own, to the response with this `number`.
    fn add_to(self, reply: Reply, name: usize, number: usize) -> Reply {
        let date = format!("Sun, 0{} Nov 2026 00:00:00 GMT", name + 1);
        match self {
            Validator::StrongETag => reply.with("ETag", &format!("\"v{name}\"")),
            Validator::LastModified => reply.with("Last-Modified", &date),
            Validator::StrongETagAndLastModified => {
                reply.with("ETag", &format!("\"v{name}\"")).with("Last-Modified", &date)
            }
            Validator::WeakETag => reply.with("ETag", &format!("W/\"{number}\"")),
            Validator::RandomETag => reply.with("ETag", &format!("\"{number}\"")),
            Validator::EqualDate => reply.with("Last-Modified", "Sun, 01 Nov 2026 00:00:00 GMT"),
            Validator::Nothing => reply,
        }
    }

    /// Whether a client can use it to detect that a file has changed.
    pub fn detects_changes(self) -> bool {
        self.is_strong() || self == Validator::LastModified
    }

    pub fn is_strong(self) -> bool {
        matches!(self, Validator::StrongETag | Validator::StrongETagAndLastModified)
    }
}

/// The servers behind one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BackEnds {
    One,
    /// Each has validators of its own for the same bytes.
    EqualBytes {
        count: u64,
    },
    /// One has the first version of the files, and the other one the second version.
    OtherBytes,
}

/// The answer to a range that ends beyond the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BeyondEnd {
    Shortened,
    Refused { states_length: bool },
}

/// What a server does with every response.
#[derive(Debug, Clone)]
pub struct Habits {
    pub validator: Validator,
    back_ends: BackEnds,
    takes_turns: bool,
    beyond_end: BeyondEnd,
    /// The maximum length of a 206.
    max_bytes: Option<usize>,
    states_type: bool,
}

impl Habits {
    pub fn new(mut random: Random) -> Self {
        let is_ordinary = random.percent(40);
        let validator = random.pick(&Validator::ALL).filter(|_| !is_ordinary).unwrap_or(Validator::StrongETag);
        let back_ends = match random.within(0..100) {
            0..15 if validator.detects_changes() => BackEnds::EqualBytes { count: random.within(2..4) },
            15..30 => BackEnds::OtherBytes,
            _ => BackEnds::One,
        };
        let beyond_end = match random.within(0..100) {
            0..20 => BeyondEnd::Refused { states_length: random.percent(50) },
            _ => BeyondEnd::Shortened,
        };
        // Without a strong ETag, a response to a file that is kept open must have a block of 64 KiB and the next one.
        let least_bytes = if validator.is_strong() { 10_000 } else { 130 << 10 };
        let max_bytes = random.percent(15).then(|| random.within(least_bytes..1_000_000) as usize);
        let (takes_turns, states_type) = (random.percent(50), random.percent(50));
        Habits { validator, back_ends, takes_turns, beyond_end, max_bytes, states_type }
    }

    /// The same validators, and nothing else.
    pub fn of_an_ordinary_server(self) -> Self {
        let (back_ends, beyond_end) = (BackEnds::One, BeyondEnd::Shortened);
        Habits { back_ends, beyond_end, max_bytes: None, ..self }
    }

    /// Whether clients can cache the files, which requires a validator that identifies versions.
    pub fn can_be_cached(&self) -> bool {
        self.validator.detects_changes() && self.back_ends == BackEnds::One
    }

    /// Whether a client can detect that responses are of different versions.
    pub fn reveals_versions(&self) -> bool {
        self.back_ends != BackEnds::OtherBytes || self.validator.detects_changes()
    }

    /// Whether the version of the files may change during a load.
    pub fn may_change(&self) -> bool {
        // Without a validator that identifies versions, a client cannot detect that a file has changed.
        self.validator.detects_changes() && self.back_ends != BackEnds::OtherBytes
    }

    /// The server that answers the request with this `number`.
    pub fn back_end(&self, number: usize, random: &mut Random) -> usize {
        let count = match self.back_ends {
            BackEnds::One => 1,
            BackEnds::EqualBytes { count } => count,
            BackEnds::OtherBytes => 2,
        };
        (if self.takes_turns { number as u64 % count } else { random.within(0..count) }) as usize
    }

    /// The version of the files that a server has, and the fault if it is not the first one.
    pub fn version(&self, back_end: usize, current: usize) -> (usize, Option<Fault>) {
        let is_other = back_end > 0;
        match self.back_ends {
            BackEnds::OtherBytes if self.reveals_versions() => (back_end, is_other.then_some(Fault::OtherBytes)),
            BackEnds::OtherBytes => (back_end, is_other.then_some(Fault::HiddenBytes)),
            _ => (current, is_other.then_some(Fault::OtherServer)),
        }
    }

    /// Adds the headers that identify the version and its type.
    pub(super) fn add_to(&self, reply: Reply, back_end: usize, version: usize, request: &Request) -> Reply {
        let name = if self.back_ends == BackEnds::OtherBytes { version } else { 2 * back_end + version };
        let reply = self.validator.add_to(reply, name, request.number);
        if self.states_type { reply.with("Content-Type", "application/octet-stream") } else { reply }
    }

    /// The answer to a range that ends beyond a file of `file_length` bytes, if it is refused.
    pub(super) fn refusal(&self, request: &Request, file_length: usize) -> Option<(Reply, Fault)> {
        let BeyondEnd::Refused { states_length } = self.beyond_end else { return None };
        // A range without an end is not refused.
        request.range.as_ref().filter(|range| range.end > file_length && range.end != usize::MAX)?;
        let reply = Reply::new(416, b"");
        Some(if states_length {
            (reply.with("Content-Range", &format!("bytes */{file_length}")), Fault::Refused)
        } else {
            (reply, Fault::RefusedWithoutLength)
        })
    }

    /// The maximum length of the response to a range of `length` bytes, if it is shorter.
    pub fn cap(&self, length: usize) -> Option<usize> {
        self.max_bytes.filter(|max_bytes| *max_bytes < length)
    }
}
