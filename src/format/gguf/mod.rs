//! GGUF 1 to 3, little- and big-endian: a head of typed metadata and tensor infos, then aligned tensors; and
//! models in several such files (`x-00001-of-00003.gguf`).
//!
//! Source: the GGUF specification in ggml's `docs/gguf.md`, and what its writers do. Version 1 counts in
//! 32 bits where the later ones count in 64. Nothing says how long the head is, and a vocabulary makes it
//! megabytes: the parser asks for twice what it has. Shapes stand in the file with the innermost dimension
//! first and are turned round here. A tensor of a type that is not in the table reaches up to the next one.
//! In big-endian files the blocks of quantized types cannot be turned without taking them apart: they are
//! listed under their name with `_BE` and load as stored.

mod metadata;

use super::{Format, ggml, next_start, no_checksums, no_tail};
use crate::cursor::Cursor;
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format::values::budget::Budget;
use crate::format::values::json::shown;
use crate::index::{Component, Encoding, Index, Metadata, Parsed, Tensor, check_tensors};
use crate::split::Split;
use crate::window::{Stop, Window};
use std::collections::HashMap;

/// The format.
pub const FORMAT: Format = Format { name: "gguf", recognises, parse, checksums: no_checksums, check_tail: no_tail };

/// The first four bytes.
pub const MAGIC: [u8; 4] = *b"GGUF";

/// The largest vocabularies make heads of some 20 MB. Stops a count that would make the reader fetch tensors as a head.
pub const MAX_HEAD_BYTES: u64 = 128 << 20;

/// ggml's `GGML_MAX_DIMS`. Stops a forged count that would read the rest of the head as dimensions.
pub const MAX_DIMS: u32 = 4;

/// Where the file does not say otherwise.
const DEFAULT_ALIGNMENT: u64 = 32;

fn recognises(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

fn parse(window: &Window) -> Result<Parsed, Stop> {
    let mut head = Head::open(window)?;
    let tensor_count = head.count()?;
    let pair_count = head.count()?;
    let (metadata, long_arrays, mut budget) = metadata::parse(&mut head, window, pair_count)?;
    let infos = parse_infos(&mut head, window, tensor_count, &mut budget)?;

    let alignment = alignment(&metadata)?;
    let data_start = head.cursor.position().checked_next_multiple_of(alignment);
    let data_start = data_start.ok_or_else(|| malformed(format!("general.alignment is {alignment}")))?;
    let mut tensors = place(infos, data_start, window.file_length(), head.cursor.big_endian)?;
    check_tensors(&mut tensors, window.file_length())?;
    let split = split(&metadata)?;
    let index = Index {
        format: FORMAT.name,
        version: head.version.to_string(),
        metadata,
        long_arrays,
        tensors,
        warnings: head.warnings,
        elsewhere: HashMap::new(),
    };
    Ok(match split {
        Some(split) => Parsed::Part(index, split),
        None => Parsed::File(index),
    })
}

/// The head as it is read.
struct Head<'a> {
    cursor: Cursor<'a>,
    version: u32,
    warnings: Vec<String>,
}

impl<'a> Head<'a> {
    /// Reads the magic and the version, which tells the byte order.
    fn open(window: &'a Window) -> Result<Self, Stop> {
        let mut cursor = Cursor::new(window, 0, MAX_HEAD_BYTES, "the head");
        cursor.array::<4>()?;
        let mut version = cursor.u32()?;
        if version & 0xffff == 0 {
            cursor.big_endian = true;
            version = version.swap_bytes();
        }
        if !(1..=3).contains(&version) {
            let what = format!("GGUF version {version}; weightstream reads versions 1 to 3");
            return Err(Error::new(ErrorKind::Unsupported, what).at(4..8).into());
        }
        Ok(Head { cursor, version, warnings: Vec::new() })
    }

    /// A count or a length: version 1 has 32 bits for it.
    #[inline]
    fn count(&mut self) -> Result<u64, Stop> {
        if self.version == 1 { self.cursor.u32().map(u64::from) } else { self.cursor.u64() }
    }

    /// Bytes that such a count takes.
    fn count_bytes(&self) -> u64 {
        if self.version == 1 { 4 } else { 8 }
    }

    /// The bytes of a string. A vocabulary has hundreds of thousands.
    #[inline]
    fn string(&mut self) -> Result<&'a [u8], Stop> {
        let length = self.count()?;
        self.cursor.take(length)
    }

    /// A name, which must be UTF-8.
    fn name(&mut self) -> Result<&'a str, Stop> {
        let length = self.count()?;
        self.cursor.utf8(length)
    }
}

/// What the head says of a tensor.
struct Info<'a> {
    name: &'a str,
    shape: Vec<u64>,
    type_code: u32,
    /// From the start of the data.
    offset: u64,
}

fn parse_infos<'a>(
    head: &mut Head<'a>,
    window: &Window,
    count: u64,
    budget: &mut Budget,
) -> Result<Vec<Info<'a>>, Stop> {
    let least_bytes = head.count_bytes() + 4 + 4 + 8;
    head.cursor.ensure(count.saturating_mul(least_bytes))?;
    budget.grow(window.stored(count.saturating_mul(least_bytes)));
    let mut infos = Vec::new();
    for _ in 0..count {
        let start = head.cursor.position();
        let name = head.name()?;
        let dims = head.cursor.u32()?;
        if dims > MAX_DIMS {
            let error = malformed(format!("it has {dims} dimensions; ggml allows {MAX_DIMS}"));
            return Err(error.at(start..head.cursor.position()).in_tensor(name).into());
        }
        let mut shape = (0..dims).map(|_| head.count()).collect::<Result<Vec<_>, _>>()?;
        shape.reverse();
        budget.tensor(name, shape.len())?;
        infos.push(Info { name, shape, type_code: head.cursor.u32()?, offset: head.cursor.u64()? });
    }
    Ok(infos)
}

/// Where the tensors lie in the file.
fn place(infos: Vec<Info>, data_start: u64, file_length: Option<u64>, big_endian: bool) -> Result<Vec<Tensor>> {
    let mut offsets: Vec<u64> = infos.iter().map(|info| info.offset).collect();
    offsets.sort_unstable();
    let place = |info: Info| {
        let next = next_start(&offsets, info.offset);
        let (name, end) = (info.name, next.map_or(file_length, |next| data_start.checked_add(next)));
        place_one(info, data_start, end, big_endian).map_err(|e| e.in_tensor(name))
    };
    infos.into_iter().map(place).collect()
}

/// `next_start` is where the next tensor begins, or the file ends.
fn place_one(info: Info, data_start: u64, next_start: Option<u64>, big_endian: bool) -> Result<Tensor> {
    let Info { name, shape, type_code, offset } = info;
    let leaves_64_bits = || malformed(format!("its offset {offset} and size leave 64 bits"));
    let start = data_start.checked_add(offset).ok_or_else(leaves_64_bits)?;
    let elements = element_count(&shape)?;
    let known = ggml::dtype_of(type_code);
    let byte_length = match elements {
        // Whatever its type: it lies where the next tensor does, and must not take that one's bytes.
        0 => Some(0),
        _ => known.map(|dtype| dtype.byte_length(elements)).transpose()?.flatten(),
    };
    let end = match byte_length {
        Some(byte_length) => start.checked_add(byte_length).ok_or_else(leaves_64_bits)?,
        None => next_start.ok_or_else(|| unknown_end(type_code))?.max(start),
    };
    let is_plain = |dtype: &Dtype| dtype.block().is_some_and(|block| block.elements == 1);
    let dtype = match known {
        Some(dtype) if big_endian && !is_plain(dtype) => Dtype::Other(format!("{dtype}_BE").into()),
        Some(dtype) => dtype.clone(),
        None => Dtype::Other(format!("GGML_{type_code}").into()),
    };
    let mut data = Component::raw(dtype.clone(), start..end);
    if big_endian && dtype.array_kind().element_bytes() > 1 {
        data.encoding = Encoding::BigEndian;
    }
    Ok(Tensor::dense(name.to_owned(), dtype, shape, data))
}

fn unknown_end(type_code: u32) -> Error {
    let what = format!("its type {type_code} has no known size, and the server does not tell where the file ends");
    Error::new(ErrorKind::Unsupported, what).advise("Serve the file from a host that states its length.")
}

fn alignment(metadata: &Metadata) -> Result<u64> {
    match metadata.get("general.alignment") {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(value) => value
            .as_u64()
            .filter(|alignment| alignment.is_power_of_two())
            .ok_or_else(|| malformed(format!("general.alignment is {}, not a power of two", shown(value)))),
    }
}

fn split(metadata: &Metadata) -> Result<Option<Split>> {
    let integer = |key: &str| match metadata.get(key) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| malformed(format!("{key} is {}", shown(value)))),
    };
    let (number, count) = (integer("split.no")?.unwrap_or(0), integer("split.count")?.unwrap_or(1));
    Split::new(number, count, integer("split.tensors.count")?)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
