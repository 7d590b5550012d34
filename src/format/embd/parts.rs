//! Shared code for both layouts.

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::Metadata;
use serde_json::Value;

/// The name of the format in the registry.
pub(super) const NAME: &str = "embd";

/// The first four bytes.
pub(crate) const MAGIC: [u8; 4] = *b"EMBD";

/// The maximum number of tokens. The largest vocabularies have 300,000. Bounds the memory for very short tokens.
pub(crate) const MAX_TOKENS: u32 = 1 << 20;

/// The limit of the specification and of the tools on dimensions.
pub(crate) const MAX_DIMS: u32 = 4;

/// Adds the vocabulary to the metadata.
pub(super) fn add_vocabulary(metadata: &mut Metadata, tokens: Vec<Value>, special_tokens: Option<Metadata>) {
    let mut vocabulary = Metadata::new();
    vocabulary.insert("tokens".to_owned(), tokens.into());
    vocabulary.extend(special_tokens.map(|ids| ("special_tokens".to_owned(), ids.into())));
    metadata.insert("vocabulary".to_owned(), vocabulary.into());
}

pub(super) fn check_token_count(count: u32, at: u64) -> Result<()> {
    if count > MAX_TOKENS {
        let what = format!("the vocabulary claims {count} tokens; weightstream reads at most {MAX_TOKENS}");
        return Err(Error::new(ErrorKind::Limit, what).at(at..at + 4));
    }
    Ok(())
}

pub(super) fn check_dims(dims: u32) -> Result<()> {
    if dims > MAX_DIMS {
        return Err(malformed(format!("it has {dims} dimensions; the format allows {MAX_DIMS}")));
    }
    Ok(())
}
