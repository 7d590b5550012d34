//! Merges the metadata of a new file, for formats without their own rules.

use super::writer::Settings;
use crate::index::Metadata;
use serde_json::Value;
use std::borrow::Cow;

/// The key under which an APR file stores the metadata of another format. SafeTensors uses the same key.
pub(crate) const FOREIGN_KEY: &str = "__metadata__";

/// Merges the metadata of the caller and of the source. Restores entries that an APR file stores for another format.
pub(crate) fn join(settings: &Settings) -> Metadata {
    let mut joined = settings.given.clone();
    let is_foreign = settings.source.get(FOREIGN_KEY).is_some_and(Value::is_object);
    for (key, value) in settings.source {
        match value {
            value if is_foreign && is_filled_in(key, value) => {}
            Value::Object(foreign) if key == FOREIGN_KEY => {
                for (key, value) in foreign {
                    joined.entry(key).or_insert_with(|| value.clone());
                }
            }
            value => _ = joined.entry(key).or_insert_with(|| value.clone()),
        }
    }
    joined
}

/// Whether an entry has the value that a conversion to APR fills in, because the format requires the key.
fn is_filled_in(key: &str, value: &Value) -> bool {
    match key {
        "apr_version" => value == "2.0.0",
        "model_type" => value == "unknown",
        "architecture" => value.as_object().is_some_and(Metadata::is_empty),
        _ => false,
    }
}

/// Converts a value for a format that stores only text: text is unchanged, other values become JSON.
pub(crate) fn as_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// Returns an object, or parses it from JSON text, the inverse of [`as_text`].
pub(crate) fn as_object(value: &Value) -> Option<Cow<'_, Metadata>> {
    match value {
        Value::Object(object) => Some(Cow::Borrowed(object)),
        Value::String(text) => serde_json::from_str(text).ok().map(Cow::Owned),
        _ => None,
    }
}
