//! Which tensors a conversion casts to another dtype, and to which.

pub use crate::codec::cast::Cast;
use crate::codec::cast::{Kind, is_castable, is_target, kind_of};
use crate::dtype::Dtype;
use crate::index::{Layout, Tensor};

/// Returns the dtype that `tensor` is cast to if `wanted` is requested, or `None` if the tensor is not cast.
///
/// Dense matrices of floats and of quantized elements are cast. Vectors of floats are not: biases and norms are a
/// thousandth of a model, and lose the most accuracy. Quantized tensors of any shape are cast to floats. Matrices whose
/// rows do not fill whole blocks are not cast to blocks: see [`why_not_cast`].
pub fn target_dtype(tensor: &Tensor, wanted: &Dtype) -> Option<Dtype> {
    if let Some(quantized) = tensor.quantized() {
        return (is_float(wanted) && quantized.scheme.check().is_ok()).then(|| wanted.clone());
    }
    let is_cast = is_wanted(tensor, wanted) && is_castable(tensor) && fills_blocks(tensor, wanted);
    is_cast.then(|| wanted.clone())
}

/// Why a conversion does not cast a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NotCast {
    /// The rows of the matrix do not fill whole blocks of the dtype to write.
    Rows,
    /// The tensor is quantized, and its dtype cannot be decoded.
    Dtype,
    /// The tensor is quantized in several components, which are not cast to blocks.
    Layout,
    /// The tensor is quantized, and its rows may be padded to whole blocks, which its file does not state.
    Padding,
}

/// Returns why `tensor` is not cast to `wanted` although it is a matrix of floats or quantized; `None` if it is cast,
/// or if tensors of its kind are never cast: integers, vectors of floats, and sparse tensors.
pub fn why_not_cast(tensor: &Tensor, wanted: &Dtype) -> Option<NotCast> {
    if tensor.quantized().is_some() {
        return target_dtype(tensor, wanted).is_none().then_some(NotCast::Layout);
    }
    if !is_wanted(tensor, wanted) {
        return None;
    }
    match crate::codec::dequantize::decoder_of(&tensor.dtype) {
        None => Some(NotCast::Dtype),
        Some(_) if !is_castable(tensor) => Some(NotCast::Padding),
        Some(_) => (!fills_blocks(tensor, wanted)).then_some(NotCast::Rows),
    }
}

/// Whether a tensor of this dtype and shape is cast if its elements allow it.
fn is_wanted(tensor: &Tensor, wanted: &Dtype) -> bool {
    let has_shape = match kind_of(&tensor.dtype) {
        Kind::Float => tensor.shape.len() >= 2,
        Kind::Quantized => tensor.shape.len() >= 2 || is_float(wanted),
        Kind::Integer | Kind::Complex => false,
    };
    tensor.layout == Layout::Dense && tensor.dtype != *wanted && is_target(wanted) && has_shape
}

fn fills_blocks(tensor: &Tensor, wanted: &Dtype) -> bool {
    let block_elements = wanted.block().map_or(1, |block| block.elements);
    tensor.shape.last().is_none_or(|row| row.is_multiple_of(block_elements))
}

/// Whether the dtype is one of the floats that tensors are cast to.
fn is_float(dtype: &Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::element_count;
    use crate::index::Component;

    #[test]
    fn casts_matrices_of_floats_and_quantized_tensors() {
        let tensor = |dtype: &Dtype, shape: &[u64]| {
            let bytes = dtype.byte_length(element_count(shape).unwrap()).unwrap().unwrap();
            Tensor::dense("x".to_owned(), dtype.clone(), shape.to_vec(), Component::raw(dtype.clone(), 0..bytes))
        };
        let target = |from, shape: &[u64], to| target_dtype(&tensor(&from, shape), &to);
        assert_eq!(target(Dtype::F32, &[3, 64], Dtype::Q8_0), Some(Dtype::Q8_0));
        assert_eq!(target(Dtype::BF16, &[2, 3, 5], Dtype::F16), Some(Dtype::F16));
        assert_eq!(target(Dtype::F64, &[0, 5], Dtype::BF16), Some(Dtype::BF16));
        assert_eq!(target(Dtype::F32, &[64], Dtype::Q8_0), None);
        assert_eq!(target(Dtype::F32, &[], Dtype::F16), None);
        assert_eq!(target(Dtype::F16, &[4, 4], Dtype::F16), None);
        assert_eq!(target(Dtype::I32, &[4, 32], Dtype::F16), None);
        assert_eq!(target(Dtype::F32, &[4, 32], Dtype::Q4_0), Some(Dtype::Q4_0));
        assert_eq!(target(Dtype::F32, &[4, 32], Dtype::Q4_1), None);
        assert_eq!(target(Dtype::F32, &[32, 48], Dtype::Q8_0), None);
        assert_eq!(why_not_cast(&tensor(&Dtype::F32, &[32, 48]), &Dtype::Q8_0), Some(NotCast::Rows));
        assert_eq!(why_not_cast(&tensor(&Dtype::F32, &[48]), &Dtype::Q8_0), None);
        assert_eq!(target(Dtype::Q4_K, &[3, 256], Dtype::Q4_0), Some(Dtype::Q4_0));
        assert_eq!(target(Dtype::Q4_K, &[256], Dtype::Q4_0), None);
        assert_eq!(target(Dtype::Q4_K, &[256], Dtype::F32), Some(Dtype::F32));
        assert_eq!(target(Dtype::F8_E4M3, &[7], Dtype::F32), Some(Dtype::F32));
        assert_eq!(target(Dtype::Q8_1, &[3, 64], Dtype::F32), None);
        assert_eq!(why_not_cast(&tensor(&Dtype::Q8_1, &[3, 64]), &Dtype::F32), Some(NotCast::Dtype));
        assert_eq!(why_not_cast(&tensor(&Dtype::I32, &[3, 64]), &Dtype::F32), None);
        // Three rows of 200 elements fill three blocks, whether each row is padded, or only the end.
        let padded = Tensor { shape: vec![3, 200], ..tensor(&Dtype::Q4_K, &[3, 256]) };
        assert_eq!(why_not_cast(&padded, &Dtype::F32), Some(NotCast::Padding));
        let sparse = Tensor { layout: Layout::SparseCsr, ..tensor(&Dtype::F32, &[4, 32]) };
        assert_eq!(target_dtype(&sparse, &Dtype::F16), None);
    }
}
