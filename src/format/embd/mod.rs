//! EMBD, the `.weights` files of `cpp_embedder`: the layout of its specification, and the one that its tools write.
//!
//! The specification (binary weight format 1.0) has a header, metadata, a vocabulary, an index and checksums. The
//! tools (`tools/convert_weights.py`, `src/model/weights.cpp`) never implemented it: their files are a count,
//! then tensors, each behind its own name and shape, then a vocabulary. Both begin with the same 8 bytes. A file is
//! of the specification if its header has the CRC that it states; see `layout` for the rest.
//!
//! Either way the vocabulary is in the metadata as `vocabulary`: its `tokens` by id, and `special_tokens` where the
//! file has them.

pub(crate) mod specified;
mod walked;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod write;

use super::{Format, StretchChecksum};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::fields::Fields;
use crate::index::{Metadata, Parsed};
use crate::window::{Stop, Window};
use serde_json::Value;

pub use specified::name_hash;

/// The format.
pub const FORMAT: Format = Format { name: "embd", recognises, parse, checksums, check_tail };

/// The first four bytes.
pub const MAGIC: [u8; 4] = *b"EMBD";

/// The largest vocabularies have 300,000 tokens. Stops a count that would make the memory of values of single bytes.
pub const MAX_TOKENS: u32 = 1 << 20;

/// The specification's limit on dimensions, and the tools'.
pub const MAX_DIMS: u32 = 4;

fn recognises(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

fn parse(window: &Window) -> Result<Parsed, Stop> {
    let index = match layout(window)? {
        Layout::Specified(header) => specified::parse(window, &header)?,
        Layout::Walked => walked::parse(window)?,
    };
    Ok(Parsed::File(index))
}

fn checksums(window: &Window) -> Result<Vec<StretchChecksum>, Stop> {
    Ok(match layout(window)? {
        Layout::Specified(header) => specified::checksums(&header),
        Layout::Walked => Vec::new(),
    })
}

fn check_tail(window: &Window) -> Result<(), Stop> {
    match layout(window)? {
        Layout::Specified(header) => specified::check_tail(window, &header),
        Layout::Walked => Ok(()),
    }
}

enum Layout {
    Specified(specified::Header),
    Walked,
}

/// Which layout the file has. Of the specification's, the first 8 bytes are the same, then come the flags and four
/// offsets; of the tools', the count of tensors, the length of the first one's name, and the name.
fn layout(window: &Window) -> Result<Layout, Stop> {
    let end = specified::HEADER_BYTES.min(window.file_length().unwrap_or(u64::MAX));
    let head = window.get(0..end)?;
    if let Some(header) = specified::Header::recognise(head, window.file_length())? {
        return Ok(Layout::Specified(header));
    }
    let mut fields = Fields::new(head, 0, "the header");
    fields.array::<4>()?;
    let version = fields.u32()?;
    if version != 1 {
        let (major, minor) = (version & 0xffff, version >> 16);
        let what = format!("EMBD version {major}.{minor}; weightstream reads version 1.0");
        return Err(Error::new(ErrorKind::Unsupported, what).at(4..8).into());
    }
    if walked::is_plausible(head) {
        return Ok(Layout::Walked);
    }
    let what =
        "the header does not have the CRC32 that it states, and no tensor follows as the format's tools write it";
    Err(Error::new(ErrorKind::Checksum, what).at(0..end).into())
}

/// Adds the vocabulary to what the file says of itself.
fn add_vocabulary(metadata: &mut Metadata, tokens: Vec<Value>, special_tokens: Option<Metadata>) {
    let mut vocabulary = Metadata::new();
    vocabulary.insert("tokens".to_owned(), tokens.into());
    vocabulary.extend(special_tokens.map(|ids| ("special_tokens".to_owned(), ids.into())));
    metadata.insert("vocabulary".to_owned(), vocabulary.into());
}

fn check_token_count(count: u32, at: u64) -> Result<()> {
    if count > MAX_TOKENS {
        let what = format!("the vocabulary claims {count} tokens; weightstream reads {MAX_TOKENS}");
        return Err(Error::new(ErrorKind::Limit, what).at(at..at + 4));
    }
    Ok(())
}

fn check_dims(dims: u32) -> Result<()> {
    if dims > MAX_DIMS {
        return Err(malformed(format!("it has {dims} dimensions; the format allows {MAX_DIMS}")));
    }
    Ok(())
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
