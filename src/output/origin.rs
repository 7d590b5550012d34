//! Records in the metadata of a new file how it differs from that of the source, so that a conversion back restores it:
//! values that became JSON text or lost precision, and keys that the format adds.
//!
//! The record is JSON text under [`KEY`], an object:
//!
//! - `format`: the format of the source;
//! - `json`: the keys whose values are JSON text;
//! - `added`: the keys that the source did not have;
//! - `values`: the source's values of keys whose values were changed otherwise;
//! - `vocabulary`: the key from which the vocabulary was taken;
//! - `nested`: the keys that an APR file had in `__metadata__`;
//! - `source`: the record in the metadata of the source, if that was converted itself.

use super::metadata::{FOREIGN_KEY, GGUF_TYPES_KEY, as_object, as_text, sizes};
use super::vocabulary::Vocabulary;
use super::writer::Settings;
use crate::index::Metadata;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// The key of the record.
pub(crate) const KEY: &str = "weightstream.source";

/// What a writer changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    record: Map<String, Value>,
    is_needed: bool,
}

impl Changes {
    /// Compares the metadata of the source with what a reader of the new file will return. Keys that the file does not
    /// have are losses, which are reported elsewhere.
    pub(crate) fn between(source: &Metadata, stored: &Metadata) -> Self {
        let (mut json, mut values, mut record) = (Vec::new(), Metadata::new(), Map::new());
        for (key, value) in source {
            match stored.get(key) {
                Some(stored) if stored != value => match stored {
                    Value::String(text) if !value.is_string() && *text == as_text(value) => json.push(key.clone()),
                    _ => _ = values.insert(key.clone(), value.clone()),
                },
                _ => {}
            }
        }
        let added: Vec<_> = stored.keys().filter(|key| !source.contains_key(*key)).cloned().collect();
        for (name, keys) in [("json", json), ("added", added)] {
            if !keys.is_empty() {
                record.insert(name.to_owned(), keys.into());
            }
        }
        if !values.is_empty() {
            record.insert("values".to_owned(), values.into());
        }
        Changes { record, is_needed: false }
    }

    /// Compares the metadata with its values as text.
    pub(crate) fn to_text(source: &Metadata) -> Self {
        let as_texts = source.iter().map(|(key, value)| (key.clone(), as_text(value).into_owned().into())).collect();
        Changes::between(source, &as_texts)
    }

    /// Records the key from which a vocabulary was taken.
    pub(crate) fn with_vocabulary_from(mut self, key: Option<&str>) -> Self {
        self.record.extend(key.map(|key| ("vocabulary".to_owned(), key.into())));
        self
    }

    /// Requests a record of the source's format even if nothing was changed.
    pub(crate) fn needed_if(self, is_needed: bool) -> Self {
        Changes { is_needed, ..self }
    }

    /// Adds the record to the metadata of a file of `format`, if a conversion back needs it. A file that is converted
    /// to its own format keeps the record that it has; without one, it has a record only if metadata of the caller were
    /// changed.
    pub(crate) fn record(self, format: &str, settings: &Settings, metadata: &mut Metadata) {
        let is_changed = ["json", "values"].iter().any(|name| self.record.contains_key(*name));
        let is_needed = match settings.source_format == format {
            true => is_changed,
            // Only APR distinguishes its own metadata from that of other formats.
            false => {
                let has_record = !self.record.is_empty() || !settings.source_record.is_empty();
                has_record || self.is_needed || settings.source_format == "apr"
            }
        };
        if is_needed && !settings.omits_metadata && !metadata.contains_key(KEY) {
            let mut record = Map::from_iter([("format".to_owned(), settings.source_format.into())]);
            record.extend(self.record);
            record.extend(settings.source_record.clone());
            // As text, because some readers support only text.
            metadata.insert(KEY.to_owned(), Value::Object(record).to_string().into());
        }
    }
}

/// Takes the record of an earlier conversion, for the record of the next one.
pub(crate) fn take(metadata: &mut Metadata) -> Metadata {
    let earlier = metadata.shift_remove(KEY);
    earlier.map(|earlier| ("source".to_owned(), earlier)).into_iter().collect()
}

/// Moves the entries that an APR file has for another format to the others, which take precedence, and removes those
/// that the conversion to APR filled in. Returns what a record of the next conversion needs to undo this; `None` if all
/// entries are those of another format.
pub(crate) fn flatten(metadata: &mut Metadata) -> Option<Metadata> {
    let filled_in = Value::Object(sizes(metadata));
    let foreign = match metadata.get_mut(FOREIGN_KEY) {
        Some(Value::Object(foreign)) => std::mem::take(foreign),
        _ => Map::new(),
    };
    metadata.retain(|key, value| match key.as_str() {
        "apr_version" => value != "2.0.0",
        "model_type" => *value != *foreign.get(key).unwrap_or(&"unknown".into()),
        "architecture" => *value != *foreign.get(key).unwrap_or(&filled_in),
        _ => true,
    });
    let has_own = metadata.keys().any(|key| key != FOREIGN_KEY);
    let (moved, kept): (Map<_, _>, Map<_, _>) =
        foreign.into_iter().partition(|(key, _)| !metadata.contains_key(key.as_str()));
    match kept.is_empty() {
        true => _ = metadata.shift_remove(FOREIGN_KEY),
        false => _ = metadata.insert(FOREIGN_KEY.to_owned(), kept.into()),
    }
    let keys: Vec<_> = moved.keys().cloned().collect();
    metadata.extend(moved);
    let nested = if keys.is_empty() { None } else { Some(("nested".to_owned(), keys.into())) };
    has_own.then(|| nested.into_iter().collect())
}

/// Whether an APR file that was converted from `format` has metadata of its own, besides those of that format and what
/// the conversion filled in.
pub(crate) fn has_own_beside(metadata: &Metadata, format: &str) -> bool {
    let record = metadata.get(KEY).and_then(as_object);
    if record.and_then(|record| record.get("format").cloned()).is_none_or(|from| from != format) {
        return false;
    }
    let mut own = metadata.clone();
    let foreign = metadata.get(FOREIGN_KEY).and_then(Value::as_object);
    own.retain(|key, value| key != KEY && foreign.and_then(|foreign| foreign.get(key)) != Some(value));
    flatten(&mut own).is_some()
}

/// Undoes what was changed in metadata of the caller when a file was converted to its own format.
pub(crate) fn restore_given(metadata: &mut Metadata, format: &str) {
    if let Some(record) = metadata.get(KEY).and_then(|value| Some(as_object(value)?.into_owned()))
        && record.get("format").is_some_and(|from| from == format)
    {
        undo(metadata, &record);
    }
}

/// Undoes the conversions of a file in the format `from` if one of them was from `format`, so that the metadata are
/// those of that file. Returns the format; it is empty if the record does not state it (of a file that was in APR
/// between, see [`flatten`]), and `None` if nothing was undone.
pub(crate) fn restore(metadata: &mut Metadata, from: &str, format: &'static str) -> Option<&'static str> {
    let mut records: Vec<Map<String, Value>> = Vec::new();
    let mut next = metadata.get(KEY).cloned();
    while let Some(record) = next.as_ref().and_then(|value| Some(as_object(value)?.into_owned())) {
        let origin = record.get("format").and_then(Value::as_str);
        let found = [format, ""].into_iter().find(|wanted| origin == Some(*wanted));
        next = record.get("source").cloned();
        records.push(record);
        if found.is_some() {
            let mut from = from;
            for record in &records {
                if from == "gguf" {
                    leave_out_types(metadata, record);
                }
                if from == "apr" {
                    restore_apr(metadata);
                }
                undo(metadata, record);
                from = record.get("format").and_then(Value::as_str).unwrap_or_default();
            }
            return found;
        }
    }
    None
}

/// Removes the types of GGUF's values, except of those that an APR file had in `__metadata__`, with their types.
fn leave_out_types(metadata: &mut Metadata, record: &Map<String, Value>) {
    let types = metadata.shift_remove(GGUF_TYPES_KEY);
    let nested: HashSet<_> = keys(record, "nested").collect();
    if let Some(Value::Object(mut types)) = types.filter(|_| nested.contains(GGUF_TYPES_KEY)) {
        types.retain(|key, _| nested.contains(key.as_str()));
        metadata.insert(GGUF_TYPES_KEY.to_owned(), types.into());
    }
}

fn restore_apr(metadata: &mut Metadata) {
    metadata.shift_remove(KEY);
    flatten(metadata);
    metadata.shift_remove(FOREIGN_KEY); // what the caller replaced
}

fn undo(metadata: &mut Metadata, record: &Map<String, Value>) {
    metadata.shift_remove(KEY);
    // Removed in one pass: a forged record may list any number of keys.
    let added: HashSet<_> = keys(record, "added").collect();
    metadata.retain(|key, _| !added.contains(key.as_str()));
    for key in keys(record, "json") {
        if let Some(value) = metadata.get_mut(key)
            && let Some(parsed) = value.as_str().and_then(|text| serde_json::from_str(text).ok())
        {
            *value = parsed;
        }
    }
    for (key, value) in record.get("values").and_then(Value::as_object).into_iter().flatten() {
        metadata.insert(key.clone(), value.clone());
    }
    if let Some(key) = record.get("vocabulary").and_then(Value::as_str) {
        Vocabulary::restore(metadata, key);
    }
    if record.contains_key("nested") {
        let mut foreign = match metadata.shift_remove(FOREIGN_KEY) {
            Some(Value::Object(foreign)) => foreign,
            _ => Map::new(),
        };
        let nested: HashSet<_> = keys(record, "nested").collect();
        let (moved, kept): (Map<_, _>, Map<_, _>) =
            std::mem::take(metadata).into_iter().partition(|(key, _)| nested.contains(key.as_str()));
        foreign.extend(moved);
        *metadata = kept;
        metadata.insert(FOREIGN_KEY.to_owned(), foreign.into());
    }
    metadata.extend(record.get("source").map(|earlier| (KEY.to_owned(), earlier.clone())));
}

fn keys<'a>(record: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a str> {
    record.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
