//! Object headers: the messages that describe a group or a dataset.

use super::source::Source;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::window::Stop;

/// The maximum length of the header of an object with its continuations. A message has at most 64 KiB; datasets and
/// groups have a few short ones, and as many attributes as a writer gives them.
const MAX_HEADER_BYTES: u64 = 8 << 20;

/// The maximum number of continuations of a header.
const MAX_CHUNKS: usize = 1024;

/// The length of the head of a header of version 1, which is aligned to 8 bytes.
const HEAD_1_BYTES: u64 = 16;

/// The types of messages that are used.
pub(super) mod kind {
    pub(in super::super) const DATASPACE: u16 = 1;
    pub(in super::super) const LINK_INFO: u16 = 2;
    pub(in super::super) const DATATYPE: u16 = 3;
    pub(in super::super) const LINK: u16 = 6;
    pub(in super::super) const EXTERNAL_FILES: u16 = 7;
    pub(in super::super) const LAYOUT: u16 = 8;
    pub(in super::super) const FILTERS: u16 = 11;
    pub(in super::super) const ATTRIBUTE: u16 = 12;
    pub(super) const CONTINUATION: u16 = 16;
    pub(in super::super) const SYMBOL_TABLE: u16 = 17;
}

/// Whether a message is shared: its data is then an address.
const SHARED: u8 = 2;

/// A message of a header.
pub(super) struct Message<'w> {
    pub(super) kind: u16,
    pub(super) is_shared: bool,
    pub(super) data: &'w [u8],
    /// The address of the data.
    pub(super) address: u64,
}

/// Reads the messages of the object at an address.
///
/// # Errors
/// [`Stop::Need`] while bytes are missing; `FORMAT` for an invalid header; `LIMIT` for one that is too long.
pub(super) fn messages<'w>(source: Source<'w>, address: u64) -> Result<Vec<Message<'w>>, Stop> {
    let mut fields = source.fields(source.at(address, 6)?);
    let mut reading = Reading { source, found: Vec::new(), chunks: Vec::new(), bytes: 0 };
    match fields.u8()? {
        1 => {
            let mut fields = source.fields(source.at(address, HEAD_1_BYTES)?);
            fields.take(8)?;
            let length = u64::from(fields.u32()?);
            reading.chunks.push((address.saturating_add(HEAD_1_BYTES), length));
            reading.read(Style::One)?;
        }
        b'O' => {
            fields.signature(b"HDR")?;
            let (version, flags) = (fields.u8()?, source.fields(source.at(address.saturating_add(5), 1)?).u8()?);
            if version != 2 {
                return Err(malformed(format!("an object header has version {version}")).into());
            }
            let times = if flags & 0x20 == 0 { 0 } else { 16 };
            let phases = if flags & 0x10 == 0 { 0 } else { 4 };
            let size_bytes = 1 << (flags & 3);
            let size_at = address.saturating_add(6 + times + phases);
            let length = source.fields(source.at(size_at, size_bytes)?).number(size_bytes as usize)?;
            reading.chunks.push((size_at.saturating_add(size_bytes), length));
            reading.read(if flags & 4 == 0 { Style::Two } else { Style::TwoWithOrder })?;
        }
        other => return Err(malformed(format!("an object header begins with {other}")).into()),
    }
    Ok(reading.found)
}

/// How messages are preceded by their type and length.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    One,
    Two,
    /// With the order of creation.
    TwoWithOrder,
}

struct Reading<'w> {
    source: Source<'w>,
    found: Vec<Message<'w>>,
    /// The address and the length of each part of the header.
    chunks: Vec<(u64, u64)>,
    bytes: u64,
}

impl<'w> Reading<'w> {
    fn read(&mut self, style: Style) -> Result<(), Stop> {
        let mut number = 0;
        while let Some(&(address, length)) = self.chunks.get(number) {
            self.bytes = self.bytes.saturating_add(length);
            if self.bytes > MAX_HEADER_BYTES || number >= MAX_CHUNKS {
                let what =
                    format!("the header of an object has more than {MAX_HEADER_BYTES} bytes or {MAX_CHUNKS} parts");
                return Err(Error::new(ErrorKind::Limit, what).into());
            }
            self.read_chunk(address, length, style, number > 0)?;
            number += 1;
        }
        Ok(())
    }

    fn read_chunk(&mut self, address: u64, length: u64, style: Style, is_continuation: bool) -> Result<(), Stop> {
        let bytes = self.source.at(address, length)?;
        let mut fields = self.source.fields(bytes);
        let mut trailing = 0;
        if is_continuation && style != Style::One {
            fields.signature(b"OCHK")?;
            trailing = 4; // a checksum
        }
        let head_bytes = match style {
            Style::One => 8,
            Style::Two => 4,
            Style::TwoWithOrder => 6,
        };
        while fields.rest().len() >= head_bytes + trailing {
            let kind = if style == Style::One { fields.u16()? } else { u16::from(fields.u8()?) };
            let (size, flags) = (fields.u16()?, fields.u8()?);
            fields.take(head_bytes - if style == Style::One { 5 } else { 4 })?;
            let address = address + (bytes.len() - fields.rest().len()) as u64;
            let data = fields.take(usize::from(size))?;
            if kind == kind::CONTINUATION {
                let mut fields = self.source.fields(data);
                if let (Some(address), length) = (fields.address()?, fields.length()?) {
                    self.chunks.push((address, length));
                }
                continue;
            }
            self.found.push(Message { kind, is_shared: flags & SHARED != 0, data, address });
        }
        Ok(())
    }
}
