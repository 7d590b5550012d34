//! Walks the fields of Protobuf messages in a file, without the bytes of the fields that are stepped over.

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::window::{Stop, Window};
use prost::DecodeError;
use prost::encoding::{WireType, decode_key, decode_varint};
#[cfg(writes)]
use prost::encoding::{encode_key, encode_varint};
use std::ops::Range;

/// The maximum length of a field's key and of the varint after it.
const MAX_HEAD_BYTES: u64 = 20;

/// Maximum length of a name. Real names have at most some hundred bytes. Prevents a length in a damaged file from
/// making the reader fetch weights as a name.
pub(super) const MAX_NAME_BYTES: u64 = 64 << 10;

/// A message that is read field by field.
pub(super) struct Message<'w, 'f> {
    window: &'w Window<'f>,
    at: u64,
    end: u64,
    is_whole_file: bool,
}

/// A field of a message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) value: Value,
    /// The range of the whole field in the file, with its key.
    pub(super) range: Range<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Varint(u64),
    /// A number of 4 or 8 bytes.
    Fixed,
    /// The range of a message, a text, bytes, or packed numbers.
    Bytes(Range<u64>),
}

impl Field {
    /// The value of a varint field.
    pub(super) fn number(&self) -> Result<u64> {
        match self.value {
            Value::Varint(value) => Ok(value),
            _ => Err(self.wrong_type("a number")),
        }
    }

    /// The range of the bytes of a message or text.
    pub(super) fn bytes(&self) -> Result<Range<u64>> {
        match &self.value {
            Value::Bytes(range) => Ok(range.clone()),
            _ => Err(self.wrong_type("a message or text")),
        }
    }

    fn wrong_type(&self, expected: &str) -> Error {
        malformed(format!("field {} of a Protobuf message is not {expected}", self.number)).at(self.range.clone())
    }
}

impl<'w, 'f> Message<'w, 'f> {
    /// The fields in `range`, which ends with the file.
    pub(super) fn whole_file(window: &'w Window<'f>, range: Range<u64>) -> Self {
        Message { is_whole_file: true, ..Message::new(window, range) }
    }

    pub(super) fn new(window: &'w Window<'f>, range: Range<u64>) -> Self {
        Message { window, at: range.start, end: range.end, is_whole_file: false }
    }

    /// Returns the next field; `None` at the end.
    ///
    /// # Errors
    /// `TRUNCATED` if a field of the file ends after it; `FORMAT` for invalid Protobuf.
    pub(super) fn next(&mut self) -> Result<Option<Field>, Stop> {
        if self.at >= self.end {
            return Ok(None);
        }
        let start = self.at;
        let head = self.window.get(start..self.end.min(start.saturating_add(MAX_HEAD_BYTES)))?;
        let mut rest = head;
        let invalid = |error: DecodeError| malformed(format!("this is not Protobuf: {error}")).at(start..start + 1);
        let (number, wire_type) = decode_key(&mut rest).map_err(invalid)?;
        let mut length = match wire_type {
            WireType::Varint | WireType::LengthDelimited => None,
            WireType::SixtyFourBit => Some(8),
            WireType::ThirtyTwoBit => Some(4),
            WireType::StartGroup | WireType::EndGroup => {
                return Err(malformed("this is not Protobuf of ONNX: it has a group").at(start..start + 1).into());
            }
        };
        let varint = if length.is_none() { decode_varint(&mut rest).map_err(invalid)? } else { 0 };
        if wire_type == WireType::LengthDelimited {
            length = Some(varint);
        }
        let value_start = start + (head.len() - rest.len()) as u64;
        let end = value_start.checked_add(length.unwrap_or(0)).filter(|end| *end <= self.end);
        let Some(end) = end else {
            return Err(self.too_long(number, value_start, length.unwrap_or(0)).into());
        };
        let value = match wire_type {
            WireType::Varint => Value::Varint(varint),
            WireType::LengthDelimited => Value::Bytes(value_start..end),
            _ => Value::Fixed,
        };
        self.at = end;
        Ok(Some(Field { number, value, range: start..end }))
    }

    fn too_long(&self, number: u32, start: u64, length: u64) -> Error {
        let end = self.end;
        let (kind, whole) = match self.is_whole_file {
            true => (ErrorKind::Truncated, "the file"),
            false => (ErrorKind::Format, "its message"),
        };
        let what = format!("field {number} has {length} bytes from byte {start} on, but {whole} ends at byte {end}");
        Error::new(kind, what).at(start..end)
    }
}

/// Reads a name.
///
/// # Errors
/// `LIMIT` for more than [`MAX_NAME_BYTES`]; `FORMAT` if it is not UTF-8.
pub(super) fn name<'w>(window: &'w Window, field: &Field) -> Result<&'w str, Stop> {
    text(window, field, MAX_NAME_BYTES)
}

/// Reads a text of at most `limit` bytes.
///
/// # Errors
/// As for [`name`].
pub(super) fn text<'w>(window: &'w Window, field: &Field, limit: u64) -> Result<&'w str, Stop> {
    let range = field.bytes()?;
    if range.end - range.start > limit {
        let what = format!("a text has {} bytes; the limit is {limit}", range.end - range.start);
        return Err(Error::new(ErrorKind::Limit, what).at(range).into());
    }
    let bytes = window.get(range.clone())?;
    std::str::from_utf8(bytes).map_err(|_| malformed("a text is not UTF-8").at(range).into())
}

/// Writes a field with a number.
#[cfg(writes)]
pub(super) fn put_varint(out: &mut Vec<u8>, number: u32, value: u64) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value, out);
}

/// Writes a field with a message, a text or bytes.
#[cfg(writes)]
pub(super) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
