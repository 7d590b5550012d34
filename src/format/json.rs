//! JSON as formats use it: documents that name the files of a model, and objects whose keys must be unique.

#[cfg(feature = "aero")]
use super::aero;
use super::{Format, MAX_MANIFEST_BYTES, apr, no_checksums, no_tail, safetensors};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::Parsed;
use crate::window::{Stop, Window};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

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
    let document = parse_object(window.get_all(MAX_MANIFEST_BYTES)?, 0, "the manifest")?;
    #[cfg(feature = "aero")]
    if aero::is_manifest(&document) {
        return Ok(Parsed::Manifest(aero::parse_manifest(&document)?));
    }
    if apr::is_manifest(&document) {
        Ok(Parsed::Manifest(apr::parse_manifest(&document)?))
    } else if safetensors::is_manifest(&document) {
        Ok(Parsed::Manifest(safetensors::parse_manifest(&document)?))
    } else {
        let what = "this is a JSON file, but not one that names the files of a model";
        Err(Error::new(ErrorKind::Unsupported, what).into())
    }
}

/// Parses JSON that begins at `start` in the file; errors call it `what`.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8], start: u64, what: &str) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| invalid(e, bytes, start, what))
}

/// As [`parse`], for an object. Of a key that occurs twice the last value is kept.
pub(super) fn parse_object(bytes: &[u8], start: u64, what: &str) -> Result<Map<String, Value>> {
    parse(bytes, start, what)
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

/// The keys and values of an object in their order; a key that occurs twice is kept twice.
pub(super) struct Entries<V>(pub(super) Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Collect<V> {
            type Value = Entries<V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<V>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Collect(PhantomData))
    }
}

fn invalid(error: serde_json::Error, bytes: &[u8], start: u64, what: &str) -> Error {
    let fault = match error.classify() {
        Category::Data => "is not as the format asks",
        Category::Io | Category::Syntax | Category::Eof => "is not valid JSON",
    };
    // The parser quotes what it found, however long that is.
    let error: String = error.to_string().chars().take(MAX_MESSAGE_CHARS).collect();
    malformed(format!("{what} {fault}: {error}")).at(start..start + bytes.len() as u64)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

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
