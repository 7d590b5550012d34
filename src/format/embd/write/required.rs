//! Fills in the metadata that the specification requires of every file, from the keys of other tools: the `config.json`
//! of Hugging Face, and the metadata of GGUF and APR.

use crate::error::{Error, ErrorKind, Result};
use crate::index::Metadata;
use crate::output::losses::Losses;
use crate::output::metadata::as_object;
use crate::output::vocabulary::Vocabulary;
use serde_json::Value;
use std::time::{Duration, SystemTime};

/// The required keys that are numbers, each with its other names. A name that begins with `.` follows the architecture
/// in GGUF: `bert.block_count`.
const NUMBERS: [(&str, &[&str]); 7] = [
    (
        "embedding_dim",
        &["sentence_embedding_dimension", "hidden_size", "n_embd", "d_model", "dim", ".embedding_length"],
    ),
    ("vocab_size", &["n_vocab", ".vocab_size"]),
    ("num_layers", &["num_hidden_layers", "n_layer", "n_layers", "encoder_layers", ".block_count", "n_text_layer"]),
    ("num_attention_heads", &["n_head", "n_heads", "encoder_attention_heads", ".attention.head_count", "n_text_head"]),
    ("hidden_size", &["n_embd", "d_model", "dim", ".embedding_length", "n_text_state"]),
    ("intermediate_size", &["n_inner", "encoder_ffn_dim", "ffn_dim", "d_ff", "hidden_dim", ".feed_forward_length"]),
    (
        "max_position_emb",
        &["max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", ".context_length", "n_text_ctx"],
    ),
];

const NAMES: &[&str] = &["general.name", "_name_or_path", "name"];
const VERSIONS: &[&str] = &["general.version", "version", "_commit_hash"];

/// Objects in the metadata whose entries describe the model: the text part of a `config.json`, and a key of APR.
const PARTS: [&str; 2] = ["text_config", "architecture"];

/// Adds the required keys that are missing. `created` is the time at which the weights were created.
///
/// # Errors
/// `UNSUPPORTED` if the metadata does not contain what a key needs, unless losses are allowed.
pub(super) fn fill(
    metadata: &mut Metadata,
    vocabulary: Option<&Vocabulary>,
    created: SystemTime,
    losses: &mut Losses,
) -> Result<()> {
    let mut found: Vec<(&str, Option<String>)> = vec![
        ("model_name", text(metadata, "model_name", NAMES)),
        ("model_version", text(metadata, "model_version", VERSIONS)),
        ("created_at", time_text(stated_time(metadata).unwrap_or(created))),
    ];
    found.extend(NUMBERS.iter().map(|(key, names)| (*key, number(metadata, key, names))));
    let tokens = vocabulary.map(|vocabulary| vocabulary.tokens.len().to_string());
    for (key, value) in &mut found {
        match *key {
            "vocab_size" => *value = value.take().or_else(|| tokens.clone()),
            "intermediate_size" => *value = value.take().or_else(|| default_intermediate_size(metadata)),
            "model_version" if value.is_none() && is_config(metadata) => {
                losses.warn("a config.json has no version: `model_version` is \"unknown\"".to_owned());
                *value = Some("unknown".to_owned());
            }
            _ => {}
        }
    }
    let missing: Vec<_> =
        found.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| format!("`{key}`")).collect();
    for (key, value) in found {
        if let Some(value) = value
            && !metadata.get(key).is_some_and(|stated| is_stated(key, stated))
        {
            metadata.insert(key.to_owned(), value.into());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!("the metadata lacks {}, which EMBD requires", missing.join(", "));
    let advice = "Provide them with `ConvertOptions::metadata`, a JSON object such as the model's config.json, or \
                  convert the folder that contains it.";
    losses.store("without them", Error::new(ErrorKind::Unsupported, what).advise(advice))
}

fn text(metadata: &Metadata, key: &str, names: &[&str]) -> Option<String> {
    let values = std::iter::once(&key).chain(names).filter_map(|name| metadata.get(*name)?.as_str());
    values.map(str::to_owned).find(|text| !text.is_empty())
}

fn number(metadata: &Metadata, key: &str, names: &[&str]) -> Option<String> {
    let architecture = metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    let parts = PARTS.iter().filter_map(|part| as_object(metadata.get(*part)?));
    let whole = std::iter::once(std::borrow::Cow::Borrowed(metadata));
    for part in whole.chain(parts) {
        for name in std::iter::once(&key).chain(names) {
            let in_gguf = format!("{architecture}{name}");
            let name = if name.starts_with('.') { in_gguf.as_str() } else { name };
            if let Some(number) = part.get(name).and_then(as_number) {
                return Some(number);
            }
        }
    }
    None
}

/// GPT-2 and its relatives: without a value, four times the hidden size.
fn default_intermediate_size(metadata: &Metadata) -> Option<String> {
    let hidden_size: u64 =
        as_number(metadata.get("n_inner").filter(|value| value.is_null()).and(metadata.get("n_embd"))?)?
            .parse()
            .ok()?;
    hidden_size.checked_mul(4).map(|size| size.to_string())
}

/// A positive integer, also in text; of an array with one for each layer, all of them the same, the first.
fn as_number(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => number.as_u64().map(|number| number.to_string()),
        Value::String(text) => text.parse::<u64>().ok().map(|number| number.to_string()),
        Value::Array(items) if items.windows(2).all(|pair| pair.first() == pair.last()) => as_number(items.first()?),
        _ => None,
    }
}

/// Whether a key has a value that EMBD allows. Files of `aprender` have `created_at` in seconds.
fn is_stated(key: &str, value: &Value) -> bool {
    let is_empty = value.is_null() || value.as_str() == Some("");
    let is_seconds = key == "created_at" && as_number(value).is_some();
    !is_empty && !is_seconds
}

/// The time in `created_at`, if that is a number of seconds.
fn stated_time(metadata: &Metadata) -> Option<SystemTime> {
    let seconds = as_number(metadata.get("created_at")?)?.parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// The time as ISO 8601, if it is between the years 1970 and 9999.
fn time_text(time: SystemTime) -> Option<String> {
    let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let is_representable = since_1970.as_secs() < 253_402_300_800;
    is_representable.then(|| humantime::format_rfc3339_seconds(time).to_string())
}

/// Whether the metadata is from a `config.json` of Hugging Face.
fn is_config(metadata: &Metadata) -> bool {
    ["architectures", "transformers_version"].iter().any(|key| metadata.contains_key(*key))
        || metadata.contains_key("model_type") && !metadata.contains_key("apr_version")
}
