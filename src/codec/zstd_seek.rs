//! The seek table of the Zstandard seekable format: the lengths of the frames of a component, in a skippable frame at
//! its end. Decoders that do not know the table skip it.
//!
//! Source: `contrib/seekable_format/zstd_seekable_compression_format.md` of Zstandard, version 0.1.0.

use crate::error::{Result, malformed};
use crate::fields::Fields;

/// The size of the data that each frame but the last has, as weightstream writes it.
pub const FRAME_BYTES: u64 = 1 << 20;

/// The length of the footer: the number of frames, a descriptor and a magic.
pub const FOOTER_BYTES: u64 = 9;

/// The length of the header of a skippable frame: a magic and a length.
const HEADER_BYTES: u64 = 8;

/// The magic of the skippable frame.
const FRAME_MAGIC: u32 = 0x184d_2a5e;

/// The magic at the end.
const MAGIC: u32 = 0x8f92_eab1;

/// The bit of the descriptor that says that entries have checksums, which readers of a part cannot use.
const HAS_CHECKSUMS: u8 = 1 << 7;

/// The bits of the descriptor that must be 0.
const RESERVED: u8 = 0b0111_1100;

/// The length of a table of that many frames without checksums.
pub fn table_bytes(frames: u64) -> u64 {
    frames.saturating_mul(8).saturating_add(HEADER_BYTES + FOOTER_BYTES)
}

/// Reads the footer, the last [`FOOTER_BYTES`] of a component. Returns the length of the table in bytes; `None` if
/// there is no table.
pub fn table_length(footer: &[u8]) -> Option<u64> {
    let (frames, descriptor) = parse_footer(footer).ok().flatten()?;
    table_bytes(frames).checked_add(if descriptor & HAS_CHECKSUMS != 0 { 4 * frames } else { 0 })
}

/// Reads a whole table. Returns the stored and decoded length of each frame, the last of which is the table itself.
///
/// # Errors
/// `FORMAT` if the bytes are not a table.
pub fn parse(table: &[u8]) -> Result<Vec<(u64, u64)>> {
    let footer_start = table.len().saturating_sub(FOOTER_BYTES as usize);
    let (entries, footer) = table.split_at(footer_start);
    let (frames, descriptor) = parse_footer(footer)?.ok_or_else(|| malformed("it has no seek table"))?;
    let mut fields = Fields::new(entries, 0, "the seek table");
    let (magic, length) = (fields.u32()?, fields.u32()?);
    if magic != FRAME_MAGIC || u64::from(length) + HEADER_BYTES != table.len() as u64 {
        return Err(malformed("its seek table does not begin with a skippable frame of its length"));
    }
    let mut lengths = Vec::new(); // no capacity from the untrusted count
    for _ in 0..frames {
        lengths.push((u64::from(fields.u32()?), u64::from(fields.u32()?)));
        if descriptor & HAS_CHECKSUMS != 0 {
            fields.u32()?;
        }
    }
    lengths.push((table.len() as u64, 0));
    Ok(lengths)
}

/// Returns the number of frames and the descriptor; `None` if the bytes are not the footer of a table that can be read.
fn parse_footer(footer: &[u8]) -> Result<Option<(u64, u8)>> {
    let mut fields = Fields::new(footer, 0, "the footer of the seek table");
    let (frames, descriptor, magic) = (fields.u32()?, fields.u8()?, fields.u32()?);
    Ok((magic == MAGIC && descriptor & RESERVED == 0).then_some((u64::from(frames), descriptor)))
}

/// The table of frames of these stored and decoded lengths.
#[cfg(writes)]
pub fn table(frames: &[(u32, u32)]) -> Vec<u8> {
    let length = (table_bytes(frames.len() as u64) - HEADER_BYTES) as u32;
    let mut table = [FRAME_MAGIC.to_le_bytes(), length.to_le_bytes()].concat();
    table.extend(frames.iter().flat_map(|(stored, decoded)| [stored.to_le_bytes(), decoded.to_le_bytes()]).flatten());
    table.extend((frames.len() as u32).to_le_bytes());
    table.push(0);
    table.extend(MAGIC.to_le_bytes());
    table
}

#[cfg(all(test, writes))]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// A table with checksums, byte for byte as the specification describes it.
    const WITH_CHECKSUMS: &[u8] = b"\x5e\x2a\x4d\x18\x21\0\0\0\
        \x0a\0\0\0\x28\0\0\0sum1\x0c\0\0\0\x14\0\0\0sum2\
        \x02\0\0\0\x80\xb1\xea\x92\x8f";

    #[test]
    fn reads_tables_with_and_without_checksums() {
        assert_eq!(table_length(&WITH_CHECKSUMS[WITH_CHECKSUMS.len() - 9..]), Some(WITH_CHECKSUMS.len() as u64));
        assert_eq!(parse(WITH_CHECKSUMS).unwrap(), [(10, 40), (12, 20), (41, 0)]);
        let own = table(&[(10, 40), (12, 20)]);
        assert_eq!(own.len() as u64, table_bytes(2));
        assert_eq!(table_length(&own[own.len() - 9..]), Some(own.len() as u64));
        assert_eq!(parse(&own).unwrap(), [(10, 40), (12, 20), (33, 0)]);
    }

    #[test]
    fn refuses_what_is_no_table() {
        assert_eq!(table_length(b"any bytes"), None);
        assert_eq!(table_length(b"short"), None);
        for at in [0, 4, 32, 36, 37] {
            let mut damaged = WITH_CHECKSUMS.to_vec();
            damaged[at] ^= 0x44;
            assert!(parse(&damaged).is_err(), "{at}");
        }
        assert!(parse(&WITH_CHECKSUMS[1..]).is_err() && parse(&[]).is_err());
    }
}
