//! Which address is asked next, and how many bytes may be received twice. No I/O: the caller states the times.

use super::peers::Peers;

/// The maximum share of the bytes that are requested which may be received a second time from another address, in
/// percent, so that a network that is slow as a whole does not get more to do.
const MAX_DOUBLED_PERCENT: u64 = 3;

/// An address that failed is asked after all others for this many milliseconds, and then again in its turn.
const SUSPENSION_MS: u64 = 60_000;

/// The number of consecutive races that an address loses without an answer before it is suspended.
const MAX_UNANSWERED: u32 = 2;

/// What is known of the addresses of a model, and of the bytes that were read from all of them.
#[derive(Debug)]
pub(crate) struct Policy {
    addresses: Vec<Address>,
    pub(crate) peers: Peers,
    /// The number of bytes that were requested, each counted once.
    requested_bytes: u64,
    /// The number of bytes that were received and not used.
    doubled_bytes: u64,
    ranges: u64,
}

#[derive(Debug, Clone, Default)]
struct Address {
    byte_length: u64,
    failure: Option<String>,
    unanswered: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Usable,
    /// Asked after all others until this time.
    Suspended { until_ms: u64 },
    /// Not asked any more: its files are other ones.
    Dropped,
}

impl Policy {
    pub(crate) fn new(addresses: usize) -> Self {
        Policy {
            addresses: vec![Address::default(); addresses],
            peers: Peers::default(),
            requested_bytes: 0,
            doubled_bytes: 0,
            ranges: 0,
        }
    }

    /// The number of a new range.
    pub(crate) fn begin_range(&mut self) -> u64 {
        self.ranges += 1;
        self.ranges
    }

    /// The address to ask, of those that `may_ask` permits: the first one that works, or else the one that was
    /// suspended first.
    pub(crate) fn next(&self, now_ms: u64, may_ask: impl Fn(usize) -> bool) -> Option<usize> {
        let usable = self
            .addresses
            .iter()
            .enumerate()
            .filter(|(number, address)| address.state != State::Dropped && may_ask(*number));
        let delay = |address: &Address| match address.state {
            State::Suspended { until_ms } => until_ms.saturating_sub(now_ms),
            _ => 0,
        };
        usable.min_by_key(|(_, address)| delay(address)).map(|(number, _)| number)
    }

    /// Whether an address may be asked although another one still sends bytes: it has not failed lately.
    pub(crate) fn works_at(&self, number: usize, now_ms: u64) -> bool {
        self.addresses.get(number).is_some_and(|address| match address.state {
            State::Usable => true,
            State::Suspended { until_ms } => until_ms <= now_ms,
            State::Dropped => false,
        })
    }

    /// Records bytes of an address.
    pub(crate) fn received(&mut self, number: usize, bytes: u64) {
        if let Some(address) = self.addresses.get_mut(number) {
            address.byte_length += bytes;
        }
    }

    /// Records that an address has sent bytes of the file.
    pub(crate) fn works(&mut self, number: usize) {
        if let Some(address) = self.addresses.get_mut(number).filter(|address| address.state != State::Dropped) {
            (address.state, address.unanswered, address.failure) = (State::Usable, 0, None);
        }
    }

    /// Records that an address failed.
    pub(crate) fn suspend(&mut self, number: usize, now_ms: u64, failure: String) {
        if let Some(address) = self.addresses.get_mut(number).filter(|address| address.state != State::Dropped) {
            address.state = State::Suspended { until_ms: now_ms.saturating_add(SUSPENSION_MS) };
            address.failure = Some(failure);
        }
    }

    /// Records that another address was faster than the first byte of this one, which was awaited for `waited_ms`.
    pub(crate) fn unanswered(&mut self, number: usize, now_ms: u64, waited_ms: u64) {
        let Some(address) = self.addresses.get_mut(number) else { return };
        address.unanswered += 1;
        if address.unanswered >= MAX_UNANSWERED || waited_ms >= super::peers::SILENT_MS {
            self.suspend(number, now_ms, format!("it did not answer within {waited_ms} ms"));
        }
    }

    /// Records that an address lacks a file, or cannot send ranges of it. It may have others.
    pub(crate) fn lacks_file(&mut self, number: usize, failure: String) {
        if let Some(address) = self.addresses.get_mut(number).filter(|address| address.state != State::Dropped) {
            address.failure = Some(failure);
        }
    }

    /// Drops an address, whose files are other ones.
    pub(crate) fn drop_address(&mut self, number: usize, failure: String) {
        if let Some(address) = self.addresses.get_mut(number) {
            (address.state, address.failure) = (State::Dropped, Some(failure));
        }
    }

    /// Drops all mirrors that have sent bytes, because the bytes of all addresses together have a wrong digest.
    pub(crate) fn drop_used_mirrors(&mut self) {
        let mirrors = self.addresses.iter_mut().skip(1);
        for address in mirrors.filter(|address| address.byte_length > 0 && address.state != State::Dropped) {
            let failure = "a digest is wrong of bytes that several addresses have sent";
            (address.state, address.failure) = (State::Dropped, Some(failure.to_owned()));
        }
    }

    /// The number of bytes that an address has sent, and why it is not used.
    pub(crate) fn report(&self, number: usize) -> (u64, Option<String>) {
        self.addresses.get(number).map_or((0, None), |address| (address.byte_length, address.failure.clone()))
    }

    /// Adds bytes that are requested, before they are.
    pub(crate) fn request(&mut self, bytes: u64) {
        self.requested_bytes = self.requested_bytes.saturating_add(bytes);
    }

    /// Takes back bytes that were requested and not read.
    pub(crate) fn abandon(&mut self, bytes: u64) {
        self.requested_bytes = self.requested_bytes.saturating_sub(bytes);
    }

    /// Whether this number of additional bytes may be received twice.
    pub(crate) fn may_double(&self, bytes: u64) -> bool {
        let allowed = self.requested_bytes / 100 * MAX_DOUBLED_PERCENT;
        self.doubled_bytes.saturating_add(bytes) <= allowed
    }

    /// Records bytes that were received and are not used, unless [`Policy::use_doubled`] says otherwise.
    pub(crate) fn double(&mut self, bytes: u64) {
        self.doubled_bytes = self.doubled_bytes.saturating_add(bytes);
    }

    /// Records that bytes are used, of those that were received.
    pub(crate) fn use_doubled(&mut self, bytes: u64) {
        self.doubled_bytes = self.doubled_bytes.saturating_sub(bytes);
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use crate::source::mirrors::peers::SILENT_MS;

    #[test]
    fn the_first_address_that_works_is_asked() {
        let mut policy = Policy::new(3);
        assert_eq!(policy.next(0, |_| true), Some(0));
        assert_eq!(policy.next(0, |number| number > 0), Some(1));
        policy.suspend(0, 0, "refused".to_owned());
        policy.suspend(1, 10, "refused".to_owned());
        assert_eq!(policy.next(20, |_| true), Some(2));
        assert_eq!(policy.next(20, |number| number < 2), Some(0), "it was suspended first");
        assert_eq!(policy.next(20, |_| false), None);
        assert_eq!(policy.next(SUSPENSION_MS + 10, |_| true), Some(0));
    }

    #[test]
    fn an_address_with_other_files_is_never_asked_again() {
        let mut policy = Policy::new(2);
        policy.drop_address(1, "other bytes".to_owned());
        policy.works(1);
        policy.suspend(1, 0, "refused".to_owned());
        assert_eq!(policy.next(u64::MAX, |number| number == 1), None);
        assert_eq!(policy.report(1), (0, Some("other bytes".to_owned())));
    }

    #[test]
    fn an_address_that_works_again_has_no_failure() {
        let mut policy = Policy::new(2);
        policy.suspend(0, 0, "refused".to_owned());
        policy.received(0, 7);
        policy.works(0);
        assert_eq!((policy.report(0), policy.next(0, |_| true)), ((7, None), Some(0)));
    }

    #[test]
    fn an_address_is_suspended_when_it_stays_silent_or_loses_twice() {
        let mut policy = Policy::new(2);
        policy.unanswered(0, 0, 300);
        assert_eq!(policy.next(0, |_| true), Some(0));
        policy.works(0);
        policy.unanswered(0, 0, 300);
        assert_eq!(policy.next(0, |_| true), Some(0), "it has answered meanwhile");
        policy.unanswered(0, 0, 300);
        assert_eq!(policy.next(0, |_| true), Some(1));
        policy.unanswered(1, 0, SILENT_MS);
        assert!(policy.report(1).1.is_some_and(|failure| failure.contains("1000 ms")));
        assert_eq!(policy.next(SUSPENSION_MS, |_| true), Some(0));
        assert_eq!([SUSPENSION_MS - 1, SUSPENSION_MS].map(|now| policy.works_at(0, now)), [false, true]);
    }

    #[test]
    fn at_most_three_percent_are_received_twice() {
        let mut policy = Policy::new(2);
        assert!(!policy.may_double(1));
        policy.request(1_000);
        assert!(policy.may_double(30) && !policy.may_double(31));
        policy.double(50);
        assert!(!policy.may_double(0));
        policy.use_doubled(40);
        assert!(policy.may_double(20) && !policy.may_double(21));
        policy.abandon(500);
        assert!(policy.may_double(5) && !policy.may_double(6));
    }
}
