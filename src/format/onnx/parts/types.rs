//! The types of the values that nodes compute, as far as their operators say.
//!
//! Source: the operators of ONNX (`docs/Operators.md` of version 1.20) and those of ONNX Runtime in the domain
//! `com.microsoft` (`docs/ContribOperators.md`).

use super::graph::{Graph, Node};
use std::collections::HashMap;

const F32: u64 = 1;
const U8: u64 = 2;
const I32: u64 = 6;
const I64: u64 = 7;
const BOOL: u64 = 9;

/// The types of `ort.Tensor`, except texts: integers of 8 to 64 bits, BOOL, F16, F32 and F64.
const PASSING: [u64; 12] = [F32, U8, 3, 4, 5, I32, I64, BOOL, 10, 11, 12, 13];

/// The element types of values, as numbers of ONNX.
pub(super) struct Types<'g>(HashMap<&'g str, u64>);

impl<'g> Types<'g> {
    /// The types that the graph states, and those that follow from them.
    pub(super) fn of(graph: &'g Graph) -> Self {
        let mut types = HashMap::new();
        let initializers = graph.initializers.iter().map(|tensor| (tensor.name.as_str(), tensor.data_type));
        types.extend(initializers.filter(|(_, data_type)| *data_type != 0));
        types.extend(graph.stated_types.iter().filter_map(|(name, known)| Some((name.as_str(), (*known)?))));
        for node in &graph.nodes {
            for (at, output) in node.outputs.iter().enumerate() {
                // A type that is stated and is not that of a tensor is none of these.
                let is_known = types.contains_key(output.as_str()) || graph.stated_types.contains_key(output);
                let of_input = |input: usize| types.get(node.inputs.get(input)?.as_str()).copied();
                let is_wanted = !is_known && !output.is_empty();
                if let Some(data_type) = is_wanted.then(|| output_type(node, at, &of_input)).flatten() {
                    types.insert(output.as_str(), data_type);
                }
            }
        }
        Types(types)
    }

    pub(super) fn of_value(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Whether a value can pass from one session to another: ONNX Runtime Web has tensors of its type.
    pub(super) fn can_pass(&self, name: &str) -> bool {
        self.of_value(name).is_some_and(|data_type| PASSING.contains(&data_type))
    }
}

/// The type of an output of a node.
fn output_type(node: &Node, output: usize, of_input: &dyn Fn(usize) -> Option<u64>) -> Option<u64> {
    match node.domain.as_str() {
        "" | "ai.onnx" => standard(node, output, of_input),
        "com.microsoft" => of_runtime(node, output, of_input),
        _ => None,
    }
}

fn standard(node: &Node, output: usize, of_input: &dyn Fn(usize) -> Option<u64>) -> Option<u64> {
    let operator = node.operator.as_str();
    match (operator, output) {
        ("Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "And" | "Or" | "Xor" | "Not", 0) => {
            Some(BOOL)
        }
        ("IsNaN" | "IsInf", 0) => Some(BOOL),
        ("Shape" | "Size" | "ArgMax" | "ArgMin" | "NonZero", 0) | ("TopK" | "MaxPool", 1) => Some(I64),
        ("Unique", 1..=3) => Some(I64),
        ("MatMulInteger" | "ConvInteger", 0) => Some(I32),
        ("Cast", 0) => node.stated_type,
        ("CastLike", 0) => of_input(1),
        ("Constant", 0) => node.value_type,
        ("ConstantOfShape", 0) => node.value_type.or(Some(F32)),
        ("RandomNormal" | "RandomUniform", 0) => node.stated_type.or(Some(F32)),
        ("EyeLike" | "RandomNormalLike" | "RandomUniformLike" | "Bernoulli", 0) => {
            node.stated_type.or_else(|| of_input(0))
        }
        ("Multinomial", 0) => node.stated_type.or(Some(I32)),
        ("Where", 0) => of_input(1),
        ("OneHot", 0) => of_input(2),
        ("DequantizeLinear", 0) => node.stated_type.or_else(|| of_input(1)),
        // The scale has the type of the output, where the two differ.
        ("LayerNormalization" | "RMSNormalization" | "SimplifiedLayerNormalization", 0) => of_input(1),
        ("QuantizeLinear", 0) if has_input(node, 2) => of_input(2),
        ("QuantizeLinear", 0) => node.stated_type.or(Some(U8)),
        ("DynamicQuantizeLinear", 0 | 2) => Some(U8),
        ("DynamicQuantizeLinear", 1) => Some(F32),
        ("QLinearMatMul" | "QLinearConv", 0) => of_input(7),
        ("LSTM" | "GRU" | "RNN" | "Split", _) => of_input(0),
        (_, 0) if KEEPS_TYPE.binary_search(&operator).is_ok() => of_input(0),
        _ => None,
    }
}

fn of_runtime(node: &Node, output: usize, of_input: &dyn Fn(usize) -> Option<u64>) -> Option<u64> {
    match (node.operator.as_str(), output) {
        ("EmbedLayerNormalization", 0 | 2) => of_input(2),
        ("EmbedLayerNormalization", 1) => Some(I32),
        ("DequantizeLinear", 0) => of_input(1),
        ("QuantizeLinear", 0) if has_input(node, 2) => of_input(2),
        ("QuantizeLinear", 0) => Some(U8),
        ("SimplifiedLayerNormalization", 0) => of_input(1),
        ("MatMulIntegerToFloat", 0) => of_input(2),
        ("GatherBlockQuantized", 0) => of_input(2),
        ("SkipLayerNormalization" | "SkipSimplifiedLayerNormalization", 0 | 3) => of_input(0),
        ("GroupQueryAttention" | "MultiHeadAttention" | "Attention", 0) => of_input(0),
        (operator, 0) if RUNTIME_KEEPS_TYPE.binary_search(&operator).is_ok() => of_input(0),
        _ => None,
    }
}

/// Whether an optional input is there.
fn has_input(node: &Node, input: usize) -> bool {
    node.inputs.get(input).is_some_and(|name| !name.is_empty())
}

/// Operators whose first output has the type of their first input. Sorted.
const KEEPS_TYPE: &[&str] = &[
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Attention",
    "AveragePool",
    "BatchNormalization",
    "BitShift",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "Ceil",
    "Celu",
    "CenterCropPad",
    "Clip",
    "Compress",
    "Concat",
    "Conv",
    "ConvTranspose",
    "Cos",
    "Cosh",
    "CumSum",
    "DepthToSpace",
    "Det",
    "Div",
    "Dropout",
    "Einsum",
    "Elu",
    "Erf",
    "Exp",
    "Expand",
    "Flatten",
    "Floor",
    "Gather",
    "GatherElements",
    "GatherND",
    "Gelu",
    "Gemm",
    "GlobalAveragePool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "GridSample",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "Identity",
    "InstanceNormalization",
    "LRN",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "LpPool",
    "MatMul",
    "Max",
    "MaxPool",
    "MaxUnpool",
    "Mean",
    "MeanVarianceNormalization",
    "Min",
    "Mish",
    "Mod",
    "Mul",
    "Neg",
    "PRelu",
    "Pad",
    "Pow",
    "Range",
    "Reciprocal",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Relu",
    "Reshape",
    "Resize",
    "ReverseSequence",
    "RoiAlign",
    "RotaryEmbedding",
    "Round",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Slice",
    "Softmax",
    "Softplus",
    "Softsign",
    "SpaceToDepth",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Sum",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Tile",
    "TopK",
    "Transpose",
    "Trilu",
    "Unique",
    "Unsqueeze",
    "Upsample",
];

/// The same of `com.microsoft`.
const RUNTIME_KEEPS_TYPE: &[&str] = &[
    "BiasAdd",
    "BiasGelu",
    "BiasSoftmax",
    "BiasSplitGelu",
    "DynamicQuantizeMatMul",
    "FastGelu",
    "FusedConv",
    "FusedGemm",
    "FusedMatMul",
    "Gelu",
    "GroupNorm",
    "MatMulBnb4",
    "MatMulNBits",
    "MoE",
    "NhwcConv",
    "QLinearAdd",
    "QLinearAveragePool",
    "QLinearGlobalAveragePool",
    "QLinearLeakyRelu",
    "QLinearMul",
    "QLinearSigmoid",
    "QMoE",
    "QuickGelu",
    "RotaryEmbedding",
    "SkipGroupNorm",
    "TransposeMatMul",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_operators_are_sorted() {
        assert!(KEEPS_TYPE.is_sorted() && RUNTIME_KEEPS_TYPE.is_sorted());
    }
}
