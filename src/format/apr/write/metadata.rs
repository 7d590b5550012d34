//! The metadata of an APR file: the keys of the source, replaced and extended by those of the caller.

use crate::format::apr::head::NAME;
use crate::index::Metadata;
use crate::output::metadata::{FOREIGN_KEY, sizes};
use crate::output::origin::Changes;
use crate::output::vocabulary::Vocabulary;
use crate::output::writer::Settings;
use serde_json::Value;

/// The keys that the specification requires of every file.
const REQUIRED_KEYS: [&str; 3] = ["apr_version", "model_type", "architecture"];

/// Merges the metadata of the caller and of the source, and adds the keys that the specification requires.
pub(super) fn join(settings: &Settings) -> Metadata {
    let mut joined = Metadata::new();
    for key in REQUIRED_KEYS {
        joined.insert(key.to_owned(), Value::Null); // first, in this order
    }
    let Settings { given, source, .. } = *settings;
    let is_apr = settings.source_format == NAME;
    if is_apr {
        joined.extend(source.clone());
    }
    let mut given = given.clone();
    Vocabulary::convert_for_apr(&mut given);
    joined.extend(given);
    if !is_apr && !source.is_empty() {
        joined.entry(FOREIGN_KEY).or_insert_with(|| Value::Object(source.clone()));
    }
    fill(&mut joined, "apr_version", || "2.0.0".into());
    // What the other format says of the model must not be hidden behind "unknown".
    let nested = |key| joined.get(FOREIGN_KEY).and_then(|foreign| foreign.get(key)).cloned();
    let model_type = nested("model_type").unwrap_or_else(|| "unknown".into());
    let architecture = nested("architecture").unwrap_or_else(|| Value::Object(sizes(&joined)));
    fill(&mut joined, "model_type", || model_type);
    fill(&mut joined, "architecture", || architecture);
    // Without metadata of the caller, the entries of the other format are recognised by their place.
    Changes::default().needed_if(!settings.given.is_empty()).record(NAME, settings, &mut joined);
    joined
}

/// Returns only the required keys, for all files of a model except the first.
pub(super) fn required(metadata: &Metadata) -> Metadata {
    let required = REQUIRED_KEYS.iter().filter_map(|key| metadata.get_key_value(*key));
    required.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn fill(metadata: &mut Metadata, key: &str, value: impl FnOnce() -> Value) {
    if let Some(slot) = metadata.get_mut(key)
        && slot.is_null()
    {
        *slot = value();
    }
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::output::writer::{Compression, DigestAlgorithm};
    use serde_json::json;

    #[allow(clippy::unwrap_used, reason = "a test")]
    fn joined(given: Value, format: &'static str, source: Value) -> String {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let settings = Settings {
            compression: Compression::None,
            digest: DigestAlgorithm::None,
            alignment: 64,
            version: None,
            is_for_streaming: false,
            metadata_first: false,
            omits_metadata: false,
            source_record: &Metadata::new(),
            created: std::time::SystemTime::UNIX_EPOCH,
            given: &object(given),
            source_format: format,
            source: &object(source),
        };
        Value::Object(join(&settings)).to_string()
    }

    #[test]
    fn fills_in_the_required_keys() {
        let filled = joined(json!({"n_layer": 6, "name": "x"}), "safetensors", json!({}));
        let expected = concat!(
            r#"{"apr_version":"2.0.0","model_type":"unknown","architecture":{"n_layer":6},"n_layer":6,"name":"x","#,
            r#""weightstream.source":"{\"format\":\"safetensors\"}"}"#
        );
        assert_eq!(filled, expected);
    }

    #[test]
    fn keeps_the_given_metadata() {
        let given = json!({"model_type": "bert", "architecture": {"a": 1}, "b": 2});
        let expected = concat!(
            r#"{"apr_version":"2.0.0","model_type":"bert","architecture":{"a":1},"b":2,"#,
            r#""__metadata__":{"format":"pt"},"weightstream.source":"{\"format\":\"safetensors\"}"}"#
        );
        assert_eq!(joined(given, "safetensors", json!({"format": "pt"})), expected);
    }

    #[test]
    fn states_the_model_type_and_architecture_of_the_source() {
        let source = json!({"model_type": "llama", "architecture": "decoder", "format": "pt"});
        let expected = concat!(
            r#"{"apr_version":"2.0.0","model_type":"llama","architecture":"decoder","#,
            r#""__metadata__":{"model_type":"llama","architecture":"decoder","format":"pt"}}"#
        );
        assert_eq!(joined(json!({}), "safetensors", source.clone()), expected);
        let given = joined(json!({"model_type": "bert"}), "safetensors", source);
        let expected = r#"{"apr_version":"2.0.0","model_type":"bert","architecture":"decoder","__metadata__":"#;
        assert!(given.starts_with(expected), "{given}");
    }

    #[test]
    fn keeps_the_metadata_of_an_apr_file_at_the_top_level() {
        let source = json!({"apr_version": "2.0.0", "model_type": "t5", "architecture": {}, "vocab": ["a"]});
        let expected = r#"{"apr_version":"2.0.0","model_type":"t5","architecture":{},"vocab":["b"]}"#;
        assert_eq!(joined(json!({"vocab": ["b"]}), "apr", source), expected);
    }
}
