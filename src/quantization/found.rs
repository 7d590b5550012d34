//! A quantized tensor that a method recognized.

use super::stored::{Part, Position};
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Bytes, Component, Index, Layout, Metadata, PartTensor, Quantized, Scheme, Tensor};
use serde_json::Value;
use std::ops::Range;
use std::sync::Arc;

/// A quantized tensor and its parts.
pub(super) struct Group {
    pub(super) name: String,
    /// The dtype of its values.
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<u64>,
    /// The positions of its parts in the index, with their roles.
    pub(super) parts: Vec<(&'static str, Position)>,
    pub(super) scheme: Arc<dyn Scheme>,
    /// What the attribute `quantization` has.
    pub(super) described: Metadata,
}

impl Group {
    /// A tensor whose parts are recognized, but whose values cannot be computed. It has the dtype and shape of `codes`.
    pub(super) fn ambiguous(
        name: String,
        codes: &Part<'_>,
        parts: Vec<(&'static str, Position)>,
        method: &str,
        reason: Ambiguous,
    ) -> Group {
        let described = Metadata::from_iter([("method".to_owned(), Value::from(method))]);
        let (dtype, shape) = (codes.dtype.clone(), codes.shape.to_vec());
        Group { name, dtype, shape, parts, scheme: Arc::new(reason), described }
    }

    /// The tensor in the file of its first part.
    pub(super) fn tensor(self, files: &[Index]) -> Option<Tensor> {
        let Group { name, dtype, shape, parts, scheme, described } = self;
        let own = parts.first()?.1.0;
        let (mut components, mut part_tensors) = (Vec::new(), Vec::new());
        for (role, (file, at)) in parts {
            let part = Arc::unwrap_or_clone(files.get(file)?.tensors.get(at)?);
            let [data] = part.components.as_slice() else { return None };
            components.push(Component { role: role.into(), ..data.clone() });
            part_tensors.push(PartTensor { name: part.name, shape: part.shape, shard: file });
        }
        let layout = Layout::Quantized(Arc::new(Quantized { parts: part_tensors, scheme }));
        let attributes = Metadata::from_iter([("quantization".to_owned(), Value::Object(described))]);
        Some(Tensor { name, dtype, shape, layout, components, attributes, shard: own })
    }
}

/// What a JSON object of a method has.
pub(super) fn described(object: Value) -> Metadata {
    if let Value::Object(described) = object { described } else { Metadata::new() }
}

/// Why the values of a tensor cannot be computed.
#[derive(Debug, Clone)]
pub(super) struct Ambiguous {
    pub(super) what: String,
    pub(super) advice: &'static str,
}

/// What to do about a tensor that `config.json` would make clear.
pub(super) const GIVE_CONFIG: &str = "Give the model's `config.json`: beside the file, or as the option `config`. \
                                       Without a conversion, its parts load as they are stored.";

/// What to do about a layout that is not supported.
pub(super) const LOAD_PARTS: &str = "Load its parts without a conversion.";

impl Scheme for Ambiguous {
    fn check(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, self.what.clone()).advise(self.advice))
    }

    fn needs(&self, _rows: &Range<u64>) -> Vec<Bytes> {
        Vec::new()
    }

    fn decode(&self, _rows: &Range<u64>, _parts: &[&[u8]], _to: &Dtype, _out: &mut [f32]) {}
}
