//! A compressed wrapper round an APR1 file: magic, algorithm, decoded length, then the whole file in one piece.
//!
//! Source: the crate `aprender`, `serialization/apr.rs`; with the magic `APR2` in 0.22 to 0.24.0, with `APR\0` in
//! 0.24.1 to 0.25.

use super::MAX_UNPACKED_BYTES;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind};
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
    let algorithm = fields.u8()?;
    let decoded_length = u64::from(fields.u32()?);
    if decoded_length > MAX_UNPACKED_BYTES {
        let what = format!(
            "it claims to decode to {decoded_length} bytes; weightstream decodes at most {MAX_UNPACKED_BYTES} in one piece"
        );
        return Err(Error::new(ErrorKind::Limit, what).at(5..9).into());
    }
    let Some(file_length) = window.file_length() else {
        // The payload ends where the file does.
        return Err(Stop::Need(0..window.known_prefix().saturating_mul(2).max(1 << 16)));
    };
    if algorithm == ZSTD {
        return Err(Error::new(ErrorKind::Unsupported, "zstd").into());
    }
    let mut payload = Component::raw(Dtype::U8, PAYLOAD_START..file_length.max(PAYLOAD_START));
    payload.role = "file".into();
    payload.decoded_length = Some(decoded_length);
    payload.encoding = Encoding::Lz4Block;
    Ok(Parsed::Packed(payload))
}
