//! The layout that the tools of `cpp_embedder` write: no index, no checksums, no alignment, only F32.
//!
//! The file has no index, so the tensors are read sequentially: the bytes before the data of each tensor determine
//! where the next one begins. Over a network this takes one request for every tensor larger than the engine's
//! read-ahead (64 KiB): about 40 consecutive requests for all-MiniLM-L6-v2. Converting the file avoids them.

use super::parts::{NAME, add_vocabulary, check_dims, check_token_count};
use crate::cursor::Cursor;
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::fields::Fields;
use crate::index::{Component, Index, Metadata, Tensor, check_tensors};
use crate::values::budget::Budget;
use crate::values::json;
use crate::window::{Stop, Window};
use serde_json::Value;

/// The size in bytes of the magic, the version and the number of tensors.
const HEADER_BYTES: u64 = 12;

/// The tools' own limit. Prevents an invalid length from making the reader read tensor data as a name.
const MAX_NAME_BYTES: u64 = 1 << 20;

/// The number of bytes of a record that are requested first. Names have about 50 bytes.
const RECORD_HEAD_BYTES: u64 = 128;

/// The minimum size of a record: a name length, a dimension count, a dimension and an element.
const MIN_RECORD_BYTES: u64 = 16;

/// The maximum size of the vocabulary. One of 300,000 tokens has about 4 MB. Bounds the bytes that are read as tokens.
const MAX_VOCABULARY_BYTES: u64 = 64 << 20;

/// Whether a tensor count and a first tensor whose name has no control characters follow the version.
pub(super) fn is_plausible(head: &[u8]) -> bool {
    let field = |at: usize| head.get(at..)?.first_chunk().copied().map(u32::from_le_bytes);
    match (field(8), field(12)) {
        (Some(0), _) => true,
        (Some(_), Some(name_length)) => {
            let name = head.iter().skip(16).take(name_length as usize);
            u64::from(name_length) <= MAX_NAME_BYTES && !name.into_iter().any(u8::is_ascii_control)
        }
        _ => false,
    }
}

/// The records that were read so far.
struct Records {
    tensors: Vec<Tensor>,
    budget: Budget,
    /// The offset of the next record.
    at: u64,
    tokens: Vec<Value>,
    warnings: Vec<String>,
}

impl Records {
    /// Reads all records. If bytes are missing, the next call goes on with the same record.
    fn read(&mut self, window: &Window, count: u32) -> Result<(), Stop> {
        while self.tensors.len() < count as usize {
            let tensor = parse_record(window, self.at)?;
            self.budget.tensor(&tensor.name, tensor.shape.len())?;
            self.at = tensor.components.first().map_or(self.at, |data| data.range.end);
            self.tensors.push(tensor);
        }
        let before = self.budget.mark();
        self.warnings.clear();
        let tokens = parse_vocabulary(window, self.at, &mut self.warnings, &mut self.budget);
        self.tokens = tokens.inspect_err(|_| self.budget.give_back(before))?;
        Ok(())
    }
}

pub(super) fn parse(window: &Window) -> Result<Index, Stop> {
    let mut fields = Fields::new(window.get(8..HEADER_BYTES)?, 8, "the header");
    let tensor_count = fields.u32()?;
    let least_end = HEADER_BYTES + u64::from(tensor_count) * MIN_RECORD_BYTES;
    if let Some(length) = window.file_length()
        && least_end > length
    {
        let what = format!("{tensor_count} tensors need at least {least_end} bytes, but the file has {length}");
        return Err(Error::new(ErrorKind::Truncated, what).at(8..12).into());
    }
    let start = || {
        let budget = Budget::of(window, window.file_length().unwrap_or(least_end));
        let (tensors, tokens, warnings) = Default::default();
        Ok(Records { tensors, budget, at: HEADER_BYTES, tokens, warnings })
    };
    let Records { mut tensors, tokens, mut warnings, .. } =
        window.resume(start, |records: &mut Records| records.read(window, tensor_count))?;
    check_tensors(&mut tensors, window.file_length())?;

    let mut metadata = Metadata::new();
    if !tokens.is_empty() {
        add_vocabulary(&mut metadata, tokens, None);
    }
    if tensors.iter().any(|tensor| tensor.shape.len() == 2) {
        let warning = "the weights of linear layers may be transposed ([in, out]): this depends on the version of the \
                       tool that wrote the file, which the file does not state";
        warnings.push(warning.to_owned());
    }
    Ok(Index {
        format: NAME,
        version: "1".into(),
        metadata,
        long_arrays: Vec::new(),
        tensors: tensors.into(),
        other_shards: std::collections::HashMap::new(),
        blocks: Vec::new(),
        quantized: None,
        warnings,
    })
}

/// Reads the record at `at`, without the data of its tensor.
fn parse_record(window: &Window, at: u64) -> Result<Tensor, Stop> {
    let end_of_file = window.file_length().unwrap_or(u64::MAX);
    window.get(at..at.saturating_add(RECORD_HEAD_BYTES).min(end_of_file).max(at))?;
    let number =
        |at: u64| Fields::new(window.get(at..at.saturating_add(4))?, at, "a tensor's record").u32().map_err(Stop::from);
    let name_length = u64::from(number(at)?);
    if name_length > MAX_NAME_BYTES {
        let what = format!("a tensor's name claims {name_length} bytes; the tools read at most {MAX_NAME_BYTES}");
        return Err(malformed(what).at(at..at + 4).into());
    }
    let dims_at = at + 4 + name_length;
    let name = window.get(at + 4..dims_at)?;
    let name = std::str::from_utf8(name).map_err(|_| malformed("a tensor's name is not UTF-8").at(at + 4..dims_at))?;
    let dims = number(dims_at)?;
    check_dims(dims).map_err(|e| e.at(dims_at..dims_at + 4).in_tensor(name))?;
    let data_start = dims_at + 4 + u64::from(dims) * 4;
    let mut fields = Fields::new(window.get(dims_at + 4..data_start)?, dims_at + 4, "a tensor's record");
    let shape = (0..dims).map(|_| fields.u32().map(u64::from)).collect::<Result<Vec<_>>>()?;
    if shape.is_empty() || shape.contains(&0) {
        let what = format!("its shape is {shape:?}; the format's tools write no scalars and no empty tensors");
        return Err(malformed(what).at(dims_at..data_start).in_tensor(name).into());
    }
    let data = element_count(&shape).and_then(|count| Dtype::F32.byte_length(count)).map_err(|e| e.in_tensor(name))?;
    let data_end = data.and_then(|byte_length| data_start.checked_add(byte_length));
    let data_end = data_end.ok_or_else(|| malformed("its end overflows u64").in_tensor(name))?;
    if data_end > end_of_file {
        let what = format!("its data ends at byte {data_end}, but the file has {end_of_file} bytes");
        return Err(Error::new(ErrorKind::Truncated, what).at(data_start..data_end).in_tensor(name).into());
    }
    let data = Component::raw(Dtype::F32, data_start..data_end);
    Ok(Tensor::dense(name.to_owned(), Dtype::F32, shape, data))
}

/// Reads the tokens, in the order of their ids. Ignores bytes after them, like the tools.
fn parse_vocabulary(
    window: &Window,
    at: u64,
    warnings: &mut Vec<String>,
    budget: &mut Budget,
) -> Result<Vec<Value>, Stop> {
    let mut cursor = Cursor::new(window, at, MAX_VOCABULARY_BYTES, "the vocabulary");
    let count = cursor.u32()?;
    check_token_count(count, at)?;
    cursor.ensure(u64::from(count) * 4)?;
    let mut tokens = Vec::new();
    for _ in 0..count {
        let length = cursor.u32()?;
        budget.text(length.into())?;
        budget.item(tokens.len())?;
        tokens.push(json::text(cursor.take(length.into())?, warnings).into());
    }
    budget.ended(&mut tokens);
    Ok(tokens)
}
