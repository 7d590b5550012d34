//! What a new file says of the model, for formats that have no rules of their own for it.

use super::writer::Settings;
use crate::index::Metadata;
use serde_json::Value;
use std::borrow::Cow;

/// Under which key an APR file keeps the metadata of another format: what SafeTensors calls its own.
pub(crate) const FOREIGN_KEY: &str = "__metadata__";

/// What the caller gives, then what the source says; what an APR file keeps of another format comes back out of there.
pub(crate) fn join(settings: &Settings) -> Metadata {
    let mut joined = settings.given.clone();
    for (key, value) in settings.source {
        match value {
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

/// A value for a format that keeps texts only: a text as it is, anything else as JSON.
pub(crate) fn as_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// An object, or a text that is one in JSON: what [`as_text`] made of it for another format.
pub(crate) fn as_object(value: &Value) -> Option<Cow<'_, Metadata>> {
    match value {
        Value::Object(object) => Some(Cow::Borrowed(object)),
        Value::String(text) => serde_json::from_str(text).ok().map(Cow::Owned),
        _ => None,
    }
}
