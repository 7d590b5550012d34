//! CRC-32 with tables that are computed at first use: in a module they would be 16 KiB for each polynomial, which no
//! compression makes smaller, and a page loads them before its first tensor.
//!
//! Source: M. E. Kounavis and F. L. Berry, "Novel Table Lookup-Based Algorithms for High-Performance CRC Generation",
//! slicing by 16.

use std::sync::OnceLock;

/// Number of bytes that are processed at once, and of tables.
const SLICE_BYTES: usize = 16;

type Tables = [[u32; 256]; SLICE_BYTES];

/// The CRC-32/IEEE with tables.
pub(crate) static IEEE: CrcTable = CrcTable::new(0xedb8_8320);

/// The CRC-32C with tables.
#[cfg(feature = "crc32c")]
pub(crate) static CASTAGNOLI: CrcTable = CrcTable::new(0x82f6_3b78);

/// A CRC whose bits are reflected, and which is inverted at both ends.
pub(crate) struct CrcTable {
    /// The reflected polynomial, without its highest term.
    polynomial: u32,
    tables: OnceLock<Box<Tables>>,
}

impl CrcTable {
    const fn new(polynomial: u32) -> Self {
        CrcTable { polynomial, tables: OnceLock::new() }
    }

    /// Updates `crc` with `bytes`.
    pub(crate) fn append(&self, crc: u32, bytes: &[u8]) -> u32 {
        let tables = self.tables.get_or_init(|| tables(self.polynomial));
        let [first, ..] = &**tables;
        let (slices, rest) = bytes.as_chunks::<SLICE_BYTES>();
        let register = slices.iter().fold(!crc, |register, slice| {
            let mut slice = *slice;
            for (byte, register) in slice.iter_mut().zip(register.to_le_bytes()) {
                *byte ^= register;
            }
            // The first byte is followed by the most zeros.
            slice.iter().zip(tables.iter().rev()).fold(0, |sum, (byte, table)| sum ^ entry(table, *byte))
        });
        !rest.iter().fold(register, |register, byte| shifted(first, register, *byte))
    }
}

/// The tables: the register after a byte, and after a byte and as many zeros as the number of the table.
fn tables(polynomial: u32) -> Box<Tables> {
    let mut tables: Box<Tables> = Box::new([[0; 256]; SLICE_BYTES]);
    let after_byte = |byte| (0..8).fold(byte, |sum: u32, _| (sum >> 1) ^ if sum & 1 == 1 { polynomial } else { 0 });
    let [first, others @ ..] = &mut *tables;
    for (byte, entry) in (0..).zip(&mut *first) {
        *entry = after_byte(byte);
    }
    let mut before = *first;
    for table in others {
        before = before.map(|register| shifted(first, register, 0));
        *table = before;
    }
    tables
}

/// The register after one more byte.
fn shifted(first: &[u32; 256], register: u32, byte: u8) -> u32 {
    (register >> 8) ^ entry(first, register as u8 ^ byte)
}

fn entry(table: &[u32; 256], byte: u8) -> u32 {
    table.get(usize::from(byte)).copied().unwrap_or_default()
}

#[cfg(all(test, feature = "crc32c", not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matches_the_libraries(data in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300) {
            let (start, end) = data.split_at(cut.min(data.len()));
            prop_assert_eq!(IEEE.append(IEEE.append(0, start), end), crc32fast::hash(&data));
            prop_assert_eq!(CASTAGNOLI.append(CASTAGNOLI.append(0, start), end), crc32c::crc32c(&data));
        }
    }
}
