//! An update of a weight: its factors, how they are multiplied, and by what they are scaled.

use super::AdapterFile;
use super::pairs::{Convention, Pair};
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Encoding, Layout, Tensor};
use serde_json::Value;
use std::sync::Arc;

/// What to do about an adapter that cannot be applied to single weights.
pub(super) const MERGE: &str = "Merge the adapter with the program that made it, and load the result.";

/// An update, whose parts are tensors of an adapter.
pub(super) struct UpdateParts {
    /// The number of the adapter, and that of its file.
    pub(super) adapter: usize,
    pub(super) shard: usize,
    pub(super) down: Tensor,
    pub(super) up: Tensor,
    /// The norms that rows have after the update (DoRA).
    pub(super) magnitude: Option<Tensor>,
    /// A scalar that is divided by the rank, and multiplied by `scale`.
    pub(super) alpha: Option<Tensor>,
    pub(super) scale: f64,
    pub(super) orientation: Orientation,
    pub(super) rank: u64,
}

/// How the factors make up the rows of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Orientation {
    /// `up · down`.
    Plain,
    /// `(up · down)ᵀ`: the weight is stored with its inputs as rows.
    Transposed,
    /// `down · upᵀ`: embeddings in GGUF.
    Embedding,
}

impl UpdateParts {
    /// The update of `weight` by a pair of tensors with this name. `adapter` is a file with these numbers.
    ///
    /// # Errors
    /// `FORMAT` if shapes do not match; `UNSUPPORTED` for parts that are not floats, and for norms of anything else
    /// than the rows of a matrix; those of a quantized weight that is ambiguous.
    pub(super) fn of(
        weight: &Tensor,
        (name, pair): (&str, &Pair),
        adapter: &AdapterFile,
        (number, shard): (usize, usize),
    ) -> Result<Self> {
        if let Some(quantized) = weight.quantized() {
            quantized.scheme.check()?; // the shape of an ambiguous one is that of its codes
        }
        let tensor = |at: Option<usize>| at.and_then(|at| adapter.index.tensors.get(at)).map(Arc::unwrap_or_clone);
        let (Some(down), Some(up)) = (tensor(pair.down), tensor(pair.up)) else {
            return Err(malformed("a factor is missing"));
        };
        let (magnitude, alpha) = (tensor(pair.magnitude), tensor(pair.alpha));
        for factor in [Some(&down), Some(&up), magnitude.as_ref()].into_iter().flatten() {
            check_part(factor, is_float)?;
        }
        let config = adapter.settings.config.as_ref();
        let prefers_transposed =
            pair.convention == Convention::PeftEmbedding || config.is_some_and(|config| config.has_inputs_as_rows);
        let (orientation, rank) = orientation(weight, &down, &up, pair.convention, prefers_transposed)?;
        if let Some(alpha) = &alpha {
            check_part(alpha, |dtype| is_float(dtype) || matches!(dtype, Dtype::F64 | Dtype::I64))?;
            if element_count(&alpha.shape)? != 1 {
                return Err(malformed("the `alpha` of the adapter is not one number"));
            }
        }
        let of_file = adapter.index.metadata.get("adapter.lora.alpha").and_then(Value::as_f64);
        let scaling = match (&alpha, pair.convention, config) {
            (Some(_), ..) => 1.0,
            (None, Convention::Gguf, _) => {
                of_file.filter(|alpha| *alpha != 0.0).map_or(1.0, |alpha| alpha / rank as f64)
            }
            (None, _, Some(config)) => config.scaling(name.strip_prefix("base_model.model.").unwrap_or(name), rank),
            (None, ..) => 1.0,
        };
        let rows = weight.shape.first().copied().unwrap_or(1);
        if let Some(magnitude) = &magnitude {
            let is_of_rows = element_count(&magnitude.shape)? == rows && weight.shape.len() == 2;
            if !is_of_rows || orientation != Orientation::Plain {
                let what = "the adapter has norms (DoRA) that are not those of the rows of a matrix";
                return Err(Error::new(ErrorKind::Unsupported, what).advise(MERGE));
            }
        }
        let scale = scaling * f64::from(adapter.settings.scale);
        Ok(UpdateParts { adapter: number, shard, down, up, magnitude, alpha, scale, orientation, rank })
    }
}

/// How the factors are multiplied so that they have the shape of the weight, and their rank.
fn orientation(
    weight: &Tensor,
    down: &Tensor,
    up: &Tensor,
    convention: Convention,
    prefers_transposed: bool,
) -> Result<(Orientation, u64)> {
    let as_matrix = |tensor: &Tensor| -> Result<[u64; 2]> {
        let (rows, rest) = tensor.shape.split_first().map_or((1, [].as_slice()), |(rows, rest)| (*rows, rest));
        Ok([rows, element_count(rest)?])
    };
    let ([rows, columns], down_matrix, up_matrix) = (as_matrix(weight)?, as_matrix(down)?, as_matrix(up)?);
    let fits = |orientation: Orientation| {
        let ([rank, inner], [outer, of_up]) = (down_matrix, up_matrix);
        match orientation {
            Orientation::Plain => rank == of_up && [outer, inner] == [rows, columns],
            Orientation::Transposed => rank == of_up && [inner, outer] == [rows, columns],
            Orientation::Embedding => inner == of_up && [rank, outer] == [rows, columns],
        }
    };
    let order = match prefers_transposed {
        true => [Orientation::Transposed, Orientation::Plain],
        false => [Orientation::Plain, Orientation::Transposed],
    };
    let embedding = (convention == Convention::Gguf).then_some(Orientation::Embedding);
    let orientation = order.into_iter().chain(embedding).find(|orientation| fits(*orientation));
    let orientation = orientation.ok_or_else(|| {
        let shapes = format!("{:?} and {:?}, but the weight has the shape {:?}", up.shape, down.shape, weight.shape);
        let error = malformed(format!("the factors of the adapter have the shapes {shapes}"));
        error.advise("Give the adapter to the model that it was trained with.")
    })?;
    let rank = if orientation == Orientation::Embedding { down_matrix[1] } else { down_matrix[0] };
    if rank == 0 {
        return Err(malformed("the rank of the adapter is 0"));
    }
    Ok((orientation, rank))
}

/// Checks that a tensor of an adapter has numbers that can be read by ranges.
fn check_part(tensor: &Tensor, is_read: impl Fn(&Dtype) -> bool) -> Result<()> {
    let is_raw = matches!(tensor.components.as_slice(), [data] if data.encoding == Encoding::Raw);
    match tensor.layout == Layout::Dense && is_raw && is_read(&tensor.dtype) {
        true => Ok(()),
        false => {
            let what = format!("the adapter's tensor \"{}\" is not stored as F32, F16 or BF16", tensor.name);
            Err(Error::new(ErrorKind::Unsupported, what).advise("Convert the adapter to F32."))
        }
    }
}

pub(super) const fn is_float(dtype: &Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16)
}
