//! The binary format of a log: a description of the file, then a record for each piece. Integers are little-endian.
//!
//! | bytes | field of the description |
//! | --- | --- |
//! | 8 | `WSCACHE2`; version 1 did not separate responses to requests with credentials |
//! | 8 + 4 | time of the last use in milliseconds since 1970, and its CRC-32; both are overwritten in place |
//! | 4 | CRC-32 of the following fields |
//! | 4 + 8 | length of the text, and the generation (a random number) |
//! | … | lines of text: URL, length, ETag, Last-Modified; neither headers nor URLs contain line breaks |
//!
//! | bytes | field of a record |
//! | --- | --- |
//! | 4 | CRC-32 of the next 24 bytes |
//! | 8 | generation; records of other generations are ignored |
//! | 8 + 4 | offset of the piece in the file, and its length |
//! | 4 | CRC-32 of the piece |
//! | … | the piece |

use super::PIECE_BYTES;
use super::extents::Piece;
use crate::codec::crc32::checksum;
use crate::digest::Digest;
use crate::identity::Identity;
use sha2::{Digest as _, Sha256};

/// Length of the description without its text.
pub(super) const HEAD_BYTES: usize = 36;

/// Length of a record without the bytes of the piece.
pub(super) const RECORD_BYTES: usize = 28;

/// Maximum length of the text. Browsers accept URLs of up to 2 MB; files with such long URLs are not cached.
pub(super) const MAX_TEXT_BYTES: usize = 64 << 10;

/// Offset of the time of the last use.
pub(super) const LAST_USED_AT: u64 = 8;

const MAGIC: &[u8; 8] = b"WSCACHE2";

/// The file in a log, and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    /// The URL of the file.
    pub(crate) url: String,
    /// Identifies the version of the file.
    pub(crate) identity: Identity,
}

/// The fixed part of a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    crc32: u32,
    pub(super) text_length: usize,
    pub(super) generation: u64,
    /// 0 if the field is damaged: the file is then evicted first.
    pub(super) last_used_ms: u64,
}

impl Head {
    pub(super) fn read(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        let last_used_ms = u64_at(bytes, 8)?;
        let is_valid = checksum(bytes.get(8..16)?) == u32_at(bytes, 16)?;
        let head = Head {
            crc32: u32_at(bytes, 20)?,
            text_length: usize::try_from(u32_at(bytes, 24)?).ok()?,
            generation: u64_at(bytes, 28)?,
            last_used_ms: if is_valid { last_used_ms } else { 0 },
        };
        (bytes.starts_with(MAGIC) && head.text_length <= MAX_TEXT_BYTES).then_some(head)
    }

    pub(super) fn describes(&self, text: &[u8]) -> Option<Description> {
        let length = (self.text_length as u32).to_le_bytes();
        let covered = [&length, self.generation.to_le_bytes().as_slice(), text].concat();
        if checksum(&covered) != self.crc32 {
            return None;
        }
        let (url, identity) = std::str::from_utf8(text).ok()?.split_once('\n')?;
        Some(Description { url: url.to_owned(), identity: read_identity(identity) })
    }
}

/// Encodes the description at the start of a log. `None` if the URL is too long.
pub(super) fn describe(description: &Description, generation: u64, now_ms: u64) -> Option<Vec<u8>> {
    let text = [description.url.as_str(), &write_identity(&description.identity)].join("\n");
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    let length = (text.len() as u32).to_le_bytes();
    let covered = [&length, generation.to_le_bytes().as_slice(), text.as_bytes()].concat();
    Some([MAGIC.as_slice(), &last_used(now_ms), &checksum(&covered).to_le_bytes(), &covered].concat())
}

/// Encodes the time of the last use with its checksum.
pub(super) fn last_used(now_ms: u64) -> [u8; 12] {
    let mut bytes = [0; 12];
    let (time, crc32) = bytes.split_at_mut(8);
    time.copy_from_slice(&now_ms.to_le_bytes());
    crc32.copy_from_slice(&checksum(time).to_le_bytes());
    bytes
}

/// Encodes the record that precedes the bytes of a piece.
pub(super) fn record(generation: u64, start: u64, bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u32).to_le_bytes();
    let fields = [&generation.to_le_bytes(), &start.to_le_bytes(), length.as_slice(), &checksum(bytes).to_le_bytes()];
    let fields = fields.concat();
    [checksum(&fields).to_le_bytes().as_slice(), &fields].concat()
}

/// Decodes the [`record`] that was written at the offset `at`. `None` if it is damaged or of another generation.
pub(super) fn read_record(bytes: &[u8; RECORD_BYTES], generation: u64, at: u64) -> Option<Piece> {
    let is_valid = checksum(bytes.get(4..)?) == u32_at(bytes, 0)? && u64_at(bytes, 4)? == generation;
    let piece = Piece {
        start: u64_at(bytes, 12)?,
        byte_length: u32_at(bytes, 20)?,
        crc32: u32_at(bytes, 24)?,
        at: at.checked_add(RECORD_BYTES as u64)?,
    };
    (is_valid && u64::from(piece.byte_length) <= PIECE_BYTES).then_some(piece)
}

/// Encodes an identity as three lines: length, ETag and Last-Modified. A missing field is an empty line.
pub(super) fn write_identity(identity: &Identity) -> String {
    let Identity { length, etag, last_modified } = identity;
    let length = length.map(|length| length.to_string()).unwrap_or_default();
    [length.as_str(), etag.as_deref().unwrap_or_default(), last_modified.as_deref().unwrap_or_default()].join("\n")
}

/// Decodes the output of [`write_identity`].
pub(super) fn read_identity(text: &str) -> Identity {
    let mut lines = text.split('\n');
    let mut line = || lines.next().filter(|line| !line.is_empty()).map(str::to_owned);
    let length = line().and_then(|length| length.parse().ok());
    Identity { length, etag: line(), last_modified: line() }
}

/// The file name of a log: a hash, because URLs contain characters that file names must not.
pub(super) fn name_of(url: &str) -> String {
    let hash = Digest::Sha256(Sha256::digest(url).into());
    hash.to_string().get(..32).unwrap_or_default().to_owned()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
