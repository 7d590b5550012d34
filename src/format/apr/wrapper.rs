//! A compressed wrapper around an APR1 file: magic, algorithm, decoded length, then the whole file in one piece.
//!
//! Source: the crate `aprender`, `serialization/apr.rs`; with the magic `APR2` in 0.22 to 0.24.0, with `APR\0` in
//! 0.24.1 to 0.25.

use super::compressed::{check_unpacked_length, zstd};
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::fields::Fields;
use crate::index::{Component, Encoding, Parsed};
use crate::window::{Stop, Window};

const PAYLOAD_START: u64 = 9;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;

/// The decoded length that is always accepted, independent of the compression ratio: small models of old tools. A
/// wrapped file is decoded whole if it cannot be read incrementally.
const SMALL_FILE_BYTES: u64 = 8 << 20;

/// The maximum compression ratio beyond [`SMALL_FILE_BYTES`]. The best compressed F32 values, with many zeros, take a
/// third of their size. Prevents a file of a few kilobytes from decoding to gigabytes.
const MAX_RATIO: u64 = 6;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Whether a file with the magic `APR2` or `APR\0` is a wrapper: its payload begins like the algorithm's output.
pub(super) fn recognises(head: &[u8]) -> bool {
    let (claimed, payload) = (head.get(5..9), head.get(9..13));
    match head.get(4) {
        Some(&LZ4) => claimed == payload, // `lz4_flex` repeats the decoded length
        Some(&ZSTD) => payload == Some(&ZSTD_MAGIC),
        _ => false,
    }
}

/// Not inlined, because it is deferred: see `crate::format::deferred`.
#[inline(never)]
pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let mut fields = Fields::new(window.get(4..PAYLOAD_START)?, 4, "the header");
    let encoding = encoding_of(fields.u8()?).map_err(|e| e.at(4..5))?;
    let decoded_length = u64::from(fields.u32()?);
    let Some(file_length) = window.file_length() else {
        // The payload extends to the end of the file.
        return Err(Stop::Need(0..window.known_prefix().saturating_mul(2).max(1 << 16)));
    };
    let range = PAYLOAD_START..file_length.max(PAYLOAD_START);
    check_unpacked_length(encoding, range.end - range.start, decoded_length).map_err(|e| e.at(5..9))?;
    check_ratio(range.end - range.start, decoded_length).map_err(|e| e.at(5..9))?;
    let data = Component::raw(Dtype::U8, range);
    Ok(Parsed::Packed(Component { role: "file".into(), encoding, decoded_length: Some(decoded_length), ..data }))
}

fn check_ratio(stored: u64, decoded: u64) -> Result<()> {
    let limit = SMALL_FILE_BYTES.saturating_add(stored.saturating_mul(MAX_RATIO));
    if decoded <= limit {
        return Ok(());
    }
    let what = format!("it has {stored} bytes and claims to decode to {decoded}; weightstream decodes at most {limit}");
    Err(Error::new(ErrorKind::Limit, what).advise("Write the model without compressing the whole file."))
}

fn encoding_of(algorithm: u8) -> Result<Encoding> {
    match algorithm {
        LZ4 => Ok(Encoding::Lz4Block),
        _ => zstd(),
    }
}
