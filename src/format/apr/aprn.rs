//! APRN, version 1: a 32-byte header, MessagePack metadata, one Rust value serialized with `bincode` and optionally
//! compressed, and a CRC32 of all preceding bytes.
//!
//! Source: the crate `apr-format` 0.72 (`types::Header`, `save`, `load`). The value contains neither names nor types:
//! only the program that wrote it can interpret its fields. It is therefore listed as one tensor of bytes, `payload`.

use super::compressed::{check_unpacked_length, zstd};
use super::head::NAME;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::fields::Fields;
use crate::index::{Component, Encoding, Index, Metadata, Parsed, Tensor, check_tensors};
use crate::values::budget::Budget;
use crate::values::input::Input;
use crate::values::msgpack::MessagePack;
use crate::window::{Stop, Window};
use std::collections::HashMap;
use std::ops::Range;

const HEADER_BYTES: u64 = 32;
const FOOTER_BYTES: u64 = 4;
/// The maximum size of the metadata: hyperparameters, metrics, a model card. Parsed MessagePack can take many times its
/// encoded size in memory.
const MAX_METADATA_BYTES: u64 = 4 << 20;

const FLAG_ENCRYPTED: u8 = 1;
const FLAG_SIGNED: u8 = 1 << 1;

/// Not inlined, because it is deferred: see `crate::format::deferred`.
#[inline(never)]
pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let header = parse_header(window)?;
    let mut metadata = Metadata::new();
    let section = window.get(header.metadata.clone())?;
    let mut budget = Budget::of(window, section.len() as u64);
    let mut input = Input::Stored(section);
    let mut section = MessagePack::new(&mut input, header.metadata.clone(), "the metadata", &mut budget);
    section.entries(|key, section| {
        section.budget.entry(metadata.len(), key.len())?;
        metadata.insert(key.to_owned(), section.value()?);
        Ok(())
    })?;
    metadata.entry("model_type").or_insert(header.model_type.into());
    metadata.entry("quality_score").or_insert(header.quality_score.into());
    let mut tensors = vec![payload(&header)?];
    check_tensors(&mut tensors, window.file_length().map(|length| length.saturating_sub(FOOTER_BYTES)))?;
    let mut warnings = Vec::new();
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

struct Header {
    version: String,
    model_type: u16,
    metadata: Range<u64>,
    payload: Range<u64>,
    decoded_length: u64,
    encoding: Encoding,
    flags: u8,
    quality_score: u8,
}

fn parse_header(window: &Window) -> Result<Header, Stop> {
    let mut fields = Fields::new(window.get(0..HEADER_BYTES)?, 0, "the header");
    fields.array::<4>()?;
    let (major, minor, model_type) = (fields.u8()?, fields.u8()?, fields.u16()?);
    if major != 1 {
        let what = format!("APRN version {major}.{minor}; weightstream reads version 1");
        return Err(Error::new(ErrorKind::Unsupported, what).at(4..6).into());
    }
    let metadata_end = HEADER_BYTES + u64::from(fields.u32()?);
    if metadata_end - HEADER_BYTES > MAX_METADATA_BYTES {
        let what = format!("the metadata claim {} bytes, more than {MAX_METADATA_BYTES}", metadata_end - HEADER_BYTES);
        return Err(Error::new(ErrorKind::Limit, what).at(8..12).into());
    }
    let payload_end = metadata_end + u64::from(fields.u32()?);
    let decoded_length = u64::from(fields.u32()?);
    let (algorithm, flags, quality_score) = (fields.u8()?, fields.u8()?, fields.u8()?);
    if flags & FLAG_ENCRYPTED != 0 {
        let error = Error::new(ErrorKind::Unsupported, "the file is encrypted").at(21..22);
        return Err(error.advise("Decrypt it with the tool that encrypted it.").into());
    }
    Ok(Header {
        version: format!("{major}.{minor}"),
        model_type,
        metadata: HEADER_BYTES..metadata_end,
        payload: metadata_end..payload_end,
        decoded_length,
        encoding: encoding_of(algorithm).map_err(|e| e.at(20..21))?,
        flags,
        quality_score,
    })
}

/// The codes 1 and 2 are two levels of the same compression.
fn encoding_of(algorithm: u8) -> Result<Encoding> {
    match algorithm {
        0 => Ok(Encoding::Raw),
        1 | 2 => zstd(),
        3 => Ok(Encoding::Lz4Block),
        _ => Err(Error::new(ErrorKind::Unsupported, format!("the file is compressed with algorithm {algorithm}"))),
    }
}

fn payload(header: &Header) -> Result<Tensor> {
    let Header { payload, decoded_length, encoding, .. } = header;
    let stored_length = payload.end - payload.start;
    if *encoding == Encoding::Raw && stored_length != *decoded_length {
        let what = format!("its {stored_length} uncompressed bytes do not match its decoded length {decoded_length}");
        return Err(malformed(what).at(payload.clone()).in_tensor("payload"));
    }
    check_unpacked_length(*encoding, stored_length, *decoded_length).map_err(|e| e.at(16..20).in_tensor("payload"))?;
    let mut data = Component::raw(Dtype::U8, payload.clone());
    data.encoding = *encoding;
    data.decoded_length = Some(*decoded_length);
    Ok(Tensor::dense("payload".to_owned(), Dtype::U8, vec![*decoded_length], data))
}
