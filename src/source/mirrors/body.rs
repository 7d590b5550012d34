//! Reads a range from one address at a time. While it is late, another address is asked for the rest, and the first
//! that has the next byte goes on; the other one is cancelled. `race` decides when to ask which address.

mod race;

use super::attempt::{Progress, Stream};
use super::file::{MirroredFile, push_tail};
use super::peers::Pace;
use super::{Address, COMPARED_BYTES};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{Body, Buffer, RangeResponse, ReadBody};
use futures::future::{FutureExt, LocalBoxFuture};
use race::Racing;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll};

/// How often a range that is awaited is looked at.
const TICK_MS: u64 = 50;

/// If the reader does not look at a range for longer, it did something else: only this much counts as waiting. In a tab
/// in the background, whose timers are rare, a silent address is then noticed after some seconds.
const MAX_GAP_MS: u64 = 4 * TICK_MS;

type BufferOf<A> = <<A as Address>::Body as Body>::Buffer;
type Opened<A> = Result<Option<Stream<<A as Address>::Body>>>;
type Chunk<A> = (Stream<<A as Address>::Body>, Result<u64>);

/// A range that is read from several addresses.
pub(super) struct RacingBody<A: Address> {
    file: Rc<MirroredFile<A>>,
    first: A,
    range: Range<u64>,
    /// The end of the range, as the head of the first response stated it to the caller.
    promised_end: Option<u64>,
    progress: Rc<Progress>,
    /// The last bytes that were passed on.
    tail: Vec<u8>,
    current: Current<A>,
    racing: Vec<Racing<A>>,
    /// The addresses that were asked since bytes arrived last.
    asked: Vec<usize>,
    /// The error of the first address, or else the last one.
    error: Option<(usize, Error)>,
    timer: Option<LocalBoxFuture<'static, ()>>,
    number: u64,
    pace: Pace,
    /// When bytes arrived last, and when the reader began to wait for the next ones.
    arrived_ms: u64,
    waiting_since_ms: u64,
    polled_ms: u64,
    /// The bytes that count as requested.
    requested_bytes: u64,
}

enum Current<A: Address> {
    None,
    Idle(Stream<A::Body>),
    Reading(usize, LocalBoxFuture<'static, Chunk<A>>),
}

enum Event<A: Address> {
    Read(Box<Chunk<A>>),
    Opened(Racing<A>, Box<Opened<A>>),
    Tick,
}

impl<A: Address> MirroredFile<A> {
    /// Implements [`Source::read`](crate::source::Source::read). `first` is the first address.
    #[inline(never)] // so that the code is deferred
    pub(crate) fn read(
        self: &Rc<Self>,
        first: A,
        range: Range<u64>,
    ) -> LocalBoxFuture<'static, Result<RangeResponse<A::Body>>> {
        let file = Rc::clone(self);
        async move {
            let (answer, body) = RacingBody::begin(file, first, range).await?;
            let length = answer.end.map(|end| end.saturating_sub(answer.start));
            Ok(answer.map(|()| A::body(Box::new(body), length)))
        }
        .boxed_local()
    }
}

impl<A: Address> RacingBody<A> {
    /// Requests `range`. Returns the head of the first response with bytes.
    ///
    /// # Errors
    /// Those of the first address, if no address has the range.
    pub(super) async fn begin(
        file: Rc<MirroredFile<A>>,
        first: A,
        range: Range<u64>,
    ) -> Result<(RangeResponse<()>, Self)> {
        let number = file.shared.policy.borrow_mut().begin_range();
        let progress = Rc::new(Progress::default());
        progress.position.set(range.start);
        let arrived_ms = first.host().now_ms();
        let (promised_end, tail, racing, asked, error, timer, requested_bytes) = Default::default();
        let (current, pace) = (Current::None, Pace::new(number));
        let mut body = RacingBody {
            file,
            first,
            range,
            promised_end,
            progress,
            tail,
            current,
            racing,
            asked,
            error,
            timer,
            number,
            pace,
            arrived_ms,
            waiting_since_ms: arrived_ms,
            polled_ms: arrived_ms,
            requested_bytes,
        };
        body.ask_next(true)?;
        let stream = loop {
            if let Some(stream) = body.step().await? {
                break stream;
            }
        };
        let head = stream.head.clone();
        body.expect(&head);
        body.current = Current::Idle(stream);
        Ok((head, body))
    }

    /// Sets what the caller expects of the body.
    fn expect(&mut self, head: &RangeResponse<()>) {
        self.progress.position.set(head.start);
        self.promised_end = head.end;
        self.range.end = head.end.unwrap_or(self.range.end);
        self.requested_bytes = head.end.map_or(0, |end| end.saturating_sub(head.start));
        self.file.shared.policy.borrow_mut().request(self.requested_bytes);
    }

    async fn read_some(&mut self, into: &mut BufferOf<A>, at: Range<u64>) -> Result<u64> {
        loop {
            let stream = match std::mem::replace(&mut self.current, Current::None) {
                Current::Idle(stream) => stream,
                Current::None if self.racing.is_empty() => {
                    let what = "the response has failed before";
                    return Err(Error::new(ErrorKind::Network, what).transient());
                }
                other => {
                    self.current = other;
                    match self.step().await? {
                        Some(stream) => stream,
                        None => continue,
                    }
                }
            };
            let position = self.progress.position.get();
            let bytes = stream.available(position, at.end - at.start);
            if !bytes.is_empty() {
                self.pass_on(&stream, bytes.clone(), into, at.start)?;
                self.current = Current::Idle(stream);
                return Ok(bytes.end - bytes.start);
            }
            if stream.has_ended || self.promised_end == Some(position) {
                self.current = Current::Idle(stream);
                return Ok(0);
            }
            (self.waiting_since_ms, self.polled_ms) = (self.now_ms(), self.now_ms());
            self.current = Current::reading(stream);
        }
    }

    /// Copies bytes of the file to the buffer of the caller.
    fn pass_on(&mut self, stream: &Stream<A::Body>, bytes: Range<u64>, into: &mut BufferOf<A>, at: u64) -> Result<()> {
        let (buffer, part) = stream.bytes(&bytes);
        into.copy(at, buffer, part.clone())?;
        let tail = &mut self.tail;
        buffer.inspect(part.start.max(part.end.saturating_sub(COMPARED_BYTES))..part.end, &mut |last| {
            push_tail(tail, last);
            Ok(())
        })?;
        self.progress.position.set(bytes.end);
        self.file.keep_sample(bytes.end - self.tail.len() as u64, &self.tail);
        if self.promised_end == Some(bytes.end) {
            self.cancel_others(); // the reader may not read again
        }
        Ok(())
    }

    /// Waits for what happens next. Returns the response to go on with, once it has bytes or has ended.
    async fn step(&mut self) -> Result<Option<Stream<A::Body>>> {
        match poll_fn(|context| self.poll_event(context)).await {
            Event::Read(chunk) => {
                let (stream, outcome) = *chunk;
                match outcome {
                    Ok(count) => {
                        self.note_arrival(stream.number, count);
                        Ok(Some(stream))
                    }
                    Err(error) => self.failed(stream.number, error).map(|()| None),
                }
            }
            Event::Opened(racing, outcome) => match *outcome {
                // Another range has decided meanwhile which file it is.
                Ok(Some(stream)) if stream.needs_reference && !self.file.is_reference(racing.number) => {
                    self.asked.retain(|number| *number != racing.number);
                    match self.is_reading() || !self.racing.is_empty() {
                        true => Ok(None),
                        false => self.ask_next(false).map(|()| None),
                    }
                }
                Ok(Some(stream)) => Ok(Some(self.take_over(racing, stream))),
                Ok(None) if self.is_reading() || !self.racing.is_empty() => Ok(None),
                Ok(None) => {
                    self.asked.retain(|number| *number != racing.number);
                    self.ask_next(false).map(|()| None)
                }
                Err(error) => self.failed(racing.number, error).map(|()| None),
            },
            Event::Tick => self.check_time().map(|()| None),
        }
    }

    /// Leaves out the time in which the reader did something else, such as between two polls of a request that is sent
    /// ahead.
    fn skip_gap(&mut self) {
        let now_ms = self.now_ms();
        let gap_ms = now_ms.saturating_sub(self.polled_ms);
        self.polled_ms = now_ms;
        if let Some(skipped_ms) = gap_ms.checked_sub(MAX_GAP_MS) {
            self.waiting_since_ms += skipped_ms;
            self.racing.iter_mut().for_each(|racing| racing.begun_ms += skipped_ms);
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event<A>> {
        self.skip_gap();
        if let Current::Reading(_, reading) = &mut self.current
            && let Poll::Ready(chunk) = reading.poll_unpin(context)
        {
            self.current = Current::None;
            return Poll::Ready(Event::Read(Box::new(chunk)));
        }
        for at in 0..self.racing.len() {
            if let Some(racing) = self.racing.get_mut(at)
                && let Poll::Ready(outcome) = racing.opening.poll_unpin(context)
            {
                return Poll::Ready(Event::Opened(self.racing.remove(at), Box::new(outcome)));
            }
        }
        let host = self.first.host();
        if self.timer.get_or_insert_with(|| host.pause(TICK_MS)).poll_unpin(context).is_ready() {
            self.timer = None;
            return Poll::Ready(Event::Tick);
        }
        Poll::Pending
    }

    fn note_arrival(&mut self, number: usize, count: u64) {
        let now_ms = self.now_ms();
        let mut policy = self.file.shared.policy.borrow_mut();
        policy.received(number, count);
        let (elapsed_ms, waited_ms) =
            (now_ms.saturating_sub(self.arrived_ms), now_ms.saturating_sub(self.waiting_since_ms));
        policy.peers.arrived(&mut self.pace, elapsed_ms, waited_ms, count);
        self.arrived_ms = now_ms;
        if count > 0 {
            self.asked.clear();
        }
    }
}

impl<A: Address> Current<A> {
    fn reading(mut stream: Stream<A::Body>) -> Self {
        let number = stream.number;
        let reading = async move {
            let outcome = stream.next().await;
            (stream, outcome)
        };
        Current::Reading(number, reading.boxed_local())
    }
}

impl<A: Address> ReadBody<BufferOf<A>> for RacingBody<A> {
    fn read<'a>(&'a mut self, into: &'a mut BufferOf<A>, at: Range<u64>) -> LocalBoxFuture<'a, Result<u64>> {
        self.read_some(into, at).boxed_local()
    }
}

impl<A: Address> Drop for RacingBody<A> {
    fn drop(&mut self) {
        let left = self.promised_end.map_or(0, |end| end.saturating_sub(self.progress.position.get()));
        self.file.shared.policy.borrow_mut().abandon(left.min(self.requested_bytes));
    }
}
