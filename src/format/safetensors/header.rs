//! Reads the JSON header into the index: at once, or in pieces while it arrives.

use super::cursor::{Cursor, Stop};
use super::entry::Entry;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Metadata, Tensors};
use crate::values::budget::Budget;
use crate::values::json;
use crate::window::Pieces;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::ops::Range;

/// The memory for all tensors is estimated when this many bytes are parsed.
const ESTIMATE_BYTES: u64 = 256 << 10;

/// The content of a header: `__metadata__`, and the tensors in the order of the header. Contains both tensors of a
/// duplicate name.
pub(super) struct Header {
    pub(super) metadata: Metadata,
    pub(super) tensors: Tensors,
    has_metadata: bool,
    /// The range of the file that contains the JSON.
    pub(super) place: Range<u64>,
    budget: Budget,
    /// The shape of the entry that was read last.
    shape: Vec<u64>,
    next: Next,
    /// The file offset of the first byte that is not parsed.
    position: u64,
    /// The bytes that arrived and are not parsed: the beginning of an entry.
    rest: Vec<u8>,
    /// The length at which `rest` is parsed again. Prevents a long entry that arrives in small pieces from being parsed
    /// with each of them.
    retry_length: usize,
    /// Whether memory is reserved for all tensors.
    is_reserved: bool,
}

/// What comes next in the header.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Object,
    FirstEntry,
    Entry,
    EntryOrEnd,
    WhiteSpace,
}

impl Header {
    pub(super) fn new(place: Range<u64>, budget: Budget) -> Self {
        Header {
            metadata: Metadata::new(),
            tensors: Tensors::default(),
            has_metadata: false,
            position: place.start,
            place,
            budget,
            shape: Vec::new(),
            next: Next::Object,
            rest: Vec::new(),
            retry_length: 0,
            is_reserved: false,
        }
    }

    /// Reads the whole header. Errors in the syntax are those of serde_json.
    pub(super) fn read(mut self, bytes: &[u8]) -> Result<Self> {
        let place = self.place.clone();
        let read = self.parse(bytes).and_then(|_| self.check_end());
        read.map_err(|error| match serde_json::from_slice::<IgnoredAny>(bytes) {
            Err(syntax) if error.kind == ErrorKind::Format => json::invalid(syntax, place, "the header"),
            _ => error,
        })
    }

    /// Reads the end of a header that arrived in pieces.
    pub(super) fn finish(mut self) -> Result<Self> {
        let rest = std::mem::take(&mut self.rest);
        self.parse(&rest)?;
        self.check_end()
    }

    fn check_end(self) -> Result<Self> {
        if self.next != Next::WhiteSpace {
            let what = "the header ends before its object does";
            return Err(malformed(what).at(self.position..self.place.end));
        }
        Ok(self)
    }

    /// Parses the entries that are complete. Returns the number of bytes that were parsed.
    fn parse(&mut self, bytes: &[u8]) -> Result<usize> {
        let begin = self.position;
        let mut cursor = Cursor::new(bytes, begin);
        loop {
            match self.step(&mut cursor) {
                Ok(next) => self.next = next,
                Err(Stop::End) => return Ok((self.position - begin) as usize),
                Err(Stop::Invalid(error)) => return Err(error),
            }
            self.position = begin + cursor.position() as u64;
        }
    }

    /// Parses what comes next, and returns what follows. Changes nothing if the bytes end before.
    fn step(&mut self, cursor: &mut Cursor<'_>) -> Result<Next, Stop> {
        Ok(match self.next {
            Next::Object => cursor.expect(b'{').map(|()| Next::FirstEntry)?,
            Next::FirstEntry if cursor.accept(b'}')? => Next::WhiteSpace,
            Next::FirstEntry | Next::Entry => self.entry(cursor).map(|()| Next::EntryOrEnd)?,
            Next::EntryOrEnd if cursor.accept(b',')? => Next::Entry,
            Next::EntryOrEnd => cursor.expect(b'}').map(|()| Next::WhiteSpace)?,
            Next::WhiteSpace => return Err(cursor.trailing()),
        })
    }

    fn entry(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let name = cursor.key()?;
        if name == "__metadata__" {
            return self.metadata(cursor);
        }
        let read = Entry::read(cursor, &mut self.shape, self.place.end);
        let Entry { dtype, range } = read.map_err(|stop| stop.about(|error| error.in_tensor(&name)))?;
        self.budget.tensor(&name, self.shape.len()).map_err(|error| error.at(self.place.clone()))?;
        self.tensors.push_raw(&name, dtype, &self.shape, range);
        Ok(())
    }

    /// Reads an object of strings, or null.
    fn metadata(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        if self.has_metadata {
            return Err(malformed("the header has \"__metadata__\" twice").at(self.place.clone()).into());
        }
        if cursor.is_next(b'n')? {
            cursor.skip()?;
            self.has_metadata = true;
            return Ok(());
        }
        let before = self.budget.mark();
        let mut strings = Metadata::new();
        let read = cursor.members(*b"{}", |cursor| {
            let (key, value) = (cursor.key()?.into_owned(), cursor.string()?.into_owned());
            self.budget.entry(strings.len(), key.len())?;
            self.budget.text(value.len() as u64)?;
            strings.insert(key, Value::String(value));
            Ok(())
        });
        if let Err(Stop::End) = read {
            self.budget.give_back(before);
        }
        read.map_err(|stop| stop.about(|error| Error { what: format!("\"__metadata__\": {}", error.what), ..error }))?;
        self.metadata = strings;
        self.has_metadata = true;
        Ok(())
    }
}

impl Pieces for Header {
    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.rest.extend_from_slice(bytes);
        if self.rest.len() < self.retry_length {
            return Ok(());
        }
        let mut rest = std::mem::take(&mut self.rest);
        let parsed = self.parse(&rest)?;
        rest.drain(..parsed);
        let (length, total) = (self.position - self.place.start, self.place.end - self.place.start);
        if !self.is_reserved && length >= ESTIMATE_BYTES {
            self.tensors.reserve_for_rest(length, total);
            self.is_reserved = true;
        }
        self.retry_length = rest.len() * 2;
        self.rest = rest;
        Ok(())
    }
}
