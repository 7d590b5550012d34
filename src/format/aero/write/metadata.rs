//! The metadata of an AERO file: MJSN, and `model` in the manifest.

use crate::digest::from_hex;
use crate::error::{Error, ErrorKind, Result};
use crate::format::aero::toc::NAME;
use crate::index::Metadata;
use crate::output::metadata::{self, named_model};
use crate::output::origin::Changes;
use crate::output::target::ShardKind;
use crate::output::writer::Settings;
use serde_json::{Map, Value, json};

/// The key in MJSN of the descriptors of packed tensors.
pub(super) const DESCRIPTORS_KEY: &str = "quant_descriptors";

/// The key in MJSN of the format that the file was converted from. If it is `gguf`, shapes have the innermost dimension
/// first.
const SOURCE_FORMAT_KEY: &str = "source_format";

/// The metadata of the model.
pub(super) struct About {
    /// The content of MJSN.
    pub(super) metadata: Metadata,
    /// The entry `model` of the manifest: `name` and `architecture`, if known.
    pub(super) model: Option<Map<String, Value>>,
}

impl About {
    pub(super) fn new(settings: &Settings) -> Self {
        let mut metadata = metadata::join(settings);
        let is_aero = settings.source_format == NAME;
        metadata.retain(|key, value| settings.given.contains_key(key) || !(is_aero && is_identity(key, value)));
        let model = match metadata.get("model") {
            Some(Value::Object(_)) => metadata.shift_remove("model"), // returns to the manifest
            _ => None,
        };
        let model = model.and_then(|model| model.as_object().cloned()).or_else(|| named_model(&metadata));
        let (source, mut read) = (metadata::join(settings), metadata.clone());
        if !is_aero && source.get("uuid").is_some_and(|uuid| is_identity("uuid", uuid)) {
            read.insert("uuid".to_owned(), Value::Null); // readers cannot distinguish it from the file's own
        }
        Changes::between(&source, &read).record(NAME, settings, &mut metadata);
        About { metadata, model }
    }

    /// Encodes MJSN: all metadata in the first file, in the others only the entries that are needed to read tensors.
    pub(super) fn json(&self, kind: ShardKind, descriptors: &[Value]) -> Result<Vec<u8>> {
        let is_wanted = |key: &str| kind == ShardKind::First || key == SOURCE_FORMAT_KEY;
        let wanted = self.metadata.iter().filter(|(key, _)| is_wanted(key));
        let mut wanted: Metadata = wanted.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !descriptors.is_empty() {
            wanted.insert(DESCRIPTORS_KEY.to_owned(), descriptors.into());
        }
        serde_json::to_vec(&wanted)
            .map_err(|e| Error::new(ErrorKind::Internal, format!("the metadata cannot be written as JSON: {e}")))
    }

    pub(super) fn shapes_are_reversed(&self) -> bool {
        self.metadata.get(SOURCE_FORMAT_KEY).and_then(Value::as_str) == Some("gguf")
    }

    /// Returns `model` of a set. The format's tools print both the name and the architecture, so both are always set.
    pub(super) fn model_of_set(&self) -> Value {
        let mut model = json!({ "name": "unknown", "architecture": "unknown" });
        if let Some(object) = model.as_object_mut() {
            object.extend(self.model.iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
        }
        model
    }
}

/// Whether an entry is the UUID of the source file, which readers list with the metadata. Every file has its own UUID.
fn is_identity(key: &str, value: &Value) -> bool {
    key == "uuid" && value.as_str().and_then(from_hex::<16>).is_some()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::output::writer::{Compression, DigestAlgorithm};

    fn about(given: Value, source: Value) -> (Value, Value) {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let about = About::new(&Settings {
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
            source_format: "aero",
            source: &object(source),
        });
        (about.metadata.into(), about.model.map_or(Value::Null, Value::Object))
    }

    #[test]
    fn the_uuid_of_the_source_file_is_dropped() {
        let uuid = "00112233445566778899aabbccddeeff";
        assert_eq!(about(json!({}), json!({ "uuid": uuid, "a": 1 })).0, json!({ "a": 1 }));
        assert_eq!(about(json!({ "uuid": uuid }), json!({})).0, json!({ "uuid": uuid }));
        assert_eq!(about(json!({}), json!({ "uuid": "mine" })).0, json!({ "uuid": "mine" }));
    }

    #[test]
    fn the_manifest_has_the_name_and_architecture_if_known() {
        let model = |source| about(json!({}), source).1;
        assert_eq!(model(json!({ "general.name": "x" })), json!({ "name": "x" }));
        assert_eq!(model(json!({ "name": 3, "model_type": "bert" })), json!({ "architecture": "bert" }));
        assert_eq!(model(json!({ "format": "pt" })), Value::Null);
        let (metadata, model) = about(json!({}), json!({ "name": "y", "model": { "name": "x", "v": 1 } }));
        assert_eq!((metadata, model), (json!({ "name": "y" }), json!({ "name": "x", "v": 1 })));
        assert_eq!(about(json!({}), json!({ "model": "x" })), (json!({ "model": "x" }), Value::Null));
    }
}
