//! Reads the vocabulary of a tokenizer of Hugging Face.

use super::{invalid, read_if_exists, read_object};
use crate::error::Result;
use crate::index::Metadata;
use crate::output::vocabulary::Vocabulary;
use serde_json::Value;
use std::path::Path;

/// The largest id of a token. Prevents a damaged file from making the vocabulary arbitrarily long.
const MAX_ID: u64 = 1 << 22;

/// The special tokens of EMBD, with the key in the configuration of a tokenizer, and the names in BERT and RoBERTa.
const SPECIAL_TOKENS: [(&str, [&str; 2]); 5] = [
    ("pad_token", ["[PAD]", "<pad>"]),
    ("unk_token", ["[UNK]", "<unk>"]),
    ("cls_token", ["[CLS]", "<s>"]),
    ("sep_token", ["[SEP]", "</s>"]),
    ("mask_token", ["[MASK]", "<mask>"]),
];

/// Reads `tokenizer.json`, or else `vocab.txt`, or else `vocab.json`. An id without a token becomes an empty token.
pub(super) fn read(folder: &Path) -> Result<Option<Vocabulary>> {
    let Some(tokens) = read_tokens(folder)? else { return Ok(None) };
    let special_tokens = special_tokens(folder, &tokens)?;
    Ok(Some(Vocabulary { tokens, special_tokens, apr_key: None }))
}

fn read_tokens(folder: &Path) -> Result<Option<Vec<String>>> {
    let path = folder.join("tokenizer.json");
    if let Some(tokenizer) = read_object(&path)? {
        return fast_tokens(&tokenizer).map(Some).map_err(|what| invalid(&path, what));
    }
    let path = folder.join("vocab.txt");
    if let Some(bytes) = read_if_exists(&path)? {
        let text = String::from_utf8(bytes).map_err(|_| invalid(&path, "it is not a text in UTF-8".to_owned()))?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line).to_owned());
        return Ok(Some(lines.collect()));
    }
    let path = folder.join("vocab.json");
    let Some(ids) = read_object(&path)? else { return Ok(None) };
    let mut tokens = Vec::new();
    ids.iter().try_for_each(|(token, id)| put(&mut tokens, token, id)).map_err(|what| invalid(&path, what))?;
    Ok(Some(tokens))
}

/// The tokens of a `tokenizer.json`: an object of ids (WordPiece, BPE, WordLevel), or an array of tokens and scores
/// (Unigram); then the tokens that were added to them.
fn fast_tokens(tokenizer: &Metadata) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    match tokenizer.get("model").and_then(|model| model.get("vocab")) {
        Some(Value::Object(ids)) => ids.iter().try_for_each(|(token, id)| put(&mut tokens, token, id))?,
        Some(Value::Array(items)) => {
            let token = |item: &Value| item.get(0).and_then(Value::as_str).map(str::to_owned);
            let all = items.iter().map(token).collect::<Option<_>>();
            tokens = all.ok_or("an entry of `model.vocab` has no token")?;
        }
        _ => return Err("it has no vocabulary in `model.vocab`".to_owned()),
    }
    for added in tokenizer.get("added_tokens").and_then(Value::as_array).into_iter().flatten() {
        let (Some(token), Some(id)) = (added.get("content").and_then(Value::as_str), added.get("id")) else {
            return Err("an entry of `added_tokens` has no `content` or no `id`".to_owned());
        };
        put(&mut tokens, token, id)?;
    }
    Ok(tokens)
}

fn put(tokens: &mut Vec<String>, token: &str, id: &Value) -> Result<(), String> {
    let at = id.as_u64().filter(|id| *id < MAX_ID).and_then(|id| usize::try_from(id).ok());
    let at = at.ok_or_else(|| format!("the id of the token {token:?} is {id}"))?;
    if tokens.len() <= at {
        tokens.resize(at + 1, String::new());
    }
    if let Some(slot) = tokens.get_mut(at) {
        token.clone_into(slot);
    }
    Ok(())
}

/// Returns the ids of the special tokens if the tokenizer has all of them.
fn special_tokens(folder: &Path, tokens: &[String]) -> Result<Option<[u32; 5]>> {
    let mut named = Metadata::new();
    for name in ["tokenizer_config.json", "special_tokens_map.json"] {
        named.extend(read_object(&folder.join(name))?.unwrap_or_default());
    }
    let id_of = |token: &str| tokens.iter().position(|known| known == token).and_then(|at| u32::try_from(at).ok());
    let ids = SPECIAL_TOKENS.map(|(key, usual)| match named.get(key) {
        Some(Value::String(token)) => id_of(token),
        Some(Value::Object(token)) => token.get("content").and_then(Value::as_str).and_then(id_of),
        _ => usual.into_iter().find_map(id_of),
    });
    let [Some(pad), Some(unk), Some(cls), Some(sep), Some(mask)] = ids else { return Ok(None) };
    Ok(Some([pad, unk, cls, sep, mask]))
}
