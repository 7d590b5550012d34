//! Collects the tensors of a model: those of its graph, of subgraphs, and of functions.

use super::fields::{attribute, function, graph, model};
use super::operators::NodeInputs;
use super::paths::{AttributePath, Attributes, check_path, function_prefix, training_prefix};
use super::protobuf::{Field, Message, Value, name, text};
use super::tensor::{STRING, TensorProto};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{
    DataFile, Index, Metadata, Parsed, Part, StatedQuantization, Tensor, check_part_count, check_tensors, part_path,
};
use crate::values::budget::Budget;
use crate::window::{Stop, Window};
use serde_json::Value as Json;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

/// The name of the format in the registry.
pub(super) const NAME: &str = "onnx";

/// The newest IR version of the sources that [`super`] names.
const NEWEST_IR_VERSION: u64 = 14;

/// Maximum length of a text in the metadata: enough for a vocabulary.
const MAX_TEXT_BYTES: u64 = 16 << 20;

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    // Weights are between the descriptions of tensors: the parser stops at most of them.
    let model = window.resume(|| Model::new(window), |model| model.read(window))?;
    let quantized = model.stated_quantization();
    let Model { mut tensors, data, warnings, metadata, ir_version, .. } = model;
    check_tensors(&mut tensors, window.file_length())?;
    let index = Index {
        format: NAME,
        version: ir_version.to_string(),
        metadata,
        long_arrays: Vec::new(),
        tensors: tensors.into(),
        warnings: warnings.into_texts(ir_version),
        other_shards: HashMap::new(),
        blocks: Vec::new(),
        quantized,
    };
    Ok(if data.is_empty() { Parsed::File(index) } else { Parsed::WithData(index, data) })
}

/// What was read of a model so far, and what is read next.
struct Model {
    /// The messages that are not read to their end, each within the one before.
    open: Vec<Open>,
    budget: Budget,
    ir_version: u64,
    metadata: Metadata,
    tensors: Vec<Tensor>,
    data: Vec<DataFile>,
    /// The index in `data` of each location.
    data_of_location: HashMap<String, usize>,
    /// The nodes that say how tensors are quantized, with the prefixes of their graphs.
    quantized: Vec<(Rc<str>, NodeInputs)>,
    warnings: Warnings,
}

/// A message that is not read to its end.
struct Open {
    /// The fields that were not read.
    rest: Range<u64>,
    of: Of,
}

/// The type of a message. The names of its tensors begin with `prefix`.
enum Of {
    Model {
        training_count: usize,
    },
    Graph {
        prefix: Rc<str>,
        depth: usize,
    },
    /// The attributes that were not read are in reverse order.
    Node {
        prefix: Rc<str>,
        attributes: Attributes,
        depth: usize,
    },
    Attribute {
        path: AttributePath,
        depth: usize,
        graph_count: usize,
    },
    Function {
        prefix: Rc<str>,
    },
    Training {
        number: usize,
    },
}

/// Tensors that are not listed: the number of each kind, and the name of the first.
#[derive(Default)]
struct Warnings {
    texts: Option<(usize, String)>,
    sparse: Option<(usize, String)>,
    external_attributes: Option<(usize, String)>,
}

impl Model {
    fn new(window: &Window) -> Result<Self, Stop> {
        let open = vec![Open { rest: 0..window.whole_length()?, of: Of::Model { training_count: 0 } }];
        let (ir_version, metadata, tensors, data, data_of_location, quantized, warnings) = Default::default();
        let budget = Budget::of(window, 0);
        Ok(Model { open, budget, ir_version, metadata, tensors, data, data_of_location, quantized, warnings })
    }

    /// Reads all messages. If bytes are missing, the next call goes on with the same field.
    fn read(&mut self, window: &Window) -> Result<(), Stop> {
        while let Some(mut message) = self.open.pop() {
            let before = self.budget.mark();
            match self.read_field(window, &mut message) {
                Ok(Next::Field) => self.open.push(message),
                Ok(Next::Message(inner)) => self.open.extend([message, inner]),
                Ok(Next::End) => {}
                Err(stop) => {
                    self.budget.give_back(before);
                    self.open.push(message);
                    return Err(stop);
                }
            }
        }
        Ok(())
    }

    /// Reads the next field of a message. Changes nothing if bytes are missing.
    fn read_field(&mut self, window: &Window, open: &mut Open) -> Result<Next, Stop> {
        if let Of::Node { prefix, attributes, depth } = &mut open.of {
            let Some(rest) = attributes.all.pop() else { return Ok(Next::End) };
            let path = attributes.path_of(prefix, rest.clone());
            return Ok(Next::Message(Open { rest, of: Of::Attribute { path, depth: *depth, graph_count: 0 } }));
        }
        let mut message = match open.of {
            Of::Model { .. } => Message::whole_file(window, open.rest.clone()),
            _ => Message::new(window, open.rest.clone()),
        };
        let Some(field) = message.next()? else { return Ok(Next::End) };
        let next = match &mut open.of {
            Of::Model { training_count } => self.model_field(window, &field, training_count)?,
            Of::Graph { prefix, depth } => self.graph_field(window, &field, prefix, *depth)?,
            Of::Attribute { path, depth, graph_count } => {
                self.attribute_field(window, &field, (path, *depth), graph_count)?
            }
            Of::Function { prefix } if field.number == function::NODE => self.node(window, &field, prefix, 0)?,
            Of::Training { number } => match training_prefix(*number, field.number) {
                Some(prefix) => graph(&field, prefix, 0)?,
                None => Next::Field,
            },
            Of::Function { .. } | Of::Node { .. } => Next::Field,
        };
        open.rest.start = field.range.end;
        Ok(next)
    }

    fn model_field(&mut self, window: &Window, field: &Field, training_count: &mut usize) -> Result<Next, Stop> {
        let of = match field.number {
            model::IR_VERSION => {
                self.ir_version = field.number()?;
                return Ok(Next::Field);
            }
            model::GRAPH => return graph(field, String::new(), 0),
            model::FUNCTIONS => Of::Function { prefix: function_prefix(window, field.bytes()?)?.into() },
            model::TRAINING_INFO => {
                *training_count += 1;
                Of::Training { number: *training_count - 1 }
            }
            _ => return self.read_metadata(window, field).map(|()| Next::Field),
        };
        Ok(Next::Message(Open { rest: field.bytes()?, of }))
    }

    fn graph_field(&mut self, window: &Window, field: &Field, prefix: &Rc<str>, depth: usize) -> Result<Next, Stop> {
        match field.number {
            graph::NODE => return self.node(window, field, prefix, depth),
            graph::INITIALIZER => self.read_initializer(window, field.bytes()?, prefix)?,
            graph::SPARSE_INITIALIZER => {
                let values = sparse_values(window, field.bytes()?)?;
                count(&mut self.warnings.sparse, format!("{prefix}{values}"));
            }
            _ => {}
        }
        Ok(Next::Field)
    }

    /// The node in a field.
    fn node(&mut self, window: &Window, field: &Field, prefix: &Rc<str>, depth: usize) -> Result<Next, Stop> {
        let rest = field.bytes()?;
        let attributes = Attributes::of_node(window, rest.clone())?;
        if let Some(node) = NodeInputs::read(window, rest.clone())? {
            self.budget.grow(rest.end - rest.start);
            self.budget.text(node.name_bytes())?;
            self.budget.value()?;
            self.quantized.push((Rc::clone(prefix), node));
        }
        Ok(Next::Message(Open { rest, of: Of::Node { prefix: Rc::clone(prefix), attributes, depth } }))
    }

    /// How tensors are quantized, as the nodes say.
    fn stated_quantization(&self) -> Option<StatedQuantization> {
        if self.quantized.is_empty() {
            return None;
        }
        let listed = self.tensors.iter().chain(self.data.iter().flat_map(|data| &data.tensors));
        let names: HashSet<&str> = listed.map(|tensor| tensor.name.as_str()).collect();
        let stated = |(prefix, node): &(Rc<str>, NodeInputs)| {
            let stated = node.stated(prefix, |own| names.contains(own))?;
            names.contains(stated.codes.as_str()).then_some(stated)
        };
        let stated: Vec<_> = self.quantized.iter().filter_map(stated).collect();
        (!stated.is_empty()).then(|| StatedQuantization::Nodes(stated.into()))
    }

    fn attribute_field(
        &mut self,
        window: &Window,
        field: &Field,
        (path, depth): (&AttributePath, usize),
        graph_count: &mut usize,
    ) -> Result<Next, Stop> {
        match field.number {
            attribute::GRAPH => return graph(field, format!("{}/", path.read(window)?), depth + 1),
            attribute::GRAPHS => {
                let prefix = format!("{}.{graph_count}/", path.read(window)?);
                *graph_count += 1;
                return graph(field, prefix, depth + 1);
            }
            attribute::TENSOR | attribute::TENSORS
                if TensorProto::parse(window, field.bytes()?)?.external.is_some() =>
            {
                count(&mut self.warnings.external_attributes, path.read(window)?);
            }
            _ => {}
        }
        Ok(Next::Field)
    }

    fn read_initializer(&mut self, window: &Window, range: Range<u64>, prefix: &str) -> Result<(), Stop> {
        let proto = TensorProto::parse(window, range)?;
        let name = format!("{prefix}{}", proto.name);
        if proto.data_type == STRING {
            count(&mut self.warnings.texts, name);
            return Ok(());
        }
        self.budget.grow(proto.head_bytes());
        self.budget.tensor(&name, proto.dimension_count())?;
        let tensor = proto.layout_tensor(name.clone()).map_err(|e| e.in_tensor(&name))?;
        match proto.external {
            None => self.tensors.push(tensor),
            Some(external) => self.data_at(part_path(&external.location)?)?.tensors.push(tensor),
        }
        Ok(())
    }

    fn data_at(&mut self, location: String) -> Result<&mut DataFile> {
        let next = self.data.len();
        let at = *self.data_of_location.entry(location).or_insert_with_key(|location| {
            let part = Part { path: location.clone(), ..Part::default() };
            self.data.push(DataFile { parts: vec![part], tensors: Vec::new() });
            next
        });
        check_part_count(self.data.len() as u64)?;
        self.data.get_mut(at).ok_or_else(|| Error::new(ErrorKind::Internal, "a data file is missing"))
    }

    fn read_metadata(&mut self, window: &Window, field: &Field) -> Result<(), Stop> {
        let key = match field.number {
            model::PRODUCER_NAME => "producer_name",
            model::PRODUCER_VERSION => "producer_version",
            model::DOMAIN => "domain",
            model::MODEL_VERSION => "model_version",
            model::DOC_STRING => "doc_string",
            model::OPSET_IMPORT => "opset_import",
            model::METADATA_PROPS => "metadata_props",
            _ => return Ok(()),
        };
        self.budget.grow(field.range.end - field.range.start);
        if !self.metadata.contains_key(key) {
            self.budget.entry(self.metadata.len(), key.len())?;
        }
        let value = match field.number {
            model::MODEL_VERSION => Json::from(field.number()?.cast_signed()),
            model::OPSET_IMPORT | model::METADATA_PROPS => return self.read_entry(window, key, field.bytes()?),
            _ => {
                let text = text(window, field, MAX_TEXT_BYTES)?;
                self.budget.text(text.len() as u64)?;
                Json::from(text)
            }
        };
        self.metadata.insert(key.to_owned(), value);
        Ok(())
    }

    /// Reads a message of a key and a value, which is a text, or a number for `opset_import`.
    fn read_entry(&mut self, window: &Window, map: &str, entry: Range<u64>) -> Result<(), Stop> {
        let (mut key, mut value) = ("", Json::from(""));
        let mut message = Message::new(window, entry);
        while let Some(field) = message.next()? {
            match (field.number, &field.value) {
                (1, _) => key = name(window, &field)?,
                (2, Value::Varint(number)) => value = Json::from(number.cast_signed()),
                (2, _) => {
                    let text = text(window, &field, MAX_TEXT_BYTES)?;
                    self.budget.text(text.len() as u64)?;
                    value = Json::from(text);
                }
                _ => {}
            }
        }
        let map = self.metadata.entry(map).or_insert_with(|| Json::Object(Metadata::new()));
        if let Some(map) = map.as_object_mut() {
            self.budget.value()?;
            self.budget.entry(map.len(), key.len())?;
            map.insert(key.to_owned(), value);
        }
        Ok(())
    }
}

impl Warnings {
    fn into_texts(self, ir_version: u64) -> Vec<String> {
        let mut warnings = Vec::new();
        if ir_version > NEWEST_IR_VERSION {
            warnings
                .push(format!("the IR version is {ir_version}; weightstream knows versions up to {NEWEST_IR_VERSION}"));
        }
        let mut add = |found: Option<(usize, String)>, what: &str| {
            if let Some((count, first)) = found {
                warnings.push(format!("not listed: {count} {what}; the first is \"{first}\""));
            }
        };
        add(self.texts, "initializers that are texts");
        add(self.sparse, "sparse initializers");
        add(self.external_attributes, "tensors in attributes of nodes whose elements are in other files");
        warnings
    }
}

/// What is read after a field.
enum Next {
    Field,
    /// The message in the field.
    Message(Open),
    End,
}

/// The graph in a field.
fn graph(field: &Field, prefix: String, depth: usize) -> Result<Next, Stop> {
    let rest = field.bytes()?;
    check_path(&prefix, depth).map_err(|e| e.at(rest.clone()))?;
    Ok(Next::Message(Open { rest, of: Of::Graph { prefix: prefix.into(), depth } }))
}

/// The name of a SparseTensorProto, which is that of its values.
fn sparse_values(window: &Window, range: Range<u64>) -> Result<String, Stop> {
    let mut message = Message::new(window, range);
    while let Some(field) = message.next()? {
        if field.number == 1 {
            return Ok(TensorProto::parse(window, field.bytes()?)?.name);
        }
    }
    Ok(String::new())
}

fn count(counted: &mut Option<(usize, String)>, name: String) {
    match counted {
        Some((count, _)) => *count += 1,
        None => *counted = Some((1, name)),
    }
}
