//! The typed key-value pairs of a GGUF head, as JSON: integers stay exact, floating-point numbers are those of the file.

use super::Head;
use crate::error::{Error, ErrorKind, malformed};
use crate::format::json::float;
use crate::index::Metadata;
use crate::window::Stop;
use serde_json::Value;

/// The largest vocabularies have some 1.5 million entries with all that belongs to them. Stops arrays of single
/// bytes, each of which would take the memory of a whole value.
pub(super) const MAX_VALUES: u64 = 4 << 20;

/// Arrays of arrays are in no file known. Stops nesting that would exhaust the stack.
const MAX_DEPTH: u32 = 4;

const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// Reads `count` pairs.
pub(super) fn parse(head: &mut Head, count: u64) -> Result<Metadata, Stop> {
    let least_bytes = head.count_bytes() + 4 + 1;
    head.cursor.ensure(count.saturating_mul(least_bytes))?;
    let mut values = Values { head, left: MAX_VALUES };
    let mut metadata = Metadata::new();
    for _ in 0..count {
        let start = values.head.cursor.position();
        let key = values.head.name()?;
        let kind = values.head.cursor.u32()?;
        let value = values.read(kind, MAX_DEPTH)?;
        if metadata.insert(key.to_owned(), value).is_some() {
            let error = malformed(format!("the metadata has the key \"{key}\" twice"));
            return Err(error.at(start..values.head.cursor.position()).into());
        }
    }
    Ok(metadata)
}

struct Values<'h, 'a> {
    head: &'h mut Head<'a>,
    /// How many more values may come.
    left: u64,
}

impl Values<'_, '_> {
    fn read(&mut self, kind: u32, depth: u32) -> Result<Value, Stop> {
        let cursor = &mut self.head.cursor;
        Ok(match kind {
            0 => cursor.u8()?.into(),
            1 => cursor.u8()?.cast_signed().into(),
            2 => cursor.u16()?.into(),
            3 => cursor.u16()?.cast_signed().into(),
            4 => cursor.u32()?.into(),
            5 => cursor.u32()?.cast_signed().into(),
            6 => float(f32::from_bits(cursor.u32()?).into()),
            7 => (cursor.u8()? != 0).into(),
            STRING => self.string()?,
            ARRAY => self.array(depth)?,
            10 => cursor.u64()?.into(),
            11 => cursor.u64()?.cast_signed().into(),
            12 => float(f64::from_bits(cursor.u64()?)),
            _ => return Err(unknown(kind, cursor.position()).into()),
        })
    }

    /// Vocabularies of some tools hold tokens that are no UTF-8: no reason to refuse the model.
    fn string(&mut self) -> Result<Value, Stop> {
        let length = self.head.count()?;
        let bytes = self.head.cursor.take(length)?;
        let text = String::from_utf8_lossy(bytes);
        if matches!(text, std::borrow::Cow::Owned(_)) && self.head.warnings.is_empty() {
            let warning = "strings of the metadata are not UTF-8: what is not was replaced by U+FFFD";
            self.head.warnings.push(warning.to_owned());
        }
        Ok(text.into())
    }

    fn array(&mut self, depth: u32) -> Result<Value, Stop> {
        let start = self.head.cursor.position();
        let kind = self.head.cursor.u32()?;
        let count = self.head.count()?;
        if depth == 0 {
            return Err(malformed("arrays are nested too deeply").at(start..self.head.cursor.position()).into());
        }
        let least_bytes = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            STRING => self.head.count_bytes(),
            ARRAY => 4 + self.head.count_bytes(),
            10..=12 => 8,
            _ => return Err(unknown(kind, start + 4).into()),
        };
        self.left = self.left.checked_sub(count).ok_or_else(|| {
            let what = format!("the metadata has more than the {MAX_VALUES} values that weightstream reads");
            Error::new(ErrorKind::Limit, what).at(start..self.head.cursor.position())
        })?;
        self.head.cursor.ensure(count.saturating_mul(least_bytes))?;
        let values = (0..count).map(|_| self.read(kind, depth - 1));
        values.collect()
    }
}

fn unknown(kind: u32, end: u64) -> Error {
    let what = format!("the metadata has a value of type {kind}, which GGUF does not have");
    malformed(what).at(end.saturating_sub(4)..end)
}
