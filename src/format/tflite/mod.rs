//! TensorFlow Lite, now LiteRT: a FlatBuffer with the graph and its weights, and the files that contain several:
//! `.litertlm`, and `.task`, a ZIP archive of MediaPipe.
//!
//! Sources: `schema.fbs` (version 3) as the Python packages `tflite` 2.18 and `ai-edge-litert` 2.3 contain it, and
//! `litertlm_header_schema.fbs` of LiteRT-LM. The tensors of the index are those of all subgraphs that have a buffer
//! with bytes: weights, and constants of the graph. Buffers are in the FlatBuffer, or behind it if the file is larger
//! than 2 GiB. Tensors that share a buffer share its bytes.
//!
//! A name that occurs before gets the prefix `subgraph_<number>/`, and if that is not enough the suffix `#<number>`,
//! the position of the tensor in its subgraph. In a `.litertlm`, names begin with the type of the model in it, or with
//! the number of its section, and in a `.task` with the name of the member. Elements of 4 and 2 bits are packed into
//! bytes, the first element in the lowest bits. `quantization` in the attributes has the parameters: an element is `(q
//! - zero_point) * scale`.
//!
//! Texts, sparse tensors and tensors with external buffers are not listed, which is a warning.

mod dtypes;
mod flatbuffer;
mod model;
mod names;
mod parse;
mod quantization;
mod sections;

use super::entry::{Detection, Format, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: parse::NAME,
    title: "TensorFlow Lite and LiteRT-LM",
    extensions: &[".tflite", ".litertlm", ".task"],
    versions: &["1", "3"],
    checksums: &[],
    parser: Parser::new(Detection::LongHead(sections::recognises), parse::parse).in_containers(),
    #[cfg(writes)]
    writer: None,
};

#[cfg(all(test, not(any(web, miri))))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
