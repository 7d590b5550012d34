//! The layout of the specification: a 64-byte header, metadata, vocabulary, index and names, data, a 16-byte footer.
//!
//! Where the specification is ambiguous, this parser reads: sections precede the data, and their offsets are relative
//! to the start of the file, those of tensors to the start of the data. Counts and bounds are used, and the
//! `total_size` of sections is ignored. The offset of the special tokens is relative to the start of the file if it
//! then points into the vocabulary, else to the vocabulary; tokens follow the vocabulary's header, or the special
//! tokens if those follow the header. The checksums of the footer are present only if the flags say so; that of the
//! header, unless it is zero.

use super::parts::{MAGIC, MAX_DIMS, NAME, add_vocabulary, check_dims, check_token_count};
use crate::codec::crc32;
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::fields::Fields;
use crate::format::checksum::{Expected, RangeChecksum};
use crate::index::{Component, Index, Metadata, Tensor, check_tensors, next_start};
use crate::values::budget::Budget;
use crate::values::json;
use crate::window::{Stop, Window};
use std::ops::Range;

/// The size of the header in bytes.
pub(crate) const HEADER_BYTES: u64 = 64;
/// The size of the footer in bytes.
pub(crate) const FOOTER_BYTES: u64 = 16;
/// The magic at the end of the footer, before 4 reserved bytes.
pub(crate) const MAGIC_END: [u8; 4] = *b"DBME";

/// The flag for checksums in the footer.
pub(crate) const CHECKSUM_ENABLED: u32 = 1 << 2;
const COMPRESSED: u32 = 1 << 3;
/// The flags that the specification reserves: they must be 0.
const RESERVED_FLAGS: u32 = !0b1111;

/// The maximum size of the sections before the data. They take less than a megabyte for a vocabulary of 30,000 tokens.
/// Prevents an invalid offset from making the reader fetch tensor data as the index.
pub(crate) const MAX_HEAD_BYTES: u64 = 64 << 20;

/// The size in bytes of a tensor in the index, without its name.
pub(crate) const DESCRIPTOR_BYTES: u64 = 32;

/// The size in bytes of the vocabulary's header.
pub(crate) const VOCABULARY_HEADER_BYTES: u64 = 12;
/// The special tokens whose ids the vocabulary stores.
pub(crate) const SPECIAL_TOKENS: [&str; 5] = ["pad_id", "unk_id", "cls_id", "sep_id", "mask_id"];
const SPECIAL_TOKENS_BYTES: u64 = 4 * SPECIAL_TOKENS.len() as u64;

const DTYPES: [Dtype; 9] =
    [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::I32, Dtype::I16, Dtype::I8, Dtype::U32, Dtype::U16, Dtype::U8];

/// Returns the dtypes that the specification defines.
#[cfg(writes)]
pub(crate) fn dtypes() -> impl Iterator<Item = &'static Dtype> {
    DTYPES.iter()
}

/// Returns the code of a dtype, or `None` if the specification does not define it.
#[cfg(writes)]
pub(crate) fn dtype_code(dtype: &Dtype) -> Option<u8> {
    DTYPES.iter().position(|known| known == dtype).and_then(|code| u8::try_from(code).ok())
}

/// Returns the hash of a tensor's name that the index stores: 32-bit FNV-1a of its UTF-8 bytes.
pub(crate) fn name_hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The header. The positions of all sections have been checked.
pub(super) struct Header {
    version: String,
    flags: u32,
    /// The last field of the header, which must be 0.
    reserved: u32,
    metadata: Range<u64>,
    vocabulary: Range<u64>,
    index_start: u64,
    tensor_count: u32,
    data: Range<u64>,
    /// The offset of the footer.
    footer: u64,
}

impl Header {
    /// Reads the header. Returns `None` if the bytes are not a header of this layout.
    pub(super) fn recognise(head: &[u8], file_length: Option<u64>) -> Result<Option<Header>> {
        let Some((checked, _)) = head.split_at_checked(56) else { return Ok(None) };
        let mut fields = Fields::new(head, 0, "the header");
        if head.len() as u64 != HEADER_BYTES || fields.array()? != MAGIC {
            return Ok(None);
        }
        let (major, minor) = (fields.u16()?, fields.u16()?);
        let flags = fields.u32()?;
        let mut offset = || fields.u32().map(u64::from);
        let (metadata_start, metadata_size) = (offset()?, offset()?);
        let (vocabulary_start, vocabulary_size) = (offset()?, offset()?);
        let index_start = offset()?;
        let tensor_count = fields.u32()?;
        let data_start = u64::from(fields.u32()?);
        let (data_size, total_size) = (fields.u64()?, fields.u64()?);
        match fields.u32()? {
            0 if file_length == Some(total_size) => {}
            stated if stated == crc32::checksum(checked) => {}
            _ => return Ok(None),
        }
        let reserved = fields.u32()?;
        if major != 1 {
            let what = format!("EMBD version {major}.{minor}; weightstream reads version 1.0");
            return Err(Error::new(ErrorKind::Unsupported, what).at(4..8));
        }
        if flags & COMPRESSED != 0 {
            let what = "the file is compressed, but the format does not specify how";
            return Err(Error::new(ErrorKind::Unsupported, what).at(8..12));
        }
        check_length(total_size, file_length)?;
        let bounds = || Some((data_start.checked_add(data_size)?, total_size.checked_sub(FOOTER_BYTES)?));
        let Some((data_end, footer)) = bounds().filter(|(data_end, footer)| data_end <= footer) else {
            let what = format!("{data_size} bytes of data from {data_start} do not fit a file of {total_size}");
            return Err(malformed(what).at(36..56));
        };
        let header = Header {
            version: format!("{major}.{minor}"),
            flags,
            reserved,
            metadata: metadata_start..metadata_start + metadata_size,
            vocabulary: vocabulary_start..vocabulary_start + vocabulary_size,
            index_start,
            tensor_count,
            data: data_start..data_end,
            footer,
        };
        header.check_sections().map(|()| Some(header))
    }

    /// The warnings about reserved flags and fields.
    fn warnings(&self) -> Vec<String> {
        let flags = self.flags & RESERVED_FLAGS;
        let of_flags = (flags != 0).then(|| format!("the reserved flags {flags:#x} are set; version 1.0 requires 0"));
        let of_field = (self.reserved != 0).then(|| "the reserved field of the header is not zero".to_owned());
        of_flags.into_iter().chain(of_field).collect()
    }

    fn check_sections(&self) -> Result<()> {
        let index = self.index_start..self.index_start + u64::from(self.tensor_count) * DESCRIPTOR_BYTES;
        for section in [&self.metadata, &self.vocabulary, &index].into_iter().filter(|section| !section.is_empty()) {
            if section.start < HEADER_BYTES || section.end > self.data.start {
                let what = format!("a section at {section:?} is not between the header and the data");
                return Err(malformed(what).at(0..HEADER_BYTES));
            }
        }
        if self.data.start > MAX_HEAD_BYTES {
            let head_bytes = self.data.start;
            let what = format!("{head_bytes} bytes precede the data; weightstream reads at most {MAX_HEAD_BYTES}");
            return Err(Error::new(ErrorKind::Limit, what).at(36..40));
        }
        Ok(())
    }
}

fn check_length(total_size: u64, file_length: Option<u64>) -> Result<()> {
    let (kind, length) = match file_length {
        Some(length) if length < total_size => (ErrorKind::Truncated, length),
        Some(length) if length > total_size => (ErrorKind::Format, length),
        _ => return Ok(()),
    };
    let what = format!("the header states {total_size} bytes, but the file has {length}");
    Err(Error::new(kind, what).at(48..56))
}

pub(super) fn parse(window: &Window, header: &Header) -> Result<Index, Stop> {
    window.get(0..header.data.start.max(HEADER_BYTES))?; // all sections at once
    let (mut metadata, mut warnings) = (Metadata::new(), header.warnings());
    let mut budget = Budget::of(window, header.data.start);
    if !header.metadata.is_empty() {
        metadata = parse_metadata(window.get(header.metadata.clone())?, header.metadata.start, &mut budget)?;
    }
    if !header.vocabulary.is_empty() {
        let bytes = window.get(header.vocabulary.clone())?;
        parse_vocabulary(bytes, header.vocabulary.start, &mut metadata, (&mut warnings, &mut budget))?;
    }
    let mut tensors = Vec::new();
    if header.tensor_count > 0 {
        let bytes = window.get(header.index_start..header.data.start)?;
        tensors = parse_index(bytes, header, &mut warnings, &mut budget)?;
    }
    check_tensors(&mut tensors, Some(header.data.end))?;
    Ok(Index {
        format: NAME,
        version: header.version.clone(),
        metadata,
        long_arrays: Vec::new(),
        tensors: tensors.into(),
        other_shards: std::collections::HashMap::new(),
        blocks: Vec::new(),
        quantized: None,
        warnings,
    })
}

/// Lists the footer's checksums: of the data, and of all bytes before the footer.
pub(super) fn checksums(header: &Header) -> Vec<RangeChecksum> {
    if header.flags & CHECKSUM_ENABLED == 0 {
        return Vec::new();
    }
    let checksum = |over: Range<u64>, at: u64| {
        let by = "the footer".to_owned();
        RangeChecksum { over, stated: Expected::Crc32At(at), by }
    };
    vec![checksum(header.data.clone(), header.footer), checksum(0..header.footer, header.footer + 4)]
}

pub(super) fn check_tail(window: &Window, header: &Header) -> Result<(), Stop> {
    let range = header.footer..header.footer + FOOTER_BYTES;
    let mut fields = Fields::new(window.get(range.clone())?, range.start, "the footer");
    fields.u64()?; // the checksums: see `checksums`
    if fields.array()? != MAGIC_END {
        let what = "the file does not end with the footer's `DBME`";
        return Err(Error::new(ErrorKind::Truncated, what).at(range).into());
    }
    Ok(())
}

fn parse_metadata(bytes: &[u8], start: u64, budget: &mut Budget) -> Result<Metadata> {
    let mut fields = Fields::new(bytes, start, "the metadata");
    let count = fields.u32()?;
    fields.u32()?;
    let mut metadata = Metadata::new();
    for _ in 0..count {
        let at = fields.position();
        let (key_length, value_length) = (fields.u16()?, fields.u16()?);
        let key = fields.utf8(key_length.into())?;
        let value = fields.utf8(value_length.into())?;
        budget.entry(metadata.len(), key.len())?;
        budget.text(value.len() as u64)?;
        if metadata.insert(key.to_owned(), value.into()).is_some() {
            return Err(malformed(format!("the metadata has the key \"{key}\" twice")).at(fields.since(at)));
        }
    }
    Ok(metadata)
}

fn parse_vocabulary(
    bytes: &[u8],
    start: u64,
    metadata: &mut Metadata,
    (warnings, budget): (&mut Vec<String>, &mut Budget),
) -> Result<()> {
    let mut fields = Fields::new(bytes, start, "the vocabulary");
    let count = fields.u32()?;
    check_token_count(count, start)?;
    fields.u32()?;
    let mut special_tokens = None;
    if let stated @ 1.. = u64::from(fields.u32()?) {
        let offset = special_tokens_offset(stated, start, bytes.len() as u64)?;
        let mut ids = Fields::new(bytes, start, "the vocabulary");
        ids.take(offset as usize)?;
        let read = |name: &str| Ok((name.to_owned(), ids.u32()?.into()));
        special_tokens = Some(SPECIAL_TOKENS.map(read).into_iter().collect::<Result<Metadata>>()?);
        if offset == VOCABULARY_HEADER_BYTES {
            fields.take(SPECIAL_TOKENS_BYTES as usize)?;
        }
    }
    let mut tokens = Vec::new();
    for _ in 0..count {
        let length = fields.u16()?;
        budget.text(length.into())?;
        budget.item(tokens.len())?;
        tokens.push(json::text(fields.take(length.into())?, warnings).into());
    }
    budget.ended(&mut tokens);
    add_vocabulary(metadata, tokens, special_tokens);
    Ok(())
}

/// Returns the offset of the special tokens in the vocabulary, which begins at `start` in the file.
fn special_tokens_offset(stated: u64, start: u64, vocabulary_bytes: u64) -> Result<u64> {
    let last = vocabulary_bytes.saturating_sub(SPECIAL_TOKENS_BYTES);
    let fits = |offset: &u64| (VOCABULARY_HEADER_BYTES..=last).contains(offset);
    let offset = stated.checked_sub(start).filter(fits).or(Some(stated).filter(fits));
    offset.ok_or_else(|| {
        malformed(format!("the special tokens at {stated} are not in the vocabulary")).at(start..start + 12)
    })
}

/// Parses the descriptors, and the names that follow them in the same order.
fn parse_index(bytes: &[u8], header: &Header, warnings: &mut Vec<String>, budget: &mut Budget) -> Result<Vec<Tensor>> {
    let mut fields = Fields::new(bytes, header.index_start, "the tensor index");
    let descriptors = (0..header.tensor_count).map(|_| Descriptor::parse(&mut fields)).collect::<Result<Vec<_>>>()?;
    let mut starts: Vec<u64> = descriptors.iter().map(|descriptor| descriptor.offset).collect();
    starts.sort_unstable();
    let data_size = header.data.end - header.data.start;
    let mut tensors = Vec::new();
    let mut other_hashes = 0;
    for descriptor in descriptors {
        let name = fields.utf8(descriptor.name_length.into())?;
        budget.tensor(name, descriptor.shape.len())?;
        let end = next_start(&starts, descriptor.offset).unwrap_or(data_size);
        other_hashes += u32::from(name_hash(name) != descriptor.name_hash);
        tensors.push(descriptor.layout_tensor(name, end, header.data.start).map_err(|e| e.in_tensor(name))?);
    }
    if other_hashes > 0 {
        warnings.push(format!("the index has a name hash other than FNV-1a for {other_hashes} tensors"));
    }
    Ok(tensors)
}

struct Descriptor {
    name_hash: u32,
    dtype: Dtype,
    name_length: u16,
    shape: Vec<u64>,
    /// Relative to the start of the data.
    offset: u64,
}

impl Descriptor {
    fn parse(fields: &mut Fields) -> Result<Self> {
        let start = fields.position();
        let name_hash = fields.u32()?;
        let code = fields.u8()?;
        let dims = fields.u8()?;
        let name_length = fields.u16()?;
        let mut shape = Vec::new();
        for dim in 0..MAX_DIMS {
            let size = u64::from(fields.u32()?);
            shape.extend((dim < dims.into()).then_some(size));
        }
        let offset = fields.u64()?;
        check_dims(dims.into()).map_err(|e| e.at(fields.since(start)))?;
        let dtype = DTYPES.get(usize::from(code)).cloned();
        let dtype = dtype.unwrap_or_else(|| Dtype::Other(format!("EMBD_{code}").into()));
        Ok(Descriptor { name_hash, dtype, name_length, shape, offset })
    }

    /// `end` is the start of the next tensor, or the end of the data: a tensor of unknown dtype extends up to it.
    fn layout_tensor(self, name: &str, end: u64, data_start: u64) -> Result<Tensor> {
        let Descriptor { dtype, shape, offset, .. } = self;
        let overflows = || malformed(format!("its offset {offset} and size overflow u64"));
        let byte_length = dtype.byte_length(element_count(&shape)?)?.unwrap_or(end.saturating_sub(offset));
        let start = data_start.checked_add(offset).ok_or_else(overflows)?;
        let end = start.checked_add(byte_length).ok_or_else(overflows)?;
        let data = Component::raw(dtype.clone(), start..end);
        Ok(Tensor::dense(name.to_owned(), dtype, shape, data))
    }
}
