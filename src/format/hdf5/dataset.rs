//! Datasets: their shape, type and bytes.

use super::datatype::Datatype;
use super::header::{Message, kind};
use super::source::Source;
use crate::dtype::{Dtype, MAX_DIMS, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use std::ops::Range;

/// A dataset that is a tensor.
#[derive(Debug, Clone)]
pub(super) struct Dataset {
    pub(super) dtype: Dtype,
    pub(super) is_big_endian: bool,
    pub(super) shape: Vec<u64>,
    /// The range of the file.
    pub(super) data: Range<u64>,
}

/// A dataset, or why it is none.
pub(super) type Found = Result<Dataset, &'static str>;

/// Whether an object is a dataset.
pub(super) fn is_dataset(messages: &[Message]) -> bool {
    messages.iter().any(|message| message.kind == kind::LAYOUT)
}

/// Reads the description of a dataset. The inner error says why it is not read.
///
/// # Errors
/// `FORMAT` if the description is invalid, or does not match the bytes; `LIMIT` for too many dimensions.
pub(super) fn read(source: Source, messages: &[Message]) -> Result<Found> {
    let find = |kind| messages.iter().find(|message| message.kind == kind);
    let Some(layout) = find(kind::LAYOUT) else { return Err(malformed("a dataset has no layout")) };
    let parts = (find(kind::DATASPACE), find(kind::DATATYPE));
    let (Some(dataspace), Some(datatype)) = parts else {
        return Err(malformed("a dataset has no dataspace or no datatype"));
    };
    if dataspace.is_shared || datatype.is_shared {
        return Ok(Err("has a type that another object of the file contains"));
    }
    let (dtype, is_big_endian) = match Datatype::read(source, datatype.data)? {
        Datatype::Number { dtype, is_big_endian } => (dtype, is_big_endian),
        Datatype::Text(_) | Datatype::LongText => return Ok(Err("has texts")),
        Datatype::Other(class) => return Ok(Err(class)),
    };
    let Some(shape) = shape_of(source, dataspace.data)? else { return Ok(Err("has no elements")) };
    let expected = dtype.byte_length(element_count(&shape)?)?.unwrap_or(0);
    if find(kind::EXTERNAL_FILES).is_some() {
        return Ok(Err("is in other files"));
    }
    if find(kind::FILTERS).is_some() {
        return Ok(Err("is compressed"));
    }
    let data = match bytes_of(source, layout, expected)? {
        Ok(data) => data,
        Err(reason) => return Ok(Err(reason)),
    };
    if data.end - data.start != expected {
        let what = format!("its {} bytes do not match {dtype} {shape:?}", data.end - data.start);
        return Err(malformed(what).at(data));
    }
    Ok(Ok(Dataset { dtype, is_big_endian, shape, data }))
}

/// The sizes of a Dataspace message; `None` for a null one.
pub(super) fn shape_of(source: Source, data: &[u8]) -> Result<Option<Vec<u64>>> {
    let mut fields = source.fields(data);
    let (version, rank, _) = (fields.u8()?, usize::from(fields.u8()?), fields.u8()?);
    match version {
        1 => _ = fields.take(5)?,
        2 if fields.u8()? == 2 => return Ok(None),
        2 => {}
        _ => return Err(malformed(format!("a dataspace has version {version}"))),
    }
    if rank > MAX_DIMS {
        let what = format!("a dataspace has {rank} dimensions; the limit is {MAX_DIMS}");
        return Err(Error::new(ErrorKind::Limit, what));
    }
    (0..rank).map(|_| fields.length()).collect::<Result<_>>().map(Some)
}

/// The bytes of a dataset, which should be `expected`.
fn bytes_of(source: Source, layout: &Message, expected: u64) -> Result<Result<Range<u64>, &'static str>> {
    let mut fields = source.fields(layout.data);
    let (version, class) = (fields.u8()?, fields.u8()?);
    if !(3..=4).contains(&version) {
        return Ok(Err("has a layout of an old or new version"));
    }
    Ok(match class {
        0 => {
            let length = u64::from(fields.u16()?);
            fields.take(length as usize)?;
            Ok(source.range(layout.address.saturating_add(4), length)?)
        }
        1 => match (fields.address()?, fields.length()?) {
            (Some(address), length) => Ok(source.range(address, length)?),
            (None, _) if expected == 0 => Ok(source.range(0, 0)?),
            (None, _) => Err("has no bytes, only a value that fills it"),
        },
        2 => Err("is chunked"),
        _ => Err("is virtual"),
    })
}
