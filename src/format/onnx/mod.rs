//! ONNX: a graph in Protobuf, with weights in the graph or in files beside it.
//!
//! Source: `onnx.proto` of the Python package `onnx` 1.23 (IR version 14), which also documents how elements are
//! stored. The tensors of the index are the initializers of the main graph, under their own names, and those of
//! subgraphs, under `<first output of the node>/<attribute>/<name>`; further subgraphs append their node and attribute.
//! Names in the bodies of functions begin with `<domain>.<function>/`, names in training information with
//! `training_info.<number>.<initialization or algorithm>/`.
//!
//! Elements are in `raw_data`, in a field for their type, or in another file. `float_data` and `double_data` are
//! little-endian numbers; the fields for integers contain varints. Elements of 4 and 2 bits are packed into bytes.
//! Texts and sparse initializers are not listed, which is a warning. Tensors in other attributes of nodes, such as the
//! values of `Constant`, belong to the graph.
//!
//! Nodes with the operators `MatMulNBits` and `DequantizeLinear` say how initializers are quantized. Initializers of
//! other types that such a node has as inputs stay what they are.

mod detect;
mod fields;
mod operators;
mod parse;
#[cfg(writes)]
pub(crate) mod parts;
mod paths;
mod protobuf;
#[cfg(writes)]
pub(crate) mod rewrite;
mod tensor;

use super::entry::{Detection, Format, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: parse::NAME,
    title: "ONNX",
    extensions: &[".onnx"],
    versions: &["3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14"],
    checksums: &[],
    parser: Parser {
        has_data_files: true,
        ..Parser::new(Detection::Heuristic(detect::recognises), parse::parse).deferred()
    },
    #[cfg(writes)]
    writer: None,
};

#[cfg(all(test, not(any(web, miri))))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
