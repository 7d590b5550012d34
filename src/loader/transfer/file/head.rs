//! Reads the head of a file: the header and index of a format, or the start of a file of raw bytes.

use super::{FIRST_READ_BYTES, ModelFile};
use crate::error::{ErrorKind, Result, malformed};
use crate::format;
use crate::index::Parsed;
use crate::loader::transfer::range_reader::RangeReader;
use crate::loader::transfer::truncated::truncated_error;
use crate::source::{Buffer, Source};
use crate::window::{Stop, Window};
use futures::future::{FutureExt, LocalBoxFuture};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// Bytes that the third consecutive read of a header requests in addition. The length of such a header is unknown; the
/// response is dropped when the parser has enough bytes. A header therefore takes at most three requests, whatever its
/// size.
const HEADER_READ_AHEAD_BYTES: u64 = 128 << 20;

impl<S: Source> ModelFile<S> {
    /// Reads the file's header and index. If the file is compressed as a whole, reads those of the decoded file.
    pub(crate) fn parse(self: &Rc<Self>) -> LocalBoxFuture<'_, Result<Parsed>> {
        self.parse_checked(&|_| Ok(()))
    }

    /// Like [`ModelFile::parse`]. When its head was read, or failed to be, an error of `check` is returned first. It is
    /// passed whether the file is compressed as a whole. Boxed, because several callers would have its code otherwise.
    #[inline(never)]
    pub(crate) fn parse_checked<'a>(
        self: &'a Rc<Self>,
        check: &'a dyn Fn(bool) -> Result<()>,
    ) -> LocalBoxFuture<'a, Result<Parsed>> {
        let parse = async move {
            let mut is_decoded = false;
            loop {
                let parsed = self.parse_with(format::parse).await;
                if !is_decoded {
                    check(matches!(parsed, Ok(Parsed::Packed(_))))?;
                }
                let component = match parsed? {
                    // Tools write only one layer. More layers would multiply the decoded size of a small file.
                    Parsed::Packed(_) if is_decoded => {
                        return Err(malformed("a compressed file holds another one").in_file(self.source.name()));
                    }
                    Parsed::Packed(component) => component,
                    parsed => return Ok(parsed),
                };
                let packed_length = component.range.end - component.range.start;
                *self.window.borrow_mut() = Window::new(component.decoded_length).unpacked_from(Some(packed_length));
                *self.parked.borrow_mut() = None;
                *self.packed.borrow_mut() = Some(component);
                is_decoded = true;
            }
        };
        parse.boxed_local()
    }

    /// Calls `parse` repeatedly, and fetches the bytes that it needs, until it returns a result or fails.
    pub(crate) async fn parse_with<T>(self: &Rc<Self>, parse: impl Fn(&Window) -> Result<T, Stop>) -> Result<T> {
        let outcome = loop {
            let outcome = parse(&self.window.borrow());
            match outcome {
                Ok(found) => {
                    #[cfg(npm)]
                    if let Some(code) = crate::deferred::expected()
                        && let Err(error) = self.provide(Stop::Deferred(code)).await
                    {
                        break Err(error);
                    }
                    break Ok(found);
                }
                Err(stop) => {
                    if let Err(error) = self.provide(stop).await {
                        break Err(error);
                    }
                }
            }
        };
        self.parked.borrow_mut().take_if(|parked| !parked.is_from_start);
        outcome
    }

    /// What a parser needs to go on. Boxed, so that the code is not generated for each parser.
    #[inline(never)]
    fn provide(self: &Rc<Self>, stop: Stop) -> LocalBoxFuture<'_, Result<()>> {
        let provide = async move {
            match stop {
                Stop::Failed(error) => Err(self.reject_if_corrupt(error)),
                Stop::Need(range) => self.fill(range).await.map_err(|e| e.in_file(self.source.name())),
                Stop::Deferred(code) => self.source.host().load_code(code).await,
            }
        };
        provide.boxed_local()
    }

    /// Like [`ModelFile::parse_with`], but fetches nothing. `None` if bytes are missing.
    pub(crate) fn try_parse<T>(&self, parse: impl Fn(&Window) -> Result<T, Stop>) -> Result<Option<T>> {
        match parse(&self.window.borrow()) {
            Ok(found) => Ok(Some(found)),
            Err(Stop::Need(_) | Stop::Deferred(_)) => Ok(None),
            Err(Stop::Failed(error)) => Err(self.reject_if_corrupt(error)),
        }
    }

    /// Requests the start of a file whose length is unknown, because the response states the length.
    pub(crate) async fn learn_length(self: &Rc<Self>) -> Result<()> {
        let outcome = self.window.borrow().get(0..1).map(drop);
        let Err(stop) = outcome else { return Ok(()) };
        match self.provide(stop).await {
            Err(error) if error.kind == ErrorKind::Truncated => Ok(()), // it is empty
            outcome => outcome,
        }
    }

    /// Whether the start of the file must be checked before bytes of it are returned: a file of raw bytes has no magic,
    /// so a web page in its place would be taken for weights.
    pub(crate) fn needs_head_check(&self) -> bool {
        self.is_raw && self.head_checked.try_lock().is_none_or(|checked| !*checked)
    }

    /// Checks the start of a file of raw bytes, once.
    ///
    /// # Errors
    /// `UNSUPPORTED` if the file is a text; those of the source.
    pub(crate) async fn check_head(self: &Rc<Self>, mut reader: RangeReader<S>) -> Result<()> {
        let mut checked = self.head_checked.lock().await;
        while !*checked {
            let outcome = format::check_headerless(&self.window.borrow(), self.media_type.get());
            match outcome {
                Ok(()) => *checked = true,
                Err(Stop::Failed(error)) => {
                    self.source.reject();
                    return Err(self.reject_if_corrupt(error));
                }
                Err(Stop::Need(range)) => match reader.chunk(range.end.saturating_sub(reader.position)).await? {
                    Some(chunk) => {
                        let mut at = chunk.start;
                        chunk.buffer.inspect(0..chunk.length, &mut |bytes| {
                            self.remember(at, bytes);
                            at += bytes.len() as u64;
                            Ok(())
                        })?;
                    }
                    None => *checked = true, // the file is shorter than any page
                },
                Err(Stop::Deferred(code)) => self.source.host().load_code(code).await?,
            }
        }
        Ok(())
    }

    async fn fill(self: &Rc<Self>, needed: Range<u64>) -> Result<()> {
        let _one_at_a_time = self.filling.lock().await;
        let wanted = {
            let window = self.window.borrow();
            if window.missing(&needed).is_empty() {
                return Ok(()); // another caller fetched the bytes meanwhile
            }
            window.missing(&widen(needed, &window))
        };
        let mut reading = self.start(wanted.clone(), Rc::new(Cell::new(self.request_end(&wanted))));
        while reading.position < wanted.end {
            let mut at = reading.position;
            let Some(chunk) = reading.chunk(wanted.end - at).await? else { break };
            chunk.buffer.inspect(0..chunk.length, &mut |bytes| {
                self.window.borrow_mut().insert(at, bytes);
                at += bytes.len() as u64;
                Ok(())
            })?;
        }
        self.window.borrow_mut().shrink_to_fit(); // before the parser allocates much more
        let end = reading.position;
        self.continued.set((self.continued.get().0, end));
        if end < wanted.end {
            match self.length() {
                // The end of the body shows the file's length. The parser then reports that the file is too short.
                None => self.window.borrow_mut().set_file_length(end),
                Some(length) if end < length.min(wanted.end) => {
                    return Err(truncated_error(wanted.start, end, wanted.end));
                }
                Some(_) => {}
            }
        }
        *self.parked.borrow_mut() = reading.into_remote();
        Ok(())
    }

    /// The end of a request for `wanted`. The request reads far ahead if it continues the two reads before it.
    fn request_end(&self, wanted: &Range<u64>) -> u64 {
        let parked = self.parked.borrow();
        if let Some(end) = parked.as_ref().filter(|parked| parked.contains(wanted)).and_then(|parked| parked.end) {
            return end.max(wanted.end);
        }
        let (times, end) = self.continued.get();
        let times = if wanted.start == end { times + 1 } else { 0 };
        self.continued.set((times, end));
        let ahead = if times > 2 { HEADER_READ_AHEAD_BYTES } else { 0 };
        let end_of_file = self.length().unwrap_or(u64::MAX);
        wanted.end.max(wanted.end.saturating_add(ahead).min(end_of_file))
    }
}

/// Extends a read to at least [`FIRST_READ_BYTES`], because a round trip takes longer than reading them: forwards from
/// the header, backwards from the end of the file.
fn widen(needed: Range<u64>, window: &Window) -> Range<u64> {
    let end_of_file = window.file_length().unwrap_or(u64::MAX);
    if needed.end == end_of_file {
        let wide = needed.start.min(needed.end.saturating_sub(FIRST_READ_BYTES))..needed.end;
        // If parts of the range are known already, the first missing range may end before the needed bytes.
        return if window.missing(&wide).end == wide.end { wide } else { needed };
    }
    let start = window.missing(&needed).start;
    needed.start..needed.end.max(start.saturating_add(FIRST_READ_BYTES)).min(end_of_file.max(needed.end))
}
