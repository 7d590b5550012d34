//! Tensors whose elements are in another order than row-major: column-major arrays of NumPy, views of PyTorch.
//!
//! Such a tensor has the layout `strided`. Its component `data` has the bytes from its first element to its last, as
//! they are stored, and its attribute `strides` has the distance between neighbours in each dimension, in elements.

use super::{Layout, Tensor};
use crate::error::{Result, malformed};

/// The name of the layout.
pub(crate) const STRIDED: &str = "strided";

/// The attribute with the strides.
pub(crate) const STRIDES: &str = "strides";

impl Tensor {
    /// The tensor with these strides, one for each dimension: in row-major order it stays dense.
    pub(crate) fn with_strides(self, strides: &[u64]) -> Tensor {
        if is_row_major(&self.shape, strides) {
            return self;
        }
        let mut attributes = self.attributes;
        attributes.insert(STRIDES.to_owned(), strides.into());
        Tensor { layout: Layout::Other(STRIDED.into()), attributes, ..self }
    }
}

/// The strides of column-major order, as Fortran has it.
pub(crate) fn column_major(shape: &[u64]) -> Vec<u64> {
    let mut stride = 1u64;
    let next = |&dim: &u64| {
        let own = stride;
        stride = stride.saturating_mul(dim); // the callers count the elements with checks
        own
    };
    shape.iter().map(next).collect()
}

/// Whether elements with these strides are stored in row-major order. Strides of dimensions of one element mean
/// nothing.
pub(crate) fn is_row_major(shape: &[u64], strides: &[u64]) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut expected = 1u64;
    shape.iter().zip(strides).rev().all(|(&dim, &stride)| {
        let fits = dim == 1 || stride == expected;
        expected = expected.saturating_mul(dim);
        fits
    })
}

/// The number of elements from the first to the last one of a tensor with these strides.
///
/// # Errors
/// `FORMAT` if it overflows u64.
pub(crate) fn span(shape: &[u64], strides: &[u64]) -> Result<u64> {
    if shape.contains(&0) {
        return Ok(0);
    }
    let steps = shape
        .iter()
        .zip(strides)
        .try_fold(0u64, |sum, (&dim, &stride)| sum.checked_add(dim.checked_sub(1)?.checked_mul(stride)?));
    let overflow =
        || malformed(format!("the shape {shape:?} with the strides {strides:?} has more than 2^64 elements"));
    steps.and_then(|steps| steps.checked_add(1)).ok_or_else(overflow)
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::dtype::Dtype;
    use crate::index::Component;

    fn tensor(shape: &[u64], strides: &[u64]) -> Tensor {
        let data = Component::raw(Dtype::U8, 0..1);
        Tensor::dense("a".to_owned(), Dtype::U8, shape.to_vec(), data).with_strides(strides)
    }

    #[test]
    fn only_row_major_tensors_are_dense() {
        for (shape, strides) in [(&[2, 3][..], &[3, 1][..]), (&[1, 3], &[7, 1]), (&[], &[]), (&[0, 2], &[9, 9])] {
            assert_eq!(tensor(shape, strides).layout, Layout::Dense, "{shape:?} {strides:?}");
        }
        for (shape, strides) in [(&[2, 3][..], &[1, 2][..]), (&[2, 3], &[0, 1]), (&[3], &[2])] {
            let tensor = tensor(shape, strides);
            assert_eq!(tensor.layout.name(), "strided");
            assert_eq!(tensor.attributes.get("strides"), Some(&strides.into()));
        }
        assert_eq!(column_major(&[2, 3, 4]), [1, 2, 6]);
    }

    #[test]
    fn spans_reach_to_the_last_element() {
        assert_eq!(span(&[2, 3], &[3, 1]), Ok(6));
        assert_eq!(span(&[2, 3], &[0, 2]), Ok(5));
        assert_eq!(span(&[2, 0], &[9, 9]), Ok(0));
        assert_eq!(span(&[], &[]), Ok(1));
        assert!(span(&[u64::MAX, 2], &[2, 1]).is_err());
    }
}
