//! JSON as formats use it: documents that name the files of a model, and objects whose keys must be unique.

#[cfg(feature = "aero")]
use super::aero;
use super::budget::Budget;
use super::value_of_json::BudgetedValue;
use super::{Format, MAX_MANIFEST_BYTES, apr, no_checksums, no_tail, safetensors};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::MAX_PARTS;
use crate::index::{Manifest, Parsed};
use crate::window::{Stop, Window};
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::error::Category;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
#[cfg(feature = "aero")]
use std::io;
use std::ops::Range;

/// A JSON document that names the files of a model, of whichever format.
pub(super) const FORMAT: Format =
    Format { name: "manifest", recognises, parse: parse_manifest, checksums: no_checksums, check_tail: no_tail };

/// Enough to find the fault by.
const MAX_MESSAGE_CHARS: usize = 300;

/// Whether the file is a JSON object. No binary format begins like one: SafeTensors has NULs in its first 8 bytes.
fn recognises(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"{") && !head.contains(&0)
}

fn parse_manifest(window: &Window) -> Result<Parsed, Stop> {
    let bytes = window.get_all(MAX_MANIFEST_BYTES)?;
    let document = parse_object(bytes, 0, "the manifest", &mut Budget::of(window, bytes.len() as u64))?;
    #[cfg(feature = "aero")]
    if aero::is_manifest(&document) {
        return Ok(Parsed::Manifest(check_parts(aero::parse_manifest(&document)?)?));
    }
    if apr::is_manifest(&document) {
        Ok(Parsed::Manifest(check_parts(apr::parse_manifest(&document)?)?))
    } else if safetensors::is_manifest(&document) {
        Ok(Parsed::Manifest(check_parts(safetensors::parse_manifest(&document)?)?))
    } else {
        let what = "this is a JSON file, but not one that names the files of a model";
        Err(Error::new(ErrorKind::Unsupported, what).into())
    }
}

fn check_parts(manifest: Manifest) -> Result<Manifest> {
    let count = manifest.parts.len() as u64;
    if count > MAX_PARTS {
        let what = format!("the manifest names {count} files; weightstream takes {MAX_PARTS}");
        return Err(Error::new(ErrorKind::Limit, what).advise("Write the model in fewer, larger files."));
    }
    Ok(manifest)
}

/// Parses JSON that begins at `start` in the file; errors call it `what`.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8], start: u64, what: &str) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| invalid(e, start..start + bytes.len() as u64, what))
}

/// As [`parse`], for what takes its memory from a budget: `read` makes it of the JSON.
pub(super) fn parse_with<'de, T>(
    bytes: &'de [u8],
    start: u64,
    what: &str,
    budget: &mut Budget,
    read: impl FnOnce(&mut SliceDeserializer<'de>, &mut Budget) -> serde_json::Result<T>,
) -> Result<T> {
    let place = start..start + bytes.len() as u64;
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = read(&mut json, budget).and_then(|parsed| json.end().map(|()| parsed));
    parsed.map_err(|error| budget.refusal().unwrap_or_else(|| invalid(error, place.clone(), what)).at(place.clone()))
}

type SliceDeserializer<'de> = serde_json::Deserializer<serde_json::de::SliceRead<'de>>;

/// Parses a value of any kind, as far as the budget goes.
pub(super) fn parse_value(bytes: &[u8], start: u64, what: &str, budget: &mut Budget) -> Result<Value> {
    parse_with(bytes, start, what, budget, |json, budget| BudgetedValue { budget }.deserialize(json))
}

/// As [`parse_value`], for bytes that come as they are read, of the section at `place`.
#[cfg(feature = "aero")]
pub(super) fn read(bytes: impl io::Read, place: Range<u64>, what: &str, budget: &mut Budget) -> Result<Value> {
    let mut json = serde_json::Deserializer::from_reader(io::BufReader::new(bytes));
    let value = BudgetedValue { budget: &mut *budget }.deserialize(&mut json);
    let value = value.and_then(|value| json.end().map(|()| value));
    value.map_err(|error| budget.refusal().unwrap_or_else(|| invalid(error, place.clone(), what)).at(place.clone()))
}

/// As [`parse_value`], for an object. Of a key that occurs twice the last value is kept.
pub(super) fn parse_object(bytes: &[u8], start: u64, what: &str, budget: &mut Budget) -> Result<Map<String, Value>> {
    match parse_value(bytes, start, what, budget)? {
        Value::Object(object) => Ok(object),
        other => {
            let what = format!("{what} is not as the format asks: it is {}, not an object", shown(&other));
            Err(malformed(what).at(start..start + bytes.len() as u64))
        }
    }
}

/// The beginning of a value's text, for messages: a whole value may be megabytes.
pub(super) fn shown(value: &Value) -> String {
    struct Beginning(String);
    impl fmt::Write for Beginning {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = MAX_MESSAGE_CHARS - self.0.chars().count();
            self.0.extend(text.chars().take(room));
            if text.chars().nth(room).is_some() { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut beginning = Beginning(String::new());
    if fmt::write(&mut beginning, format_args!("{value}")).is_err() {
        beginning.0.push('…');
    }
    beginning.0
}

/// A part's path as a manifest names it, if it stays in the manifest's folder.
///
/// Paths are file names, not URLs: whoever makes a URL of one must escape it.
pub(crate) fn part_path(path: &str) -> Result<String> {
    let leads_out = path.split(['/', '\\']).any(|segment| segment == "..");
    let absolute = path.starts_with(['/', '\\']) || path.split('/').next().is_some_and(|s| s.contains(':'));
    if path.is_empty() || leads_out || absolute || path.contains(['\\', '\0']) {
        let error = malformed(format!("the manifest names the file \"{path}\", which is not inside its folder"));
        return Err(error.advise("Do not load this model unless you trust it; its manifest must name files beside it."));
    }
    Ok(path.to_owned())
}

/// A number, or its name as a string: JSON has no infinities and no NaN.
#[cfg(any(feature = "cbor", feature = "gguf", feature = "msgpack"))]
pub(super) fn float(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or_else(|| value.to_string().into(), Value::Number)
}

/// Bytes as text: two digits each.
#[cfg(any(feature = "cbor", feature = "msgpack"))]
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]);
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    text.extend(digits.filter_map(|digit| char::from_digit(digit.into(), 16)));
    text
}

/// A string of the metadata. Vocabularies of some tools hold tokens that are not UTF-8: no reason to refuse a model.
#[cfg(any(feature = "embd", feature = "gguf"))]
pub(super) fn text<'a>(bytes: &'a [u8], warnings: &mut Vec<String>) -> Cow<'a, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.into();
    }
    let warning = "strings of the metadata are not UTF-8: what is not was replaced by U+FFFD";
    if !warnings.iter().any(|given| given == warning) {
        warnings.push(warning.to_owned());
    }
    String::from_utf8_lossy(bytes)
}

fn invalid(error: serde_json::Error, place: Range<u64>, what: &str) -> Error {
    let fault = match error.classify() {
        Category::Data => "is not as the format asks",
        Category::Io | Category::Syntax | Category::Eof => "is not valid JSON",
    };
    // The parser quotes what it found, however long that is.
    let quoted: String = error.to_string().chars().take(MAX_MESSAGE_CHARS).collect();
    malformed(format!("{what} {fault}: {quoted}")).at(place).with_cause(error)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn a_message_quotes_the_beginning_of_a_value() {
        assert_eq!(shown(&serde_json::json!({ "a": [1, null] })), r#"{"a":[1,null]}"#);
        for long in [Value::from("ü".repeat(1 << 20)), vec![0; 1 << 20].into()] {
            let shown = shown(&long);
            assert_eq!(shown.chars().count(), MAX_MESSAGE_CHARS + 1);
            assert!(shown.ends_with('…'));
        }
    }

    #[test]
    fn a_part_stays_in_its_folder() {
        for good in ["a.apr", "shards/a.apr", "a..b", "%2e%2e/a", "ü 1.apr"] {
            assert!(part_path(good).is_ok(), "{good}");
        }
        for bad in
            ["", "../a", "a/../../b", "/a", "\\a", "a\\b", "..", "file:///x", "https://h/x", "//h/x", "data:,x", "C:/x"]
        {
            assert!(part_path(bad).is_err(), "{bad}");
        }
    }
}
