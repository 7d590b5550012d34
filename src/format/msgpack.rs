//! MessagePack as formats use it: maps with text keys, read entry by entry, and values of any kind as JSON.

use super::json;
use crate::error::{Error, ErrorKind, Result, malformed};
use rmp::Marker;
use rmp::decode::{self, Bytes};
use serde_json::{Map, Value};

/// No metadata nest deeper; JSON has the same limit here. Stops nesting that would exhaust the stack.
const MAX_DEPTH: u32 = 128;

/// Stops values of single bytes, each of which would take the memory of a whole JSON value. Counted anew for each
/// value that is asked for.
const MAX_VALUES: u32 = 4 << 20;

/// Reads a MessagePack section of a file. Bytes after what is read are left alone: some tools fill up their sections.
pub(super) struct MessagePack<'a> {
    left: &'a [u8],
    /// Where the section ends in the file.
    end: u64,
    section: &'static str,
    values_left: u32,
}

impl<'a> MessagePack<'a> {
    /// Reads `bytes`, which begin at `start` in the file; errors call them `section`.
    pub(super) fn new(bytes: &'a [u8], start: u64, section: &'static str) -> Self {
        MessagePack { left: bytes, end: start + bytes.len() as u64, section, values_left: MAX_VALUES }
    }

    /// Reads a map. `each` gets a key, and must read its value.
    pub(super) fn entries(&mut self, mut each: impl FnMut(&str, &mut Self) -> Result<()>) -> Result<()> {
        for _ in 0..self.token("map", decode::read_map_len)? {
            let key = self.text()?;
            each(key, self)?;
        }
        Ok(())
    }

    /// Reads an array. `each` must read an item.
    #[cfg(feature = "aero")]
    pub(super) fn items(&mut self, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        for _ in 0..self.token("array", decode::read_array_len)? {
            each(self)?;
        }
        Ok(())
    }

    /// Reads text.
    pub(super) fn text(&mut self) -> Result<&'a str> {
        let position = self.position();
        std::str::from_utf8(self.string()?).map_err(|_| self.invalid("a text is not UTF-8", position))
    }

    /// Reads just so many bytes.
    #[cfg(feature = "aero")]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let position = self.position();
        let bytes = self.binary()?;
        bytes.try_into().map_err(|_| self.invalid(&format!("{} bytes stand where {N} should", bytes.len()), position))
    }

    /// Reads a value of any kind. What JSON cannot say becomes text: bytes in hexadecimal, also those of text that is not
    /// UTF-8; infinities and NaN by name. An extension becomes its number and its bytes. Keys that are no text become the
    /// text of their value.
    pub(super) fn value(&mut self) -> Result<Value> {
        self.values_left = MAX_VALUES;
        self.nested(MAX_DEPTH)
    }

    fn nested(&mut self, depth: u32) -> Result<Value> {
        let position = self.position();
        self.values_left = self.values_left.checked_sub(1).ok_or_else(|| {
            let what = format!("{} has a value of more than {MAX_VALUES} values", self.section);
            Error::new(ErrorKind::Limit, what).at(self.place(position))
        })?;
        let Some(marker) = self.left.first().map(|byte| Marker::from_u8(*byte)) else {
            return Err(self.invalid("a value is missing", position));
        };
        Ok(match marker {
            Marker::Null => self.token("null", decode::read_nil).map(|()| Value::Null)?,
            Marker::False | Marker::True => self.token("boolean", decode::read_bool)?.into(),
            Marker::FixPos(_) | Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => {
                self.token("integer", decode::read_int::<u64, _>)?.into()
            }
            Marker::FixNeg(_) | Marker::I8 | Marker::I16 | Marker::I32 | Marker::I64 => {
                self.token("integer", decode::read_int::<i64, _>)?.into()
            }
            Marker::F32 => json::float(self.token("number", decode::read_f32)?.into()),
            Marker::F64 => json::float(self.token("number", decode::read_f64)?),
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                let bytes = self.string()?;
                std::str::from_utf8(bytes).map_or_else(|_| hexadecimal(bytes), Value::from)
            }
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => hexadecimal(self.binary()?),
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => {
                let depth = self.deeper(depth, position)?;
                let mut items = Vec::new(); // grows with the items that are there, never by the count
                for _ in 0..self.token("array", decode::read_array_len)? {
                    items.push(self.nested(depth)?);
                }
                Value::Array(items)
            }
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => {
                let depth = self.deeper(depth, position)?;
                let mut map = Map::new();
                for _ in 0..self.token("map", decode::read_map_len)? {
                    let at = self.position();
                    let key = match self.nested(depth)? {
                        Value::String(text) => text,
                        other => other.to_string(),
                    };
                    if map.insert(key, self.nested(depth)?).is_some() {
                        return Err(self.invalid("a map has a key twice", at));
                    }
                }
                Value::Object(map)
            }
            Marker::Reserved => return Err(self.invalid("a value begins with the byte 0xc1", position)),
            _ => {
                let extension = self.token("extension", decode::read_ext_meta)?;
                let bytes = hexadecimal(self.take(extension.size)?);
                Value::Array(vec![extension.typeid.into(), bytes])
            }
        })
    }

    fn deeper(&self, depth: u32, position: u64) -> Result<u32> {
        depth.checked_sub(1).ok_or_else(|| self.invalid("it is nested too deeply", position))
    }

    fn string(&mut self) -> Result<&'a [u8]> {
        let length = self.token("text", decode::read_str_len)?;
        self.take(length)
    }

    fn binary(&mut self) -> Result<&'a [u8]> {
        let length = self.token("bytes", decode::read_bin_len)?;
        self.take(length)
    }

    fn take(&mut self, length: u32) -> Result<&'a [u8]> {
        let Some((taken, left)) = self.left.split_at_checked(length as usize) else {
            return Err(self.invalid(&format!("{length} bytes do not fit into it"), self.position()));
        };
        self.left = left;
        Ok(taken)
    }

    /// Reads a token: a scalar, or what is before the content of anything else.
    fn token<T, E>(&mut self, expected: &str, decode: impl FnOnce(&mut Bytes<'a>) -> Result<T, E>) -> Result<T> {
        let mut reader = Bytes::new(self.left);
        let position = self.position();
        let token = decode(&mut reader).map_err(|_| self.invalid(&format!("there is no {expected}"), position))?;
        self.left = reader.remaining_slice();
        Ok(token)
    }

    /// Of what is read next, in the file.
    fn position(&self) -> u64 {
        self.end - self.left.len() as u64
    }

    fn invalid(&self, why: &str, position: u64) -> Error {
        malformed(format!("{} is not the MessagePack that it should be: {why}", self.section)).at(self.place(position))
    }

    /// From a position to where the reader has come.
    fn place(&self, position: u64) -> std::ops::Range<u64> {
        position..self.position().max(position + 1)
    }
}

fn hexadecimal(bytes: &[u8]) -> Value {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn value(bytes: &[u8]) -> Result<Value> {
        MessagePack::new(bytes, 100, "it").value()
    }

    #[test]
    fn reads_values_of_every_kind() {
        let cases: &[(&[u8], Value)] = &[
            (b"\xc0", json!(null)),
            (b"\xc3", json!(true)),
            (b"\x7f", json!(127)),
            (b"\xe0", json!(-32)),
            (b"\xcd\x01\x2c", json!(300)),
            (b"\xd1\xff\x00", json!(-256)),
            (b"\xd2\x00\x00\x00\x05", json!(5)),
            (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", json!(u64::MAX)),
            (b"\xd3\x80\0\0\0\0\0\0\0", json!(i64::MIN)),
            (b"\xca\x47\xc3\x50\x00", json!(100_000.0)),
            (b"\xcb\x3f\xf1\x99\x99\x99\x99\x99\x9a", json!(1.1)),
            (b"\xca\x7f\xc0\x00\x00", json!("NaN")),
            (b"\xa2\xc3\xbc", json!("ü")),
            (b"\xd9\x02\xc3\xbc", json!("ü")),
            (b"\xa2\xff\xfe", json!("fffe")),
            (b"\xc4\x02\x01\xab", json!("01ab")),
            (b"\x92\x01\x91\x02", json!([1, [2]])),
            (b"\xdc\x00\x01\xc0", json!([null])),
            (b"\x82\xa1a\x01\x02\x90", json!({ "a": 1, "2": [] })),
            (b"\xd5\xfe\x01\x02", json!([-2, "0102"])),
            (b"\xc7\x03\x05\x01\x02\x03", json!([5, "010203"])),
            (b"\x07and what follows", json!(7)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(value(bytes).as_ref(), Ok(expected), "{bytes:x?}");
        }
    }

    #[test]
    fn numbers_keep_their_64_bits_and_maps_their_order() {
        let value = value(b"\x82\xa1z\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa1a\xd3\x80\0\0\0\0\0\0\0").unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), r#"{"z":18446744073709551615,"a":-9223372036854775808}"#);
    }

    #[test]
    fn errors_say_where_they_are() {
        let error = value(b"\x93\x01\xd9\x05a").unwrap_err();
        assert_eq!((error.kind, error.place.range), (ErrorKind::Format, Some(104..105)));
    }

    #[test]
    fn refuses_what_is_no_value() {
        for bytes in [&b""[..], b"\xc1", b"\x93\x01\x02", b"\x82\x01\x01\x01\x01", b"\x81\x01", b"\xcd\x01"] {
            assert_eq!(value(bytes).unwrap_err().kind, ErrorKind::Format, "{bytes:x?}");
        }
        assert!(MessagePack::new(b"\x93\x01\x02\x03", 0, "it").entries(|_, _| Ok(())).is_err());
        assert!(MessagePack::new(b"\xa1\xff", 0, "it").text().is_err());
    }

    #[test]
    fn forged_lengths_allocate_nothing() {
        for marker in [0xc6, 0xc9, 0xdb, 0xdd, 0xdf] {
            assert!(value(&[marker, 0xff, 0xff, 0xff, 0xff, 0xc0]).is_err());
        }
    }

    #[test]
    fn refuses_nesting_and_numbers_of_values_that_would_exhaust_the_memory() {
        for deep in [vec![0x91; 1 << 20], b"\x81\xa1a".repeat(1 << 20)] {
            assert!(value(&deep).unwrap_err().what.contains("nested"));
        }
        let many = [&b"\xdd\x7f\xff\xff\xff"[..], &vec![0xc0; MAX_VALUES as usize]].concat();
        assert_eq!(value(&many).unwrap_err().kind, ErrorKind::Limit);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            value(&[b"\x84\xa1a".as_slice(), &bytes].concat()).ok();
        }
    }
}
