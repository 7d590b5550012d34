//! When another address is asked for the rest of a range, and which of the responses goes on.

use super::{Current, Opened, RacingBody};
use crate::error::{Error, ErrorKind, Result};
use crate::source::mirrors::attempt::{Attempt, Stream};
use crate::source::mirrors::peers::SILENT_MS;
use crate::source::mirrors::{Address, COMPARED_BYTES};
use futures::future::{FutureExt, LocalBoxFuture};
use std::cell::Cell;
use std::rc::Rc;

/// A request to another address.
pub(super) struct Racing<A: Address> {
    pub(super) number: usize,
    pub(super) begun_ms: u64,
    pub(super) is_answered: Rc<Cell<bool>>,
    pub(super) opening: LocalBoxFuture<'static, Opened<A>>,
}

impl<A: Address> RacingBody<A> {
    /// Goes on with the response of another request. The others are cancelled.
    pub(super) fn take_over(&mut self, winner: Racing<A>, mut stream: Stream<A::Body>) -> Stream<A::Body> {
        let now_ms = self.now_ms();
        let waited_ms = now_ms.saturating_sub(winner.begun_ms);
        let mut policy = self.file.shared.policy.borrow_mut();
        policy.works(winner.number);
        policy.use_doubled(stream.end().saturating_sub(self.progress.position.get()));
        if self.promised_end.is_none() {
            policy.peers.answered(self.number, waited_ms);
        }
        drop(policy);
        self.cancel_others();
        self.current = Current::None;
        self.pace.restart();
        (self.arrived_ms, self.waiting_since_ms) = (now_ms, now_ms);
        self.asked.clear();
        self.error = None;
        stream.head = self.file.adopt(stream.number, stream.head.clone());
        stream
    }

    /// Cancels the requests beside the one that goes on. Those that should have been answered count as lost.
    pub(super) fn cancel_others(&mut self) {
        let now_ms = self.now_ms();
        let mut policy = self.file.shared.policy.borrow_mut();
        for other in self.racing.drain(..).filter(|other| !other.is_answered.get()) {
            let waited_ms = now_ms.saturating_sub(other.begun_ms);
            if waited_ms >= policy.peers.answer_limit_ms(self.number) {
                policy.unanswered(other.number, now_ms, waited_ms);
            }
        }
    }

    /// Asks the next address after one has failed.
    ///
    /// # Errors
    /// That of the first address, if there is none left.
    pub(super) fn failed(&mut self, number: usize, error: Error) -> Result<()> {
        if self.file.is_final(number, &error) {
            return Err(error);
        }
        self.file.record_failure(number, &error, self.now_ms());
        self.progress.is_reading.set(self.is_reading());
        if !self.asked.contains(&number) {
            self.asked.push(number);
        }
        if self.error.is_none() || number == 0 {
            self.error = Some((number, error));
        }
        if self.is_reading() || !self.racing.is_empty() {
            return Ok(());
        }
        self.ask_next(false)
    }

    /// Asks another address if the range is late.
    pub(super) fn check_time(&mut self) -> Result<()> {
        let now_ms = self.now_ms();
        let newest_ms = self.racing.last().map(|racing| now_ms.saturating_sub(racing.begun_ms));
        let (is_late, is_silent, cost) = {
            let policy = self.file.shared.policy.borrow();
            match (&self.current, newest_ms) {
                // The current address may go on, but what was asked beside it has not.
                (_, Some(waited_ms)) => {
                    let is_late = waited_ms >= policy.peers.answer_limit_ms(self.number);
                    (is_late, waited_ms >= SILENT_MS, COMPARED_BYTES)
                }
                (Current::Reading(..), None) => {
                    let left = self.range.end.saturating_sub(self.progress.position.get());
                    let waiting_ms = now_ms.saturating_sub(self.waiting_since_ms);
                    let cost = COMPARED_BYTES + policy.peers.bytes_during_answer(&self.pace);
                    (policy.peers.is_late(&self.pace, waiting_ms, left), waiting_ms >= SILENT_MS, cost)
                }
                _ => (false, false, 0),
            }
        };
        // What has sent nothing for so long will probably send nothing twice.
        if is_late && (is_silent || self.file.shared.policy.borrow().may_double(cost)) && self.can_ask() {
            return self.ask_next(false);
        }
        Ok(())
    }

    pub(super) fn is_reading(&self) -> bool {
        matches!(self.current, Current::Reading(..))
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.first.host().now_ms()
    }

    fn next_address(&self) -> Option<usize> {
        let current = match &self.current {
            Current::Reading(number, _) => Some(*number),
            _ => None,
        };
        let may_ask = |number| {
            self.file.may_ask(number)
                && !self.asked.contains(&number)
                && current != Some(number)
                && self.racing.iter().all(|racing| racing.number != number)
        };
        let (policy, now_ms) = (self.file.shared.policy.borrow(), self.now_ms());
        // While bytes may still arrive, an address that failed lately is of no use.
        policy.next(now_ms, may_ask).filter(|number| !self.is_reading() || policy.works_at(*number, now_ms))
    }

    fn can_ask(&self) -> bool {
        self.next_address().is_some()
    }

    /// Requests the rest of the range from the next address. If none may be asked at the start, it is the first one.
    ///
    /// # Errors
    /// That of the first address, if there is none left.
    pub(super) fn ask_next(&mut self, is_start: bool) -> Result<()> {
        let next = self.next_address().or(is_start.then_some(0));
        let Some(number) = next else {
            let none = || Error::new(ErrorKind::Internal, "no address was asked");
            return Err(self.error.take().map_or_else(none, |(_, error)| error));
        };
        self.asked.push(number);
        self.progress.is_reading.set(self.is_reading());
        let is_answered = Rc::<Cell<bool>>::default();
        let attempt = Attempt {
            file: Rc::clone(&self.file),
            first: self.first.clone(),
            number,
            range: self.progress.position.get()..self.range.end,
            before: self.tail.clone(),
            promised_end: self.promised_end,
            progress: Rc::clone(&self.progress),
            is_answered: Rc::clone(&is_answered),
        };
        let (begun_ms, opening) = (self.now_ms(), attempt.run().boxed_local());
        self.racing.push(Racing { number, begun_ms, is_answered, opening });
        Ok(())
    }
}
