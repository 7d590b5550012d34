//! The header of NumPy arrays, of version 1.0: those of `.npy` files, and of the members of `.npz` archives.

use crate::dtype::Dtype;
use std::borrow::Cow;

/// NumPy aligns the data of its files to this.
pub(crate) const ALIGNMENT: u64 = 64;

/// The dtypes that NumPy has, as it spells them.
const DTYPES: [(Dtype, &str); 14] = [
    (Dtype::F64, "<f8"),
    (Dtype::F32, "<f4"),
    (Dtype::F16, "<f2"),
    (Dtype::I64, "<i8"),
    (Dtype::I32, "<i4"),
    (Dtype::I16, "<i2"),
    (Dtype::I8, "|i1"),
    (Dtype::U64, "<u8"),
    (Dtype::U32, "<u4"),
    (Dtype::U16, "<u2"),
    (Dtype::U8, "|u1"),
    (Dtype::Bool, "|b1"),
    (Dtype::C64, "<c8"),
    (Dtype::C128, "<c16"),
];

/// The dtype as NumPy spells it; `None` if NumPy does not have it. `V2` and the like, as arrays of NumPy state them,
/// are elements of which only the size is known.
pub(crate) fn descr(dtype: &Dtype) -> Option<Cow<'static, str>> {
    let known = DTYPES.iter().find(|(known, _)| known == dtype).map(|(_, descr)| Cow::Borrowed(*descr));
    known.or_else(|| opaque_bytes(dtype).map(|_| Cow::Owned(format!("|{dtype}"))))
}

/// The size of an element in bytes, if NumPy has the dtype.
pub(crate) fn element_bytes(dtype: &Dtype) -> Option<u64> {
    opaque_bytes(dtype).or_else(|| DTYPES.iter().find(|(known, _)| known == dtype)?.0.block().map(|block| block.bytes))
}

fn opaque_bytes(dtype: &Dtype) -> Option<u64> {
    let digits = dtype.name().strip_prefix('V')?;
    digits.parse().ok().filter(|bytes: &u64| *bytes > 0 && bytes.to_string() == digits)
}

/// The order of the elements in an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    RowMajor,
    ColumnMajor,
}

/// The header of at least `length` bytes of an array that begins at the offset `start`, padded so that its elements are
/// aligned in the file.
pub(crate) fn head(descr: &str, order: Order, shape: &[u64], start: u64, length: usize) -> Vec<u8> {
    const PREFIX: &[u8] = b"\x93NUMPY\x01\x00";
    let dims: Vec<_> = shape.iter().map(u64::to_string).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    let fortran_order = if order == Order::ColumnMajor { "True" } else { "False" };
    let dims = dims.join(", ");
    let mut head = format!("{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': ({dims}{comma}), }}");
    let before = PREFIX.len() + 2;
    let end = start + before as u64 + head.len() as u64 + 1;
    let padded = (before + head.len() + 1 + (end.next_multiple_of(ALIGNMENT) - end) as usize).max(length);
    head.extend(std::iter::repeat_n(' ', padded - before - head.len() - 1));
    head.push('\n');
    [PREFIX, &(head.len() as u16).to_le_bytes(), head.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `numpy.save` 2.4.6 writes them.
    #[test]
    fn heads_are_those_of_numpy() {
        let written = |descr, shape: &[u64]| {
            String::from_utf8_lossy(&head(descr, Order::RowMajor, shape, 0, 0)[10..]).into_owned()
        };
        assert_eq!(written("<f4", &[]).trim_end(), "{'descr': '<f4', 'fortran_order': False, 'shape': (), }");
        assert_eq!(written("<f4", &[3]).trim_end(), "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }");
        let matrix = written("|u1", &[2, 3]);
        assert_eq!(matrix.trim_end(), "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }");
        assert!(head("<f4", Order::ColumnMajor, &[7; 64], 0, 0).len().is_multiple_of(64));
        assert_eq!(head("<f4", Order::ColumnMajor, &[3], 0, 256).len(), 256);
        assert_eq!((head("<f4", Order::ColumnMajor, &[3], 41, 0).len() + 41) % 64, 0);
    }

    #[test]
    fn dtypes_have_the_names_and_sizes_of_numpy() {
        assert_eq!((descr(&Dtype::F16).as_deref(), element_bytes(&Dtype::C128)), (Some("<f2"), Some(16)));
        let opaque = Dtype::Other("V2".into());
        assert_eq!((descr(&opaque).as_deref(), element_bytes(&opaque)), (Some("|V2"), Some(2)));
        for other in ["V", "V0", "V02", "V+2", "VALUES"] {
            assert_eq!(descr(&Dtype::Other(other.into())), None);
        }
        assert_eq!(descr(&Dtype::BF16), None);
    }
}
