//! The types of tensors, by their numbers in the schema.

use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};

/// The type of texts.
pub(super) const STRING: u8 = 5;

/// The dtype with this number.
///
/// # Errors
/// `UNSUPPORTED` for a type without elements, and for one that the schema does not have.
pub(super) fn dtype_of(number: u8) -> Result<Dtype> {
    Ok(match number {
        0 => Dtype::F32,
        1 => Dtype::F16,
        2 => Dtype::I32,
        3 => Dtype::U8,
        4 => Dtype::I64,
        6 => Dtype::Bool,
        7 => Dtype::I16,
        8 => Dtype::C64,
        9 => Dtype::I8,
        10 => Dtype::F64,
        11 => Dtype::C128,
        12 => Dtype::U64,
        15 => Dtype::U32,
        16 => Dtype::U16,
        17 => Dtype::Other("INT4".into()),
        18 => Dtype::BF16,
        19 => Dtype::Other("INT2".into()),
        20 => Dtype::Other("UINT4".into()),
        21 => Dtype::F8_E4M3,
        22 => Dtype::F8_E5M2,
        other => {
            let error = Error::new(ErrorKind::Unsupported, format!("its type has the number {other}"));
            return Err(error.advise("Weightstream knows the types 0 to 22, which are not references."));
        }
    })
}

/// The length of the elements in bytes.
///
/// # Errors
/// `FORMAT` if it overflows u64.
pub(super) fn byte_length(dtype: &Dtype, shape: &[u64]) -> Result<u64> {
    let count = element_count(shape)?;
    let in_byte = match dtype {
        Dtype::Other(name) if name.ends_with('2') => 4,
        Dtype::Other(_) => 2,
        _ => return dtype.byte_length(count)?.ok_or_else(|| malformed("its type has no size")),
    };
    Ok(count.div_ceil(in_byte))
}
