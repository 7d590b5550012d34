//! Requests of limited length, for readers that may be slower than the network.
//!
//! Chromium receives up to 64 MiB of a response that nobody reads yet, and keeps them in the memory of the page, unless
//! the response has `Cache-Control: no-store`. What it receives ahead is limited by the length of the request. So that
//! the connection does not idle between two requests, the next one is sent before the last one is read completely.

use crate::error::Result;
use crate::loader::transfer::remote::Remote;
use crate::source::Source;
use futures::future::{self, FutureExt, LocalBoxFuture};
use std::ops::Range;
use std::task::{Context, Poll, Waker};

/// The maximum length of a request. At 100 Mb/s it takes 1.3 s, and at 1 Gb/s 0.13 s, longer than a round trip.
const MAX_REQUEST_BYTES: u64 = 16 << 20;

/// The next request is sent when no more than this is left of the current one.
const SEND_AT_BYTES: u64 = MAX_REQUEST_BYTES / 2;

type Response<S> = Result<Remote<<S as Source>::Body>>;

/// The request that follows the current one, once it is sent: its first byte, and its response.
pub(crate) struct NextRequest<S: Source>(Option<(u64, LocalBoxFuture<'static, Response<S>>)>);

impl<S: Source> Default for NextRequest<S> {
    fn default() -> Self {
        NextRequest(None)
    }
}

impl<S: Source> NextRequest<S> {
    /// The end of a request that starts at `start`, in a range that ends at `end`.
    pub(crate) fn end(start: u64, end: u64) -> u64 {
        end.min(start.saturating_add(MAX_REQUEST_BYTES))
    }

    /// Sends the next request with `send` if it is time for it: the current response is read up to `position` and ends
    /// at `current_end`, and the range ends at `end`.
    pub(crate) fn advance(
        &mut self,
        position: u64,
        current_end: u64,
        end: u64,
        send: impl FnOnce(Range<u64>) -> LocalBoxFuture<'static, Response<S>>,
    ) {
        if current_end >= end || current_end.saturating_sub(position) > SEND_AT_BYTES {
            return;
        }
        let request = || (current_end, send(current_end..Self::end(current_end, end)));
        self.0.get_or_insert_with(request);
        self.poll();
    }

    /// A request whose response starts at `start`. Nothing is sent before it is polled.
    pub(crate) fn of(start: u64, response: LocalBoxFuture<'static, Response<S>>) -> Self {
        NextRequest(Some((start, response)))
    }

    /// Sends the request, and goes on with it. A future does nothing until it is polled: each call polls it once, and
    /// the reader awaits it in the end.
    pub(crate) fn poll(&mut self) {
        if let Some((_, response)) = &mut self.0
            && let Poll::Ready(arrived) = response.poll_unpin(&mut Context::from_waker(Waker::noop()))
        {
            *response = future::ready(arrived).boxed_local();
        }
    }

    /// The response to the next request, if it was sent and starts at `position`.
    pub(crate) fn take(&mut self, position: u64) -> Option<LocalBoxFuture<'static, Response<S>>> {
        self.0.take().filter(|(start, _)| *start == position).map(|(_, response)| response)
    }
}
