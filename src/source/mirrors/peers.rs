//! How fast the ranges of a model arrive, and which of them is late: slower than its peers by more than a factor and
//! more than a threshold. No clock: the caller states the times.

/// How much slower than the median of its peers a range must be to count as slow.
const SLOW_FACTOR: f64 = 2.0;

/// A range that is slow must also be late by this many milliseconds: a new connection costs about as much.
pub(crate) const LATE_MS: u64 = 200;

/// Without peers to compare with, an address from which nothing arrives for this many milliseconds is late. It is
/// longer than the first answer of a distant server takes with TLS.
pub(crate) const SILENT_MS: u64 = 1_000;

/// A rate is measured over this many milliseconds of a range.
const WINDOW_MS: u64 = 250;

/// The number of measurements that are kept: enough for a median, few enough to follow a network that changes.
const KEPT: usize = 32;

/// The minimum number of measurements of other ranges for a median.
const MIN_PEERS: usize = 3;

/// The last measurements of all ranges, each with the number of its range.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// How long the first bytes took, in milliseconds.
    answers: Vec<(u64, f64)>,
    /// How many bytes arrived in a millisecond.
    rates: Vec<(u64, f64)>,
}

/// How fast one range arrives.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    range: u64,
    /// Since the last measurement: milliseconds, those of them in which the reader waited, and bytes.
    elapsed_ms: u64,
    waited_ms: u64,
    bytes: u64,
    /// Those that were waited, and the bytes, of the slow measurements before.
    slow_ms: u64,
    slow_bytes: u64,
}

impl Pace {
    pub(crate) fn new(range: u64) -> Self {
        Pace { range, ..Pace::default() }
    }

    /// Forgets what was measured, because the range is read from another address.
    pub(crate) fn restart(&mut self) {
        *self = Pace::new(self.range);
    }
}

impl Peers {
    /// Records how long the first bytes of a range took.
    pub(crate) fn answered(&mut self, range: u64, waited_ms: u64) {
        keep(&mut self.answers, (range, waited_ms as f64));
    }

    /// Records bytes of a range, which arrived `elapsed_ms` after those before, and for which the reader waited
    /// `waited_ms`. The rest of the time, it did something else.
    pub(crate) fn arrived(&mut self, pace: &mut Pace, elapsed_ms: u64, waited_ms: u64, bytes: u64) {
        pace.elapsed_ms += elapsed_ms;
        pace.waited_ms += waited_ms;
        pace.bytes += bytes;
        if pace.elapsed_ms < WINDOW_MS {
            return;
        }
        let is_slow = self.rate(pace.range).is_some_and(|rate| {
            let expected_ms = pace.bytes as f64 / rate;
            pace.waited_ms as f64 > expected_ms * SLOW_FACTOR
        });
        keep(&mut self.rates, (pace.range, pace.bytes as f64 / pace.elapsed_ms as f64));
        (pace.slow_ms, pace.slow_bytes) = match is_slow {
            true => (pace.slow_ms + pace.waited_ms, pace.slow_bytes + pace.bytes),
            false => (0, 0),
        };
        (pace.elapsed_ms, pace.waited_ms, pace.bytes) = (0, 0, 0);
    }

    /// The time after which the first bytes of a range are late.
    pub(crate) fn answer_limit_ms(&self, range: u64) -> u64 {
        match median(&self.answers, range) {
            Some(usual) => (usual * SLOW_FACTOR).max(usual + LATE_MS as f64) as u64,
            None => SILENT_MS,
        }
    }

    /// Whether a range is late of which `left` bytes are missing, if the reader has waited for the next ones for
    /// `waiting_ms` already. A range of which another address could not send the rest sooner is not.
    pub(crate) fn is_late(&self, pace: &Pace, waiting_ms: u64, left: u64) -> bool {
        let Some(rate) = self.rate(pace.range) else { return waiting_ms >= SILENT_MS };
        let waited_ms = (pace.slow_ms + pace.waited_ms + waiting_ms) as f64;
        let bytes = (pace.slow_bytes + pace.bytes) as f64;
        let expected_ms = bytes / rate;
        let is_slow = waited_ms > expected_ms * SLOW_FACTOR && waited_ms > expected_ms + LATE_MS as f64;
        let left_ms = left as f64 * waited_ms / bytes.max(1.0);
        let elsewhere_ms = left as f64 / rate + median(&self.answers, pace.range).unwrap_or(LATE_MS as f64);
        is_slow && left_ms > elsewhere_ms
    }

    /// The bytes that usually arrive from this range while another address answers.
    pub(crate) fn bytes_during_answer(&self, pace: &Pace) -> u64 {
        let waited_ms = (pace.slow_ms + pace.waited_ms).max(1) as f64;
        let answer_ms = median(&self.answers, pace.range).unwrap_or(LATE_MS as f64);
        ((pace.slow_bytes + pace.bytes) as f64 / waited_ms * answer_ms) as u64
    }

    fn rate(&self, range: u64) -> Option<f64> {
        median(&self.rates, range).filter(|rate| *rate > 0.0)
    }
}

fn keep(all: &mut Vec<(u64, f64)>, value: (u64, f64)) {
    if all.len() >= KEPT {
        all.remove(0);
    }
    all.push(value);
}

/// The median of the measurements of other ranges.
fn median(all: &[(u64, f64)], range: u64) -> Option<f64> {
    let mut values: Vec<f64> = all.iter().filter(|(of, _)| *of != range).map(|(_, value)| *value).collect();
    if values.len() < MIN_PEERS {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    /// Peers that answered in 50 ms and sent 1,000 bytes per millisecond.
    fn usual() -> Peers {
        let mut peers = Peers::default();
        for range in 1..=4 {
            peers.answered(range, 50);
            peers.arrived(&mut Pace::new(range), 1_000, 900, 1_000_000);
        }
        peers
    }

    #[test]
    fn without_peers_only_silence_is_late() {
        let (peers, mut pace) = (Peers::default(), Pace::new(9));
        assert_eq!(peers.answer_limit_ms(9), SILENT_MS);
        pace.waited_ms = 100_000; // slow, but as the network may be
        pace.bytes = 1;
        assert!(!peers.is_late(&pace, SILENT_MS - 1, 1 << 30));
        assert!(peers.is_late(&pace, SILENT_MS, 1 << 30));
    }

    #[test]
    fn an_answer_is_late_by_a_factor_and_by_a_threshold() {
        let mut peers = usual();
        assert_eq!(peers.answer_limit_ms(9), 50 + LATE_MS);
        (10..20).for_each(|range| peers.answered(range, 1_000));
        assert_eq!(peers.answer_limit_ms(9), 2_000);
    }

    #[test]
    fn a_range_is_late_if_it_is_slow_and_waits_for_longer_than_the_threshold() {
        let (mut peers, mut pace) = (usual(), Pace::new(9));
        peers.arrived(&mut pace, 150, 150, 50_000); // a third of the rate, but only 100 ms late
        assert!(!peers.is_late(&pace, 0, 10_000_000));
        assert!(peers.is_late(&pace, LATE_MS, 10_000_000));
        let mut in_time = Pace::new(8);
        peers.arrived(&mut in_time, 900, 900, 600_000); // more than half of the rate
        assert!(!peers.is_late(&in_time, 0, 10_000_000));
    }

    #[test]
    fn slow_measurements_add_up_until_a_range_is_fast_again() {
        let (mut peers, mut pace) = (usual(), Pace::new(9));
        for _ in 0..2 {
            peers.arrived(&mut pace, 300, 250, 110_000);
        }
        assert!(peers.is_late(&pace, 0, 10_000_000), "280 ms in all");
        peers.arrived(&mut pace, 300, 250, 300_000);
        assert!(!peers.is_late(&pace, LATE_MS, 10_000_000));
    }

    #[test]
    fn a_reader_that_is_busy_does_not_make_its_range_late() {
        let (mut peers, mut pace) = (usual(), Pace::new(9));
        for _ in 0..20 {
            peers.arrived(&mut pace, 1_000, 1, 10_000);
        }
        assert!(!peers.is_late(&pace, 10, 10_000_000));
    }

    #[test]
    fn a_range_that_ends_soon_is_not_late() {
        let (mut peers, mut pace) = (usual(), Pace::new(9));
        peers.arrived(&mut pace, 2_000, 2_000, 200_000);
        assert!(peers.is_late(&pace, 0, 1_000_000));
        assert!(!peers.is_late(&pace, 0, 3_000), "30 ms are left, and another answer takes 50");
    }

    #[test]
    fn a_range_is_not_compared_with_itself() {
        let (mut peers, mut pace) = (Peers::default(), Pace::new(9));
        for _ in 0..20 {
            peers.answered(9, 1);
            peers.arrived(&mut pace, 300, 300, 1_000_000);
        }
        assert_eq!(peers.answer_limit_ms(9), SILENT_MS);
        assert!(!peers.is_late(&pace, SILENT_MS - 1, 1 << 30));
    }
}
