//! The header, the table of contents and the names: which chunks there are, and what is in them.

use crate::codec::{digest, zstd};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::fields::Fields;
use crate::format::values::budget::Budget;
use crate::format::values::input::Input;
use crate::index::Digest;
use crate::window::{Stop, Window};
use std::ops::Range;

/// The name of the format in the registry.
pub(super) const NAME: &str = "aero";

/// The first four bytes.
pub const MAGIC: [u8; 4] = *b"AERO";

/// The version that is read, as files state it.
pub(crate) const VERSION: (u16, u16) = (0, 1);

pub(crate) const HEADER_BYTES: u64 = 96;
pub(crate) const TOC_HEADER_BYTES: u64 = 16;
pub(crate) const ENTRY_BYTES: u64 = 80;

/// The specification's limit on chunks. Stops a count that would make the reader fetch tensors as a table.
pub const MAX_CHUNKS: u32 = 1_000_000;

/// The specification's limit on the names of all chunks. Stops a length that would make the reader fetch tensors as
/// names.
pub const MAX_NAMES_BYTES: u64 = 512 << 20;

/// An index of 100,000 tensors has some 10 MB; the specification allows 2 GiB. Stops a chunk of kilobytes that decodes
/// until the memory is full.
pub const MAX_METADATA_BYTES: u64 = 256 << 20;

/// Names of chunks are some 20 bytes long. Entries may name the same bytes: stops thousands that name the same half of
/// a megabyte.
pub const MAX_NAME_BYTES: u32 = 1024;

const FLAG_COMPRESSED: u32 = 1;

/// What is between chunks of metadata is read with them if it is no more than this.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// What a file holds.
#[derive(Debug)]
pub(super) struct Toc<'w> {
    /// In hexadecimal.
    pub(super) uuid: String,
    /// Where the entries lie.
    pub(super) entries: Range<u64>,
    /// Where the header, the table and the names have all ended.
    pub(super) control_end: u64,
    /// In the order of the table.
    pub(super) chunks: Vec<Chunk<'w>>,
}

#[derive(Debug)]
pub(super) struct Chunk<'w> {
    pub(super) kind: [u8; 4],
    flags: u32,
    pub(super) range: Range<u64>,
    decoded_length: u64,
    /// Not copied: entries may name the same bytes.
    pub(super) name: &'w str,
    /// Over the decoded bytes.
    pub(super) blake3: [u8; 32],
}

impl Chunk<'_> {
    pub(super) fn is_compressed(&self) -> bool {
        self.flags & FLAG_COMPRESSED != 0
    }

    /// Whether its bytes are read with the index.
    pub(super) fn is_metadata(&self) -> bool {
        [b"IHSH", b"MJSN", b"MMSG", b"TIDX"].contains(&&self.kind)
    }

    /// Whether its digest is not the zeros that some writers leave there.
    pub(super) fn has_digest(&self) -> bool {
        self.blake3 != [0; 32]
    }
}

impl<'w> Toc<'w> {
    pub(super) fn read(window: &'w Window) -> Result<Self, Stop> {
        let header = Header::read(window)?;
        let start = header.toc.start;
        let mut fields =
            Fields::new(window.get(start..start + TOC_HEADER_BYTES)?, start, "the header of the table of contents");
        let count = fields.u32()?;
        if count > MAX_CHUNKS {
            let what = format!("the table of contents claims {count} chunks, more than the format's {MAX_CHUNKS}");
            return Err(Error::new(ErrorKind::Limit, what).at(start..start + 4).into());
        }
        let entries = start + TOC_HEADER_BYTES..start + TOC_HEADER_BYTES + u64::from(count) * ENTRY_BYTES;
        if entries.end > header.toc.end {
            let what = format!("{count} chunks do not fit into the {} bytes of their table", header.toc.end - start);
            return Err(malformed(what).at(header.toc).into());
        }
        let control_end = header.toc.end.max(header.names.end);
        let names = window.get(header.names.clone())?;
        let mut fields = Fields::new(window.get(entries.clone())?, entries.start, "the table of contents");
        let mut chunks = Vec::new(); // grows with the entries that are there, never by the count
        for _ in 0..count {
            let start = fields.position();
            let chunk = read_chunk(&mut fields, names).map_err(|e| e.at(start..start + ENTRY_BYTES))?;
            check_place(&chunk, control_end, window.file_length())?;
            chunks.push(chunk);
        }
        Ok(Toc { uuid: header.uuid, entries, control_end, chunks })
    }

    /// All chunks of a kind, in their order.
    pub(super) fn all(&self, kind: [u8; 4]) -> impl Iterator<Item = &Chunk<'w>> {
        self.chunks.iter().filter(move |chunk| chunk.kind == kind)
    }

    pub(super) fn first(&self, kind: [u8; 4]) -> Option<&Chunk<'w>> {
        self.all(kind).next()
    }

    /// How many bytes the file has of what is read with the index: the header, the table, the names, the metadata.
    pub(super) fn stored_bytes(&self) -> u64 {
        let chunks = self.chunks.iter().filter(|chunk| chunk.is_metadata());
        chunks.fold(self.control_end, |sum, chunk| sum.saturating_add(chunk.range.end - chunk.range.start))
    }

    /// Asks for all chunks of metadata at once where they lie together, as they do. None of them may lie in another:
    /// many that share their bytes would be read, and kept, as often as there are.
    pub(super) fn want_metadata(&self, window: &Window) -> Result<(), Stop> {
        let mut ranges: Vec<_> = self.chunks.iter().filter(|c| c.is_metadata()).map(|c| c.range.clone()).collect();
        ranges.retain(|range| !range.is_empty());
        ranges.sort_by_key(|range| range.start);
        let overlapping = ranges.iter().zip(ranges.iter().skip(1)).find(|(first, second)| second.start < first.end);
        if let Some((_, second)) = overlapping {
            return Err(malformed("two chunks of metadata overlap").at(second.clone()).into());
        }
        let mut together: Option<Range<u64>> = None;
        for range in ranges {
            together = Some(match together {
                Some(run) if range.start.saturating_sub(run.end) <= MAX_GAP_BYTES => run.start..run.end.max(range.end),
                Some(run) => {
                    wanted(window, run)?;
                    range
                }
                None => range,
            });
        }
        together.map_or(Ok(()), |run| wanted(window, run))
    }

    /// What `parse` makes of a chunk, whose decoded bytes are compared with its digest.
    pub(super) fn read_chunk<T>(
        &self,
        window: &Window,
        chunk: &Chunk,
        (warnings, budget): (&mut Vec<String>, &mut Budget),
        parse: impl FnOnce(&mut Input, &mut Budget) -> Result<T>,
    ) -> Result<T, Stop> {
        check_length(chunk)?;
        let stored = window.get(chunk.range.clone())?;
        if !chunk.has_digest() {
            let warning = format!("the chunk `{}` has no digest, so it was not checked", chunk.name);
            budget.bytes(warning.len() as u64, 0)?;
            warnings.push(warning);
        }
        let stated = chunk.has_digest().then_some(Digest::Blake3(chunk.blake3));
        let read = || {
            if !chunk.is_compressed() {
                stated.map(|stated| digest::compare(digest::digest_of(stored, stated), stated)).transpose()?;
                return parse(&mut Input::Stored(stored), budget);
            }
            zstd::check_lengths(stored.len() as u64, chunk.decoded_length)?;
            budget.decode(chunk.decoded_length)?;
            let mut input = Input::packed(stored, chunk.decoded_length, stated);
            match parse(&mut input, budget) {
                // The rest is not worth to be decoded.
                Err(error) if error.kind == ErrorKind::Limit => Err(error),
                // Whatever is wrong with damaged bytes, that they are damaged is what matters.
                outcome => input.finish().and(outcome),
            }
        };
        Ok(read().map_err(|error: Error| error.at(chunk.range.clone()))?)
    }
}

struct Header {
    toc: Range<u64>,
    names: Range<u64>,
    uuid: String,
}

impl Header {
    fn read(window: &Window) -> Result<Header, Stop> {
        let mut fields = Fields::new(window.get(0..HEADER_BYTES)?, 0, "the header");
        fields.array::<{ MAGIC.len() }>()?;
        let version = (fields.u16()?, fields.u16()?);
        if version != VERSION {
            let what = format!("AERO version {}.{}; weightstream reads version 0.1", version.0, version.1);
            return Err(unsupported(what).at(4..8).into());
        }
        let header_bytes = fields.u32()?;
        if u64::from(header_bytes) != HEADER_BYTES {
            return Err(unsupported(format!("a header of {header_bytes} bytes; version 0.1 has 96")).at(8..12).into());
        }
        let mut section = |what: &str| {
            let (offset, length) = (fields.u64()?, fields.u64()?);
            let end = offset.checked_add(length).filter(|_| offset >= HEADER_BYTES);
            end.map(|end| offset..end)
                .ok_or_else(|| malformed(format!("{what} has the offset {offset} and the length {length}")).at(12..44))
        };
        let (toc, names) = (section("the table of contents")?, section("the names")?);
        let flags = fields.u64()?;
        if flags != 0 {
            let what = format!("the file has the flags {flags:#x}, which version 0.1 does not define");
            return Err(unsupported(what).at(44..52).into());
        }
        if toc.end - toc.start < TOC_HEADER_BYTES {
            return Err(malformed("the table of contents has no room for its header").at(12..28).into());
        }
        if names.end - names.start > MAX_NAMES_BYTES {
            let what =
                format!("the names claim {} bytes, more than the format's {MAX_NAMES_BYTES}", names.end - names.start);
            return Err(Error::new(ErrorKind::Limit, what).at(28..44).into());
        }
        if toc.start < names.end && names.start < toc.end {
            return Err(malformed("the table of contents and the names overlap").at(12..44).into());
        }
        let uuid = fields.array::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Header { toc, names, uuid })
    }
}

fn read_chunk<'w>(fields: &mut Fields, names: &'w [u8]) -> Result<Chunk<'w>> {
    let (kind, flags) = (fields.array()?, fields.u32()?);
    let (offset, length, decoded_length) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (name_start, name_length) = (u64::from(fields.u32()?), fields.u32()?);
    if name_length > MAX_NAME_BYTES {
        let what = format!("a chunk's name has {name_length} bytes; weightstream reads names of {MAX_NAME_BYTES}");
        return Err(Error::new(ErrorKind::Limit, what));
    }
    let name_length = u64::from(name_length);
    fields.u64()?;
    let blake3 = fields.array()?;
    let inside = usize::try_from(name_start).ok().zip(usize::try_from(name_start + name_length).ok());
    let name = inside.and_then(|(start, end)| names.get(start..end));
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| malformed("a chunk's name is not among the names, or not UTF-8"))?;
    let end = offset.checked_add(length);
    let range = end.map(|end| offset..end).ok_or_else(|| malformed("a chunk's offset and length leave 64 bits"))?;
    Ok(Chunk { kind, flags, range, decoded_length, name, blake3 })
}

fn check_place(chunk: &Chunk, control_end: u64, file_length: Option<u64>) -> Result<()> {
    let Chunk { range, name, .. } = chunk;
    if let Some(length) = file_length
        && range.end > length
    {
        let what = format!("the chunk `{name}` reaches to byte {}, but the file has {length}", range.end);
        return Err(Error::new(ErrorKind::Truncated, what).at(range.clone()));
    }
    if range.start < control_end && !range.is_empty() {
        let what = format!("the chunk `{name}` begins at byte {}, inside what comes before the chunks", range.start);
        return Err(malformed(what).at(range.clone()));
    }
    Ok(())
}

/// Checks the lengths of a chunk that is read into memory.
fn check_length(chunk: &Chunk) -> Result<()> {
    let Chunk { range, decoded_length, name, .. } = chunk;
    let stored_length = range.end - range.start;
    if stored_length.max(*decoded_length) > MAX_METADATA_BYTES {
        let what =
            format!("the chunk `{name}` claims {decoded_length} bytes; weightstream reads up to {MAX_METADATA_BYTES}");
        return Err(Error::new(ErrorKind::Limit, what).at(range.clone()));
    }
    if !chunk.is_compressed() && stored_length != *decoded_length {
        let what = format!(
            "the chunk `{name}` has {stored_length} bytes and is not compressed, but should be {decoded_length}"
        );
        return Err(malformed(what).at(range.clone()));
    }
    Ok(())
}

/// Stops for `run`, if it is small enough to be asked for at once.
fn wanted(window: &Window, run: Range<u64>) -> Result<(), Stop> {
    if run.end - run.start <= MAX_METADATA_BYTES {
        window.get(run)?;
    }
    Ok(())
}

/// An error about a version or a flag that is not read.
pub(super) fn unsupported(what: String) -> Error {
    Error::new(ErrorKind::Unsupported, what)
}
