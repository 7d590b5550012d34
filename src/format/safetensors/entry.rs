//! Reads the header entry of a tensor.

use super::cursor::{Cursor, Stop};
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, Result, malformed};
use std::ops::Range;

/// An entry, without its shape. Fields that the format does not define are ignored, as by the `safetensors` package.
pub(super) struct Entry {
    pub(super) dtype: Dtype,
    /// The range of the tensor in the file.
    pub(super) range: Range<u64>,
}

impl Entry {
    /// Reads an entry. Replaces `shape`, which is memory of the caller because a header may have 100,000 entries.
    /// `data_start` is the end of the header.
    pub(super) fn read(cursor: &mut Cursor<'_>, shape: &mut Vec<u64>, data_start: u64) -> Result<Self, Stop> {
        let (mut dtype, mut dims, mut offsets) = (None, None, None);
        cursor.members(*b"{}", |cursor| match &*cursor.key()? {
            "dtype" => set(&mut dtype, "dtype", Dtype::from_name(&cursor.string()?)),
            "shape" => {
                shape.clear();
                cursor.members(*b"[]", |cursor| {
                    shape.push(cursor.unsigned()?);
                    Ok(())
                })?;
                set(&mut dims, "shape", ())
            }
            "data_offsets" => {
                cursor.expect(b'[')?;
                let start = cursor.unsigned()?;
                cursor.expect(b',')?;
                let end = cursor.unsigned()?;
                cursor.expect(b']')?;
                set(&mut offsets, "data_offsets", start..end)
            }
            _ => cursor.skip(),
        })?;
        let dtype = dtype.ok_or_else(|| missing("dtype"))?;
        dims.ok_or_else(|| missing("shape"))?;
        let range = byte_range(&dtype, shape, offsets.ok_or_else(|| missing("data_offsets"))?, data_start)?;
        Ok(Entry { dtype, range })
    }
}

fn set<T>(field: &mut Option<T>, name: &str, value: T) -> Result<(), Stop> {
    match field.replace(value) {
        Some(_) => Err(malformed(format!("its entry in the header has `{name}` twice")).into()),
        None => Ok(()),
    }
}

fn missing(field: &str) -> Error {
    malformed(format!("its entry in the header has no `{field}`"))
}

/// Validates the entry, and converts its range to file offsets.
fn byte_range(dtype: &Dtype, shape: &[u64], offsets: Range<u64>, data_start: u64) -> Result<Range<u64>> {
    let Range { start, end } = offsets;
    let range = file_range(start, end, data_start)
        .ok_or_else(|| malformed(format!("its `data_offsets` [{start}, {end}] are not a range of the file")))?;
    let expected = dtype.byte_length(element_count(shape)?)?;
    if expected.is_some_and(|expected| expected != end - start) {
        let what = format!("its {} bytes do not match {dtype} {shape:?}", end - start);
        return Err(malformed(what).at(range));
    }
    Ok(range)
}

fn file_range(start: u64, end: u64, data_start: u64) -> Option<Range<u64>> {
    if start > end {
        return None;
    }
    Some(data_start.checked_add(start)?..data_start.checked_add(end)?)
}
