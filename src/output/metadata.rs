//! Merges the metadata of a new file, for formats without their own rules.

use super::writer::Settings;
use crate::index::Metadata;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The key under which an APR file stores the metadata of another format. SafeTensors uses the same key.
pub(crate) const FOREIGN_KEY: &str = "__metadata__";

/// The key of the GGUF types of values, which a conversion from GGUF adds, and a conversion to GGUF uses.
pub(crate) const GGUF_TYPES_KEY: &str = "weightstream.gguf_types";

/// The keys of GGUF that describe a file, not a model: its alignment, and how a model is divided.
pub(crate) const GGUF_FILE_KEYS: [&str; 4] = ["general.alignment", "split.no", "split.count", "split.tensors.count"];

/// Merges the metadata of the caller and of the source.
pub(crate) fn join(settings: &Settings) -> Metadata {
    let mut joined = settings.given.clone();
    for (key, value) in settings.source {
        joined.entry(key).or_insert_with(|| value.clone());
    }
    joined
}

/// Returns the numeric entries: the sizes of the model, such as layers, heads and dimensions. APR requires
/// them.
pub(crate) fn sizes(metadata: &Metadata) -> Map<String, Value> {
    metadata.iter().filter(|(_, value)| value.is_number()).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Finds the model's name and architecture under the keys of AERO's tools, of GGUF, and of configurations. AERO lists
/// them as `model`.
pub(crate) fn named_model(metadata: &Metadata) -> Option<Map<String, Value>> {
    let names = [
        ("name", ["model_name", "general.name", "name"]),
        ("architecture", ["architecture", "general.architecture", "model_type"]),
    ];
    let text = |keys: [&str; 3]| keys.iter().find_map(|key| metadata.get(*key).filter(|value| value.is_string()));
    let found = names.into_iter().filter_map(|(name, keys)| Some((name.to_owned(), text(keys)?.clone())));
    Some(found.collect()).filter(|model: &Map<_, _>| !model.is_empty())
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
