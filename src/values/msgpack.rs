//! Reads MessagePack: maps with text keys, entry by entry, and values of any kind as JSON.

use super::budget::Budget;
use super::input::Input;
use super::json;
use crate::error::{Error, Result, malformed};
use rmp::Marker;
use rmp::decode::{self, Bytes};
use serde_json::{Map, Value};
use std::ops::Range;

/// The maximum nesting, the same as for JSON. Prevents stack exhaustion.
const MAX_DEPTH: u32 = 128;

/// The maximum size of a token: a marker and eight bytes.
const MAX_TOKEN_BYTES: usize = 9;

/// Reads a MessagePack section of a file. Bytes after the value are ignored, because some tools pad their sections.
pub(crate) struct MessagePack<'a, 'b> {
    input: &'b mut Input<'a>,
    /// The file range of the section.
    place: Range<u64>,
    section: &'static str,
    pub(crate) budget: &'b mut Budget,
}

impl<'a, 'b> MessagePack<'a, 'b> {
    /// Reads a section at `place` in the file. Error messages call it `section`.
    pub(crate) fn new(
        input: &'b mut Input<'a>,
        place: Range<u64>,
        section: &'static str,
        budget: &'b mut Budget,
    ) -> Self {
        MessagePack { input, place, section, budget }
    }

    /// Reads a map. Calls `each` with every key; `each` must read the value.
    pub(crate) fn entries(&mut self, mut each: impl FnMut(&str, &mut Self) -> Result<()>) -> Result<()> {
        for _ in 0..self.token("map", |it| decode::read_map_len(it).ok())? {
            let key = self.text()?;
            each(&key, self)?;
        }
        Ok(())
    }

    /// Reads an array. Calls `each` for every item; `each` must read the item.
    pub(crate) fn items(&mut self, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        for _ in 0..self.token("array", |it| decode::read_array_len(it).ok())? {
            each(self)?;
        }
        Ok(())
    }

    /// Reads text.
    pub(crate) fn text(&mut self) -> Result<String> {
        let position = self.position();
        let length = self.token("text", |it| decode::read_str_len(it).ok())?;
        let text = self.take(length, |bytes| std::str::from_utf8(bytes).map(str::to_owned))?;
        text.map_err(|_| self.invalid("a text is not UTF-8", position))
    }

    /// Reads exactly `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let position = self.position();
        let length = self.token("bytes", |it| decode::read_bin_len(it).ok())?;
        let bytes = self.take(length, |bytes| bytes.try_into().ok())?;
        bytes.ok_or_else(|| self.invalid(&format!("expected {N} bytes, found {length}"), position))
    }

    /// Skips a value.
    pub(crate) fn skip(&mut self) -> Result<()> {
        let before = self.budget.mark();
        self.value()?;
        self.budget.give_back(before);
        Ok(())
    }

    /// Reads a value of any kind. Values that JSON cannot represent become text: bytes in hexadecimal, also those of
    /// text that is not UTF-8; infinities and NaN by name. An extension becomes an array of its type and its bytes.
    /// Keys that are not text become the text of their value.
    pub(crate) fn value(&mut self) -> Result<Value> {
        self.nested(MAX_DEPTH)
    }

    fn nested(&mut self, depth: u32) -> Result<Value> {
        let position = self.position();
        self.budget.value().map_err(|e| e.at(self.place_from(position)))?;
        let Some(marker) = self.input.peek(1)?.first().map(|byte| Marker::from_u8(*byte)) else {
            return Err(self.invalid("a value is missing", position));
        };
        Ok(match marker {
            Marker::Null => self.token("null", |it| decode::read_nil(it).ok()).map(|()| Value::Null)?,
            Marker::False | Marker::True => self.token("boolean", |it| decode::read_bool(it).ok())?.into(),
            Marker::FixPos(_) | Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => {
                self.token("integer", |it| decode::read_int::<u64, _>(it).ok())?.into()
            }
            Marker::FixNeg(_) | Marker::I8 | Marker::I16 | Marker::I32 | Marker::I64 => {
                self.token("integer", |it| decode::read_int::<i64, _>(it).ok())?.into()
            }
            Marker::F32 => json::float(self.token("number", |it| decode::read_f32(it).ok())?.into()),
            Marker::F64 => json::float(self.token("number", |it| decode::read_f64(it).ok())?),
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                let length = self.token("text", |it| decode::read_str_len(it).ok())?;
                self.budget.text(length.into())?;
                self.take(length, |bytes| std::str::from_utf8(bytes).map_or_else(|_| hexadecimal(bytes), Value::from))?
            }
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                let length = self.token("bytes", |it| decode::read_bin_len(it).ok())?;
                self.bytes(length)?
            }
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => self.array_value(depth, position)?,
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => self.map_value(depth, position)?,
            Marker::Reserved => return Err(self.invalid("a value begins with the byte 0xc1", position)),
            _ => {
                let extension = self.token("extension", |it| decode::read_ext_meta(it).ok())?;
                self.budget.array(2)?;
                Value::Array(vec![extension.typeid.into(), self.bytes(extension.size)?])
            }
        })
    }

    fn array_value(&mut self, depth: u32, position: u64) -> Result<Value> {
        let depth = self.deeper(depth, position)?;
        let count = self.token("array", |it| decode::read_array_len(it).ok())?;
        if u64::from(count) > self.input.left() {
            return Err(self.invalid(&format!("{count} items do not fit into it"), position));
        }
        self.budget.array(count.into()).map_err(|e| e.at(self.place_from(position)))?;
        let mut items = Vec::with_capacity(count as usize);
        for _ in 0..count {
            items.push(self.nested(depth)?);
        }
        Ok(Value::Array(items))
    }

    fn map_value(&mut self, depth: u32, position: u64) -> Result<Value> {
        let depth = self.deeper(depth, position)?;
        let mut map = Map::new();
        for _ in 0..self.token("map", |it| decode::read_map_len(it).ok())? {
            let at = self.position();
            let key = match self.nested(depth)? {
                Value::String(text) => text,
                other => other.to_string(),
            };
            self.budget.entry(map.len(), key.len()).map_err(|e| e.at(self.place_from(at)))?;
            if map.insert(key, self.nested(depth)?).is_some() {
                return Err(self.invalid("a map has a duplicate key", at));
            }
        }
        Ok(Value::Object(map))
    }

    fn deeper(&self, depth: u32, position: u64) -> Result<u32> {
        depth.checked_sub(1).ok_or_else(|| self.invalid("it is nested too deeply", position))
    }

    fn bytes(&mut self, length: u32) -> Result<Value> {
        self.budget.text(u64::from(length) * 2)?;
        self.take(length, hexadecimal)
    }

    /// Consumes the next bytes, and returns the result of `read`.
    fn take<T>(&mut self, length: u32, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let position = self.position();
        if u64::from(length) > self.input.left() {
            return Err(self.invalid(&format!("{length} bytes do not fit into it"), position));
        }
        // Compressed input first collects the bytes in a buffer whose capacity doubles.
        self.budget.bytes(0, u64::from(length) * 3).map_err(|e| e.at(self.place_from(position)))?;
        let bytes = self.input.peek(length as usize)?;
        if bytes.len() < length as usize {
            return Err(self.invalid(&format!("{length} bytes do not fit into it"), position));
        }
        let parsed = read(bytes);
        self.input.consume(length as usize);
        Ok(parsed)
    }

    /// Reads a token: a scalar, or the head of a string, array, map or extension.
    fn token<T>(&mut self, expected: &str, decode: impl FnOnce(&mut Bytes<'_>) -> Option<T>) -> Result<T> {
        let position = self.position();
        let head = self.input.peek(MAX_TOKEN_BYTES)?;
        let mut reader = Bytes::new(head);
        let token = decode(&mut reader);
        let length = head.len() - reader.remaining_slice().len();
        let token = token.ok_or_else(|| self.invalid(&format!("expected {expected}"), position))?;
        self.input.consume(length);
        Ok(token)
    }

    /// Returns the file offset of the next byte; in compressed bytes, the start of the section.
    fn position(&self) -> u64 {
        match &*self.input {
            Input::Stored(left) => self.place.end - left.len() as u64,
            #[cfg(feature = "zstd")]
            Input::Packed(_) => self.place.start,
        }
    }

    fn invalid(&self, why: &str, position: u64) -> Error {
        let error = malformed(format!("{} is not valid MessagePack: {why}", self.section));
        error.at(self.place_from(position))
    }

    /// Returns the file range from a position to the current one; in compressed bytes, the whole section.
    fn place_from(&self, position: u64) -> Range<u64> {
        match &*self.input {
            Input::Stored(_) => position..self.position().max(position + 1),
            #[cfg(feature = "zstd")]
            Input::Packed(_) => self.place.clone(),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> Value {
    json::hexadecimal(bytes).into()
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use proptest::prelude::*;
    use serde_json::json;

    fn read<T>(bytes: &[u8], read: impl FnOnce(MessagePack<'_, '_>) -> Result<T>) -> Result<T> {
        let (mut input, mut budget) = (Input::Stored(bytes), Budget::new(bytes.len() as u64));
        read(MessagePack::new(&mut input, 100..100 + bytes.len() as u64, "it", &mut budget))
    }

    fn value(bytes: &[u8]) -> Result<Value> {
        read(bytes, |mut it| it.value())
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
    fn errors_have_a_position() {
        let error = value(b"\x93\x01\xd9\x05a").unwrap_err();
        assert_eq!((error.kind, error.context.range), (ErrorKind::Format, Some(104..105)));
    }

    #[test]
    fn rejects_invalid_values() {
        for bytes in [&b""[..], b"\xc1", b"\x93\x01\x02", b"\x82\x01\x01\x01\x01", b"\x81\x01", b"\xcd\x01"] {
            assert_eq!(value(bytes).unwrap_err().kind, ErrorKind::Format, "{bytes:x?}");
        }
        assert!(read(b"\x93\x01\x02\x03", |mut it| it.entries(|_, _| Ok(()))).is_err());
        assert!(read(b"\xa1\xff", |mut it| it.text()).is_err());
    }

    #[test]
    fn invalid_lengths_do_not_allocate() {
        for marker in [0xc6, 0xc9, 0xdb, 0xdd, 0xdf] {
            assert!(value(&[marker, 0xff, 0xff, 0xff, 0xff, 0xc0]).is_err());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn rejects_nesting_and_counts_that_would_exhaust_memory() {
        for deep in [vec![0x91; 1 << 20], b"\x81\xa1a".repeat(1 << 20)] {
            assert!(value(&deep).unwrap_err().what.contains("nested"));
        }
        let many = |count: u32| [&[0xdd][..], &count.to_be_bytes(), &vec![0xc0; 4 << 20]].concat();
        assert_eq!(value(&many(4 << 20)).unwrap_err().kind, ErrorKind::Limit);
        assert_eq!(value(&many(u32::MAX)).unwrap_err().kind, ErrorKind::Format);
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn compressed_bytes_are_decoded_incrementally() {
        use std::io::Write;
        let expected = json!({ "a": vec!["x".repeat(1000); 1000], "b": [null, "é".repeat(100_000)] });
        let bytes = rmp_serde::to_vec_named(&expected).unwrap();
        let mut encoder = structured_zstd::encoding::StreamingEncoder::new(
            Vec::new(),
            structured_zstd::encoding::CompressionLevel::Default,
        );
        encoder.write_all(&bytes).unwrap();
        let stored = encoder.finish().unwrap();
        let mut budget = Budget::new(stored.len() as u64);
        let mut input = Input::packed(&stored, bytes.len() as u64, None);
        let value = MessagePack::new(&mut input, 0..stored.len() as u64, "it", &mut budget).value();
        assert_eq!((value, input.finish()), (Ok(expected), Ok(())));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            value(&[b"\x84\xa1a".as_slice(), &bytes].concat()).ok();
        }
    }
}
