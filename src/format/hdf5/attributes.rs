//! Attributes of groups: texts and numbers, which Keras uses for names and for the configuration of a model.

use super::dataset::shape_of;
use super::datatype::Datatype;
use super::heap::global;
use super::source::{Numbers, Source};
use crate::dtype::{Dtype, element_count};
use crate::error::{Result, malformed};
use crate::values::budget::Budget;
use crate::values::json::float;
use crate::window::Stop;
use serde_json::Value;
use weightstream_kernels::floats::from_f16;

/// The maximum length of a text: the configuration of a large model has some megabytes.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// The maximum number of elements of an attribute. Keras has one for each layer or weight.
const MAX_ELEMENTS: u64 = 64 << 10;

/// Reads an Attribute message: the name, and the value; `None` for one that is not read.
///
/// # Errors
/// [`Stop::Need`] while bytes are missing; `FORMAT` for an invalid message; `LIMIT` beyond the budget.
pub(super) fn read(source: Source, data: &[u8], budget: &mut Budget) -> Result<Option<(String, Value)>, Stop> {
    let mut fields = source.fields(data);
    let (version, flags) = (fields.u8()?, fields.u8()?);
    let lengths = [fields.u16()?, fields.u16()?, fields.u16()?].map(usize::from);
    let is_padded = match version {
        1 => true,
        2 | 3 => false,
        _ => return Err(malformed(format!("an attribute has version {version}")).into()),
    };
    fields.take(usize::from(version == 3))?; // the character set
    let mut part = |length: usize| fields.take(if is_padded { length.next_multiple_of(8) } else { length });
    let [name, datatype, dataspace] = [part(lengths[0])?, part(lengths[1])?, part(lengths[2])?];
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let Ok(name) = std::str::from_utf8(name) else { return Ok(None) };
    if version > 1 && flags & 3 != 0 {
        return Ok(None); // its type is in another object
    }
    let (datatype, shape) = (Datatype::read(source, datatype)?, shape_of(source, dataspace)?);
    let Some(shape) = shape else { return Ok(None) };
    let count = element_count(&shape)?;
    if count > MAX_ELEMENTS {
        return Ok(None);
    }
    let mut elements = fields;
    budget.array(count)?;
    let mut values = Vec::new();
    for _ in 0..count {
        match element(source, &datatype, &mut elements, budget)? {
            Some(value) => values.push(value),
            None => return Ok(None),
        }
    }
    let value = if shape.is_empty() { values.pop().unwrap_or_default() } else { values.into() };
    Ok(Some((name.to_owned(), value)))
}

fn element(
    source: Source,
    datatype: &Datatype,
    fields: &mut Numbers,
    budget: &mut Budget,
) -> Result<Option<Value>, Stop> {
    let bytes = match datatype {
        Datatype::Text(length) => fields.take(*length)?,
        Datatype::LongText => {
            let (length, collection, index) = (fields.u32()?, fields.address()?, fields.u32()?);
            match collection.filter(|_| length > 0) {
                Some(collection) => global(source, collection, index, MAX_TEXT_BYTES)?,
                None => &[],
            }
        }
        Datatype::Number { dtype, is_big_endian } => return Ok(number(dtype, *is_big_endian, fields)?),
        Datatype::Other(_) => return Ok(None),
    };
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    budget.text(text.len() as u64)?;
    Ok(Some(String::from_utf8_lossy(text).into()))
}

fn number(dtype: &Dtype, is_big_endian: bool, fields: &mut Numbers) -> Result<Option<Value>> {
    let width = dtype.array_kind().element_bytes();
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(fields.take(width)?).for_each(|(to, from)| *to = *from);
    if is_big_endian {
        bytes.get_mut(..width).unwrap_or_default().reverse();
    }
    let bits = u64::from_le_bytes(bytes);
    let signed = (bits << (64 - 8 * width as u32)).cast_signed() >> (64 - 8 * width as u32);
    Ok(Some(match dtype {
        Dtype::Bool => (bits != 0).into(),
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => bits.into(),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => signed.into(),
        Dtype::F64 => float(f64::from_bits(bits)),
        Dtype::F32 => float(f64::from(f32::from_bits(bits as u32))),
        Dtype::F16 => float(f64::from(from_f16(bits as u16))),
        Dtype::BF16 => float(f64::from(f32::from_bits((bits as u32) << 16))),
        _ => return Ok(None),
    }))
}
