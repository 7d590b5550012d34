//! The `adapter_config.json` of PEFT.
//!
//! Source: `LoraConfig` and `LoraLayer.update_layer` of the Python package `peft` 0.21.

use crate::error::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// The `adapter_config.json` of an adapter of PEFT, which states how its updates are scaled.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterConfig {
    alpha: f64,
    /// Whether updates are divided by the square root of the rank, instead of the rank.
    is_rank_stabilized: bool,
    /// Whether the weights of the model are stored with the inputs as rows.
    pub(super) has_inputs_as_rows: bool,
    /// Numbers in place of `alpha`, for modules whose path is or ends with the key, or is it if it began with `^`.
    alpha_of_modules: Vec<(Pattern, f64)>,
}

/// A key of `alpha_pattern`.
#[derive(Debug, Clone, PartialEq)]
struct Pattern {
    path: String,
    is_whole: bool,
}

/// Options of PEFT that change what a merged weight is, with the values that do not.
const UNSUPPORTED: [&str; 10] = [
    "alora_invocation_tokens",
    "arrow_config",
    "kasa_config",
    "layer_replication",
    "lora_bias",
    "monteclora_config",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "use_qalora",
];

/// Initializations that also change the weights of the model.
const CHANGED_WEIGHTS: [&str; 4] = ["pissa", "olora", "corda", "loftq"];

impl AdapterConfig {
    /// The name of the file in the folder of an adapter.
    pub(crate) const FILE_NAME: &str = "adapter_config.json";

    /// The maximum size of the file. It has about a thousand bytes, and more with many patterns.
    pub(crate) const MAX_BYTES: u64 = 4 << 20;

    /// Takes the content of an `adapter_config.json`.
    ///
    /// # Errors
    /// `FORMAT` if it is not a JSON object with `lora_alpha`; `UNSUPPORTED` for other adapters than LoRA, and for
    /// options that cannot be applied to single weights.
    pub fn from_json(json: &[u8]) -> Result<AdapterConfig> {
        let place = |error: Error| error.in_file(AdapterConfig::FILE_NAME);
        let document: Value =
            serde_json::from_slice(json).map_err(|error| place(Error::new(ErrorKind::Format, error.to_string())))?;
        match document {
            Value::Object(document) => AdapterConfig::of(&document).map_err(place),
            _ => Err(place(Error::new(ErrorKind::Format, "it is not an object"))),
        }
    }

    fn of(document: &Map<String, Value>) -> Result<AdapterConfig> {
        let unsupported = |what: String| {
            Err(Error::new(ErrorKind::Unsupported, what).advise("Merge the adapter with PEFT, and load the result."))
        };
        let kind = document.get("peft_type").and_then(Value::as_str).unwrap_or("LORA");
        if kind != "LORA" {
            return unsupported(format!("the adapter is of the type {kind}, not LORA"));
        }
        let is_set = |key: &&str| match document.get(*key) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Array(items)) => !items.is_empty(),
            Some(Value::Object(items)) => !items.is_empty(),
            Some(_) => true,
        };
        if let Some(key) = UNSUPPORTED.iter().find(|key| is_set(key)) {
            return unsupported(format!("the adapter has the option `{key}`"));
        }
        let initialized = document.get("init_lora_weights").and_then(Value::as_str).unwrap_or_default();
        if CHANGED_WEIGHTS.iter().any(|name| initialized.starts_with(name)) {
            let what = format!("the adapter belongs to weights that `{initialized}` has changed");
            let advice = "Save it with `path_initial_model_for_weight_conversion` of PEFT.";
            return Err(Error::new(ErrorKind::Unsupported, what).advise(advice));
        }
        let alpha = document.get("lora_alpha").and_then(Value::as_f64);
        let alpha = alpha.ok_or_else(|| Error::new(ErrorKind::Format, "`lora_alpha` is missing, or is no number"))?;
        let is_true = |key: &str| document.get(key).and_then(Value::as_bool).unwrap_or(false);
        let mut alpha_of_modules = Vec::new();
        for (pattern, alpha) in document.get("alpha_pattern").and_then(Value::as_object).into_iter().flatten() {
            let whole = pattern.strip_prefix('^');
            let path = whole.unwrap_or(pattern).replace("\\.", ".");
            let alpha = alpha.as_f64().ok_or_else(|| Error::new(ErrorKind::Format, "`alpha_pattern` has no number"))?;
            if path.contains(['*', '+', '?', '(', ')', '[', ']', '|', '\\', '$', '{']) {
                return unsupported(format!("`alpha_pattern` has the regular expression \"{pattern}\""));
            }
            alpha_of_modules.push((Pattern { path, is_whole: whole.is_some() }, alpha));
        }
        Ok(AdapterConfig {
            alpha,
            is_rank_stabilized: is_true("use_rslora"),
            has_inputs_as_rows: is_true("fan_in_fan_out"),
            alpha_of_modules,
        })
    }

    /// What the product of the factors of a module is multiplied by.
    pub(super) fn scaling(&self, module: &str, rank: u64) -> f64 {
        let is_of_module = |(Pattern { path, is_whole }, _): &&(Pattern, f64)| {
            let rest = module.strip_suffix(path.as_str());
            rest.is_some_and(|rest| rest.is_empty() || !is_whole && rest.ends_with('.'))
        };
        let alpha = self.alpha_of_modules.iter().find(is_of_module).map_or(self.alpha, |(_, alpha)| *alpha);
        let rank = rank as f64;
        alpha / if self.is_rank_stabilized { rank.sqrt() } else { rank }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn config(json: &str) -> Result<AdapterConfig> {
        AdapterConfig::from_json(json.as_bytes())
    }

    #[test]
    fn scales_by_alpha_and_rank_as_peft_does() {
        let plain = config(r#"{"lora_alpha": 16, "alpha_pattern": {"mlp.up": 4, "^head": 2}}"#).unwrap();
        assert_eq!(plain.scaling("model.layers.0.attention.q", 8), 2.0);
        assert_eq!(plain.scaling("model.layers.0.mlp.up", 8), 0.5);
        assert_eq!(plain.scaling("model.layers.0.other_mlp.up", 8), 2.0);
        assert_eq!(plain.scaling("head", 8), 0.25);
        assert_eq!(plain.scaling("model.head", 8), 2.0);
        let stabilized = config(r#"{"lora_alpha": 16, "use_rslora": true}"#).unwrap();
        assert_eq!(stabilized.scaling("q", 16), 4.0);
    }

    #[test]
    fn refuses_what_it_cannot_apply_to_single_weights() {
        for (json, expected) in [
            (r#"{"peft_type": "LOHA", "lora_alpha": 1}"#, "LOHA"),
            (r#"{"lora_alpha": 1, "target_parameters": ["experts.up"]}"#, "target_parameters"),
            (r#"{"lora_alpha": 1, "init_lora_weights": "pissa_niter_4"}"#, "pissa_niter_4"),
            (r#"{"lora_alpha": 1, "alpha_pattern": {"layers.\\d+.q": 2}}"#, "regular expression"),
            (r#"{"r": 8}"#, "lora_alpha"),
            ("[]", "object"),
        ] {
            let error = config(json).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("adapter_config.json"), "{error}");
        }
    }
}
