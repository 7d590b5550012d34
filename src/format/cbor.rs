//! CBOR (RFC 8949) as formats use it: read value by value, as a parser knows what must come, with errors that name
//! the place. Nothing is allocated for a length that is only claimed.

use crate::error::{Error, ErrorKind, Result, malformed};
use minicbor::data::Type;
use minicbor::{Decoder, decode};
use serde_json::{Map, Value};

/// How deep values may be nested that are read whole. Stops a file of opening brackets that would use up the stack.
const MAX_DEPTH: u32 = 64;

/// A section of a file that is CBOR.
#[derive(Debug)]
pub(super) struct Cbor<'a> {
    decoder: Decoder<'a>,
    start: u64,
    section: &'static str,
}

impl<'a> Cbor<'a> {
    /// `bytes` begin at `start` in the file; errors call them `section`: "the manifest".
    pub(super) fn new(bytes: &'a [u8], start: u64, section: &'static str) -> Self {
        Cbor { decoder: Decoder::new(bytes), start, section }
    }

    /// Reads a map: `entry` gets each key and must read the value.
    pub(super) fn entries(&mut self, entry: &mut dyn FnMut(String, &mut Self) -> Result<()>) -> Result<()> {
        let count = self.decoder.map();
        let mut left = self.check(count)?;
        while self.goes_on(&mut left)? {
            let key = self.key()?;
            entry(key, self)?;
        }
        Ok(())
    }

    /// Reads an array: `item` is called for each item and must read it.
    pub(super) fn items(&mut self, item: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let count = self.decoder.array();
        let mut left = self.check(count)?;
        while self.goes_on(&mut left)? {
            item(self)?;
        }
        Ok(())
    }

    pub(super) fn text(&mut self) -> Result<String> {
        let text = self.decoder.str_iter().and_then(Iterator::collect);
        self.check(text)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        let number = self.decoder.u64();
        self.check(number)
    }

    pub(super) fn integers(&mut self) -> Result<Vec<u64>> {
        let mut integers = Vec::new();
        self.items(&mut |cbor| {
            integers.push(cbor.u64()?);
            Ok(())
        })?;
        Ok(integers)
    }

    /// What `read` gives, or nothing where there is null.
    pub(super) fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        let next = self.decoder.datatype();
        match self.check(next)? {
            Type::Null | Type::Undefined => self.skip().map(|()| None),
            _ => read(self).map(Some),
        }
    }

    pub(super) fn skip(&mut self) -> Result<()> {
        let skipped = self.decoder.skip();
        self.check(skipped)
    }

    /// Reads whatever there is as JSON: bytes become hexadecimal text, keys text; tags are dropped.
    pub(super) fn value(&mut self) -> Result<Value> {
        self.value_within(MAX_DEPTH)
    }

    /// Where the next value begins in the file.
    pub(super) fn position(&self) -> u64 {
        self.start + self.decoder.position() as u64
    }

    /// Checks that nothing follows.
    pub(super) fn finish(&self) -> Result<()> {
        let end = self.start + self.decoder.input().len() as u64;
        if self.position() < end {
            let what = format!("{} bytes of {} follow what it should hold", end - self.position(), self.section);
            return Err(malformed(what).at(self.position()..end));
        }
        Ok(())
    }

    /// An error about the value that was read last.
    pub(super) fn malformed(&self, what: impl Into<String>) -> Error {
        malformed(what).at(self.start..self.position())
    }

    fn value_within(&mut self, depth: u32) -> Result<Value> {
        let Some(depth) = depth.checked_sub(1) else {
            let what = format!("{} is nested deeper than {MAX_DEPTH} levels", self.section);
            return Err(Error::new(ErrorKind::Limit, what).at(self.position()..self.position() + 1));
        };
        let next = self.decoder.datatype();
        let next = self.check(next)?;
        let simple = match next {
            Type::Bool => self.decoder.bool().map(Value::from),
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => self.decoder.u64().map(Value::from),
            Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::Int => self.decoder.int().map(|number| {
                let number = i128::from(number);
                i64::try_from(number).map_or_else(|_| Value::from(number as f64), Value::from)
            }),
            Type::F16 => self.decoder.f16().map(Value::from),
            Type::F32 => self.decoder.f32().map(Value::from),
            Type::F64 => self.decoder.f64().map(Value::from),
            Type::Bytes | Type::BytesIndef => self.decoder.bytes_iter().and_then(|pieces| {
                let mut hex = String::new();
                for piece in pieces {
                    hex.extend(piece?.iter().map(|byte| format!("{byte:02x}")));
                }
                Ok(Value::from(hex))
            }),
            Type::String | Type::StringIndef => return self.text().map(Value::from),
            Type::Array | Type::ArrayIndef => {
                let mut values = Vec::new();
                self.items(&mut |cbor| {
                    values.push(cbor.value_within(depth)?);
                    Ok(())
                })?;
                return Ok(Value::from(values));
            }
            Type::Map | Type::MapIndef => {
                let mut map = Map::new();
                self.entries(&mut |key, cbor| {
                    map.insert(key, cbor.value_within(depth)?);
                    Ok(())
                })?;
                return Ok(Value::from(map));
            }
            Type::Tag => {
                let tag = self.decoder.tag();
                self.check(tag)?;
                return self.value_within(depth);
            }
            Type::Null | Type::Undefined | Type::Simple | Type::Break | Type::Unknown(_) => {
                self.decoder.skip().map(|()| Value::Null)
            }
        };
        self.check(simple)
    }

    fn key(&mut self) -> Result<String> {
        let next = self.decoder.datatype();
        match self.check(next)? {
            Type::String | Type::StringIndef => self.text(),
            _ => Ok(self.value_within(1)?.to_string()), // a number, for instance, but nothing nested
        }
    }

    /// Whether another item follows: by the count, or up to the break where there is none.
    fn goes_on(&mut self, left: &mut Option<u64>) -> Result<bool> {
        match left {
            Some(left) => {
                let goes_on = *left > 0;
                *left = left.saturating_sub(1);
                Ok(goes_on)
            }
            None => {
                let next = self.decoder.datatype();
                let is_break = self.check(next)? == Type::Break;
                if is_break {
                    self.skip()?;
                }
                Ok(!is_break)
            }
        }
    }

    fn check<T>(&self, outcome: Result<T, decode::Error>) -> Result<T> {
        outcome.map_err(|error| {
            let what = format!("{} is not the CBOR that it should be: {error}", self.section);
            malformed(what).at(self.position()..self.start + self.decoder.input().len() as u64)
        })
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    fn value(bytes: &[u8]) -> Result<Value> {
        let mut cbor = Cbor::new(bytes, 0, "the section");
        let value = cbor.value()?;
        cbor.finish()?;
        Ok(value)
    }

    /// From the examples of RFC 8949, appendix A.
    #[test]
    fn reads_whatever_there_is_as_json() {
        let examples: &[(&[u8], &str)] = &[
            (b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"),
            (b"\x38\x63", "-100"),
            (b"\xf9\x3e\x00", "1.5"),
            (b"\xf9\x7e\x00", "null"), // not a number, in JSON as in CBOR
            (b"\xc1\x1a\x51\x4b\x67\xb0", "1363896240"),
            (b"\x44\x01\x02\x03\x04", "\"01020304\""),
            (b"\x7f\x65strea\x64ming\xff", "\"streaming\""),
            (b"\x9f\x01\x82\x02\x03\x9f\x04\x05\xff\xff", "[1,[2,3],[4,5]]"),
            (b"\xbf\x63Fun\xf5\x63Amt\x21\xff", r#"{"Fun":true,"Amt":-2}"#),
            (b"\xa2\x01\x02\x03\xf6", r#"{"1":2,"3":null}"#),
        ];
        for (bytes, json) in examples {
            assert_eq!(value(bytes).unwrap().to_string(), *json);
        }
    }

    #[test]
    fn refuses_counts_without_items_and_endless_nesting() {
        for bytes in
            [&b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff"[..], b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff", b"\x9f", b""]
        {
            assert_eq!(value(bytes).unwrap_err().kind, ErrorKind::Format);
        }
        assert_eq!(value(&[0x81; 1 << 20]).unwrap_err().kind, ErrorKind::Limit);
        assert_eq!(value(&[0xc1; 1 << 20]).unwrap_err().kind, ErrorKind::Limit);
        assert_eq!(value(b"\x01\x01").unwrap_err().kind, ErrorKind::Format);
    }
}
