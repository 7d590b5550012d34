//! Encodes the metadata, whose values are text, and the vocabulary.

use crate::error::{Error, ErrorKind, Result};
use crate::format::embd::parts::MAX_TOKENS;
use crate::format::embd::specified::VOCABULARY_HEADER_BYTES;
use crate::index::Metadata;
use crate::output::losses::Losses;
use crate::output::metadata::as_text;
use crate::output::vocabulary::Vocabulary;

/// Encodes the metadata section. Keys and values that are too long are losses.
pub(super) fn metadata(metadata: &Metadata, losses: &mut Losses) -> Result<Vec<u8>> {
    let (mut count, mut entries) = (0u32, Vec::new());
    for (key, value) in metadata {
        let value = as_text(value);
        match (length_field(key), length_field(&value)) {
            (Some(key_length), Some(value_length)) => {
                entries.extend([key_length, value_length].concat());
                entries.extend(key.as_bytes());
                entries.extend(value.as_bytes());
                count += 1;
            }
            (Some(_), None) => {
                losses.leave_out(too_long(format!("the value of `{key}` in the metadata"), value.len()))?
            }
            (None, _) => {
                let beginning: String = key.chars().take(40).collect();
                losses.leave_out(too_long(format!("the key `{beginning}…` of the metadata"), key.len()))?;
            }
        }
    }
    let mut section = count.to_le_bytes().to_vec();
    section.extend(size_field("metadata", &entries)?);
    section.extend(entries);
    Ok(section)
}

/// Encodes the vocabulary section, which begins at `start`. A vocabulary that the format cannot store is a loss.
pub(super) fn vocabulary(vocabulary: &Vocabulary, start: u64, losses: &mut Losses) -> Result<Vec<u8>> {
    encode(vocabulary, start).or_else(|error| losses.leave_out(error).map(|()| Vec::new()))
}

fn encode(vocabulary: &Vocabulary, start: u64) -> Result<Vec<u8>> {
    let count = u32::try_from(vocabulary.tokens.len()).ok().filter(|count| *count <= MAX_TOKENS).ok_or_else(|| {
        let what = format!("the vocabulary in the metadata has {} tokens", vocabulary.tokens.len());
        Error::new(ErrorKind::Limit, format!("{what}; weightstream reads at most {MAX_TOKENS}")).advise(ADVICE)
    })?;
    let mut entries = Vec::new();
    for (id, token) in vocabulary.tokens.iter().enumerate() {
        let too_long = || too_long(format!("token {id} of the vocabulary in the metadata"), token.len());
        entries.extend(length_field(token).ok_or_else(too_long)?);
        entries.extend(token.as_bytes());
    }
    let mut section = count.to_le_bytes().to_vec();
    section.extend(size_field("vocabulary in the metadata", &entries)?);
    let special_tokens = start + VOCABULARY_HEADER_BYTES + entries.len() as u64;
    let special_tokens = if vocabulary.special_tokens.is_some() { special_tokens } else { 0 };
    let too_far = |_| Error::new(ErrorKind::Limit, "the metadata ends beyond 4 GiB, which EMBD cannot address");
    section.extend(u32::try_from(special_tokens).map_err(too_far)?.to_le_bytes());
    section.extend(entries);
    section.extend(vocabulary.special_tokens.iter().flatten().flat_map(|id| id.to_le_bytes()));
    Ok(section)
}
const ADVICE: &str = "Provide a shorter one with `ConvertOptions::metadata`, or choose another format.";

fn too_long(what: String, length: usize) -> Error {
    Error::new(ErrorKind::Limit, format!("{what} has {length} bytes, and EMBD allows 65535")).advise(ADVICE)
}

fn length_field(text: &str) -> Option<[u8; 2]> {
    u16::try_from(text.len()).ok().map(u16::to_le_bytes)
}

fn size_field(what: &str, entries: &[u8]) -> Result<[u8; 4]> {
    let too_long = |_| Error::new(ErrorKind::Limit, format!("the {what} has more than 4 GiB")).advise(ADVICE);
    u32::try_from(entries.len()).map(u32::to_le_bytes).map_err(too_long)
}
