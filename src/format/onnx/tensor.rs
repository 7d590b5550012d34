//! Reads TensorProto: the description of a tensor, and where its elements are.

use super::fields::tensor as field;
use super::protobuf::{Field, Message, Value, name};
use crate::dtype::{Dtype, MAX_DIMS, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Component, Encoding, Tensor, part_path};
use crate::window::{Stop, Window};
use prost::encoding::decode_varint;
use std::ops::Range;

/// The data type of texts.
pub(super) const STRING: u64 = 8;

/// A field of elements.
#[derive(Debug, Clone, PartialEq)]
enum Data {
    None,
    Raw(Range<u64>),
    /// The number of a field for some types, and its packed elements.
    Typed(u32, Range<u64>),
    /// A field whose elements have one key each, or are in several packed fields.
    Scattered,
}

/// The location of elements in another file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct External {
    pub(super) location: String,
    offset: u64,
    /// `None` and 0 mean as many bytes as type and shape determine.
    length: Option<u64>,
}

/// A TensorProto.
#[derive(Debug)]
pub(super) struct TensorProto {
    pub(super) name: String,
    pub(super) data_type: u64,
    pub(super) external: Option<External>,
    dims: Vec<u64>,
    data: Data,
    is_segment: bool,
    /// The range of the message in the file.
    range: Range<u64>,
}

/// The value of `data_location` for elements in another file.
const EXTERNAL: u64 = 1;

impl TensorProto {
    /// Reads a message, except its elements.
    ///
    /// # Errors
    /// [`Stop::Need`] while bytes are missing; `FORMAT` and `LIMIT` for invalid fields.
    pub(super) fn parse(window: &Window, range: Range<u64>) -> Result<Self, Stop> {
        let mut tensor = TensorProto {
            name: String::new(),
            data_type: 0,
            external: None,
            dims: Vec::new(),
            data: Data::None,
            is_segment: false,
            range: range.clone(),
        };
        let (mut external, mut is_external) = (External::default(), false);
        let mut message = Message::new(window, range);
        while let Some(field) = message.next()? {
            match field.number {
                field::DIMS => read_dims(window, &field, &mut tensor.dims)?,
                field::DATA_TYPE => tensor.data_type = field.number()?,
                field::SEGMENT => tensor.is_segment = true,
                field::NAME => tensor.name = name(window, &field)?.to_owned(),
                field::RAW_DATA => tensor.data = Data::Raw(field.bytes()?),
                field::FLOAT_DATA | field::INT32_DATA | field::INT64_DATA | field::DOUBLE_DATA | field::UINT64_DATA => {
                    tensor.data = match (&tensor.data, &field.value) {
                        (_, Value::Bytes(range)) if range.is_empty() => continue,
                        (Data::None, Value::Bytes(range)) => Data::Typed(field.number, range.clone()),
                        _ => Data::Scattered,
                    };
                }
                field::EXTERNAL_DATA => external.read_entry(window, field.bytes()?)?,
                field::DATA_LOCATION => is_external = field.number()? == EXTERNAL,
                _ => {}
            }
        }
        tensor.external = is_external.then_some(external);
        Ok(tensor)
    }

    /// The length of the message without its elements.
    pub(super) fn head_bytes(&self) -> u64 {
        let data = match &self.data {
            Data::Raw(range) | Data::Typed(_, range) => range.end - range.start,
            Data::None | Data::Scattered => 0,
        };
        (self.range.end - self.range.start).saturating_sub(data)
    }

    pub(super) fn dimension_count(&self) -> usize {
        self.dims.len()
    }

    /// Converts the message to a tensor named `name`. The range of its component is in the file of the graph, or in the
    /// external file.
    ///
    /// # Errors
    /// `FORMAT` if the elements do not match type and shape; `UNSUPPORTED` for storage that no current tool writes.
    pub(super) fn layout_tensor(&self, name: String) -> Result<Tensor> {
        if self.is_segment {
            return Err(unusual("it is a segment of a tensor"));
        }
        let (dtype, bits) = dtype_of(self.data_type);
        let byte_length = match bits {
            Some(bits) => Some(byte_length(element_count(&self.dims)?, bits)?),
            None => None,
        };
        let dtype = match (dtype.byte_length(element_count(&self.dims)?), &dtype) {
            (Ok(_), _) => dtype,
            // 4-bit and 6-bit floats that do not fill whole bytes.
            (Err(_), Dtype::F4) => Dtype::Other("FLOAT4E2M1".into()),
            (Err(_), Dtype::F6_E2M3) => Dtype::Other("FLOAT6E2M3".into()),
            (Err(_), Dtype::F6_E3M2) => Dtype::Other("FLOAT6E3M2".into()),
            (Err(error), _) => return Err(error),
        };
        let data = match &self.external {
            Some(external) => external.component(dtype.clone(), byte_length)?,
            None => self.component(dtype.clone(), byte_length)?,
        };
        Ok(Tensor::dense(name, dtype, self.dims.clone(), data))
    }

    fn component(&self, dtype: Dtype, byte_length: Option<u64>) -> Result<Component> {
        let check = |stored: &Range<u64>| match byte_length {
            Some(expected) if expected != stored.end - stored.start => {
                let what = format!("its {} bytes do not match {dtype} {:?}", stored.end - stored.start, self.dims);
                Err(malformed(what).at(stored.clone()))
            }
            _ => Ok(()),
        };
        match &self.data {
            Data::Raw(range) => {
                check(range)?;
                Ok(Component::raw(dtype, range.clone()))
            }
            Data::None if byte_length.is_none_or(|length| length == 0) => {
                Ok(Component::raw(dtype, self.range.start..self.range.start))
            }
            Data::None => Err(malformed(format!("it has no elements, but is {dtype} {:?}", self.dims))),
            Data::Scattered => Err(unusual("its elements are not packed")),
            Data::Typed(number, range) => {
                if field_of(&dtype) != *number {
                    return Err(malformed(format!("elements of {dtype} cannot be in field {number}")));
                }
                let decoded_length = byte_length.unwrap_or(0);
                if matches!(*number, field::FLOAT_DATA | field::DOUBLE_DATA) {
                    check(range)?;
                    return Ok(Component::raw(dtype, range.clone()));
                }
                let values = match &dtype {
                    Dtype::F6_E2M3 | Dtype::F6_E3M2 => element_count(&self.dims)?,
                    Dtype::Other(name) if name.starts_with("FLOAT6") => {
                        return Err(unusual("its 6-bit floats are not in `raw_data`, and do not fill whole bytes"));
                    }
                    _ => decoded_length / dtype.array_kind().element_bytes() as u64,
                };
                if values > range.end - range.start {
                    let what = format!("its {} bytes are not {values} varints", range.end - range.start);
                    return Err(malformed(what).at(range.clone()));
                }
                let decoded_length = Some(decoded_length);
                Ok(Component { encoding: Encoding::Varint, decoded_length, ..Component::raw(dtype, range.clone()) })
            }
        }
    }
}

impl External {
    /// Reads an entry of `external_data`: a key and a value, both texts.
    fn read_entry(&mut self, window: &Window, entry: Range<u64>) -> Result<(), Stop> {
        let (mut key, mut value) = ("", "");
        let mut message = Message::new(window, entry.clone());
        while let Some(field) = message.next()? {
            match field.number {
                1 => key = name(window, &field)?,
                2 => value = name(window, &field)?,
                _ => {}
            }
        }
        let number = || {
            let parsed = value.parse().ok();
            parsed.ok_or_else(|| malformed(format!("its external data has the {key} \"{value}\"")).at(entry.clone()))
        };
        match key {
            "location" => self.location = value.strip_prefix("./").unwrap_or(value).to_owned(),
            "offset" => self.offset = number()?,
            "length" => self.length = Some(number()?),
            _ => {} // such as `checksum`
        }
        Ok(())
    }

    fn component(&self, dtype: Dtype, byte_length: Option<u64>) -> Result<Component> {
        part_path(&self.location)?;
        let length = match (self.length.filter(|stated| *stated > 0), byte_length) {
            (Some(stated), Some(expected)) if stated != expected => {
                return Err(malformed(format!("its external data has {stated} bytes instead of {expected}")));
            }
            (stated, expected) => expected.or(stated).ok_or_else(|| unusual("its type has no known size"))?,
        };
        let end = self.offset.checked_add(length);
        let end = end.ok_or_else(|| malformed(format!("its offset {} overflows u64", self.offset)))?;
        Ok(Component::raw(dtype, self.offset..end))
    }
}

/// Reads `dims`, which writers do not pack, although the parser of `onnx` also accepts packed ones.
fn read_dims(window: &Window, field: &Field, dims: &mut Vec<u64>) -> Result<(), Stop> {
    let mut add = |value: u64| {
        if i64::try_from(value).is_err() {
            return Err(malformed(format!("it has the dimension {}", value.cast_signed())));
        }
        if dims.len() == MAX_DIMS {
            return Err(Error::new(ErrorKind::Limit, format!("it has more than {MAX_DIMS} dimensions")));
        }
        dims.push(value);
        Ok(())
    };
    match &field.value {
        Value::Varint(value) => add(*value)?,
        Value::Bytes(range) if range.end - range.start <= MAX_DIMS as u64 * 10 => {
            let mut packed = window.get(range.clone())?;
            while !packed.is_empty() {
                let invalid = |_| malformed("its packed dimensions are invalid").at(range.clone());
                add(decode_varint(&mut packed).map_err(invalid)?)?;
            }
        }
        _ => return Err(malformed("its dimensions are not numbers").at(field.range.clone()).into()),
    }
    Ok(())
}

/// The dtype of a data type, and the size of its elements in bits, if it is known.
pub(super) fn dtype_of(data_type: u64) -> (Dtype, Option<u64>) {
    let (dtype, bits) = match data_type {
        1 => (Dtype::F32, 32),
        2 => (Dtype::U8, 8),
        3 => (Dtype::I8, 8),
        4 => (Dtype::U16, 16),
        5 => (Dtype::I16, 16),
        6 => (Dtype::I32, 32),
        7 => (Dtype::I64, 64),
        9 => (Dtype::Bool, 8),
        10 => (Dtype::F16, 16),
        11 => (Dtype::F64, 64),
        12 => (Dtype::U32, 32),
        13 => (Dtype::U64, 64),
        14 => (Dtype::C64, 64),
        15 => (Dtype::C128, 128),
        16 => (Dtype::BF16, 16),
        17 => (Dtype::F8_E4M3, 8),
        18 => (Dtype::F8_E4M3FNUZ, 8),
        19 => (Dtype::F8_E5M2, 8),
        20 => (Dtype::F8_E5M2FNUZ, 8),
        21 => (Dtype::Other("UINT4".into()), 4),
        22 => (Dtype::Other("INT4".into()), 4),
        23 => (Dtype::F4, 4),
        24 => (Dtype::F8_E8M0, 8),
        25 => (Dtype::Other("UINT2".into()), 2),
        26 => (Dtype::Other("INT2".into()), 2),
        27 => (Dtype::F6_E2M3, 6),
        28 => (Dtype::F6_E3M2, 6),
        other => return (Dtype::Other(format!("ONNX_{other}").into()), None),
    };
    (dtype, Some(bits))
}

/// The field for elements of a dtype.
fn field_of(dtype: &Dtype) -> u32 {
    match dtype {
        Dtype::F32 | Dtype::C64 => field::FLOAT_DATA,
        Dtype::F64 | Dtype::C128 => field::DOUBLE_DATA,
        Dtype::I64 => field::INT64_DATA,
        Dtype::U32 | Dtype::U64 => field::UINT64_DATA,
        Dtype::Other(name) if name.starts_with("ONNX_") => 0,
        _ => field::INT32_DATA,
    }
}

fn byte_length(elements: u64, bits: u64) -> Result<u64> {
    let overflows = || malformed(format!("{elements} elements of {bits} bits overflow u64"));
    elements.checked_mul(bits).map(|bits| bits.div_ceil(8)).ok_or_else(overflows)
}

fn unusual(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, what)
        .advise("Save the model again with the Python package `onnx`, which stores tensors in the usual way.")
}
