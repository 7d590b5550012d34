//! Quantized layouts: codes that become floats by scales and zero points. In SafeTensors and ONNX, these are tensors of
//! their own; TensorFlow.js and TensorFlow Lite state them beside the tensor.
//!
//! ```text
//! Index (tensors of the file) ──▶ may_be_quantized ──▶ group ──▶ Index (one tensor for each group of parts)
//!                                   names only           config.json, contents of small tensors
//! ```
//!
//! A file of each method ([`mlx`], [`gptq`], …) recognizes its parts by names, dtypes and shapes, and chooses how codes
//! become floats: one of the schemes [`grid`], [`transposed`], [`blocks`] and [`row_blocks`]. If several fit,
//! `config.json` decides; without it, such a tensor is listed, but its values cannot be computed. An ONNX file states
//! itself which tensors are parts, and of what ([`onnx`]), and tensors of the last two have an attribute ([`affine`]).
//!
//! Values are bit-identical to those of the package that defines the method; each file names it.

mod affine;
mod bitsandbytes;
mod blocks;
mod codes;
mod compressed_tensors;
mod config;
mod constants;
mod float8;
mod found;
mod gpt_oss;
mod gptq;
mod grid;
mod group;
mod hqq;
mod mlx;
mod numbers;
#[cfg(feature = "onnx")]
mod onnx;
mod quanto;
mod row_blocks;
mod scale_grid;
mod slices;
mod stored;
#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
mod torchao;
mod transposed;

pub use config::ModelConfig;
pub(crate) use group::{GroupedFile, Grouping, contents_to_read, group};
pub(crate) use stored::Contents;

use crate::dtype::Dtype;
use crate::index::{Entry, Index};

/// The endings of names that parts of quantized tensors have.
const MARKERS: [&str; 10] =
    [".scales", ".qweight", ".absmax", ".SCB", "_scale_inv", "_scale", ".scale_weight", "_blocks", ".W_q", "._shift"];

/// Whether a file may have parts of quantized tensors: codes, and the name of another part. If the model has several
/// files, these parts may be in different ones: `other_names` are the names in the other files, as far as they are
/// known.
pub(crate) fn may_be_quantized(index: &Index, other_names: Option<&mut dyn Iterator<Item = &str>>) -> bool {
    let is_marked = |name: &str| MARKERS.iter().any(|marker| name.ends_with(marker));
    let has_codes = || (0..index.tensors.len()).any(|at| has_codes(index, at));
    let has_marked = || index.tensors.names().any(is_marked);
    index.quantized.is_some()
        || index.format == "safetensors"
            && match other_names {
                None => has_marked() && has_codes(),
                Some(names) => has_marked() || has_codes() && names.filter(|name| is_marked(name)).count() > 0,
            }
}

fn has_codes(index: &Index, at: usize) -> bool {
    match index.tensors.entry(at) {
        Some(Entry::Raw(tensor)) => is_of_codes(tensor.dtype),
        _ => false,
    }
}

/// Whether codes are stored as elements of this dtype.
fn is_of_codes(dtype: &Dtype) -> bool {
    use Dtype::{F8_E4M3, F8_E5M2, I8, I32, U8, U32};
    matches!(dtype, U32 | I32 | U8 | I8 | F8_E4M3 | F8_E5M2)
}
