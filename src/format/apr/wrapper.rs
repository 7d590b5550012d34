//! A compressed wrapper round an APR1 file: magic, algorithm, decoded length, then the whole file in one piece.
//!
//! Source: the crate `aprender`, `serialization/apr.rs`; with the magic `APR2` in 0.22 to 0.24.0, with `APR\0` in
//! 0.24.1 to 0.25.

use super::{check_unpacked_length, zstd};
use crate::dtype::Dtype;
use crate::error::Result;
use crate::fields::Fields;
use crate::index::{Component, Encoding, Parsed};
use crate::window::{Stop, Window};

const PAYLOAD_START: u64 = 9;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Whether the file, of magic `APR2` or `APR\0`, is a wrapper: its payload begins as the algorithm's own does.
pub(super) fn recognises(head: &[u8]) -> bool {
    let (claimed, payload) = (head.get(5..9), head.get(9..13));
    match head.get(4) {
        Some(&LZ4) => claimed == payload, // `lz4_flex` writes the decoded length a second time
        Some(&ZSTD) => payload == Some(&ZSTD_MAGIC),
        _ => false,
    }
}

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let mut fields = Fields::new(window.get(4..PAYLOAD_START)?, 4, "the header");
    let encoding = encoding_of(fields.u8()?).map_err(|e| e.at(4..5))?;
    let decoded_length = u64::from(fields.u32()?);
    let Some(file_length) = window.file_length() else {
        // The payload ends where the file does.
        return Err(Stop::Need(0..window.known_prefix().saturating_mul(2).max(1 << 16)));
    };
    let range = PAYLOAD_START..file_length.max(PAYLOAD_START);
    check_unpacked_length(encoding, range.end - range.start, decoded_length).map_err(|e| e.at(5..9))?;
    let role = "file".into();
    let decoded_length = Some(decoded_length);
    Ok(Parsed::Packed(Component { role, dtype: Dtype::U8, range, encoding, decoded_length, digest: None, pages: None }))
}

fn encoding_of(algorithm: u8) -> Result<Encoding> {
    match algorithm {
        LZ4 => Ok(Encoding::Lz4Block),
        _ => zstd(),
    }
}
