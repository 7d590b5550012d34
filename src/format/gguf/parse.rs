//! Parses the head and the tensor infos.

use super::head::Head;
use super::metadata;
use crate::dtype::{self, Block, Dtype, UNKNOWN_GGML_TYPE, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format::ggml;
use crate::index::split::Split;
use crate::index::{Component, Encoding, Index, Metadata, Parsed, Tensor, check_tensors, next_start};
use crate::values::budget::Budget;
use crate::values::json::shown;
use crate::window::{Stop, Window};
use std::collections::HashMap;

/// The name of the format in the registry.
pub(super) const NAME: &str = "gguf";

/// The first four bytes.
pub(crate) const MAGIC: [u8; 4] = *b"GGUF";

/// ggml's `GGML_MAX_DIMS`. The container has no limit: models of videos have convolutions of 5 dimensions.
pub(crate) const MAX_DIMS: u32 = 4;

/// The longest name that ggml reads: `GGML_MAX_NAME` includes a terminating zero.
pub(super) const MAX_NAME_BYTES: usize = 63;

/// The alignment of files that do not state one.
pub(super) const DEFAULT_ALIGNMENT: u64 = 32;

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let mut head = Head::open(window)?;
    let tensor_count = head.count()?;
    let pair_count = head.count()?;
    let (metadata, long_arrays, mut budget) = metadata::parse(&mut head, window, pair_count)?;
    let infos = parse_infos(&mut head, window, tensor_count, &mut budget)?;

    let alignment = alignment(&metadata)?;
    let data_start = head.cursor.position().checked_next_multiple_of(alignment);
    let data_start = data_start.ok_or_else(|| malformed(format!("general.alignment is {alignment}")))?;
    head.warnings.extend(refused_by_ggml(&infos, alignment));
    let mut tensors = layout_tensors(infos, data_start, window.file_length(), head.cursor.big_endian)?;
    check_tensors(&mut tensors, window.file_length())?;
    let split = split(&metadata)?;
    let index = Index {
        format: NAME,
        version: head.version.to_string(),
        metadata,
        long_arrays,
        tensors: tensors.into(),
        warnings: head.warnings,
        other_shards: HashMap::new(),
        blocks: Vec::new(),
        quantized: None,
    };
    Ok(match split {
        Some(split) => Parsed::Part(index, split),
        None => Parsed::File(index),
    })
}

/// A tensor info of the head.
struct Info<'a> {
    name: &'a str,
    shape: Vec<u64>,
    type_code: u32,
    /// Relative to the start of the data.
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
    let (infos_start, mut counted) = (head.cursor.position(), 0);
    let mut infos = Vec::new();
    for _ in 0..count {
        let start = head.cursor.position();
        let name = head.name()?;
        let dims = head.cursor.u32()?;
        if dims as usize > dtype::MAX_DIMS {
            let error = malformed(format!("it has {dims} dimensions; the limit is {}", dtype::MAX_DIMS));
            return Err(error.at(start..head.cursor.position()).in_tensor(name).into());
        }
        let mut shape = (0..dims).map(|_| head.count()).collect::<Result<Vec<_>, _>>()?;
        shape.reverse();
        let info = Info { name, shape, type_code: head.cursor.u32()?, offset: head.cursor.u64()? };
        let stored = window.stored(head.cursor.position() - infos_start);
        budget.grow_for_tensors(stored - counted);
        counted = stored;
        budget.tensor(name, info.shape.len())?;
        infos.push(info);
    }
    Ok(infos)
}

/// The reasons why ggml refuses tensors that the container can hold.
const REFUSALS: [&str; 6] = [
    "its type is unknown, and its length may include padding",
    "ggml has removed its type",
    "it has more than 4 dimensions",
    "its rows are not whole blocks",
    "its name has more than 63 bytes",
    "its offset is not the end of the tensor before it",
];

/// The warnings about tensors that ggml refuses: one for each reason.
fn refused_by_ggml(infos: &[Info], alignment: u64) -> Vec<String> {
    let mut refused = [(0u64, ""); REFUSALS.len()];
    let mut next_offset = Some(0);
    for info in infos {
        let refusal = info.refusal(next_offset);
        if let Some((count, first)) = refusal.and_then(|reason| refused.get_mut(reason)) {
            *first = if *count == 0 { info.name } else { first };
            *count += 1;
        }
        let end = info.byte_length().and_then(|length| info.offset.checked_add(length));
        next_offset = end.and_then(|end| end.checked_next_multiple_of(alignment));
    }
    let found = REFUSALS.iter().zip(refused).filter(|(_, (count, _))| *count > 0);
    found
        .map(|(reason, (count, first))| {
            let noun = if count == 1 { "tensor" } else { "tensors" };
            format!("{}{count} {noun}, the first of them \"{first}\": {reason}", ggml::REFUSES)
        })
        .collect()
}

impl Info<'_> {
    /// Why ggml refuses the tensor: an index of [`REFUSALS`]. `next_offset` is the aligned end of the tensor before it,
    /// if it is known.
    fn refusal(&self, next_offset: Option<u64>) -> Option<usize> {
        let sized = sized_like(self.type_code);
        let row = self.shape.last().copied().unwrap_or(1);
        let fills_blocks = |block: Block| row.is_multiple_of(block.elements);
        let is_refused = [
            sized.is_none(),
            ggml::removed(self.type_code).is_some(),
            self.shape.len() > MAX_DIMS as usize,
            !sized.and_then(Dtype::block).is_none_or(fills_blocks),
            self.name.len() > MAX_NAME_BYTES,
            next_offset.is_some_and(|next| next != self.offset),
        ];
        is_refused.iter().position(|is_refused| *is_refused)
    }

    /// The length of the tensor; `None` if its type is unknown, or if it has no such length.
    fn byte_length(&self) -> Option<u64> {
        sized_like(self.type_code)?.byte_length(element_count(&self.shape).ok()?).ok()?
    }
}

/// A dtype whose blocks have the size of those of this type, if it is known.
fn sized_like(type_code: u32) -> Option<&'static Dtype> {
    ggml::dtype_of(type_code).or_else(|| ggml::removed(type_code).map(|(_, dtype)| dtype))
}

/// Computes the byte ranges of the tensors in the file.
fn layout_tensors(
    infos: Vec<Info>,
    data_start: u64,
    file_length: Option<u64>,
    big_endian: bool,
) -> Result<Vec<Tensor>> {
    let mut offsets: Vec<u64> = infos.iter().map(|info| info.offset).collect();
    offsets.sort_unstable();
    let layout = |info: Info| {
        let next = next_start(&offsets, info.offset);
        let (name, end) = (info.name, next.map_or(file_length, |next| data_start.checked_add(next)));
        place_one(info, data_start, end, big_endian).map_err(|e| e.in_tensor(name))
    };
    infos.into_iter().map(layout).collect()
}

/// Computes the byte range of a tensor. `next_start` is the start of the next tensor, or the end of the file.
fn place_one(info: Info, data_start: u64, next_start: Option<u64>, big_endian: bool) -> Result<Tensor> {
    let Info { name, shape, type_code, offset } = info;
    let overflows = || malformed(format!("its offset {offset} and size overflow u64"));
    let start = data_start.checked_add(offset).ok_or_else(overflows)?;
    let elements = element_count(&shape)?;
    let known = ggml::dtype_of(type_code);
    let byte_length = match elements {
        // An empty tensor of any type: it has the offset of the next tensor, and must not overlap it.
        0 => Some(0),
        _ => sized_like(type_code).map(|dtype| dtype.byte_length(elements)).transpose()?.flatten(),
    };
    let end = match byte_length {
        Some(byte_length) => start.checked_add(byte_length).ok_or_else(overflows)?,
        None => next_start.ok_or_else(|| unknown_end(type_code))?.max(start),
    };
    let is_plain = |dtype: &Dtype| dtype.block().is_some_and(|block| block.elements == 1);
    let removed = || ggml::removed(type_code).map(|(name, _)| Dtype::Other(name.into()));
    let dtype = match known {
        Some(dtype) if big_endian && !is_plain(dtype) => Dtype::Other(format!("{dtype}_BE").into()),
        Some(dtype) => dtype.clone(),
        None => removed().unwrap_or_else(|| Dtype::Other(format!("{UNKNOWN_GGML_TYPE}{type_code}").into())),
    };
    let mut data = Component::raw(dtype.clone(), start..end);
    if big_endian && dtype.array_kind().element_bytes() > 1 {
        data.encoding = Encoding::BigEndian;
    }
    Ok(Tensor::dense(name.to_owned(), dtype, shape, data))
}

fn unknown_end(type_code: u32) -> Error {
    let what = format!("its type {type_code} has no known size, and the server does not report the length of the file");
    Error::new(ErrorKind::Unsupported, what).advise("Serve the file from a server that sends its length.")
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
