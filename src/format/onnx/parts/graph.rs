//! The nodes of a main graph: what each needs, and what it computes.

use super::super::fields::{attribute, graph, model, node, value_info};
use super::super::paths::{Attributes, check_path};
use super::super::protobuf::{Message, name};
use super::super::tensor::TensorProto;
use crate::error::{Error, ErrorKind};
use crate::window::{Stop, Window};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The main graph of a model.
#[derive(Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) initializers: Vec<Initializer>,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    /// The types of the values that the graph states, as numbers of ONNX. `None` for one that is not a tensor.
    pub(super) stated_types: HashMap<String, Option<u64>>,
}

/// An initializer of the main graph, or of a graph in a node.
pub(super) struct Initializer {
    /// The name in the index.
    pub(super) name: String,
    pub(super) data_type: u64,
    /// The length of its elements, if they are in another file.
    pub(super) external_bytes: u64,
}

#[derive(Default)]
pub(super) struct Node {
    pub(super) operator: String,
    pub(super) domain: String,
    /// Inputs that are left out are empty.
    pub(super) inputs: Vec<String>,
    /// What graphs in its attributes use of the graphs around them.
    pub(super) captured: Vec<String>,
    pub(super) outputs: Vec<String>,
    /// The initializers of graphs in its attributes.
    pub(super) initializers: Vec<Initializer>,
    pub(super) has_graph: bool,
    /// The attribute `to`, `dtype` or `output_dtype`.
    pub(super) stated_type: Option<u64>,
    /// The type of the attribute with its value, if it is a constant.
    pub(super) value_type: Option<u64>,
}

impl Graph {
    /// Reads the main graph.
    pub(super) fn read(window: &Window) -> Result<Self, Stop> {
        let mut graph = Graph::default();
        let mut message = Message::whole_file(window, 0..window.whole_length()?);
        while let Some(field) = message.next()? {
            if field.number == model::GRAPH {
                graph.read_fields(window, field.bytes()?)?;
            }
        }
        Ok(graph)
    }

    /// Whether the graph states the type of a value.
    pub(super) fn states_type(&self, value: &str) -> bool {
        self.stated_types.get(value).is_some_and(Option::is_some)
    }

    fn read_fields(&mut self, window: &Window, range: Range<u64>) -> Result<(), Stop> {
        let mut message = Message::new(window, range);
        while let Some(field) = message.next()? {
            match field.number {
                graph::NODE => self.nodes.push(Node::read(window, field.bytes()?)?),
                graph::INITIALIZER => self.initializers.push(Initializer::read(window, field.bytes()?, "")?),
                graph::SPARSE_INITIALIZER => {
                    let what = "a graph with sparse initializers cannot be split";
                    return Err(Error::new(ErrorKind::Unsupported, what).at(field.range).into());
                }
                graph::INPUT | graph::OUTPUT | graph::VALUE_INFO => {
                    let (value, data_type) = value_type(window, field.bytes()?)?;
                    match field.number {
                        graph::INPUT => self.inputs.push(value.clone()),
                        graph::OUTPUT => self.outputs.push(value.clone()),
                        _ => {}
                    }
                    self.stated_types.insert(value, data_type);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Initializer {
    fn read(window: &Window, range: Range<u64>, prefix: &str) -> Result<Self, Stop> {
        let proto = TensorProto::parse(window, range)?;
        let name = format!("{prefix}{}", proto.name);
        let is_external = proto.external.is_some();
        let data_type = proto.data_type;
        let length = match is_external {
            true => proto.layout_tensor(name.clone()).map_err(|e| e.in_tensor(&name))?.byte_length(),
            false => None,
        };
        Ok(Initializer { name, data_type, external_bytes: length.unwrap_or(0) })
    }
}

impl Node {
    fn read(window: &Window, range: Range<u64>) -> Result<Self, Stop> {
        let mut read = Node::default();
        let attributes = Attributes::of_node(window, range.clone())?;
        let mut message = Message::new(window, range);
        while let Some(field) = message.next()? {
            let text = |field| Ok::<_, Stop>(name(window, field)?.to_owned());
            match field.number {
                node::INPUT => read.inputs.push(text(&field)?),
                node::OUTPUT => read.outputs.push(text(&field)?),
                node::OP_TYPE => read.operator = text(&field)?,
                node::DOMAIN => read.domain = text(&field)?,
                node::ATTRIBUTE => read.read_attribute(window, field.bytes()?, &attributes, ("", 0))?,
                _ => {}
            }
        }
        Ok(read)
    }

    /// Reads an attribute of this node, or of one in its graphs, whose path and depth are those of `graph`.
    fn read_attribute(
        &mut self,
        window: &Window,
        range: Range<u64>,
        attributes: &Attributes,
        (prefix, depth): (&str, usize),
    ) -> Result<(), Stop> {
        let path_of = attributes.path_of(&prefix.into(), range.clone());
        let (mut own, mut number, mut graph_count) = ("", None, 0);
        let mut message = Message::new(window, range);
        while let Some(field) = message.next()? {
            let inner = match field.number {
                attribute::GRAPH => format!("{}/", path_of.read(window)?),
                attribute::GRAPHS => {
                    graph_count += 1;
                    format!("{}.{}/", path_of.read(window)?, graph_count - 1)
                }
                _ => {
                    match field.number {
                        attribute::NAME => own = name(window, &field)?,
                        attribute::INTEGER => number = Some(field.number()?),
                        attribute::TENSOR if depth == 0 => {
                            self.value_type = Some(TensorProto::parse(window, field.bytes()?)?.data_type);
                        }
                        _ => {}
                    }
                    continue;
                }
            };
            self.has_graph = true;
            self.read_graph(window, field.bytes()?, (&inner, depth + 1))?;
        }
        if depth == 0 {
            self.note_types(own, number);
        }
        Ok(())
    }

    /// Notes what an attribute of this node says about types.
    fn note_types(&mut self, attribute: &str, number: Option<u64>) {
        match attribute {
            "to" | "dtype" | "output_dtype" => self.stated_type = number.filter(|number| *number != 0),
            "value_float" | "value_floats" => self.value_type = Some(1),
            "value_int" | "value_ints" => self.value_type = Some(7),
            "value_string" | "value_strings" => self.value_type = Some(8),
            _ => {}
        }
    }

    /// Reads a graph in an attribute. What it uses and does not have itself is captured.
    fn read_graph(&mut self, window: &Window, range: Range<u64>, path: (&str, usize)) -> Result<(), Stop> {
        check_path(path.0, path.1).map_err(|error| error.at(range.clone()))?;
        let outer = std::mem::take(&mut self.captured);
        let mut own = HashSet::new();
        let mut message = Message::new(window, range);
        while let Some(field) = message.next()? {
            match field.number {
                graph::NODE => self.read_inner_node(window, field.bytes()?, path, &mut own)?,
                graph::INPUT => {
                    own.insert(value_type(window, field.bytes()?)?.0);
                }
                graph::OUTPUT => self.captured.push(value_type(window, field.bytes()?)?.0),
                graph::INITIALIZER => {
                    own.insert(TensorProto::parse(window, field.bytes()?)?.name);
                    self.initializers.push(Initializer::read(window, field.bytes()?, path.0)?);
                }
                _ => {}
            }
        }
        self.captured.retain(|name| !own.contains(name));
        self.captured.extend(outer);
        Ok(())
    }

    fn read_inner_node(
        &mut self,
        window: &Window,
        range: Range<u64>,
        path: (&str, usize),
        own: &mut HashSet<String>,
    ) -> Result<(), Stop> {
        let attributes = Attributes::of_node(window, range.clone())?;
        let mut message = Message::new(window, range);
        while let Some(field) = message.next()? {
            match field.number {
                node::INPUT => self.captured.push(name(window, &field)?.to_owned()),
                node::OUTPUT => {
                    own.insert(name(window, &field)?.to_owned());
                }
                node::ATTRIBUTE => self.read_attribute(window, field.bytes()?, &attributes, path)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The name and the type in a ValueInfoProto.
fn value_type(window: &Window, range: Range<u64>) -> Result<(String, Option<u64>), Stop> {
    let (mut own, mut data_type) = (String::new(), None);
    let mut message = Message::new(window, range);
    while let Some(field) = message.next()? {
        match field.number {
            value_info::NAME => own = name(window, &field)?.to_owned(),
            value_info::TYPE => data_type = element_type(window, field.bytes()?)?,
            _ => {}
        }
    }
    Ok((own, data_type))
}

/// The element type in a TypeProto of a tensor.
fn element_type(window: &Window, range: Range<u64>) -> Result<Option<u64>, Stop> {
    let mut message = Message::new(window, range);
    while let Some(field) = message.next()? {
        if field.number == value_info::TENSOR_TYPE {
            let mut tensor = Message::new(window, field.bytes()?);
            while let Some(field) = tensor.next()? {
                if field.number == value_info::ELEMENT_TYPE {
                    return Ok(Some(field.number()?).filter(|number| *number != 0));
                }
            }
        }
    }
    Ok(None)
}
