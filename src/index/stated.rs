//! Quantized tensors that a file describes itself, so that no names need to be interpreted.

#[cfg(feature = "onnx")]
use std::sync::Arc;

/// How a file describes its quantized tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StatedQuantization {
    /// By the nodes of its graph.
    #[cfg(feature = "onnx")]
    Nodes(Arc<[QuantizedNode]>),
    /// By the attribute `quantization` of each tensor.
    #[cfg_attr(not(any(feature = "tfjs", feature = "tflite")), allow(dead_code, reason = "no format has it"))]
    Attributes,
}

/// A quantized tensor whose parts are tensors of the file, as a node of an ONNX graph uses them.
#[cfg(feature = "onnx")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuantizedNode {
    pub(crate) operator: Operator,
    /// The names of the parts.
    pub(crate) codes: String,
    pub(crate) scales: String,
    pub(crate) zeros: Option<String>,
    pub(crate) group_indices: Option<String>,
}

/// The operator of the node, with its attributes.
#[cfg(feature = "onnx")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    /// A product with a matrix of `rows` (the attribute `N`) and `columns` (`K`), with a scale for each `block` of a
    /// row.
    MatMulNBits { rows: u64, columns: u64, bits: u64, block: u64 },
    /// With a scale for each slice or `block` along an axis, or only one. Without blocks, `block` is 0.
    DequantizeLinear { axis: i64, block: u64 },
}
