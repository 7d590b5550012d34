//! The records of archives that are written: stored members, with ZIP64 fields where they are needed.

use super::LOCAL_HEADER;

/// The maximum length of a name, which has 16 bits.
pub(crate) const MAX_NAME_BYTES: usize = 0xffff;

/// The maximum length of a comment, which has 16 bits.
pub(crate) const MAX_COMMENT_BYTES: usize = 0xffff;

/// The offset of the CRC-32 in a local header.
pub(crate) const CRC32_OFFSET: u64 = 14;

/// The version of ZIP that a reader needs, without ZIP64 and with it.
const VERSIONS: [u16; 2] = [20, 45];

/// The host system whose attributes members have: Unix.
const MADE_ON_UNIX: u16 = 3 << 8;

/// The attributes of a regular file that only its owner may read, as Python writes them.
const ATTRIBUTES: u32 = 0o600 << 16;

/// The first day that ZIP can express: 1 January 1980.
const DATE: u16 = 1 << 5 | 1;

/// The flag of names in UTF-8.
const UTF_8: u16 = 1 << 11;

/// The value of 32-bit fields whose values are in 64-bit fields.
const IN_EXTRA: u32 = u32::MAX;

/// A stored member.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// The offset of its local header.
    pub(crate) offset: u64,
    pub(crate) byte_length: u64,
    pub(crate) crc32: u32,
}

impl Member {
    /// Whether the length is in a ZIP64 field.
    pub(crate) fn is_long(&self) -> bool {
        self.byte_length >= IN_EXTRA.into()
    }

    /// The local header.
    pub(crate) fn local_header(&self) -> Vec<u8> {
        self.local_header_with(self.is_long())
    }

    /// The local header, with a ZIP64 field or without one.
    pub(crate) fn local_header_with(&self, is_long: bool) -> Vec<u8> {
        let extra = if is_long { extra_field(&[self.byte_length, self.byte_length]) } else { Vec::new() };
        let mut header = LOCAL_HEADER.to_vec();
        self.write_shared_fields(&mut header, is_long, is_long);
        header.extend((extra.len() as u16).to_le_bytes());
        header.extend(self.name.as_bytes());
        header.extend(extra);
        header
    }

    /// The entry of the directory.
    pub(crate) fn directory_entry(&self) -> Vec<u8> {
        let is_long = self.is_long();
        let (offset, is_far) = field32(self.offset);
        let mut values = if is_long { vec![self.byte_length, self.byte_length] } else { Vec::new() };
        values.extend(is_far.then_some(self.offset));
        let extra = if values.is_empty() { Vec::new() } else { extra_field(&values) };
        let mut entry = b"PK\x01\x02".to_vec();
        entry.extend((version(is_long || is_far) | MADE_ON_UNIX).to_le_bytes());
        self.write_shared_fields(&mut entry, is_long, is_far);
        entry.extend((extra.len() as u16).to_le_bytes());
        entry.extend([0; 6]); // comment, volume, internal attributes
        entry.extend(ATTRIBUTES.to_le_bytes());
        entry.extend(offset.to_le_bytes());
        entry.extend(self.name.as_bytes());
        entry.extend(extra);
        entry
    }

    /// Writes the fields from the needed version to the length of the name, which both headers have.
    fn write_shared_fields(&self, header: &mut Vec<u8>, is_long: bool, is_far: bool) {
        let length = if is_long { IN_EXTRA } else { self.byte_length as u32 };
        let flags = if self.name.is_ascii() { 0 } else { UTF_8 };
        for field in [version(is_long || is_far), flags, 0, 0, DATE] {
            header.extend(field.to_le_bytes());
        }
        for field in [self.crc32, length, length] {
            header.extend(field.to_le_bytes());
        }
        header.extend((self.name.len() as u16).to_le_bytes());
    }
}

/// The end of an archive with this number of members, whose directory of `length` bytes begins at `start`.
pub(crate) fn end(members: u64, start: u64, length: u64, comment: &[u8]) -> Vec<u8> {
    let (count, is_many) = match u16::try_from(members) {
        Ok(count) if count < u16::MAX => (count, false),
        _ => (u16::MAX, true),
    };
    let ((length32, is_long), (start32, is_far)) = (field32(length), field32(start));
    let mut end = Vec::new();
    if is_many || is_long || is_far {
        let [_, zip64] = VERSIONS;
        end.extend(b"PK\x06\x06");
        end.extend(44u64.to_le_bytes()); // the length of what follows
        end.extend([(zip64 | MADE_ON_UNIX).to_le_bytes(), zip64.to_le_bytes()].concat());
        end.extend([0; 8]); // volumes
        for field in [members, members, length, start] {
            end.extend(field.to_le_bytes());
        }
        end.extend(b"PK\x06\x07\0\0\0\0");
        end.extend((start + length).to_le_bytes());
        end.extend(1u32.to_le_bytes());
    }
    end.extend(b"PK\x05\x06\0\0\0\0");
    end.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    end.extend([length32.to_le_bytes(), start32.to_le_bytes()].concat());
    end.extend((comment.len() as u16).to_le_bytes());
    end.extend(comment);
    end
}

/// A ZIP64 field.
fn extra_field(values: &[u64]) -> Vec<u8> {
    let mut field = [1u16.to_le_bytes(), (values.len() as u16 * 8).to_le_bytes()].concat();
    values.iter().for_each(|value| field.extend(value.to_le_bytes()));
    field
}

/// The 32-bit field of a value, and whether the value must be in a ZIP64 field.
fn field32(value: u64) -> (u32, bool) {
    match u32::try_from(value) {
        Ok(value) if value < IN_EXTRA => (value, false),
        _ => (IN_EXTRA, true),
    }
}

fn version(has_zip64: bool) -> u16 {
    let [usual, zip64] = VERSIONS;
    if has_zip64 { zip64 } else { usual }
}
