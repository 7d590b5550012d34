//! Reads JSON from bytes that may end before the text does. Reads what entries of tensors consist of directly, which
//! takes a third of the time; serde_json decodes escaped strings and skips unknown values.

use crate::error::{Error, malformed};
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
        let text = self.rest();
        let space = text.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\t' | b'\r')).ok_or(Stop::End)?;
        self.at += space;
        Ok(text.get(space) == Some(&byte))
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

    /// Reads the key of a member, and the colon after it.
    pub(super) fn key(&mut self) -> Result<Cow<'a, str>, Stop> {
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, Stop> {
        self.expect(b'"')?;
        let (mut length, mut is_escaped) = (0, false);
        loop {
            let text = self.rest().get(length..).unwrap_or_default();
            length += text.iter().position(|byte| matches!(byte, b'"' | b'\\')).ok_or(Stop::End)?;
            if self.rest().get(length) == Some(&b'"') {
                break;
            }
            (length, is_escaped) = (length + 2, true);
        }
        let text = if is_escaped {
            let quoted = self.bytes.get(self.at - 1..=self.at + length).unwrap_or_default();
            serde_json::from_slice(quoted).ok().map(Cow::Owned)
        } else {
            let bytes = self.rest().get(..length).unwrap_or_default();
            let text = std::str::from_utf8(bytes).ok().map(Cow::Borrowed);
            text.filter(|_| bytes.iter().all(|byte| *byte >= b' '))
        };
        let text = text.ok_or_else(|| self.invalid("the string is invalid"))?;
        self.at += length + 1;
        Ok(text)
    }

    pub(super) fn unsigned(&mut self) -> Result<u64, Stop> {
        let begins_with_zero = self.is_next(b'0')?;
        let text = self.rest();
        let (digits, next) = text.split_at(text.iter().position(|byte| !byte.is_ascii_digit()).ok_or(Stop::End)?);
        let is_float = matches!(next.first(), Some(b'.' | b'e' | b'E'));
        let is_integer = !is_float && !digits.is_empty() && (digits.len() == 1 || !begins_with_zero);
        let add = |number: u64, digit: &u8| number.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        match digits.iter().try_fold(0, add) {
            Some(number) if is_integer => {
                self.at += digits.len();
                Ok(number)
            }
            _ => Err(self.invalid("expected an integer from 0 to 2^64 - 1")),
        }
    }

    /// Skips a value of any kind.
    pub(super) fn skip(&mut self) -> Result<(), Stop> {
        let mut values = serde_json::Deserializer::from_slice(self.rest()).into_iter::<IgnoredAny>();
        match (values.next(), values.byte_offset()) {
            // A number at the end of the bytes may go on behind them.
            (Some(Ok(_)), length) if length < self.rest().len() => {
                let is_text = std::str::from_utf8(self.rest().get(..length).unwrap_or_default()).is_ok();
                self.at += length;
                if is_text { Ok(()) } else { Err(self.invalid("the value before is not UTF-8")) }
            }
            (Some(Err(error)), _) if !error.is_eof() => Err(self.invalid("the value is invalid")),
            _ => Err(Stop::End),
        }
    }

    /// The error for text behind the last bracket; the end, if there is only white space.
    pub(super) fn trailing(&mut self) -> Stop {
        self.is_next(0).map_or_else(|stop| stop, |_| self.invalid("expected the end"))
    }

    /// An error at the cursor.
    fn invalid(&self, what: &str) -> Stop {
        let at = self.start + self.at as u64;
        malformed(format!("the header is not what the format requires: {what}")).at(at..at + 1).into()
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}
