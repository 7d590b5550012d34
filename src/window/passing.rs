//! Long headers pass through the window: their bytes are parsed while they arrive, and not kept.

use super::{Stop, Window};
use crate::error::{Error, ErrorKind, Result};
use std::any::Any;
use std::fmt;
use std::ops::Range;

/// The maximum length of a header that is kept. A check of the whole file reads others again.
const MAX_KEPT_BYTES: u64 = 1 << 20;

/// Receives the bytes of a header in order.
pub(crate) trait Pieces: Any {
    /// # Errors
    /// Errors in the bytes. They are reported when the header is parsed again; the remaining bytes are then ignored.
    fn push(&mut self, bytes: &[u8]) -> Result<()>;
}

/// A header that was requested with `Window::get_in_pieces`.
pub(crate) enum Content<'a, P> {
    /// All its bytes.
    Whole(&'a [u8]),
    /// What received its bytes.
    Pieces(Box<P>),
}

/// A header that is passed on.
pub(super) struct Passing {
    pub(super) range: Range<u64>,
    /// The end of the bytes that arrived.
    pub(super) position: u64,
    into: Box<dyn Pieces>,
    outcome: Result<()>,
}

impl Window<'_> {
    /// The bytes of `range`, which may be long. Unless they are known, they are passed to `start()` while they arrive,
    /// and not kept.
    ///
    /// # Errors
    /// As for [`Window::get`]; the errors of [`Pieces::push`].
    pub(crate) fn get_in_pieces<P: Pieces>(
        &self,
        range: Range<u64>,
        start: impl FnOnce() -> P,
    ) -> Result<Content<'_, P>, Stop> {
        let passing = self.passing.take();
        match self.get(range.clone()) {
            Err(Stop::Need(_)) if range.end - range.start > MAX_KEPT_BYTES => {}
            known => return known.map(Content::Whole),
        }
        let mut passing = passing.filter(|passing| passing.range == range).unwrap_or_else(|| {
            let mut passing = Passing::new(range.clone(), Box::new(start()));
            passing.push(range.start, self.known_from(range.start, range.end));
            passing
        });
        match passing.outcome {
            Err(error) => Err(error.into()),
            Ok(()) if passing.position == range.end => {
                let into: Box<dyn Any> = passing.into;
                let lost = || Error::new(ErrorKind::Internal, "the parser of a header was replaced").into();
                into.downcast().map(Content::Pieces).map_err(|_| lost())
            }
            Ok(()) => {
                let missing = passing.position..range.end;
                passing.outcome = Ok(());
                *self.passing.borrow_mut() = Some(passing);
                Err(Stop::Need(missing))
            }
        }
    }
}

impl Passing {
    fn new(range: Range<u64>, into: Box<dyn Pieces>) -> Self {
        Passing { position: range.start, range, into, outcome: Ok(()) }
    }

    /// Passes the next bytes on, if they are among `bytes`. Returns the offset of the first byte that does not belong
    /// to the header. Bytes of the header that arrive too early are dropped: they will be requested again.
    pub(super) fn push(&mut self, start: u64, bytes: &[u8]) -> u64 {
        let end = start.saturating_add(bytes.len() as u64);
        let (from, to) = (self.position.max(start), self.range.end.min(end));
        if from == self.position && from < to {
            let piece = bytes.get((from - start) as usize..(to - start) as usize).unwrap_or_default();
            if self.outcome.is_ok() {
                self.outcome = self.into.push(piece);
            }
            self.position = to;
        }
        if start < self.range.start { start } else { to.max(start) }
    }
}

impl fmt::Debug for Passing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passing").field("range", &self.range).field("position", &self.position).finish_non_exhaustive()
    }
}
