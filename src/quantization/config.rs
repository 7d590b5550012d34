//! What `config.json` states about quantization.

use crate::error::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// The `config.json` of a model, which states how it is quantized. It is needed for tensors that fit several layouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelConfig {
    json: Vec<u8>,
}

impl ModelConfig {
    /// The name of the file in the folder of a model.
    pub(crate) const FILE_NAME: &str = "config.json";

    /// The maximum size of the file. Those of models have a few thousand bytes.
    #[doc(hidden)]
    pub const MAX_BYTES: u64 = 4 << 20;

    /// Takes the content of a `config.json`, or of the `quantize_config.json` of AutoGPTQ.
    ///
    /// # Errors
    /// `FORMAT` if it is not a JSON object.
    pub fn from_json(json: &[u8]) -> Result<ModelConfig> {
        let config = ModelConfig::unchecked(json.to_vec());
        config.stated().map(|_| config)
    }

    /// Takes a JSON object that need not be checked.
    pub(crate) fn unchecked(json: Vec<u8>) -> ModelConfig {
        ModelConfig { json }
    }

    /// What it states about quantization.
    ///
    /// # Errors
    /// Those of [`ModelConfig::from_json`].
    pub(super) fn stated(&self) -> Result<Stated> {
        let invalid = |what: String| Error::new(ErrorKind::Format, format!("config.json: {what}"));
        let document: Value = serde_json::from_slice(&self.json).map_err(|error| invalid(error.to_string()))?;
        let Value::Object(document) = document else { return Err(invalid("it is not an object".to_owned())) };
        Ok(Stated::of(&document))
    }
}

/// What a `config.json` states about quantization.
#[derive(Debug, Default)]
pub(super) struct Stated {
    quantization: Map<String, Value>,
}

/// The keys of `config.json` that have an object about quantization.
const KEYS: [&str; 3] = ["quantization_config", "quantization", "compression_config"];

impl Stated {
    fn of(document: &Map<String, Value>) -> Stated {
        let object = |of: &Map<String, Value>| KEYS.iter().find_map(|key| of.get(*key)?.as_object().cloned());
        let nested = || object(document.get("text_config")?.as_object()?);
        let own = || document.contains_key("bits").then(|| document.clone()); // quantize_config.json
        Stated { quantization: object(document).or_else(nested).or_else(own).unwrap_or_default() }
    }

    /// The value of a key, or of another spelling of it.
    pub(super) fn get(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().find_map(|key| self.quantization.get(*key))
    }

    pub(super) fn text(&self, keys: &[&str]) -> Option<&str> {
        self.get(keys)?.as_str()
    }

    pub(super) fn integer(&self, keys: &[&str]) -> Option<u64> {
        self.get(keys)?.as_u64()
    }

    /// The values of a key in the objects `weights` of all `config_groups` of compressed-tensors.
    pub(super) fn of_groups(&self, key: &str) -> Vec<u64> {
        let groups = self.get(&["config_groups"]).and_then(Value::as_object);
        let values = groups.into_iter().flat_map(Map::values);
        values.filter_map(|group| group.get("weights")?.get(key)?.as_u64()).collect()
    }
}
