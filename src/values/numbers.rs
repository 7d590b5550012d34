//! The exact values of the numbers in a JSON document.
//!
//! serde_json rounds numbers of 16 and more digits by up to several units in the last place, unless its feature
//! `float_roundtrip` is enabled, which adds 10 kB of compressed code to the module for browsers. There, the texts of
//! such numbers are passed to JavaScript. The texts are found by stepping through the document beside serde_json: it
//! visits all numbers in the order of the text.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;

/// Numbers of at most this many characters have at most 15 digits: serde_json's values of them are exact, if they have
/// no exponent.
const EXACT_CHARS: usize = 16;

/// The maximum number of characters that are passed on. A longer number keeps the value of serde_json.
const MAX_CHARS: usize = 1024;

/// The number of bytes that are scanned at a time.
const SCAN_BYTES: usize = 4096;

/// The numbers of a document, in the order of its text.
#[derive(Debug, Default)]
pub(crate) struct Numbers<'a> {
    /// The bytes that were not scanned.
    rest: &'a [u8],
    place: Place,
    /// The text of a number whose end was not scanned.
    text: String,
    /// The numbers that were scanned: `None` for those whose value is exact anyway.
    found: VecDeque<Option<f64>>,
}

#[derive(Debug, Default, PartialEq)]
enum Place {
    #[default]
    Outside,
    String,
    /// After a backslash.
    Escape,
    Number,
}

impl<'a> Numbers<'a> {
    /// The numbers of a document in memory.
    pub(crate) fn of(document: &'a [u8]) -> Self {
        Numbers { rest: document, ..Numbers::default() }
    }

    /// Steps to the next number. Returns its exact value, if serde_json's may differ from it.
    pub(crate) fn next(&mut self) -> Option<f64> {
        while self.found.is_empty() && !self.rest.is_empty() {
            let (next, rest) = self.rest.split_at(self.rest.len().min(SCAN_BYTES));
            self.scan(next);
            self.rest = rest;
        }
        if self.found.is_empty() {
            self.scan(b" "); // ends a number at the end of the document
        }
        self.found.pop_front().flatten()
    }

    fn scan(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match (&self.place, byte) {
                (Place::Escape, _) => self.place = Place::String,
                (Place::String, b'\\') => self.place = Place::Escape,
                (Place::String, b'"') => self.place = Place::Outside,
                (Place::String, _) => {}
                (_, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E') if self.continues(byte) => {
                    self.place = Place::Number;
                    if self.text.len() < MAX_CHARS {
                        self.text.push(char::from(byte));
                    }
                }
                (place, _) => {
                    if *place == Place::Number {
                        self.found.push_back(exact(&self.text));
                        self.text.clear();
                    }
                    self.place = if byte == b'"' { Place::String } else { Place::Outside };
                }
            }
        }
    }

    /// Whether a number continues with the byte, or begins with it: `true` and `false` have an `e`.
    fn continues(&self, byte: u8) -> bool {
        self.place == Place::Number || byte == b'-' || byte.is_ascii_digit()
    }
}

/// The value of a number, if serde_json's may differ from it.
fn exact(text: &str) -> Option<f64> {
    let is_inexact = text.len() > EXACT_CHARS || text.contains(['e', 'E']);
    (is_inexact && text.len() < MAX_CHARS).then(|| value(text)).filter(|value| value.is_finite())
}

#[cfg(web)]
fn value(text: &str) -> f64 {
    js_sys::Number::parse_float(text)
}

#[cfg(native)]
fn value(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

/// A reader of a document, whose numbers it finds.
pub(crate) struct Scanned<'n, R> {
    pub(crate) document: R,
    pub(crate) numbers: &'n RefCell<Numbers<'static>>,
}

impl<R: io::Read> io::Read for Scanned<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.document.read(buffer)?;
        self.numbers.borrow_mut().scan(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn finds_the_numbers_between_strings() {
        let text = br#"{"1\"2":[-3.5,4e-7,true,"5\\",false,null,0.30000000000000004],"x":12345678901234567890,"y":-0}"#;
        let mut numbers = Numbers::of(text);
        let found: Vec<_> = (0..6).map(|_| numbers.next()).collect();
        let expected = [None, Some(4e-7), Some(0.30000000000000004), Some(12345678901234567890.0), None, None];
        assert_eq!(found, expected);
        assert_eq!(Numbers::of(b"0.10000000000000001").next(), Some(0.1), "the document is a number");
    }

    #[test]
    fn any_split_gives_the_same_numbers() {
        let text: String =
            (0..2000).map(|at| format!("\"{at}\\\"\", {}.1234567890123456e-{} ,", at, at % 300)).collect();
        let expected: Vec<f64> =
            (0..2000).map(|at| format!("{at}.1234567890123456e-{}", at % 300).parse().unwrap()).collect();
        let mut whole = Numbers::of(text.as_bytes());
        assert!(expected.iter().all(|value| whole.next() == Some(*value)));
        let mut pieces = Numbers::default();
        text.as_bytes().chunks(7).for_each(|piece| pieces.scan(piece));
        assert!(expected.iter().all(|value| pieces.next() == Some(*value)));
    }
}
