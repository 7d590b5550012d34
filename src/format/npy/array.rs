//! From the header of an array to a tensor.

use super::header::Header;
use crate::dtype::{Dtype, element_count};
use crate::error::{Result, malformed};
use crate::index::strides::column_major;
use crate::index::{Component, Encoding, Layout, Tensor};

/// An array that is listed as a tensor.
#[derive(Debug)]
pub(crate) struct Array {
    elements: Elements,
    shape: Vec<u64>,
    fortran_order: bool,
    /// The length of the elements in bytes.
    pub(crate) byte_length: u64,
}

/// The elements of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Elements {
    dtype: Dtype,
    bytes: u64,
    is_big_endian: bool,
    is_opaque: bool,
}

/// The attribute of column-major arrays, beside their strides.
pub(crate) const FORTRAN_ORDER: &str = "fortran_order";

/// Why an array is not listed.
pub(crate) const STRUCTURED: &str = "a structured dtype, whose elements have fields";
const OBJECTS: &str = "Python objects, which are pickled";

impl Array {
    /// The array of a header; the reason if its elements are no numbers.
    ///
    /// # Errors
    /// `FORMAT` and `LIMIT` for a shape or dtype that no array has.
    pub(crate) fn of(header: &Header) -> Result<Result<Array, String>> {
        let elements = match header.descr.as_deref().map_or(Ok(Err(STRUCTURED.to_owned())), elements_of)? {
            Ok(elements) => elements,
            Err(reason) => return Ok(Err(reason)),
        };
        let count = element_count(&header.shape)?;
        let byte_length = count.checked_mul(elements.bytes);
        let overflow = || malformed(format!("its {count} elements of {} bytes overflow u64", elements.bytes));
        let byte_length = byte_length.ok_or_else(overflow)?;
        let Header { shape, fortran_order, .. } = header;
        Ok(Ok(Array { elements, shape: shape.clone(), fortran_order: *fortran_order, byte_length }))
    }

    /// The tensor of the array. `data` has its raw bytes, or those of a stream that decodes to them.
    pub(crate) fn into_tensor(self, name: &str, data: Component) -> Tensor {
        let Array { elements, shape, fortran_order, byte_length } = self;
        let Elements { mut dtype, bytes, is_big_endian, .. } = elements;
        let mut encoding = data.encoding;
        if is_big_endian && bytes > 1 {
            match encoding {
                Encoding::Raw => encoding = Encoding::BigEndian,
                // No encoding is both, so the bytes are listed without an interpretation.
                _ => dtype = Dtype::Other(format!("big-endian {dtype}").into()),
            }
        }
        let data = Component { dtype: dtype.clone(), decoded_length: Some(byte_length), encoding, ..data };
        let strides = if fortran_order { column_major(&shape) } else { Vec::new() };
        let tensor = Tensor::dense(name.to_owned(), dtype, shape, data);
        if !fortran_order {
            return tensor;
        }
        let mut tensor = tensor.with_strides(&strides);
        if tensor.layout != Layout::Dense {
            tensor.attributes.insert(FORTRAN_ORDER.to_owned(), true.into());
        }
        tensor
    }

    /// The array whose elements, if the header says only their size, are of the dtype that `dtype_of` returns for it.
    pub(crate) fn with_opaque(mut self, dtype_of: impl FnOnce(u64) -> Option<Dtype>) -> Self {
        if self.elements.is_opaque
            && let Some(dtype) = dtype_of(self.elements.bytes)
        {
            (self.elements.dtype, self.elements.is_opaque) = (dtype, false);
        }
        self
    }

    /// Whether the file does not say what the elements are, only how long.
    pub(crate) fn is_opaque(&self) -> bool {
        self.elements.is_opaque
    }
}

/// The elements of a dtype as NumPy spells it; the reason if they are no numbers.
fn elements_of(descr: &str) -> Result<Result<Elements, String>> {
    let invalid = || malformed(format!("its dtype is `{}`", descr.escape_debug()));
    let order = descr.chars().next().filter(|order| "<>|=".contains(*order));
    let kind = descr.get(usize::from(order.is_some())..).unwrap_or_default();
    let digits = kind.get(1..).unwrap_or_default();
    let dtype = match kind {
        "f8" => Dtype::F64,
        "f4" => Dtype::F32,
        "f2" => Dtype::F16,
        "i8" => Dtype::I64,
        "i4" => Dtype::I32,
        "i2" => Dtype::I16,
        "i1" => Dtype::I8,
        "u8" => Dtype::U64,
        "u4" => Dtype::U32,
        "u2" => Dtype::U16,
        "u1" => Dtype::U8,
        "b1" => Dtype::Bool,
        "c8" => Dtype::C64,
        "c16" => Dtype::C128,
        _ if kind.starts_with('O') => return Ok(Err(OBJECTS.to_owned())),
        _ if kind.starts_with('V') => {
            let bytes = digits.parse().ok().filter(|bytes: &u64| *bytes > 0).ok_or_else(invalid)?;
            let dtype = Dtype::Other(format!("V{bytes}").into());
            return Ok(Ok(Elements { dtype, bytes, is_big_endian: false, is_opaque: true }));
        }
        _ if kind.starts_with(['U', 'S', 'M', 'm', 'f', 'c', 'a', 'T']) => {
            return Ok(Err(format!("the dtype `{}`, which weightstream does not read", descr.escape_debug())));
        }
        _ => return Err(invalid()),
    };
    let bytes = dtype.block().map_or(1, |block| block.bytes);
    Ok(Ok(Elements { dtype, bytes, is_big_endian: order == Some('>'), is_opaque: false }))
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn reads_the_dtypes_of_numbers() {
        let known = |descr: &str| elements_of(descr).unwrap().unwrap();
        assert_eq!((known("<f2").dtype, known("<f2").bytes), (Dtype::F16, 2));
        assert_eq!((known("|b1").dtype, known(">c16").is_big_endian), (Dtype::Bool, true));
        assert!(known("|V2").is_opaque && known("<V1").dtype == Dtype::Other("V1".into()));
        for refused in ["|O", "<U5", "|S3", "<M8[ns]", "<f16"] {
            assert!(elements_of(refused).unwrap().is_err(), "{refused}");
        }
        for invalid in ["", "<", "<x4", "<f", "|V", "|V0", "|V99999999999999999999", "é"] {
            assert!(elements_of(invalid).is_ok_and(|elements| elements.is_err()) || elements_of(invalid).is_err());
        }
    }
}
