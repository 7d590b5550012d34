//! Reads the header, the table of contents and the names, and the content of metadata chunks.

use crate::codec::{digest, zstd};
use crate::deferred::Code;
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::fields::Fields;
use crate::format::deferred;
use crate::sorting::sort;
use crate::values::budget::Budget;
use crate::values::input::Input;
use crate::window::{Stop, Window};
use std::ops::Range;

/// The name of the format in the registry.
pub(super) const NAME: &str = "aero";

/// The first four bytes.
pub(crate) const MAGIC: [u8; 4] = *b"AERO";

/// The supported version, as (major, minor).
pub(crate) const VERSION: (u16, u16) = (0, 1);

pub(crate) const HEADER_BYTES: u64 = 96;
pub(crate) const TOC_HEADER_BYTES: u64 = 16;
pub(crate) const ENTRY_BYTES: u64 = 80;

/// The specification's limit on the number of chunks. Prevents an invalid count from making the reader fetch tensor
/// data as the table.
pub(crate) const MAX_CHUNKS: u32 = 1_000_000;

/// The specification's limit on the total size of the chunk names. Prevents an invalid length from making the reader
/// fetch tensor data as names.
pub(crate) const MAX_NAMES_BYTES: u64 = 512 << 20;

/// The maximum size of a metadata chunk, stored and decoded. An index of 100,000 tensors has about 10 MB; the
/// specification allows 2 GB, of which parsed values alone would exhaust the 4 GiB of wasm32. Prevents a compressed
/// chunk of a few kilobytes from exhausting memory when decoded.
pub(crate) const MAX_METADATA_BYTES: u64 = 256 << 20;

/// The maximum length of a chunk name. Typical names have about 20 bytes. Entries may share the bytes of a name, so
/// without a limit thousands of entries could each refer to the same half megabyte.
pub(crate) const MAX_NAME_BYTES: u32 = 1024;

const FLAG_COMPRESSED: u32 = 1;

/// Metadata chunks are read in one range if the gap between them is at most this long.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// The table of contents of a file.
#[derive(Debug)]
pub(super) struct Toc<'w> {
    /// The UUID of the file, in hexadecimal.
    pub(super) uuid: String,
    /// The byte range of the entries.
    pub(super) entries: Range<u64>,
    /// The end of the header, the table and the names, whichever is last.
    pub(super) control_end: u64,
    /// The chunks in the order of the table.
    pub(super) chunks: Vec<Chunk<'w>>,
    /// The number of reserved fields that are not zero: of the header, of the table's header and of its entries.
    pub(super) nonzero_reserved: u64,
}

#[derive(Debug)]
pub(super) struct Chunk<'w> {
    pub(super) kind: [u8; 4],
    flags: u32,
    pub(super) range: Range<u64>,
    decoded_length: u64,
    /// Borrowed rather than copied, because entries may share the bytes of a name.
    pub(super) name: &'w str,
    /// The digest of the decoded bytes.
    pub(super) blake3: [u8; 32],
    reserved: u64,
}

impl Chunk<'_> {
    pub(super) fn is_compressed(&self) -> bool {
        self.flags & FLAG_COMPRESSED != 0
    }

    /// Whether the chunk is read with the index.
    pub(super) fn is_metadata(&self) -> bool {
        [b"IHSH", b"MJSN", b"MMSG", b"TIDX"].contains(&&self.kind)
    }

    /// Whether the chunk has a digest: some writers store zeros instead.
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
        let mut nonzero_reserved = u64::from(!header.reserved_is_zero);
        nonzero_reserved += u64::from(fields.u32()? != 0) + u64::from(fields.u64()? != 0);
        if count > MAX_CHUNKS {
            let what = format!("the table of contents claims {count} chunks, more than the format's {MAX_CHUNKS}");
            return Err(Error::new(ErrorKind::Limit, what).at(start..start + 4).into());
        }
        let entries = start + TOC_HEADER_BYTES..start + TOC_HEADER_BYTES + u64::from(count) * ENTRY_BYTES;
        if entries.end > header.toc.end {
            let toc_bytes = header.toc.end - start;
            let what = format!("{count} entries do not fit into the {toc_bytes} bytes of the table of contents");
            return Err(malformed(what).at(header.toc).into());
        }
        let control_end = header.toc.end.max(header.names.end);
        let names = window.get(header.names.clone())?;
        let mut fields = Fields::new(window.get(entries.clone())?, entries.start, "the table of contents");
        let mut chunks = Vec::new(); // no capacity from the untrusted count
        for _ in 0..count {
            let start = fields.position();
            let chunk = read_chunk(&mut fields, names).map_err(|e| e.at(start..start + ENTRY_BYTES))?;
            check_place(&chunk, control_end, window.file_length())?;
            nonzero_reserved += u64::from(chunk.reserved != 0);
            chunks.push(chunk);
        }
        deferred::check(Code::Blake3)?; // with which chunks are compared while they are parsed
        Ok(Toc { uuid: header.uuid, entries, control_end, chunks, nonzero_reserved })
    }

    /// Iterates over all chunks of a kind, in the order of the table.
    pub(super) fn all(&self, kind: [u8; 4]) -> impl Iterator<Item = &Chunk<'w>> {
        self.chunks.iter().filter(move |chunk| chunk.kind == kind)
    }

    pub(super) fn first(&self, kind: [u8; 4]) -> Option<&Chunk<'w>> {
        self.all(kind).next()
    }

    /// Returns the stored size of the header, the table, the names and the metadata, which are read with the index.
    pub(super) fn stored_bytes(&self) -> u64 {
        let chunks = self.chunks.iter().filter(|chunk| chunk.is_metadata());
        chunks.fold(self.control_end, |sum, chunk| sum.saturating_add(chunk.range.end - chunk.range.start))
    }

    /// Requests adjacent metadata chunks in one range. Rejects overlapping metadata chunks: otherwise many chunks that
    /// share the same bytes would each be read and stored.
    pub(super) fn want_metadata(&self, window: &Window) -> Result<(), Stop> {
        let mut ranges: Vec<_> = self.chunks.iter().filter(|c| c.is_metadata()).map(|c| c.range.clone()).collect();
        ranges.retain(|range| !range.is_empty());
        sort(&mut ranges, |range| (range.start, range.end, 0));
        let overlapping = ranges.iter().zip(ranges.iter().skip(1)).find(|(first, second)| second.start < first.end);
        if let Some((_, second)) = overlapping {
            return Err(malformed("two chunks of metadata overlap").at(second.clone()).into());
        }
        let mut merged: Option<Range<u64>> = None;
        for range in ranges {
            merged = Some(match merged {
                Some(run) if range.start.saturating_sub(run.end) <= MAX_GAP_BYTES => run.start..run.end.max(range.end),
                Some(run) => {
                    request(window, run)?;
                    range
                }
                None => range,
            });
        }
        merged.map_or(Ok(()), |run| request(window, run))
    }

    /// Decodes a chunk, parses it with `parse`, and compares the decoded bytes with the chunk's digest.
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
        let stated = chunk.has_digest().then_some(Digest::blake3(chunk.blake3));
        let read = || {
            if !chunk.is_compressed() {
                stated.map(|stated| digest::compare(digest::digest_of(stored, stated), stated)).transpose()?;
                return parse(&mut Input::Stored(stored), budget);
            }
            zstd::check_lengths(stored.len() as u64, chunk.decoded_length)?;
            budget.decode(chunk.decoded_length)?;
            let mut input = Input::packed(stored, chunk.decoded_length, stated);
            match parse(&mut input, budget) {
                // Do not decode the rest of a chunk that exceeds a limit.
                Err(error) if error.kind == ErrorKind::Limit => Err(error),
                // If the bytes are damaged, report the damage rather than the parse error that it causes.
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
    reserved_is_zero: bool,
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
            return Err(malformed("the table of contents is too short for its header").at(12..28).into());
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
        let reserved_is_zero = fields.array::<28>()? == [0; 28];
        Ok(Header { toc, names, uuid, reserved_is_zero })
    }
}

fn read_chunk<'w>(fields: &mut Fields, names: &'w [u8]) -> Result<Chunk<'w>> {
    let (kind, flags) = (fields.array()?, fields.u32()?);
    let (offset, length, decoded_length) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (name_start, name_length) = (u64::from(fields.u32()?), fields.u32()?);
    if name_length > MAX_NAME_BYTES {
        let what = format!("a chunk's name has {name_length} bytes; weightstream reads at most {MAX_NAME_BYTES}");
        return Err(Error::new(ErrorKind::Limit, what));
    }
    let name_length = u64::from(name_length);
    let reserved = fields.u64()?;
    let blake3 = fields.array()?;
    let inside = usize::try_from(name_start).ok().zip(usize::try_from(name_start + name_length).ok());
    let name = inside.and_then(|(start, end)| names.get(start..end));
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| malformed("a chunk's name is outside the names, or is not UTF-8"))?;
    let end = offset.checked_add(length);
    let range = end.map(|end| offset..end).ok_or_else(|| malformed("a chunk's offset and length overflow u64"))?;
    Ok(Chunk { kind, flags, range, decoded_length, name, blake3, reserved })
}

fn check_place(chunk: &Chunk, control_end: u64, file_length: Option<u64>) -> Result<()> {
    let Chunk { range, name, .. } = chunk;
    if let Some(length) = file_length
        && range.end > length
    {
        let what = format!("the chunk `{name}` ends at byte {}, but the file has {length} bytes", range.end);
        return Err(Error::new(ErrorKind::Truncated, what).at(range.clone()));
    }
    if range.start < control_end && !range.is_empty() {
        let start = range.start;
        let what = format!("the chunk `{name}` begins at byte {start}, inside the header, the table or the names");
        return Err(malformed(what).at(range.clone()));
    }
    Ok(())
}

/// Checks the lengths of a chunk that is read into memory.
fn check_length(chunk: &Chunk) -> Result<()> {
    let Chunk { range, decoded_length, name, .. } = chunk;
    let stored_length = range.end - range.start;
    if stored_length.max(*decoded_length) > MAX_METADATA_BYTES {
        let claimed = stored_length.max(*decoded_length);
        let what = format!(
            "the chunk `{name}` claims {claimed} bytes; weightstream reads metadata chunks of up to \
             {MAX_METADATA_BYTES} (`MAX_METADATA_BYTES`), though the format allows 2 GB"
        );
        let advice = "If the file is not damaged, write it with fewer tensors or less metadata.";
        return Err(Error::new(ErrorKind::Limit, what).at(range.clone()).advise(advice));
    }
    if !chunk.is_compressed() && stored_length != *decoded_length {
        let what = format!(
            "the uncompressed chunk `{name}` has {stored_length} bytes, but its decoded length is {decoded_length}"
        );
        return Err(malformed(what).at(range.clone()));
    }
    Ok(())
}

/// Requests `run`, if it is small enough for one request.
fn request(window: &Window, run: Range<u64>) -> Result<(), Stop> {
    if run.end - run.start <= MAX_METADATA_BYTES {
        window.get(run)?;
    }
    Ok(())
}

/// Creates an error about an unsupported version or flag.
pub(super) fn unsupported(what: String) -> Error {
    Error::new(ErrorKind::Unsupported, what)
}
