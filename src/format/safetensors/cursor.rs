//! Reads JSON from bytes that may end before the text does. What tools write is read directly, which takes a third of
//! the time; other spellings of strings and numbers are left to serde_json.

use crate::error::{Error, malformed};
use crate::format::values::json;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// A position in the text.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The offset of the bytes in the file.
    start: u64,
}

/// Why a value was not read.
pub(super) enum Stop {
    /// The bytes end within the value, or before it.
    End,
    Invalid(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Invalid(error)
    }
}

impl Stop {
    /// Adds to the error what it is about.
    pub(super) fn about(self, add: impl FnOnce(Error) -> Error) -> Self {
        match self {
            Stop::End => Stop::End,
            Stop::Invalid(error) => Stop::Invalid(add(error)),
        }
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], start: u64) -> Self {
        Cursor { bytes, at: 0, start }
    }

    /// The number of bytes before the cursor.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Skips white space. Returns whether `byte` is next.
    pub(super) fn is_next(&mut self, byte: u8) -> Result<bool, Stop> {
        Ok(self.peek()? == byte)
    }

    /// Skips white space, and `byte` if it is next. Returns whether it was.
    pub(super) fn accept(&mut self, byte: u8) -> Result<bool, Stop> {
        let is_next = self.is_next(byte)?;
        self.at += usize::from(is_next);
        Ok(is_next)
    }

    /// Skips white space, and `byte`, which must be next.
    pub(super) fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        if self.accept(byte)? { Ok(()) } else { Err(self.invalid(&format!("expected `{}`", char::from(byte)))) }
    }

    /// Reads the members of an object or array between two brackets: calls `read` at each of them.
    pub(super) fn members(
        &mut self,
        [open, close]: [u8; 2],
        mut read: impl FnMut(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.expect(open)?;
        if self.accept(close)? {
            return Ok(());
        }
        loop {
            read(self)?;
            if !self.accept(b',')? {
                return self.expect(close);
            }
        }
    }

    /// Reads the key of an object, and the colon after it.
    pub(super) fn key(&mut self) -> Result<Cow<'a, str>, Stop> {
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, Stop> {
        if self.peek()? == b'"' {
            let text = self.bytes.get(self.at + 1..).unwrap_or_default();
            let length = text.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).ok_or(Stop::End)?;
            let (text, rest) = text.split_at(length);
            if rest.first() == Some(&b'"')
                && let Ok(text) = std::str::from_utf8(text)
            {
                self.at += length + 2;
                return Ok(text.into());
            }
        }
        self.other::<String>().map(Cow::Owned)
    }

    pub(super) fn unsigned(&mut self) -> Result<u64, Stop> {
        let begins_with_zero = self.peek()? == b'0';
        let mut digits = self.bytes.get(self.at..).unwrap_or_default().iter().enumerate();
        let mut number = Some(0u64);
        let (count, next) = loop {
            match digits.next() {
                Some((_, digit @ b'0'..=b'9')) => {
                    number = number.and_then(|number| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
                }
                Some((at, byte)) => break (at, *byte),
                None => return Err(Stop::End),
            }
        };
        match number {
            Some(number) if count > 0 && !(begins_with_zero && count > 1) && !matches!(next, b'.' | b'e' | b'E') => {
                self.at += count;
                Ok(number)
            }
            _ => self.other(),
        }
    }

    /// Skips a value of any kind.
    pub(super) fn skip(&mut self) -> Result<(), Stop> {
        let begin = self.at;
        self.other::<IgnoredAny>()?;
        let skipped = self.bytes.get(begin..self.at).unwrap_or_default();
        std::str::from_utf8(skipped).map(|_| ()).map_err(|_| self.invalid("it is not UTF-8"))
    }

    /// The error for text behind the last bracket; the end, if there is only white space.
    pub(super) fn trailing(&mut self) -> Stop {
        self.peek().map_or_else(|stop| stop, |_| self.invalid("there is text after its object"))
    }

    fn invalid(&self, what: &str) -> Stop {
        let at = self.offset();
        malformed(format!("the header is not valid JSON: {what}")).at(at..at + 1).into()
    }

    /// Reads a value with serde_json.
    fn other<T: Deserialize<'a>>(&mut self) -> Result<T, Stop> {
        let mut values =
            serde_json::Deserializer::from_slice(self.bytes.get(self.at..).unwrap_or_default()).into_iter();
        match values.next() {
            // A value at the end of the bytes may go on behind them.
            Some(Ok(value)) if self.at + values.byte_offset() < self.bytes.len() => {
                self.at += values.byte_offset();
                Ok(value)
            }
            Some(Err(error)) if !error.is_eof() => {
                let at = self.offset();
                let within = format!(" at line {} column {}", error.line(), error.column()); // of the value
                let error = json::invalid(error, at..at + 1, "the header");
                let what = error.what.strip_suffix(&within).unwrap_or(&error.what).to_owned();
                Err(Error { what, ..error }.into())
            }
            _ => Err(Stop::End),
        }
    }

    /// Skips white space. Returns the byte after it.
    fn peek(&mut self) -> Result<u8, Stop> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(Stop::End),
            }
        }
    }

    fn offset(&self) -> u64 {
        self.start + self.at as u64
    }
}
