//! Parses JSON within a memory budget, and converts other values to JSON.

use super::budget::Budget;
use super::json_value::BudgetedValue;
use super::numbers::{Numbers, Scanned};
use crate::error::{Error, Result, malformed};
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::error::Category;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::Range;

/// The maximum length of a quoted value or parser message in an error message.
const MAX_MESSAGE_CHARS: usize = 300;

/// Parses JSON that begins at `start` in the file. Error messages call it `what`.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8], start: u64, what: &str) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| invalid(e, start..start + bytes.len() as u64, what))
}

/// Parses a value of any kind within a budget.
pub(crate) fn parse_value(bytes: &[u8], start: u64, what: &str, budget: &mut Budget) -> Result<Value> {
    let mut numbers = Numbers::of(bytes);
    let place = start..start + bytes.len() as u64;
    let json = serde_json::Deserializer::from_slice(bytes);
    parse_with(json, &mut || numbers.next(), place, what, budget)
}

/// Parses a value like [`parse_value`] from a reader. `place` is the file range of the section.
pub(crate) fn read(document: impl io::Read, place: Range<u64>, what: &str, budget: &mut Budget) -> Result<Value> {
    let numbers = RefCell::default();
    let scanned = Scanned { document, numbers: &numbers };
    let json = serde_json::Deserializer::from_reader(io::BufReader::new(scanned));
    parse_with(json, &mut || numbers.borrow_mut().next(), place, what, budget)
}

fn parse_with<'de>(
    mut json: serde_json::Deserializer<impl serde_json::de::Read<'de>>,
    next_number: &mut dyn FnMut() -> Option<f64>,
    place: Range<u64>,
    what: &str,
    budget: &mut Budget,
) -> Result<Value> {
    let value = BudgetedValue { budget: &mut *budget, next_number }.deserialize(&mut json);
    let value = value.and_then(|value| json.end().map(|()| value));
    value.map_err(|error| budget.refusal().unwrap_or_else(|| invalid(error, place.clone(), what)).at(place.clone()))
}

/// Parses an object like [`parse_value`]. Keeps the last value of a duplicate key.
pub(crate) fn parse_object(bytes: &[u8], start: u64, what: &str, budget: &mut Budget) -> Result<Map<String, Value>> {
    match parse_value(bytes, start, what, budget)? {
        Value::Object(object) => Ok(object),
        other => {
            let what = format!("{what} does not conform to the format: it is {}, not an object", shown(&other));
            Err(malformed(what).at(start..start + bytes.len() as u64))
        }
    }
}

/// The text of a document, without the byte-order mark that some editors write before UTF-8.
pub(crate) fn without_byte_order_mark(document: &[u8]) -> &[u8] {
    document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document)
}

/// Returns the beginning of a value's text for error messages: a whole value may have megabytes.
pub(crate) fn shown(value: &Value) -> String {
    struct Beginning(String);
    impl fmt::Write for Beginning {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let available = MAX_MESSAGE_CHARS - self.0.chars().count();
            self.0.extend(text.chars().take(available));
            if text.chars().nth(available).is_some() { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut beginning = Beginning(String::new());
    if fmt::write(&mut beginning, format_args!("{value}")).is_err() {
        beginning.0.push('…');
    }
    beginning.0
}

/// Converts a float to a number, or to its name as a string: JSON has no infinities and no NaN.
pub(crate) fn float(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or_else(|| name_of(value).into(), Value::Number)
}

/// The name that Rust prints for a float without a value. Printing any float takes 6 KiB of the npm package's module.
fn name_of(value: f64) -> &'static str {
    match value {
        f64::INFINITY => "inf",
        f64::NEG_INFINITY => "-inf",
        _ => "NaN",
    }
}

/// Converts bytes to text, two hexadecimal digits each.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]);
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    text.extend(digits.filter_map(|digit| char::from_digit(digit.into(), 16)));
    text
}

/// Decodes a string of the metadata. Some tools write tokens that are not UTF-8: they only cause a warning.
pub(crate) fn text<'a>(bytes: &'a [u8], warnings: &mut Vec<String>) -> Cow<'a, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.into();
    }
    let warning = "some strings in the metadata are not UTF-8: invalid bytes were replaced by U+FFFD";
    if !warnings.iter().any(|given| given == warning) {
        warnings.push(warning.to_owned());
    }
    String::from_utf8_lossy(bytes)
}

/// The error for bytes that are not JSON, or not of the type that was expected.
pub(crate) fn invalid(error: serde_json::Error, place: Range<u64>, what: &str) -> Error {
    let fault = match error.classify() {
        Category::Data => "does not conform to the format",
        Category::Io | Category::Syntax | Category::Eof => "is not valid JSON",
    };
    // The parser quotes the value that it found, which may be long.
    let quoted: String = error.to_string().chars().take(MAX_MESSAGE_CHARS).collect();
    malformed(format!("{what} {fault}: {quoted}")).at(place).with_cause(error)
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    #[test]
    fn a_message_quotes_the_beginning_of_a_value() {
        assert_eq!(shown(&serde_json::json!({ "a": [1, null] })), r#"{"a":[1,null]}"#);
        let length = if cfg!(miri) { 1 << 10 } else { 1 << 20 };
        for long in [Value::from("ü".repeat(length)), vec![0; length].into()] {
            let shown = shown(&long);
            assert_eq!(shown.chars().count(), MAX_MESSAGE_CHARS + 1);
            assert!(shown.ends_with('…'));
        }
    }
}
