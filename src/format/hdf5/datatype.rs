//! Datatypes: those of tensors, and those of attributes.

use super::source::{Numbers, Source};
use crate::dtype::Dtype;
use crate::error::Result;

/// A datatype.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Datatype {
    Number {
        dtype: Dtype,
        is_big_endian: bool,
    },
    /// A text of this many bytes.
    Text(usize),
    /// A text in a global heap.
    LongText,
    /// Another one, such as a reference.
    Other(&'static str),
}

/// The names of the classes that are not read.
const CLASSES: [&str; 13] = [
    "integers of an unusual width",
    "floats of an unusual layout",
    "times",
    "texts",
    "bit fields",
    "opaque data",
    "structures",
    "references",
    "an enumeration",
    "sequences",
    "arrays",
    "complex numbers",
    "data of an unknown class",
];

/// The layout of a float: its size, the position and size of its exponent, the size of its mantissa, and the bias.
type Float = (u32, u8, u8, u8, u32);

const FLOATS: [(Float, Dtype); 4] = [
    ((8, 52, 11, 52, 1023), Dtype::F64),
    ((4, 23, 8, 23, 127), Dtype::F32),
    ((2, 10, 5, 10, 15), Dtype::F16),
    ((2, 7, 8, 7, 127), Dtype::BF16),
];

impl Datatype {
    /// Reads a Datatype message.
    ///
    /// # Errors
    /// `FORMAT` if it ends too early.
    pub(super) fn read(source: Source, data: &[u8]) -> Result<Self> {
        let mut fields = source.fields(data);
        let class = fields.u8()? & 15;
        let bits = [fields.u8()?, fields.u8()?, fields.u8()?];
        let size = fields.u32()?;
        let other = || Datatype::Other(CLASSES.get(usize::from(class)).copied().unwrap_or("data of an unknown class"));
        let [low, middle, _] = bits;
        Ok(match class {
            0 => integer(&mut fields, low, size)?.unwrap_or_else(other),
            1 => float(&mut fields, low, size)?.unwrap_or_else(other),
            3 => Datatype::Text(size as usize),
            8 if is_bool(&mut fields, u16::from_le_bytes([low, middle]), size) => {
                Datatype::Number { dtype: Dtype::Bool, is_big_endian: false }
            }
            9 if low & 15 == 1 => Datatype::LongText,
            _ => other(),
        })
    }
}

fn integer(fields: &mut Numbers, bits: u8, size: u32) -> Result<Option<Datatype>> {
    let (offset, precision) = (fields.u16()?, fields.u16()?);
    if offset != 0 || u32::from(precision) != size.saturating_mul(8) {
        return Ok(None);
    }
    let dtype = match (size, bits & 8 != 0) {
        (1, false) => Dtype::U8,
        (1, true) => Dtype::I8,
        (2, false) => Dtype::U16,
        (2, true) => Dtype::I16,
        (4, false) => Dtype::U32,
        (4, true) => Dtype::I32,
        (8, false) => Dtype::U64,
        (8, true) => Dtype::I64,
        _ => return Ok(None),
    };
    Ok(Some(Datatype::Number { dtype, is_big_endian: bits & 1 != 0 && size > 1 }))
}

fn float(fields: &mut Numbers, bits: u8, size: u32) -> Result<Option<Datatype>> {
    let (offset, precision) = (fields.u16()?, fields.u16()?);
    let (exponent_at, exponent_bits, mantissa_at, mantissa_bits) =
        (fields.u8()?, fields.u8()?, fields.u8()?, fields.u8()?);
    let layout = (size, exponent_at, exponent_bits, mantissa_bits, fields.u32()?);
    let known = FLOATS.iter().find(|(known, _)| *known == layout);
    let is_usual = offset == 0 && u32::from(precision) == size.saturating_mul(8) && mantissa_at == 0 && bits & 64 == 0;
    let dtype = known.filter(|_| is_usual).map(|(_, dtype)| dtype.clone());
    Ok(dtype.map(|dtype| Datatype::Number { dtype, is_big_endian: bits & 1 != 0 }))
}

/// Whether an enumeration is the one that h5py writes for booleans: integers of one byte, FALSE and TRUE.
fn is_bool(fields: &mut Numbers, members: u16, size: u32) -> bool {
    const BASE_BYTES: usize = 12;
    let names = fields.take(BASE_BYTES).ok().map(|_| fields.rest());
    let starts = |name: &[u8]| names.is_some_and(|names| names.windows(name.len()).any(|part| part == name));
    size == 1 && members == 2 && starts(b"FALSE\0") && starts(b"TRUE\0")
}
