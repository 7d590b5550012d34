//! The keys of the values in a store, as the documentation of [`chunked_kv`](super) lists them.

use crate::cache::PIECE_BYTES;
use crate::cache::content_index::ContentId;
use crate::cache::extents::Piece;
use crate::digest::Digest;

/// The prefix of all keys.
pub(super) const PREFIX: &str = "weightstream.";

pub(super) const CONTENT: &str = "weightstream.content.";

pub(super) fn key(name: &str, rest: &str) -> String {
    format!("{PREFIX}{name}.{rest}")
}

pub(super) fn used_key(name: &str) -> String {
    key(name, "used")
}

pub(super) fn content_key(content: &ContentId) -> String {
    format!("{CONTENT}{}", Digest::Sha256(*content))
}

pub(super) fn piece_key(name: &str, generation: u64, piece: &Piece) -> String {
    let Piece { start, byte_length, crc32, .. } = piece;
    let end = start + u64::from(*byte_length);
    key(name, &format!("{generation:x}.{start:x}.{end:x}.{crc32:x}"))
}

/// Splits a key into the file name and the rest.
pub(super) fn split(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix(PREFIX)?.split_once('.')
}

/// Parses the output of [`piece_key`]: the generation and the piece.
pub(super) fn parse_piece(rest: &str) -> Option<(u64, Piece)> {
    let mut numbers = rest.split('.').map(|digits| u64::from_str_radix(digits, 16).ok());
    let mut number = || numbers.next().flatten();
    let (generation, start, end, crc32) = (number()?, number()?, number()?, number()?);
    let byte_length = end.checked_sub(start).filter(|length| (1..=PIECE_BYTES).contains(length))?;
    let piece = Piece { start, byte_length: byte_length as u32, crc32: u32::try_from(crc32).ok()?, at: 0 };
    numbers.next().is_none().then_some((generation, piece))
}
