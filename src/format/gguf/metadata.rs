//! Converts the typed key-value pairs of a GGUF head to JSON. Integers and floating-point numbers keep their exact
//! values.

use super::head::Head;
use crate::error::{Error, ErrorKind, malformed};
use crate::index::{LongArray, Metadata, Strings};
use crate::values::budget::{Budget, max_values};
use crate::values::json::{self, float};
use crate::window::{Stop, Window};
use serde_json::Value;

/// The maximum nesting of arrays. No known file contains nested arrays. Prevents stack exhaustion.
const MAX_DEPTH: u32 = 4;

/// Arrays with fewer items are converted to JSON immediately.
const MIN_LONG_ARRAY_ITEMS: u64 = 1024;

pub(super) const STRING: u32 = 8;
pub(super) const ARRAY: u32 = 9;

type LongArrays = Vec<(String, LongArray)>;

/// Reads `count` pairs.
///
/// A first pass skips and validates all pairs. The parser restarts each time more bytes of a vocabulary have arrived,
/// and creating the values takes ten times as long as skipping them.
///
/// Also returns the memory budget, which the tensors share.
pub(super) fn parse(head: &mut Head, window: &Window, count: u64) -> Result<(Metadata, LongArrays, Budget), Stop> {
    let mut ahead = Head { cursor: head.cursor.clone(), warnings: Vec::new(), ..*head };
    Pass { head: &mut ahead, values: 0 }.pairs(count)?;
    let mut budget = Budget::of(window, ahead.cursor.position());
    let (mut metadata, mut long_arrays) = (Metadata::new(), LongArrays::new());
    for _ in 0..count {
        let start = head.cursor.position();
        let key = head.name()?;
        let kind = head.cursor.u32()?;
        budget.entry(metadata.len(), key.len())?;
        let value = match long_array(head, kind, &mut budget)? {
            Some(array) => {
                long_arrays.push((key.to_owned(), array));
                Value::Null
            }
            None => value(head, kind, &mut budget)?,
        };
        if metadata.insert(key.to_owned(), value).is_some() {
            let error = malformed(format!("the metadata has the key \"{key}\" twice"));
            return Err(error.at(start..head.cursor.position()).into());
        }
    }
    Ok((metadata, long_arrays, budget))
}

/// Skips pairs, and rejects invalid ones.
struct Pass<'h, 'a> {
    head: &'h mut Head<'a>,
    /// The number of values in arrays so far.
    values: u64,
}

impl Pass<'_, '_> {
    fn pairs(&mut self, count: u64) -> Result<(), Stop> {
        let least_bytes = self.head.count_bytes() + 4 + 1;
        self.head.cursor.ensure(count.saturating_mul(least_bytes))?;
        for _ in 0..count {
            self.head.name()?;
            let kind = self.head.cursor.u32()?;
            self.value(kind, MAX_DEPTH)?;
        }
        Ok(())
    }

    fn value(&mut self, kind: u32, depth: u32) -> Result<(), Stop> {
        match (byte_length_of(kind), kind) {
            (Some(byte_length), _) => self.head.cursor.take(byte_length).map(drop),
            (None, STRING) => self.head.string().map(drop),
            (None, ARRAY) => self.array(depth),
            _ => Err(unknown(kind, self.head.cursor.position()).into()),
        }
    }

    fn array(&mut self, depth: u32) -> Result<(), Stop> {
        let start = self.head.cursor.position();
        let kind = self.head.cursor.u32()?;
        let count = self.head.count()?;
        if depth == 0 {
            return Err(malformed("arrays are nested too deeply").at(start..self.head.cursor.position()).into());
        }
        let least_bytes = match (byte_length_of(kind), kind) {
            (Some(byte_length), _) => byte_length,
            (None, STRING) => self.head.count_bytes(),
            (None, ARRAY) => 4 + self.head.count_bytes(),
            _ => return Err(unknown(kind, start + 4).into()),
        };
        self.values = self.values.saturating_add(count);
        let end = self.head.cursor.position().saturating_add(count.saturating_mul(least_bytes));
        let limit = max_values(end);
        if self.values > limit {
            let what = format!(
                "the metadata arrays have {} values; weightstream reads at most {limit} in a head of this length",
                self.values
            );
            return Err(Error::new(ErrorKind::Limit, what).at(start..self.head.cursor.position()).into());
        }
        self.head.cursor.ensure(count.saturating_mul(least_bytes))?;
        if byte_length_of(kind).is_some() {
            return self.head.cursor.take(count.saturating_mul(least_bytes)).map(drop);
        }
        if kind == STRING {
            return (0..count).try_for_each(|_| self.head.string().map(drop));
        }
        (0..count).try_for_each(|_| self.value(kind, depth - 1))
    }
}

/// Returns the size of values of a fixed-size type, or `None` for other types.
pub(super) fn byte_length_of(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// Reads a validated array, if it is long and of a type that tokenizers use. Otherwise reads nothing.
fn long_array(head: &mut Head, kind: u32, budget: &mut Budget) -> Result<Option<LongArray>, Stop> {
    let before = head.cursor.clone();
    if kind == ARRAY {
        let kind = head.cursor.u32()?;
        let count = head.count()?;
        if count >= MIN_LONG_ARRAY_ITEMS {
            budget.bytes(count.saturating_mul(if kind == STRING { 8 } else { 4 }), 0)?;
        }
        let array = match kind {
            _ if count < MIN_LONG_ARRAY_ITEMS => None,
            4 => Some(LongArray::U32(numbers(head, count, u32::from_le_bytes)?)),
            5 => Some(LongArray::I32(numbers(head, count, i32::from_le_bytes)?)),
            6 => Some(numbers(head, count, f32::from_le_bytes)?)
                .filter(|numbers| numbers.iter().all(|number| number.is_finite()))
                .map(LongArray::F32),
            STRING => Some(LongArray::Strings(strings(head, count, budget)?)),
            _ => None,
        };
        if array.is_some() {
            return Ok(array);
        }
    }
    head.cursor = before;
    Ok(None)
}

fn numbers<T>(head: &mut Head, count: u64, number: impl Fn([u8; 4]) -> T) -> Result<Vec<T>, Stop> {
    let (numbers, _) = head.cursor.take(count.saturating_mul(4))?.as_chunks::<4>();
    let in_order = |mut bytes: [u8; 4]| {
        if head.cursor.big_endian {
            bytes.reverse();
        }
        number(bytes)
    };
    Ok(numbers.iter().map(|bytes| in_order(*bytes)).collect())
}

fn strings(head: &mut Head, count: u64, budget: &mut Budget) -> Result<Strings, Stop> {
    let mut strings = Strings::default();
    let mut text_bytes = 0;
    for _ in 0..count {
        let text = json::text(head.string()?, &mut head.warnings);
        text_bytes += text.len() as u64;
        strings.push(&text);
    }
    budget.bytes(text_bytes, 0)?; // at most the size of the file
    strings.shrink_to_fit();
    Ok(strings)
}

/// Reads a validated value.
fn value(head: &mut Head, kind: u32, budget: &mut Budget) -> Result<Value, Stop> {
    let cursor = &mut head.cursor;
    Ok(match kind {
        0 => cursor.u8()?.into(),
        1 => cursor.u8()?.cast_signed().into(),
        2 => cursor.u16()?.into(),
        3 => cursor.u16()?.cast_signed().into(),
        4 => cursor.u32()?.into(),
        5 => cursor.u32()?.cast_signed().into(),
        6 => float(f32::from_bits(cursor.u32()?).into()),
        7 => (cursor.u8()? != 0).into(),
        STRING => {
            let text = json::text(head.string()?, &mut head.warnings);
            budget.text(text.len() as u64)?;
            text.into()
        }
        ARRAY => {
            let kind = head.cursor.u32()?;
            let count = head.count()?;
            budget.array(count)?;
            let mut values = Vec::with_capacity(count as usize);
            for _ in 0..count {
                values.push(value(head, kind, budget)?);
            }
            values.into()
        }
        10 => cursor.u64()?.into(),
        11 => cursor.u64()?.cast_signed().into(),
        12 => float(f64::from_bits(cursor.u64()?)),
        _ => return Err(unknown(kind, cursor.position()).into()),
    })
}

fn unknown(kind: u32, end: u64) -> Error {
    let what = format!("the metadata has a value of type {kind}, which GGUF does not have");
    malformed(what).at(end.saturating_sub(4)..end)
}
