//! One file of a model, read bit by bit: its known bytes, and readings that continue from them.

use super::stats::Stats;
use super::whole::Sums;
use crate::error::{Error, ErrorKind, Result};
use crate::source::{Body, Buffer, Source, answer::Identity};
use crate::window::{Stop, Window};
use futures::lock::Mutex;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// The first read is speculative: most heads fit, so that most files open in one round trip.
pub const FIRST_READ_BYTES: u64 = 64 << 10;

/// Compressed bytes, and bytes that nobody wants, pass through a buffer of this size.
const SCRATCH_BYTES: u64 = 256 << 10;

/// A file of a model.
#[derive(Debug)]
pub(crate) struct ModelFile<S: Source> {
    pub(crate) source: S,
    window: RefCell<Window<'static>>,
    identity: RefCell<Option<Identity>>,
    /// The rest of a body from a server that ignores ranges, kept so that the file is sent only once.
    parked: RefCell<Option<(u64, S::Body)>>,
    filling: Mutex<()>,
    /// What is being computed while the whole file is read.
    pub(crate) sums: RefCell<Sums>,
    pub(crate) stats: Rc<Stats>,
}

impl<S: Source> ModelFile<S> {
    pub(crate) fn new(source: S, stats: Rc<Stats>) -> Self {
        ModelFile {
            source,
            window: RefCell::new(Window::new(None)),
            identity: RefCell::default(),
            parked: RefCell::default(),
            filling: Mutex::new(()),
            sums: RefCell::default(),
            stats,
        }
    }

    /// The file's length in bytes, where it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        self.window.borrow().file_length()
    }

    /// Calls `look` until it has the bytes that it needs, fetching what it stops for.
    pub(crate) async fn look<T>(&self, look: impl Fn(&Window) -> Result<T, Stop>) -> Result<T> {
        loop {
            let outcome = look(&self.window.borrow());
            match outcome {
                Ok(found) => return Ok(found),
                Err(Stop::Failed(error)) => return Err(error.in_file(self.source.name())),
                Err(Stop::Need(range)) => self.fill(range).await.map_err(|e| e.in_file(self.source.name()))?,
            }
        }
    }

    /// As [`ModelFile::look`], but only if the bytes are known already.
    pub(crate) fn glance<T>(&self, look: impl Fn(&Window) -> Result<T, Stop>) -> Result<Option<T>> {
        match look(&self.window.borrow()) {
            Ok(found) => Ok(Some(found)),
            Err(Stop::Need(_)) => Ok(None),
            Err(Stop::Failed(error)) => Err(error.in_file(self.source.name())),
        }
    }

    /// Adds bytes that came by on a stream to the known ones.
    pub(crate) fn remember(&self, start: u64, bytes: &[u8]) {
        self.window.borrow_mut().insert(start, bytes);
    }

    /// Begins to read `range`: what is known of it comes from memory, the rest from the source.
    pub(crate) async fn start(&self, range: Range<u64>) -> Result<Reading<S::Body>> {
        let known = self.window.borrow().known_from(range.start, range.end).to_vec();
        let asked = range.start + known.len() as u64..range.end;
        let remote = if asked.is_empty() { None } else { Some(self.ask(asked.clone()).await?) };
        Ok(Reading { known, known_at: 0, remote, position: range.start, scratch: None, stats: Rc::clone(&self.stats) })
    }

    /// Keeps the rest of a reading, if its server would otherwise send the whole file again.
    pub(crate) fn finish(&self, reading: Reading<S::Body>) {
        if let Some(Remote { body, position, whole: true, .. }) = reading.remote {
            *self.parked.borrow_mut() = Some((position, body));
        }
    }

    async fn fill(&self, needed: Range<u64>) -> Result<()> {
        let _one_at_a_time = self.filling.lock().await;
        let wanted = {
            let window = self.window.borrow();
            if window.missing(&needed).is_empty() {
                return Ok(()); // another caller fetched it meanwhile
            }
            window.missing(&widen(needed, &window))
        };
        let mut reading = self.start(wanted.clone()).await?;
        while reading.position < wanted.end {
            let at = reading.position;
            let Some(chunk) = reading.chunk(wanted.end - at).await? else { break };
            chunk.buffer.inspect(0..chunk.length, &mut |bytes| {
                self.window.borrow_mut().insert(at, bytes);
                Ok(())
            })?;
        }
        let end = reading.position;
        if end < wanted.end {
            match self.length() {
                // Only now the length is known: the parse that asked for more will say so.
                None => self.window.borrow_mut().set_file_length(end),
                Some(length) if end < length.min(wanted.end) => return Err(cut(wanted.start, end, wanted.end)),
                Some(_) => {}
            }
        }
        self.finish(reading);
        Ok(())
    }

    async fn ask(&self, range: Range<u64>) -> Result<Remote<S::Body>> {
        let parked = self.parked.borrow_mut().take_if(|(position, _)| *position <= range.start);
        let mut remote = match parked {
            Some((position, body)) => Remote { body, position, whole: true },
            None => {
                self.stats.count_request();
                let answer = self.source.read(range.clone()).await?;
                self.check_identity(&answer.identity)?;
                if let Some(length) = answer.file_length {
                    self.window.borrow_mut().set_file_length(length);
                }
                Remote { body: answer.body, position: answer.start, whole: answer.is_whole_file }
            }
        };
        if remote.position < range.start {
            let mut scratch = <S::Body as Body>::Buffer::allocate(SCRATCH_BYTES)?;
            while remote.position < range.start {
                let at = 0..SCRATCH_BYTES.min(range.start - remote.position);
                let count = remote.read(&mut scratch, at, &self.stats).await?;
                if count == 0 {
                    return Err(cut(0, remote.position, range.end));
                }
            }
        }
        Ok(remote)
    }

    fn check_identity(&self, now: &Identity) -> Result<()> {
        let mut identity = self.identity.borrow_mut();
        let earlier = identity.get_or_insert_with(|| now.clone());
        match now.change_since(earlier) {
            Some(change) => {
                Err(Error::new(ErrorKind::Changed, format!("the file changed while it was loaded: {change}")))
            }
            None => Ok(()),
        }
    }
}

/// A stretch of a file on its way: first the bytes that were known, then a body.
#[derive(Debug)]
pub(crate) struct Reading<B: Body> {
    known: Vec<u8>,
    known_at: usize,
    remote: Option<Remote<B>>,
    /// Where the next byte lies in the file.
    pub(crate) position: u64,
    scratch: Option<B::Buffer>,
    stats: Rc<Stats>,
}

/// Bytes in the scratch buffer of a [`Reading`]: the first `length` of it.
pub(crate) struct Chunk<'a, B> {
    pub(crate) buffer: &'a B,
    pub(crate) length: u64,
}

impl<B: Body> Reading<B> {
    /// Puts the next bytes into `into` at `at`; 0 at the end.
    pub(crate) async fn read(&mut self, into: &mut B::Buffer, at: Range<u64>) -> Result<u64> {
        let known = self.known.get(self.known_at..).unwrap_or_default();
        let count = if !known.is_empty() {
            let taken = known.get(..usize::try_from(at.end - at.start).unwrap_or(usize::MAX)).unwrap_or(known);
            into.write(at.start, taken)?;
            self.known_at += taken.len();
            taken.len() as u64
        } else if let Some(remote) = &mut self.remote {
            remote.read(into, at, &self.stats).await?
        } else {
            0
        };
        self.position += count;
        Ok(count)
    }

    /// The next bytes, at most `limit`, in a buffer that the next call overwrites; `None` at the end.
    pub(crate) async fn chunk(&mut self, limit: u64) -> Result<Option<Chunk<'_, B::Buffer>>> {
        let mut scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => B::Buffer::allocate(SCRATCH_BYTES)?,
        };
        let outcome = self.read(&mut scratch, 0..SCRATCH_BYTES.min(limit)).await;
        let buffer = &*self.scratch.insert(scratch);
        let length = outcome?;
        Ok((length > 0).then_some(Chunk { buffer, length }))
    }
}

#[derive(Debug)]
struct Remote<B> {
    body: B,
    position: u64,
    /// Whether the body is the whole file, from a server that ignored the range.
    whole: bool,
}

impl<B: Body> Remote<B> {
    async fn read(&mut self, into: &mut B::Buffer, at: Range<u64>, stats: &Stats) -> Result<u64> {
        let count = self.body.read(into, at).await?;
        self.position += count;
        stats.count_received(count);
        Ok(count)
    }
}

/// The error for a body that ended before it should.
pub(crate) fn cut(start: u64, end: u64, wanted_end: u64) -> Error {
    let what = format!("the transfer ended at byte {end}, before byte {wanted_end}");
    Error::new(ErrorKind::Truncated, what)
        .at(start..wanted_end)
        .advise("The connection was cut, or the file on the server is not whole: try again, then check the file.")
}

/// A round trip costs more than 64 KiB: reads at least so much, forward from the head, backward from the tail.
fn widen(needed: Range<u64>, window: &Window) -> Range<u64> {
    let end_of_file = window.file_length().unwrap_or(u64::MAX);
    if needed.end == end_of_file {
        return needed.start.min(needed.end.saturating_sub(FIRST_READ_BYTES))..needed.end;
    }
    let start = window.missing(&needed).start;
    needed.start..needed.end.max(start.saturating_add(FIRST_READ_BYTES)).min(end_of_file.max(needed.end))
}
