//! Marks where a graph can be split, so that its first nodes compute while the weights of later ones arrive.
//!
//! The graph stays one file that every runtime reads. An entry of its metadata, [`KEY`], lists the parts, in JSON:
//!
//! ```json
//! {"weights": "model.apr", "parts": [
//!   {"nodes": [[0, 12]], "initializers": [[0, 3]], "inputs": ["x"], "outputs": ["y"]}
//! ]}
//! ```
//!
//! `nodes` and `initializers` are half-open ranges of their numbers in the graph. `inputs` are the inputs of the graph
//! and the outputs of earlier parts that the part needs; `outputs` are the outputs of the graph and what later parts
//! need. The graph states the types of all of them. Nodes that depend on no input, such as one that dequantizes a
//! weight, are in each part that needs them.

mod cuts;
mod graph;
mod part;
mod types;

use super::fields::{graph as graph_field, model};
use super::protobuf::{Message, put_bytes, put_varint};
use crate::error::{Error, ErrorKind, Result};
use crate::window::{Stop, Window};
use graph::Graph;
use part::{Part, Parts};
use serde_json::json;
use types::Types;

/// The key in `metadata_props` of the model.
pub(crate) const KEY: &str = "weightstream.parts";

/// A model whose parts are marked.
pub(crate) struct Marked {
    /// The Protobuf message.
    pub(crate) model: Vec<u8>,
    pub(crate) part_count: usize,
    /// Why the graph has only one part although it has many weights: the type of a value is not known.
    pub(crate) obstacle: Option<String>,
}

/// The names of the initializers in the index, in the order in which the nodes of the graph need them.
///
/// # Errors
/// As for the parser.
pub(crate) fn order_of_use(window: &Window) -> Result<Vec<String>, Stop> {
    Ok(Parts::of(&Graph::read(window)?)?.order_of_use())
}

/// Returns the model with its parts marked. `weights` is the name of the file with its weights.
///
/// # Errors
/// As for the parser; `UNSUPPORTED` for a graph of which a part would not have what it needs.
pub(crate) fn marked(model: &[u8], weights: &str) -> Result<Marked> {
    let window = Window::whole(model);
    let complete = |stop| match stop {
        Stop::Failed(error) => error,
        _ => Error::new(ErrorKind::Internal, "a whole graph needs more bytes"),
    };
    let graph = Graph::read(&window).map_err(complete)?;
    let types = Types::of(&graph);
    let parts = Parts::of(&graph)?;
    let cuts = cuts::choose(&parts, &types);
    let split = parts.split_at(&cuts.positions)?;
    let added = crossing(&split).filter(|name| !graph.states_type(name));
    let values: Vec<_> = added.filter_map(|name| Some((name, types.of_value(name)?))).collect();
    let text = json!({ "weights": weights, "parts": split.iter().map(Part::to_json).collect::<Vec<_>>() }).to_string();
    let mut out = with_value_types(&window, &values).map_err(complete)?;
    let mut entry = Vec::new();
    put_bytes(&mut entry, 1, KEY.as_bytes());
    put_bytes(&mut entry, 2, text.as_bytes());
    put_bytes(&mut out, model::METADATA_PROPS, &entry);
    Ok(Marked { model: out, part_count: split.len(), obstacle: cuts.obstacle })
}

/// The values that pass from one part to another. Each is once in the list, because one node computes it.
fn crossing<'p>(parts: &'p [Part<'_>]) -> impl Iterator<Item = &'p str> {
    parts.iter().flat_map(|part| part.outputs.iter().copied())
}

/// Copies the model, without the mark of an earlier conversion, and states the types of values in its graph.
fn with_value_types(window: &Window, values: &[(&str, u64)]) -> Result<Vec<u8>, Stop> {
    let mut out = Vec::new();
    let mut message = Message::whole_file(window, 0..window.whole_length()?);
    while let Some(field) = message.next()? {
        match field.number {
            model::GRAPH => {
                let mut graph = window.get(field.bytes()?)?.to_vec();
                for (name, data_type) in values {
                    put_bytes(&mut graph, graph_field::VALUE_INFO, &value_info(name, *data_type));
                }
                put_bytes(&mut out, field.number, &graph);
            }
            model::METADATA_PROPS if is_mark(window, field.bytes()?)? => {}
            _ => out.extend_from_slice(window.get(field.range)?),
        }
    }
    Ok(out)
}

/// Whether an entry of the metadata lists parts.
fn is_mark(window: &Window, entry: std::ops::Range<u64>) -> Result<bool, Stop> {
    let mut message = Message::new(window, entry);
    while let Some(field) = message.next()? {
        if field.number == 1 {
            return Ok(window.get(field.bytes()?)? == KEY.as_bytes());
        }
    }
    Ok(false)
}

/// A ValueInfoProto of a tensor of this type, of any shape.
fn value_info(name: &str, data_type: u64) -> Vec<u8> {
    let (mut tensor, mut value_type, mut value) = (Vec::new(), Vec::new(), Vec::new());
    put_varint(&mut tensor, 1, data_type);
    put_bytes(&mut value_type, 1, &tensor);
    put_bytes(&mut value, 1, name.as_bytes());
    put_bytes(&mut value, 2, &value_type);
    value
}

#[cfg(all(test, not(any(web, miri))))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
