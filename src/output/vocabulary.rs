//! The vocabulary of a model in its metadata, in the forms of the formats that have one:
//!
//! - EMBD: `vocabulary` is an object with `tokens`, in the order of their ids, and the ids of five `special_tokens`;
//! - APR: `vocab`, or `tokenizer.vocabulary` in files of `aprender`, is an array of tokens; weightstream adds
//!   `special_tokens` beside it;
//! - GGUF: `tokenizer.ggml.tokens` is an array of tokens, and each special token has a key.

use super::metadata::as_object;
use crate::index::Metadata;
use serde_json::{Map, Value};

/// The key of a vocabulary in the form of EMBD.
pub(crate) const KEY: &str = "vocabulary";

/// The special tokens of EMBD, in the order of its files, and their keys in GGUF. `seperator` is the format's spelling.
pub(crate) const SPECIAL_TOKENS: [(&str, &str); 5] = [
    ("pad_id", "tokenizer.ggml.padding_token_id"),
    ("unk_id", "tokenizer.ggml.unknown_token_id"),
    ("cls_id", "tokenizer.ggml.cls_token_id"),
    ("sep_id", "tokenizer.ggml.seperator_token_id"),
    ("mask_id", "tokenizer.ggml.mask_token_id"),
];

/// The keys of the tokens in APR: that of the specification, and that of the tool `aprender`.
const APR_KEYS: [&str; 2] = ["vocab", "tokenizer.vocabulary"];

const GGUF_TOKENS: &str = "tokenizer.ggml.tokens";
const GGUF_MODEL: &str = "tokenizer.ggml.model";
const GGUF_TYPES: &str = "tokenizer.ggml.token_type";
/// What newer BERT models in GGUF have in place of `cls_token_id`.
const GGUF_FIRST: &str = "tokenizer.ggml.bos_token_id";
const GGUF_CONTROL: u64 = 3;

/// The tokens of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vocabulary {
    /// The tokens, in the order of their ids.
    pub(crate) tokens: Vec<String>,
    /// The ids of [`SPECIAL_TOKENS`].
    pub(crate) special_tokens: Option<[u32; 5]>,
    /// The key of the tokens in APR, if the vocabulary was in its form.
    pub(crate) apr_key: Option<&'static str>,
}

impl Vocabulary {
    /// Takes a vocabulary of any form out of the metadata.
    pub(crate) fn take(metadata: &mut Metadata) -> Option<Self> {
        Vocabulary::take_own(metadata).or_else(|| take_apr(metadata)).or_else(|| take_gguf(metadata))
    }

    /// Takes a vocabulary in the form of EMBD out of the metadata.
    fn take_own(metadata: &mut Metadata) -> Option<Self> {
        let found = Vocabulary::from_value(metadata.get(KEY)?)?;
        metadata.shift_remove(KEY); // `shift_remove` keeps the order of the other keys
        Some(found)
    }

    /// Adds the vocabulary to metadata in the form of EMBD.
    pub(crate) fn insert(self, metadata: &mut Metadata) {
        let mut object = Map::new();
        object.insert("tokens".to_owned(), self.tokens.into());
        if let Some(ids) = self.special_tokens {
            object.insert("special_tokens".to_owned(), special_tokens_value(ids));
        }
        metadata.insert(KEY.to_owned(), object.into());
    }

    /// Converts the form of EMBD to that of APR.
    pub(crate) fn convert_for_apr(metadata: &mut Metadata) {
        if let Some(vocabulary) = Vocabulary::take_own(metadata) {
            vocabulary.insert_for_apr(metadata);
        }
    }

    fn insert_for_apr(self, metadata: &mut Metadata) {
        metadata.insert("vocab".to_owned(), self.tokens.into());
        if let Some(ids) = self.special_tokens {
            metadata.insert("special_tokens".to_owned(), special_tokens_value(ids));
        }
    }

    /// Converts the form of EMBD to that of GGUF. Returns the key that the vocabulary had.
    pub(crate) fn convert_for_gguf(metadata: &mut Metadata) -> Option<&'static str> {
        if metadata.contains_key(GGUF_TOKENS) {
            return None;
        }
        Vocabulary::take_own(metadata)?.insert_for_gguf(metadata);
        Some(KEY)
    }

    /// Restores a vocabulary that was taken from this key: converts the form of GGUF to that of EMBD, or that of EMBD
    /// to that of APR.
    pub(crate) fn restore(metadata: &mut Metadata, key: &str) {
        if key == KEY {
            if let Some(vocabulary) = take_gguf(metadata) {
                vocabulary.insert(metadata);
            }
        } else if let Some(vocabulary) = Vocabulary::take_own(metadata) {
            metadata.insert(key.to_owned(), vocabulary.tokens.into());
        }
    }

    fn insert_for_gguf(self, metadata: &mut Metadata) {
        for ((_, key), id) in SPECIAL_TOKENS.iter().zip(self.special_tokens.into_iter().flatten()) {
            let is_stated = key.ends_with(".cls_token_id") && metadata.get(GGUF_FIRST).and_then(id_of) == Some(id);
            if !is_stated {
                metadata.entry(*key).or_insert_with(|| id.into());
            }
        }
        let mut tokens = self.tokens;
        if is_word_piece(metadata) {
            let types = control_tokens(metadata);
            for (at, token) in tokens.iter_mut().enumerate() {
                if !types.is_control(at, token) {
                    *token = token.strip_prefix("##").map_or_else(|| format!("\u{2581}{token}"), str::to_owned);
                }
            }
        }
        metadata.insert(GGUF_TOKENS.to_owned(), tokens.into());
    }

    /// Parses the form of EMBD, or text that contains it as JSON. Returns `None` for another form.
    fn from_value(value: &Value) -> Option<Self> {
        let mut object = as_object(value)?.into_owned();
        let tokens = texts(&object.remove("tokens")?)?;
        let special_tokens = match object.remove("special_tokens") {
            Some(ids) => Some(special_tokens(ids.as_object()?)?),
            None => None,
        };
        object.is_empty().then_some(Vocabulary { tokens, special_tokens, apr_key: None })
    }
}

fn take_apr(metadata: &mut Metadata) -> Option<Vocabulary> {
    let (key, tokens) = APR_KEYS.iter().find_map(|key| Some((*key, texts(metadata.get(*key)?)?)))?;
    metadata.shift_remove(key);
    let special_tokens = metadata.get("special_tokens").and_then(Value::as_object).and_then(special_tokens);
    Some(Vocabulary { tokens, special_tokens, apr_key: Some(key) })
}

fn take_gguf(metadata: &mut Metadata) -> Option<Vocabulary> {
    let mut tokens = texts(metadata.get(GGUF_TOKENS)?)?;
    if is_word_piece(metadata) {
        let types = control_tokens(metadata);
        for (at, token) in tokens.iter_mut().enumerate() {
            if !types.is_control(at, token) {
                *token = token.strip_prefix('\u{2581}').map_or_else(|| format!("##{token}"), str::to_owned);
            }
        }
    }
    metadata.shift_remove(GGUF_TOKENS);
    let own = SPECIAL_TOKENS.map(|(_, key)| metadata.get(key).and_then(id_of));
    let first = metadata.get(GGUF_FIRST).and_then(id_of);
    let ids = match own {
        [pad, unk, None, sep, mask] => [pad, unk, first, sep, mask],
        own => own,
    };
    let special_tokens = match ids {
        [Some(pad), Some(unk), Some(cls), Some(sep), Some(mask)] => Some([pad, unk, cls, sep, mask]),
        _ => None,
    };
    if special_tokens.is_some() {
        SPECIAL_TOKENS.iter().for_each(|(_, key)| _ = metadata.shift_remove(*key));
    }
    Some(Vocabulary { tokens, special_tokens, apr_key: None })
}

/// Whether GGUF stores the tokens as llama.cpp does for BERT: with `▁` before those that begin a word, in place of
/// `##` before all others.
fn is_word_piece(metadata: &Metadata) -> bool {
    metadata.get(GGUF_MODEL).and_then(Value::as_str) == Some("bert")
}

/// Which tokens stand for no text, such as `[CLS]`.
struct ControlTokens(Option<Vec<bool>>);

fn control_tokens(metadata: &Metadata) -> ControlTokens {
    let types = metadata.get(GGUF_TYPES).and_then(Value::as_array);
    ControlTokens(types.map(|types| types.iter().map(|stated| stated.as_u64() == Some(GGUF_CONTROL)).collect()))
}

impl ControlTokens {
    fn is_control(&self, id: usize, token: &str) -> bool {
        match &self.0 {
            Some(types) => types.get(id).copied().unwrap_or(false),
            None => token.starts_with('[') && token.ends_with(']'),
        }
    }
}

/// Returns the ids in the order of [`SPECIAL_TOKENS`], if `ids` contains exactly these tokens.
fn special_tokens(ids: &Map<String, Value>) -> Option<[u32; 5]> {
    let found = SPECIAL_TOKENS.map(|(name, _)| ids.get(name).and_then(id_of));
    let [Some(pad), Some(unk), Some(cls), Some(sep), Some(mask)] = found else { return None };
    (ids.len() == SPECIAL_TOKENS.len()).then_some([pad, unk, cls, sep, mask])
}

fn special_tokens_value(ids: [u32; 5]) -> Value {
    SPECIAL_TOKENS.iter().zip(ids).map(|((name, _), id)| ((*name).to_owned(), Value::from(id))).collect()
}

/// Returns an array of texts, or parses it from JSON text.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        Value::String(json) => serde_json::from_str(json).ok(),
        _ => None,
    }
}

fn id_of(value: &Value) -> Option<u32> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64()?.try_into().ok(),
    }
}
