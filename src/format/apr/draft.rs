//! APR v2 as specified in APR-FORMAT-002: a 32-byte header, JSON metadata, a binary index, aligned tensors, a 16-byte
//! footer. Only weightstream writes it.
//!
//! The specification is ambiguous in some points. This parser reads them as follows: offsets are relative to the start
//! of the file, those of tensors to `data_offset`. A tensor is compressed if its `raw_size` is not 0. Its `size`
//! includes the headers of the blocks.

use super::blocks;
use super::ggml_types;
use super::head::{NAME, crc32_before, unknown_dtype};
use super::sections::Sections;
use crate::codec::lz4;
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::fields::Fields;
use crate::format::checksum::RangeChecksum;
use crate::index::{Component, Encoding, Index, Parsed, Tensor, check_tied_tensors};
use crate::values::budget::Budget;
use crate::values::json;
use crate::window::{Stop, Window};
use serde_json::Value;
use std::collections::HashMap;

/// The first four bytes.
pub(super) const MAGIC: [u8; 4] = *b"APR2";
/// The magic of the footer.
pub(super) const MAGIC_END: [u8; 4] = *b"2RPA";
/// The size of the header in bytes.
pub(super) const HEADER_BYTES: u64 = 32;
/// The size of the footer in bytes.
pub(super) const FOOTER_BYTES: u64 = 16;
/// The size in bytes of the index header, which precedes the first entry.
pub(super) const INDEX_HEADER_BYTES: u64 = 8;
/// The specification's limit on dimensions.
pub(super) const MAX_DIMS: u8 = 8;

/// The header's feature flags.
#[allow(missing_docs, reason = "named as the specification names them")]
pub(super) mod flags {
    pub(crate) const COMPRESSED: u32 = 1;
    pub(crate) const ALIGNED_64: u32 = 1 << 1;
    pub(crate) const ALIGNED_32: u32 = 1 << 2;
    pub(crate) const SHARDED: u32 = 1 << 3;
    pub(crate) const ENCRYPTED: u32 = 1 << 4;
    pub(crate) const SIGNED: u32 = 1 << 5;
    pub(crate) const QUANTIZED: u32 = 1 << 6;
    pub(crate) const STREAMING: u32 = 1 << 7;
}

const DTYPES: &[(u8, Dtype)] = &[
    (0, Dtype::F32),
    (1, Dtype::F16),
    (2, Dtype::BF16),
    (3, Dtype::I8),
    (4, Dtype::I16),
    (5, Dtype::I32),
    (6, Dtype::I64),
    (7, Dtype::U8),
    (16, Dtype::Q8_0),
    (17, Dtype::Q4_0),
    (18, Dtype::Q4_1),
    (19, Dtype::Q5_0),
    (20, Dtype::Q5_1),
];

/// Bit 0 of a tensor's flags. The specification defines no bits; weightstream sets this one if `raw_size` is not 0.
pub(super) const TENSOR_COMPRESSED: u32 = 1;

/// Returns the code of a dtype, or `None` if the specification does not define it.
pub(super) fn dtype_code(dtype: &Dtype) -> Option<u8> {
    DTYPES.iter().find(|(_, d)| d == dtype).map(|(code, _)| *code)
}

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let header = parse_header(window)?;
    let sections = &header.sections;
    sections.want(window)?;
    let mut budget = Budget::of(window, sections.byte_length());
    let metadata_bytes = window.get(sections.metadata.clone())?;
    let mut metadata = json::parse_object(metadata_bytes, sections.metadata.start, "the metadata", &mut budget)?;
    let ggml_types = ggml_types::take(&mut metadata);
    let index_bytes = window.get(sections.index.clone())?;
    let mut tensors = parse_index(index_bytes, &header, &ggml_types, &mut budget)?;
    let data_end = window.file_length().map(|length| length.saturating_sub(FOOTER_BYTES));
    check_tied_tensors(&mut tensors, data_end)?;
    sections.check_tensors(&tensors)?;
    let mut warnings = Vec::new();
    let blocks = blocks::take(&mut metadata, &tensors, &mut warnings);
    if header.flags & flags::SIGNED != 0 {
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
        blocks,
        quantized: None,
    }))
}

/// Returns the footer's CRC32 of all bytes before the footer.
pub(super) fn checksums(window: &Window) -> Result<Vec<RangeChecksum>, Stop> {
    let footer = window.file_length().and_then(|length| length.checked_sub(FOOTER_BYTES));
    Ok(footer.map(crc32_before).into_iter().collect())
}

/// Checks the footer's magic and the length that it states.
pub(super) fn check_tail(window: &Window) -> Result<(), Stop> {
    let Some(length) = window.file_length() else { return Ok(()) };
    let start = length.checked_sub(FOOTER_BYTES).ok_or_else(|| {
        Error::new(ErrorKind::Truncated, format!("the file has {length} bytes, too few for its footer"))
    })?;
    let mut fields = Fields::new(window.get(start..length)?, start, "the footer");
    fields.u32()?; // the CRC32: see `checksums`
    let magic: [u8; 4] = fields.array()?;
    let stated_length = fields.u64()?;
    if magic != MAGIC_END {
        let what = "the file does not end with the footer's `2RPA`";
        return Err(Error::new(ErrorKind::Truncated, what).at(start..length).into());
    }
    if stated_length != length {
        let what = format!("the footer states {stated_length} bytes, but the file has {length}");
        return Err(Error::new(ErrorKind::Truncated, what).at(start..length).into());
    }
    Ok(())
}

struct Header {
    version: String,
    flags: u32,
    sections: Sections,
    data_offset: u64,
}

fn parse_header(window: &Window) -> Result<Header, Stop> {
    let mut fields = Fields::new(window.get(0..HEADER_BYTES)?, 0, "the header");
    fields.array::<4>()?;
    let (major, minor) = (fields.u16()?, fields.u16()?);
    if major != 2 {
        let what = format!("APR version {major}.{minor}; weightstream reads version 2");
        return Err(Error::new(ErrorKind::Unsupported, what).at(4..8).into());
    }
    let flags = fields.u32()?;
    if flags & flags::ENCRYPTED != 0 {
        let error = Error::new(ErrorKind::Unsupported, "the file is encrypted").at(8..12);
        return Err(error.advise("Decrypt it with the tool that encrypted it.").into());
    }
    let mut section = || Ok::<_, Error>(u64::from(fields.u32()?));
    let (metadata_offset, metadata_size) = (section()?, section()?);
    let (index_offset, index_size) = (section()?, section()?);
    let data_offset = section()?;
    let (metadata, index) = (metadata_offset..metadata_offset + metadata_size, index_offset..index_offset + index_size);
    let sections = Sections::new(HEADER_BYTES, metadata, index)?;
    Ok(Header { version: format!("{major}.{minor}"), flags, sections, data_offset })
}

fn parse_index(bytes: &[u8], header: &Header, ggml_types: &Value, budget: &mut Budget) -> Result<Vec<Tensor>> {
    let mut fields = Fields::new(bytes, header.sections.index.start, "the tensor index");
    let tensor_count = fields.u32()?;
    fields.u32()?;
    let mut tensors = Vec::new(); // no capacity from the untrusted count
    for _ in 0..tensor_count {
        let start = fields.position();
        let name_length = fields.u16()?;
        let name = fields.utf8(usize::from(name_length))?;
        budget.tensor(name, usize::from(MAX_DIMS))?;
        let tensor = parse_entry(&mut fields, name, header.data_offset, ggml_types);
        tensors.push(tensor.map_err(|e| e.at(fields.since(start)).in_tensor(name))?);
    }
    Ok(tensors)
}

fn parse_entry(fields: &mut Fields, name: &str, data_offset: u64, ggml_types: &Value) -> Result<Tensor> {
    let code = fields.u8()?;
    let dtype = match DTYPES.iter().find(|(c, _)| *c == code) {
        Some((_, dtype)) => dtype.clone(),
        None if code == ggml_types::CODE => ggml_types::dtype_of(ggml_types, name)?,
        None => unknown_dtype(code),
    };
    let dims = fields.u8()?;
    if dims > MAX_DIMS {
        return Err(malformed(format!("it has {dims} dimensions; the format allows {MAX_DIMS}")));
    }
    let shape = (0..dims).map(|_| fields.u64()).collect::<Result<Vec<_>>>()?;
    let (offset, size, raw_size) = (fields.u64()?, fields.u64()?, fields.u64()?);
    fields.u32()?; // flags: the specification defines no bits
    let start = data_offset.checked_add(offset);
    let range = start.and_then(|start| Some(start..start.checked_add(size)?));
    let range = range.ok_or_else(|| malformed(format!("its offset {offset} and size {size} overflow u64")))?;

    let expected = dtype.byte_length(element_count(&shape)?)?;
    let decoded_length = if raw_size == 0 { size } else { raw_size };
    if expected.is_some_and(|expected| expected != decoded_length) {
        return Err(malformed(format!("its {decoded_length} bytes do not match {dtype} {shape:?}")));
    }
    let mut data = Component::raw(dtype.clone(), range);
    if raw_size != 0 {
        lz4::check_lengths(size, raw_size)?;
        data.encoding = Encoding::Lz4Blocks;
        data.decoded_length = Some(raw_size);
    }
    Ok(Tensor::dense(name.to_owned(), dtype, shape, data))
}
