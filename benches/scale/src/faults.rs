//! What goes wrong between the clients and the cache.

use std::time::{Duration, SystemTime};

/// Faults of single responses, in percent of the requests.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// The connection breaks after a random part of the body.
    pub(crate) cut_percent: u32,
    /// The response is 503, every second time with `Retry-After: 1`.
    pub(crate) busy_percent: u32,
    /// The response arrives at a tenth of the speed of the line.
    pub(crate) slow_percent: u32,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fate {
    Pass,
    /// The response arrives at a tenth of the speed of the line.
    Slow,
    /// The connection breaks after this part of the body, between 0 and 1.
    Cut(f64),
    /// The response is 503.
    Busy(RetryAfter),
    /// The connection is closed without a response.
    Close,
}

/// The header `Retry-After` of a 503.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RetryAfter {
    None,
    Seconds(u64),
    Date(SystemTime),
}

/// How requests fail during an outage. All open responses break when it begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Outage {
    /// 503 without `Retry-After`.
    Busy,
    /// 503 with `Retry-After` in seconds.
    Seconds,
    /// 503 with the time of the end in `Retry-After`: the same time for all clients.
    Date,
    /// Connections are closed without a response.
    Closed,
}

impl Faults {
    /// Chooses the fate of a request at random.
    pub(crate) fn fate(&self, random: &mut fastrand::Rng) -> Fate {
        let (number, is_even) = (random.u32(0..100), random.bool());
        match number {
            number if number < self.busy_percent && is_even => Fate::Busy(RetryAfter::Seconds(1)),
            number if number < self.busy_percent => Fate::Busy(RetryAfter::None),
            number if number < self.busy_percent + self.cut_percent => Fate::Cut(random.f64()),
            number if number >= 100 - self.slow_percent => Fate::Slow,
            _ => Fate::Pass,
        }
    }
}

impl Outage {
    pub(crate) const ALL: [Outage; 4] = [Outage::Busy, Outage::Seconds, Outage::Date, Outage::Closed];

    /// What happens to requests during an outage of this length that began at `start`.
    pub(crate) fn fate(self, start: SystemTime, length: Duration) -> Fate {
        match self {
            Outage::Busy => Fate::Busy(RetryAfter::None),
            Outage::Seconds => Fate::Busy(RetryAfter::Seconds(length.as_secs())),
            // A date has whole seconds; an earlier one than the end would be wrong.
            Outage::Date => Fate::Busy(RetryAfter::Date(start + length + Duration::from_secs(1))),
            Outage::Closed => Fate::Close,
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Outage::Busy => "503 without `Retry-After`",
            Outage::Seconds => "503, `Retry-After` in seconds",
            Outage::Date => "503, `Retry-After` as a date",
            Outage::Closed => "connections are closed",
        }
    }
}

impl RetryAfter {
    /// The whole response.
    pub(crate) fn response(self) -> String {
        let header = match self {
            RetryAfter::None => String::new(),
            RetryAfter::Seconds(seconds) => format!("Retry-After: {seconds}\r\n"),
            RetryAfter::Date(date) => format!("Retry-After: {}\r\n", httpdate::fmt_http_date(date)),
        };
        format!("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n{header}\r\n")
    }
}
