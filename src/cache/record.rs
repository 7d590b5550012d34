//! How a log is written: a description of the file, then a record for each piece. Integers are little-endian.
//!
//! | bytes | of the description |
//! | --- | --- |
//! | 8 | `WSCACHE2`: version 1 did not keep apart what came with credentials |
//! | 8 + 4 | when it was last used, in milliseconds since 1970, and the CRC-32 of that: rewritten in place |
//! | 4 | CRC-32 of what follows |
//! | 4 + 8 | length of the text, and a random number: the generation |
//! | … | the text, in lines: URL, length, ETag, Last-Modified; no header and no URL holds a line's end |
//!
//! | bytes | of a record |
//! | --- | --- |
//! | 4 | CRC-32 of the next 24 |
//! | 8 | generation: what an earlier version of the file left behind does not count |
//! | 8 + 4 | where the piece begins in the file, and its length |
//! | 4 | CRC-32 of the piece |
//! | … | the piece |

use super::PIECE_BYTES;
use super::extents::Piece;
use crate::codec::crc32::checksum;
use crate::identity::Identity;

/// Up to the text of the description.
pub(super) const HEAD_BYTES: usize = 36;

/// Up to the bytes of a piece.
pub(super) const RECORD_BYTES: usize = 28;

/// No URL that browsers take is longer than 2 MB; one of more than this is not worth keeping a file under.
pub(super) const MAX_TEXT_BYTES: usize = 64 << 10;

/// Where the time of the last use lies.
pub(super) const LAST_USED_AT: u64 = 8;

const MAGIC: &[u8; 8] = b"WSCACHE2";

/// The file that a log keeps, and which version of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    /// Where the file came from.
    pub(crate) url: String,
    /// What tells this version of the file from another.
    pub(crate) identity: Identity,
}

/// The fixed part of a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    crc32: u32,
    pub(super) text_length: usize,
    pub(super) generation: u64,
    /// 0 where it was damaged: the oldest goes first.
    pub(super) last_used_ms: u64,
}

impl Head {
    pub(super) fn read(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        let last_used_ms = u64_at(bytes, 8)?;
        let is_sound = checksum(bytes.get(8..16)?) == u32_at(bytes, 16)?;
        let head = Head {
            crc32: u32_at(bytes, 20)?,
            text_length: usize::try_from(u32_at(bytes, 24)?).ok()?,
            generation: u64_at(bytes, 28)?,
            last_used_ms: if is_sound { last_used_ms } else { 0 },
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

/// A description as it lies at the start of a log; `None` where the URL is too long.
pub(super) fn describe(description: &Description, generation: u64, now_ms: u64) -> Option<Vec<u8>> {
    let text = [description.url.as_str(), &write_identity(&description.identity)].join("\n");
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    let length = (text.len() as u32).to_le_bytes();
    let covered = [&length, generation.to_le_bytes().as_slice(), text.as_bytes()].concat();
    Some([MAGIC.as_slice(), &last_used(now_ms), &checksum(&covered).to_le_bytes(), &covered].concat())
}

/// The time of the last use, with its checksum.
pub(super) fn last_used(now_ms: u64) -> [u8; 12] {
    let mut bytes = [0; 12];
    let (time, crc32) = bytes.split_at_mut(8);
    time.copy_from_slice(&now_ms.to_le_bytes());
    crc32.copy_from_slice(&checksum(time).to_le_bytes());
    bytes
}

/// What lies before the bytes of a piece.
pub(super) fn record(generation: u64, start: u64, bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u32).to_le_bytes();
    let fields = [&generation.to_le_bytes(), &start.to_le_bytes(), length.as_slice(), &checksum(bytes).to_le_bytes()];
    let fields = fields.concat();
    [checksum(&fields).to_le_bytes().as_slice(), &fields].concat()
}

/// Reads what [`record`] wrote to `at`; `None` for anything else.
pub(super) fn read_record(bytes: &[u8; RECORD_BYTES], generation: u64, at: u64) -> Option<Piece> {
    let is_sound = checksum(bytes.get(4..)?) == u32_at(bytes, 0)? && u64_at(bytes, 4)? == generation;
    let piece = Piece {
        start: u64_at(bytes, 12)?,
        byte_length: u32_at(bytes, 20)?,
        crc32: u32_at(bytes, 24)?,
        at: at.checked_add(RECORD_BYTES as u64)?,
    };
    (is_sound && u64::from(piece.byte_length) <= PIECE_BYTES).then_some(piece)
}

/// An identity as three lines: length, ETag, Last-Modified, empty where there is none.
pub(super) fn write_identity(identity: &Identity) -> String {
    let Identity { length, etag, last_modified } = identity;
    let length = length.map(|length| length.to_string()).unwrap_or_default();
    [length.as_str(), etag.as_deref().unwrap_or_default(), last_modified.as_deref().unwrap_or_default()].join("\n")
}

/// Reads what [`write_identity`] wrote.
pub(super) fn read_identity(text: &str) -> Identity {
    let mut lines = text.split('\n');
    let mut line = || lines.next().filter(|line| !line.is_empty()).map(str::to_owned);
    let length = line().and_then(|length| length.parse().ok());
    Identity { length, etag: line(), last_modified: line() }
}

/// What a file is kept as: URLs hold what no file name may.
pub(super) fn name_of(url: &str) -> String {
    let hash = blake3::hash(url.as_bytes());
    hash.to_hex().get(..32).unwrap_or_default().to_owned()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
