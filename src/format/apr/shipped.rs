//! APR v2 as its tools write it: a 64-byte header with its own CRC32, JSON metadata, a binary index without a header,
//! aligned tensors, and a CRC32 of all preceding bytes.
//!
//! Source: the crate `apr-format` 0.72 (`v2`), and `aprender` 0.20 to 0.24, which wrote the same layout with the magic
//! `APR2` and older codes for three dtypes. Where the sources are ambiguous, this parser reads:
//! - The writer sets the flags for LZ4 and zstd, but no tool compresses or decompresses: tensors are raw.
//! - Some published files lack the CRC32 at the end. `apr-format` never reads it; here a missing CRC32 is a warning.
//! - Offsets need not ascend: a streaming writer keeps the order in which it received the tensors, and sorts the index
//!   by name.

use super::head::{NAME, crc32_before, unknown_dtype};
use super::sections::Sections;
use crate::codec::digest::{self, Hasher};
use crate::dtype::{APR_Q4, APR_Q8, Dtype, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::fields::Fields;
use crate::format::checksum::RangeChecksum;
use crate::index::{Component, Digest, Index, Parsed, Tensor, check_tied_tensors};
use crate::values::budget::Budget;
use crate::values::json;
use crate::window::{Stop, Window};
use std::collections::HashMap;

/// The number of header bytes that distinguish this layout from the others.
pub(super) const MIN_SNIFF_BYTES: u64 = 20;

const HEADER_BYTES: u64 = 64;
const FOOTER_BYTES: u64 = 4;
/// Writers pad every section and tensor, including the last one, to a multiple of this.
const ALIGNMENT_BYTES: u64 = 64;
/// The maximum number of dimensions: the writer drops further ones.
const MAX_DIMS: u8 = 8;

const FLAG_ENCRYPTED: u16 = 1 << 2;
const FLAG_SIGNED: u16 = 1 << 3;
const FLAG_COLUMN_MAJOR: u16 = 1 << 11;

/// Whether a header with the magic `APR2` or `APR\0` has 64 bytes: its metadata follows it. The specification's header
/// has the size of the metadata where this layout has the high half of the metadata offset, which is 0.
pub(super) fn recognises(head: &[u8]) -> bool {
    head.get(12..20) == Some(&HEADER_BYTES.to_le_bytes())
}

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let header = parse_header(window)?;
    let sections = &header.sections;
    sections.want(window)?;
    let mut budget = Budget::of(window, sections.byte_length());
    let metadata = window.get(sections.metadata.clone())?;
    let metadata = json::parse_object(metadata, sections.metadata.start, "the metadata", &mut budget)?;
    let mut tensors = parse_index(window.get(sections.index.clone())?, &header, &mut budget)?;
    check_tied_tensors(&mut tensors, window.file_length())?;
    sections.check_tensors(&tensors)?;
    let mut warnings = Vec::new();
    if let Some(length) = window.file_length()
        && footer(&header, &tensors, length)?.is_none()
    {
        warnings.push("the file has no checksum at its end, so its tensors cannot be verified".to_owned());
    }
    if header.flags & FLAG_SIGNED != 0 {
        warnings.push("the file has a signature of unspecified format, which was not verified".to_owned());
    }
    Ok(Parsed::File(Index {
        format: NAME,
        version: header.version,
        metadata,
        long_arrays: Vec::new(),
        tensors: tensors.into(),
        warnings,
        other_shards: HashMap::new(),
        blocks: Vec::new(),
        quantized: None,
    }))
}

/// Returns the CRC32 at the end, which covers all bytes before it.
pub(super) fn checksums(window: &Window) -> Result<Vec<RangeChecksum>, Stop> {
    let Some(length) = window.file_length() else { return Ok(Vec::new()) };
    let header = parse_header(window)?;
    let mut budget = Budget::of(window, header.sections.byte_length());
    let tensors = parse_index(window.get(header.sections.index.clone())?, &header, &mut budget)?;
    let footer = footer(&header, &tensors, length)?.map(crc32_before);
    Ok(footer.into_iter().collect())
}

struct Header {
    version: String,
    flags: u16,
    tensor_count: u32,
    /// The index includes its padding.
    sections: Sections,
    data_offset: u64,
}

fn parse_header(window: &Window) -> Result<Header, Stop> {
    let bytes = window.get(0..HEADER_BYTES)?;
    let mut fields = Fields::new(bytes, 0, "the header");
    fields.array::<4>()?;
    let (major, minor) = (fields.u8()?, fields.u8()?);
    let flags = fields.u16()?;
    let tensor_count = fields.u32()?;
    let metadata_offset = fields.u64()?;
    let metadata_size = u64::from(fields.u32()?);
    let (index_offset, data_offset) = (fields.u64()?, fields.u64()?);
    check_crc32(bytes, fields.u32()?)?;
    if major != 2 {
        let what = format!("APR version {major}.{minor}; weightstream reads version 2");
        return Err(Error::new(ErrorKind::Unsupported, what).at(4..6).into());
    }
    check_flags(flags)?;
    let metadata_end = metadata_offset.checked_add(metadata_size);
    let metadata_end = metadata_end.ok_or_else(|| malformed("the end of the metadata overflows u64").at(12..24))?;
    // The header does not state the length of the index. It ends where the next section begins.
    let starts = [metadata_offset, data_offset].into_iter().filter(|start| *start >= index_offset);
    let index_end = match starts.min() {
        Some(start) => start,
        None => window.whole_length()?.saturating_sub(FOOTER_BYTES).max(index_offset),
    };
    let sections = Sections::new(HEADER_BYTES, metadata_offset..metadata_end, index_offset..index_end)?;
    Ok(Header { version: format!("{major}.{minor}"), flags, tensor_count, sections, data_offset })
}

/// Verifies the header's CRC32, which covers its 64 bytes except the four that hold the CRC32.
fn check_crc32(header: &[u8], stated: u32) -> Result<()> {
    let mut hasher = Hasher::new(Digest::Crc32(0));
    for covered in [header.get(..40), header.get(44..)] {
        hasher.update(covered.unwrap_or_default());
    }
    let compared = digest::compare(hasher.finish(), Digest::Crc32(stated));
    compared.map(|_| ()).map_err(|mut error| {
        error.what = format!("the header is damaged: {}", error.what);
        error.at(0..HEADER_BYTES)
    })
}

fn check_flags(flags: u16) -> Result<()> {
    if flags & FLAG_ENCRYPTED != 0 {
        let error = Error::new(ErrorKind::Unsupported, "the file is encrypted").at(6..8);
        return Err(error.advise("Decrypt it with the tool that encrypted it."));
    }
    if flags & FLAG_COLUMN_MAJOR != 0 {
        let error =
            Error::new(ErrorKind::Unsupported, "its tensors are column-major, which APR does not allow").at(6..8);
        return Err(error.advise("Import the model again with a current `apr import`, which writes row-major tensors."));
    }
    Ok(())
}

fn parse_index(bytes: &[u8], header: &Header, budget: &mut Budget) -> Result<Vec<Tensor>> {
    let mut fields = Fields::new(bytes, header.sections.index.start, "the tensor index");
    let mut tensors = Vec::new(); // no capacity from the untrusted count
    for _ in 0..header.tensor_count {
        let start = fields.position();
        let name_length = fields.u16()?;
        let name = fields.utf8(usize::from(name_length))?;
        budget.tensor(name, usize::from(MAX_DIMS))?;
        let tensor = parse_entry(&mut fields, name, header.data_offset);
        tensors.push(tensor.map_err(|e| e.at(fields.since(start)).in_tensor(name))?);
    }
    Ok(tensors)
}

fn parse_entry(fields: &mut Fields, name: &str, data_offset: u64) -> Result<Tensor> {
    let dtype = dtype_of(fields.u8()?);
    let dims = fields.u8()?;
    if dims > MAX_DIMS {
        return Err(malformed(format!("it has {dims} dimensions; the format allows {MAX_DIMS}")));
    }
    let shape = (0..dims).map(|_| fields.u64()).collect::<Result<Vec<_>>>()?;
    let (offset, size) = (fields.u64()?, fields.u64()?);
    let start = data_offset.checked_add(offset);
    let range = start.and_then(|start| Some(start..start.checked_add(size)?));
    let range = range.ok_or_else(|| malformed(format!("its offset {offset} and size {size} overflow u64")))?;
    check_byte_length(&dtype, &shape, size)?;
    Ok(Tensor::dense(name.to_owned(), dtype.clone(), shape, Component::raw(dtype, range)))
}

/// Returns the dtype of a code in either table; the tables do not conflict. 2, 8 and 9 predate `aprender` 0.26.
fn dtype_of(code: u8) -> Dtype {
    match code {
        0 => Dtype::F32,
        1 => Dtype::F16,
        2 | 30 => Dtype::BF16,
        3 => Dtype::F64,
        4 => Dtype::I32,
        5 => Dtype::I64,
        6 => Dtype::I8,
        7 => Dtype::U8,
        8 | 128 => Dtype::Other(APR_Q4.into()),
        9 | 129 => Dtype::Other(APR_Q8.into()),
        12 => Dtype::Q4_K,
        14 => Dtype::Q6_K,
        _ => unknown_dtype(code),
    }
}

/// Checks the size of a tensor.
/// - `APR_Q8`: one F32 scale, then an I8 for each element.
/// - `APR_Q4`: an F16 scale and 16 bytes for each 32 elements, two elements to a byte, the low half first, where 8
///   means zero; the last block is as long as the others.
/// - Block types of 256 elements may be padded at the end of each row, or of the tensor.
fn check_byte_length(dtype: &Dtype, shape: &[u64], byte_length: u64) -> Result<()> {
    let elements = element_count(shape)?;
    let matches = match (dtype, dtype.block()) {
        (Dtype::Other(name), _) if &**name == APR_Q8 => {
            byte_length == if elements == 0 { 0 } else { elements.saturating_add(4) }
        }
        (Dtype::Other(name), _) if &**name == APR_Q4 => byte_length == elements.div_ceil(32).saturating_mul(18),
        (_, Some(block)) => {
            let row = shape.last().copied().unwrap_or(1);
            let blocks_by_row = elements.checked_div(row).unwrap_or(0).saturating_mul(row.div_ceil(block.elements));
            let blocks = [elements.div_ceil(block.elements), blocks_by_row];
            blocks.iter().any(|blocks| blocks.checked_mul(block.bytes) == Some(byte_length))
        }
        (_, None) => true,
    };
    if matches {
        return Ok(());
    }
    Err(malformed(format!("its {byte_length} bytes do not match {dtype} {shape:?}")))
}

/// Returns the offset of the CRC32 at the end, or `None` if the file has none.
fn footer(header: &Header, tensors: &[Tensor], file_length: u64) -> Result<Option<u64>> {
    let ends = tensors.iter().flat_map(|t| &t.components).map(|c| {
        let padding = (c.range.end - c.range.start).wrapping_neg() % ALIGNMENT_BYTES;
        c.range.end.saturating_add(padding)
    });
    let tensors_end = ends.max().unwrap_or(0).max(header.sections.metadata.end).max(header.sections.index.end);
    match file_length.checked_sub(tensors_end) {
        Some(0) => Ok(None),
        Some(FOOTER_BYTES..) => Ok(Some(file_length - FOOTER_BYTES)),
        Some(_) | None => {
            let what =
                format!("the file has {file_length} bytes, but its tensors and checksum end beyond byte {tensors_end}");
            Err(Error::new(ErrorKind::Truncated, what))
        }
    }
}
