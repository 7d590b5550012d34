//! The links of a group: in a B-tree of symbol tables, or as messages in its header.

use super::header::{Message, kind};
use super::heap::LocalHeap;
use super::refused::Refused;
use super::source::Source;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::window::Stop;

/// The maximum level of a node of a B-tree. A node has at least two children.
const MAX_LEVEL: u8 = 16;

/// The maximum number of links of a group.
const MAX_LINKS: usize = 1 << 20;

/// The type of the entry of a symbol table that is a soft link.
const SOFT_LINK: u32 = 2;

/// The length of the rest of an entry of a symbol table: its type, and what depends on that.
const CACHED_BYTES: usize = 24;

/// A link of a group: its name, and the address of the object.
pub(super) type Link = (String, u64);

/// Whether an object is a group.
pub(super) fn is_group(messages: &[Message]) -> bool {
    messages.iter().any(|message| matches!(message.kind, kind::SYMBOL_TABLE | kind::LINK_INFO | kind::LINK))
}

/// The links of a group. What cannot be followed is added to `refused`; `path` is that of the group.
///
/// # Errors
/// [`Stop::Need`] while bytes are missing; `FORMAT` and `LIMIT` for invalid structures.
pub(super) fn links(
    source: Source,
    messages: &[Message],
    path: &str,
    refused: &mut Refused,
) -> Result<Vec<Link>, Stop> {
    let mut found = Vec::new();
    for message in messages {
        match message.kind {
            kind::SYMBOL_TABLE => {
                let mut fields = source.fields(message.data);
                if let (Some(tree), Some(heap)) = (fields.address()?, fields.address()?) {
                    let mut table = Table { source, heap: LocalHeap::read(source, heap)?, path, refused, found };
                    table.read_node(tree, MAX_LEVEL)?;
                    found = table.found;
                }
            }
            kind::LINK_INFO => {
                let mut fields = source.fields(message.data);
                let (_, flags) = (fields.u8()?, fields.u8()?);
                fields.take(if flags & 1 == 0 { 0 } else { 8 })?;
                if fields.address()?.is_some() {
                    refused.heap(path.trim_end_matches('/'));
                }
            }
            kind::LINK => match link(source, message)? {
                (name, Some(address)) => found.push((name, address)),
                (name, None) => refused.link(&format!("{path}{name}")),
            },
            _ => {}
        }
        check_count(found.len())?;
    }
    Ok(found)
}

fn check_count(links: usize) -> Result<()> {
    if links <= MAX_LINKS {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Limit, format!("a group has more than {MAX_LINKS} links")))
}

struct Table<'w, 'a> {
    source: Source<'w>,
    heap: LocalHeap<'w>,
    path: &'a str,
    refused: &'a mut Refused,
    found: Vec<Link>,
}

impl Table<'_, '_> {
    /// Reads a node of the B-tree below one of this level.
    fn read_node(&mut self, address: u64, above: u8) -> Result<(), Stop> {
        let Source { offset_bytes, length_bytes, .. } = self.source;
        let head = 8 + 2 * offset_bytes;
        let mut fields = self.source.fields(self.source.at(address, head as u64)?);
        fields.signature(b"TREE")?;
        let (node_type, level, count) = (fields.u8()?, fields.u8()?, usize::from(fields.u16()?));
        if node_type != 0 || level >= above {
            return Err(malformed(format!("a node of a group has type {node_type} and level {level}")).into());
        }
        let bytes = count * (length_bytes + offset_bytes) + length_bytes;
        let mut fields = self.source.fields(self.source.at(address.saturating_add(head as u64), bytes as u64)?);
        for _ in 0..count {
            fields.length()?; // a key
            let child = fields.address()?.ok_or_else(|| malformed("a node of a group has no address of a child"))?;
            match level {
                0 => self.read_symbols(child)?,
                level => self.read_node(child, level)?,
            }
        }
        Ok(())
    }

    fn read_symbols(&mut self, address: u64) -> Result<(), Stop> {
        let mut fields = self.source.fields(self.source.at(address, 8)?);
        fields.signature(b"SNOD")?;
        fields.take(2)?;
        let count = usize::from(fields.u16()?);
        let entry_bytes = 2 * self.source.offset_bytes + CACHED_BYTES;
        let entries = self.source.at(address.saturating_add(8), (count * entry_bytes) as u64)?;
        for entry in entries.chunks_exact(entry_bytes) {
            let mut fields = self.source.fields(entry);
            let name = fields.address()?.ok_or_else(|| malformed("a link has no name"))?;
            let (object, cached) = (fields.address()?, fields.u32()?);
            let name = self.heap.name(name)?;
            match object.filter(|_| cached != SOFT_LINK) {
                Some(object) => self.found.push((name.to_owned(), object)),
                None => self.refused.link(&format!("{}{name}", self.path)),
            }
            check_count(self.found.len())?;
        }
        Ok(())
    }
}

/// Reads a Link message: the name, and the address of a hard link.
fn link(source: Source, message: &Message) -> Result<(String, Option<u64>)> {
    let mut fields = source.fields(message.data);
    let (version, flags) = (fields.u8()?, fields.u8()?);
    if version != 1 {
        return Err(malformed(format!("a link has version {version}")));
    }
    let link_type = if flags & 8 == 0 { 0 } else { fields.u8()? };
    fields.take(if flags & 4 == 0 { 0 } else { 8 })?; // the order of creation
    fields.take(usize::from(flags & 16 != 0))?; // the character set
    let length = fields.number(1 << (flags & 3))?;
    let length = usize::try_from(length).map_err(|_| malformed("the name of a link is too long"))?;
    let name = std::str::from_utf8(fields.take(length)?).map_err(|_| malformed("a name is not UTF-8"))?;
    let address = if link_type == 0 { fields.address()? } else { None };
    Ok((name.to_owned(), address))
}
