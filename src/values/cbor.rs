//! Reads CBOR (RFC 8949): maps with text keys, entry by entry, and values of any kind as JSON.

use super::budget::Budget;
use super::json;
use crate::error::{Error, Result, malformed};
use crate::window::Window;
use minicbor::data::{Token, Type};
use minicbor::decode::{self, Decoder};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;

/// The maximum nesting. Attributes written by tools have a few levels. Prevents stack exhaustion.
const MAX_DEPTH: u32 = 64;

/// Reads a CBOR section of a file.
pub(crate) struct Cbor<'a> {
    decoder: Decoder<'a>,
    start: u64,
    section: &'static str,
    pub(crate) budget: Budget,
}

impl<'a> Cbor<'a> {
    /// Reads `bytes`, which begin at `start` in the file. Error messages call them `section`.
    pub(crate) fn new(bytes: &'a [u8], start: u64, section: &'static str) -> Self {
        Cbor { decoder: Decoder::new(bytes), start, section, budget: Budget::new(bytes.len() as u64) }
    }

    /// Sets the budget for a file that may be compressed as a whole.
    pub(crate) fn in_file(self, window: &Window) -> Self {
        let length = self.decoder.input().len() as u64;
        Cbor { budget: Budget::of(window, length), ..self }
    }

    /// Reads a map. Calls `each` with every key; `each` must read the value.
    pub(crate) fn entries(&mut self, mut each: impl FnMut(&str, &mut Self) -> Result<()>) -> Result<()> {
        let mut left = self.decoded(Decoder::map)?;
        while self.has_more(&mut left)? {
            let key = self.text()?;
            each(&key, self)?;
        }
        Ok(())
    }

    /// Reads an array. Calls `each` for every item; `each` must read the item.
    pub(crate) fn items(&mut self, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let mut left = self.decoded(Decoder::array)?;
        while self.has_more(&mut left)? {
            each(self)?;
        }
        Ok(())
    }

    /// Calls `read`, and does not count the values that it reads and drops.
    pub(crate) fn transient<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = self.budget.mark();
        let outcome = read(self)?;
        self.budget.give_back(before);
        Ok(outcome)
    }

    /// Reads a value like [`Cbor::value`], for the next entry of an object that has `length` entries.
    pub(crate) fn entry_value(&mut self, length: usize, key: &str) -> Result<Value> {
        self.budget.entry(length, key.len())?;
        self.value()
    }

    /// Checks that all bytes have been read.
    pub(crate) fn finish(&self) -> Result<()> {
        let (position, end) = (self.decoder.position(), self.decoder.input().len());
        if position < end {
            Err(self.invalid(&format!("{} bytes follow it", end - position), position))
        } else {
            Ok(())
        }
    }

    /// Reads a value of any kind. Values that JSON cannot represent become text: bytes in hexadecimal, infinities and
    /// NaN by name, integers beyond 64 bits. Tags are dropped, and keys that are not text become the text of their
    /// value.
    pub(crate) fn value(&mut self) -> Result<Value> {
        self.nested(MAX_DEPTH)
    }

    fn nested(&mut self, depth: u32) -> Result<Value> {
        let position = self.decoder.position();
        self.budget.value().map_err(|e| e.at(self.place(position)))?;
        Ok(match self.kind()? {
            Type::String | Type::StringIndef => {
                let text = self.text()?;
                self.budget.text(text.len() as u64)?;
                text.into()
            }
            Type::Bytes | Type::BytesIndef => self.bytes()?.into(),
            Type::Array | Type::ArrayIndef => self.array_value(depth, position)?,
            Type::Map | Type::MapIndef => self.map_value(depth, position)?,
            Type::Tag => {
                let depth = self.deeper(depth, position)?;
                self.decoded(Decoder::tag)?;
                self.nested(depth)?
            }
            _ => self.scalar(position)?,
        })
    }

    fn array_value(&mut self, depth: u32, position: usize) -> Result<Value> {
        let depth = self.deeper(depth, position)?;
        let mut left = self.decoded(Decoder::array)?;
        let room = left.unwrap_or(0).min(self.left()); // each takes at least one byte
        self.budget.array(room).map_err(|e| e.at(self.place(position)))?;
        let mut items = Vec::with_capacity(room as usize);
        let grows = left.is_none();
        while self.has_more(&mut left)? {
            if grows {
                self.budget.item(items.len())?;
            }
            items.push(self.nested(depth)?);
        }
        if grows {
            self.budget.ended(&mut items);
        }
        Ok(Value::Array(items))
    }

    fn map_value(&mut self, depth: u32, position: usize) -> Result<Value> {
        let depth = self.deeper(depth, position)?;
        let mut left = self.decoded(Decoder::map)?;
        let mut map = Map::new();
        while self.has_more(&mut left)? {
            let at = self.decoder.position();
            let key = match self.nested(depth)? {
                Value::String(text) => text,
                Value::Array(_) | Value::Object(_) => return Err(self.invalid("a key is not a scalar", at)),
                scalar => scalar.to_string(),
            };
            self.budget.entry(map.len(), key.len()).map_err(|e| e.at(self.place(at)))?;
            let value = self.nested(depth)?;
            if map.insert(key, value).is_some() {
                return Err(self.invalid("a map has a duplicate key", at));
            }
        }
        Ok(Value::Object(map))
    }

    fn scalar(&mut self, position: usize) -> Result<Value> {
        Ok(match self.decoded(Decoder::decode::<Token>)? {
            Token::Bool(value) => value.into(),
            Token::U8(value) => value.into(),
            Token::U16(value) => value.into(),
            Token::U32(value) => value.into(),
            Token::U64(value) => value.into(),
            Token::I8(value) => value.into(),
            Token::I16(value) => value.into(),
            Token::I32(value) => value.into(),
            Token::I64(value) => value.into(),
            Token::Int(value) => {
                let value = i128::from(value);
                Number::from_i128(value).map_or_else(|| value.to_string().into(), Value::Number)
            }
            Token::F16(value) | Token::F32(value) => json::float(value.into()),
            Token::F64(value) => json::float(value),
            Token::Simple(value) => value.into(),
            Token::Null | Token::Undefined => Value::Null,
            other => return Err(self.invalid(&format!("expected a value, found {other}"), position)),
        })
    }

    fn deeper(&self, depth: u32, position: usize) -> Result<u32> {
        depth.checked_sub(1).ok_or_else(|| self.invalid("it is nested too deeply", position))
    }

    fn kind(&mut self) -> Result<Type> {
        self.decoded(|decoder| decoder.datatype())
    }

    fn text(&mut self) -> Result<Cow<'a, str>> {
        if self.kind()? == Type::String {
            return self.decoded(Decoder::str).map(Cow::Borrowed);
        }
        self.decoded(|decoder| decoder.str_iter()?.collect::<Result<String, _>>()).map(Cow::Owned)
    }

    fn bytes(&mut self) -> Result<String> {
        let mut text = String::new();
        let position = self.decoder.position();
        let Cbor { decoder, budget, .. } = self;
        let mut read = || {
            for piece in decoder.bytes_iter()? {
                let piece = piece?;
                if budget.text(piece.len() as u64 * 2).is_err() {
                    return Ok(());
                }
                text.push_str(&json::hexadecimal(piece));
            }
            Ok::<_, decode::Error>(())
        };
        let outcome = read();
        if let Some(refusal) = self.budget.refusal() {
            return Err(refusal.at(self.place(position)));
        }
        outcome.map(|()| text).map_err(|error| self.invalid(&error.to_string(), position).with_cause(error))
    }

    /// Returns the number of remaining bytes.
    fn left(&self) -> u64 {
        self.decoder.input().len().saturating_sub(self.decoder.position()) as u64
    }

    /// Whether another item of an array or map follows. `left` counts its items; `None` for indefinite lengths.
    fn has_more(&mut self, left: &mut Option<u64>) -> Result<bool> {
        match left {
            Some(0) => Ok(false),
            Some(left) => {
                *left -= 1;
                Ok(true)
            }
            None if self.kind()? == Type::Break => {
                self.decoder.set_position(self.decoder.position() + 1);
                Ok(false)
            }
            None => Ok(true),
        }
    }

    fn decoded<T>(&mut self, decode: impl FnOnce(&mut Decoder<'a>) -> Result<T, decode::Error>) -> Result<T> {
        let position = self.decoder.position();
        decode(&mut self.decoder).map_err(|error| self.invalid(&error.to_string(), position).with_cause(error))
    }

    fn invalid(&self, why: &str, position: usize) -> Error {
        malformed(format!("{} is not valid CBOR: {why}", self.section)).at(self.place(position))
    }

    /// Returns the file range from a position in the section to the decoder's position.
    fn place(&self, position: usize) -> std::ops::Range<u64> {
        let end = self.decoder.position().max(position + 1);
        self.start + position as u64..self.start + end as u64
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use serde_json::json;

    fn value(bytes: &[u8]) -> Result<Value> {
        Cbor::new(bytes, 100, "it").value()
    }

    /// Most of the encodings are examples of RFC 8949, appendix A.
    #[test]
    fn reads_values_of_every_kind() {
        let cases: &[(&[u8], Value)] = &[
            (b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff", json!(u64::MAX)),
            (b"\x39\x03\xe7", json!(-1000)),
            (b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff", json!("-18446744073709551616")),
            (b"\xf9\x3c\x00", json!(1.0)),
            (b"\xfa\x47\xc3\x50\x00", json!(100_000.0)),
            (b"\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a", json!(1.1)),
            (b"\xf9\x7e\x00", json!("NaN")),
            (b"\xf9\xfc\x00", json!("-inf")),
            (b"\xf5", json!(true)),
            (b"\xf6", json!(null)),
            (b"\xf0", json!(16)),
            (b"\x44\x01\x02\x03\x04", json!("01020304")),
            (b"\x5f\x42\x01\x02\x43\x03\x04\x05\xff", json!("0102030405")),
            (b"\x62\xc3\xbc", json!("ü")),
            (b"\x7f\x65strea\x64ming\xff", json!("streaming")),
            (b"\x83\x01\x82\x02\x03\x82\x04\x05", json!([1, [2, 3], [4, 5]])),
            (b"\x9f\x01\x82\x02\x03\x9f\x04\x05\xff\xff", json!([1, [2, 3], [4, 5]])),
            (b"\xa2\x61a\x01\x02\x80", json!({ "a": 1, "2": [] })),
            (b"\xbf\x61a\x01\xff", json!({ "a": 1 })),
            (b"\xc1\x1a\x51\x4b\x67\xb0", json!(1_363_896_240)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(value(bytes).as_ref(), Ok(expected), "{bytes:x?}");
        }
    }

    #[test]
    fn errors_have_a_position() {
        let error = value(b"\x83\x01\x02").unwrap_err();
        assert_eq!((error.kind, error.context.range), (ErrorKind::Format, Some(103..104)));
    }

    #[test]
    fn rejects_invalid_values() {
        for bytes in [&b""[..], b"\xff", b"\x1c", b"\xa1\x80\x01", b"\xa2\x01\x01\x01\x01", b"\x61\xff", b"\x9f\x01"] {
            assert_eq!(value(bytes).unwrap_err().kind, ErrorKind::Format, "{bytes:x?}");
        }
    }

    #[test]
    fn invalid_lengths_do_not_allocate() {
        for major in [0x5b, 0x7b, 0x9b, 0xbb] {
            assert!(value(&[major, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).is_err());
        }
    }

    #[test]
    fn rejects_nesting_that_would_exhaust_the_stack() {
        for deep in [vec![0x81; 1 << 20], vec![0xc1; 1 << 20], [0xa1, 0x01].repeat(1 << 20)] {
            assert!(value(&deep).unwrap_err().what.contains("nested"));
        }
    }
}
