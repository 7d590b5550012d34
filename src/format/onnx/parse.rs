//! Collects the tensors of a model: those of its graph, of subgraphs, and of functions.

use super::fields::{attribute, function, graph, model};
use super::paths::{Attributes, check_path, function_prefix, training_prefix};
use super::protobuf::{Field, Message, Value, name, text};
use super::tensor::{STRING, TensorProto};
use crate::error::{Error, ErrorKind, Result};
use crate::format::values::budget::Budget;
use crate::index::{DataFile, Index, Metadata, Parsed, Part, Tensor, check_part_count, check_tensors, part_path};
use crate::window::{Stop, Window};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::ops::Range;

/// The name of the format in the registry.
pub(super) const NAME: &str = "onnx";

/// The newest IR version of the sources that [`super`] names.
const NEWEST_IR_VERSION: u64 = 14;

/// Maximum length of a text in the metadata: enough for a vocabulary.
const MAX_TEXT_BYTES: u64 = 16 << 20;

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let mut model = Model::new(window);
    model.read()?;
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
    };
    Ok(if data.is_empty() { Parsed::File(index) } else { Parsed::WithData(index, data) })
}

/// What was read of a model so far.
struct Model<'w, 'f> {
    window: &'w Window<'f>,
    budget: Budget,
    ir_version: u64,
    metadata: Metadata,
    tensors: Vec<Tensor>,
    data: Vec<DataFile>,
    /// The index in `data` of each location.
    data_of_location: HashMap<String, usize>,
    warnings: Warnings,
}

/// Tensors that are not listed: the number of each kind, and the name of the first.
#[derive(Default)]
struct Warnings {
    texts: Option<(usize, String)>,
    sparse: Option<(usize, String)>,
    external_attributes: Option<(usize, String)>,
}

impl<'w, 'f> Model<'w, 'f> {
    fn new(window: &'w Window<'f>) -> Self {
        let (ir_version, metadata, tensors, data, data_of_location, warnings) = Default::default();
        let budget = Budget::of(window, 0);
        Model { window, budget, ir_version, metadata, tensors, data, data_of_location, warnings }
    }

    fn read(&mut self) -> Result<(), Stop> {
        let mut message = Message::whole_file(self.window)?;
        let mut training_count = 0;
        while let Some(field) = message.next()? {
            match field.number {
                model::IR_VERSION => self.ir_version = field.number()?,
                model::GRAPH => self.read_graph(field.bytes()?, "", 0)?,
                model::FUNCTIONS => self.read_function(field.bytes()?)?,
                model::TRAINING_INFO => {
                    self.read_training(field.bytes()?, training_count)?;
                    training_count += 1;
                }
                _ => self.read_metadata(&field)?,
            }
        }
        Ok(())
    }

    fn read_graph(&mut self, range: Range<u64>, prefix: &str, depth: usize) -> Result<(), Stop> {
        check_path(prefix, depth).map_err(|e| e.at(range.clone()))?;
        let mut message = Message::new(self.window, range);
        while let Some(field) = message.next()? {
            match field.number {
                graph::NODE => self.read_node(field.bytes()?, prefix, depth)?,
                graph::INITIALIZER => self.read_initializer(field.bytes()?, prefix)?,
                graph::SPARSE_INITIALIZER => {
                    let values = sparse_values(self.window, field.bytes()?)?;
                    count(&mut self.warnings.sparse, format!("{prefix}{values}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_initializer(&mut self, range: Range<u64>, prefix: &str) -> Result<(), Stop> {
        let proto = TensorProto::parse(self.window, range)?;
        let name = format!("{prefix}{}", proto.name);
        if proto.data_type == STRING {
            count(&mut self.warnings.texts, name);
            return Ok(());
        }
        self.budget.grow(proto.head_bytes());
        self.budget.tensor(&name, proto.dimension_count())?;
        let tensor = proto.place(name.clone()).map_err(|e| e.in_tensor(&name))?;
        match proto.external {
            None => self.tensors.push(tensor),
            Some(external) => self.data_at(part_path(&external.location)?)?.tensors.push(tensor),
        }
        Ok(())
    }

    fn data_at(&mut self, location: String) -> Result<&mut DataFile> {
        let next = self.data.len();
        let at = *self.data_of_location.entry(location).or_insert_with_key(|location| {
            let part = Part { path: location.clone(), url: None, byte_length: None, digest: None };
            self.data.push(DataFile { part, tensors: Vec::new() });
            next
        });
        check_part_count(self.data.len() as u64)?;
        self.data.get_mut(at).ok_or_else(|| Error::new(ErrorKind::Internal, "a data file is missing"))
    }

    fn read_node(&mut self, range: Range<u64>, prefix: &str, depth: usize) -> Result<(), Stop> {
        let attributes = Attributes::of_node(self.window, range)?;
        for attribute in &attributes.all {
            let mut message = Message::new(self.window, attribute.clone());
            let path = || attributes.path(self.window, attribute.clone(), prefix);
            let mut graph_count = 0;
            while let Some(field) = message.next()? {
                match field.number {
                    attribute::GRAPH => self.read_graph(field.bytes()?, &format!("{}/", path()?), depth + 1)?,
                    attribute::GRAPHS => {
                        self.read_graph(field.bytes()?, &format!("{}.{graph_count}/", path()?), depth + 1)?;
                        graph_count += 1;
                    }
                    attribute::TENSOR | attribute::TENSORS
                        if TensorProto::parse(self.window, field.bytes()?)?.external.is_some() =>
                    {
                        count(&mut self.warnings.external_attributes, path()?);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn read_function(&mut self, range: Range<u64>) -> Result<(), Stop> {
        let prefix = function_prefix(self.window, range.clone())?;
        let mut message = Message::new(self.window, range);
        while let Some(field) = message.next()? {
            if field.number == function::NODE {
                self.read_node(field.bytes()?, &prefix, 0)?;
            }
        }
        Ok(())
    }

    fn read_training(&mut self, range: Range<u64>, number: usize) -> Result<(), Stop> {
        let mut message = Message::new(self.window, range);
        while let Some(field) = message.next()? {
            if let Some(prefix) = training_prefix(number, field.number) {
                self.read_graph(field.bytes()?, &prefix, 0)?;
            }
        }
        Ok(())
    }

    fn read_metadata(&mut self, field: &Field) -> Result<(), Stop> {
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
            model::OPSET_IMPORT | model::METADATA_PROPS => return self.read_entry(key, field.bytes()?),
            _ => {
                let text = text(self.window, field, MAX_TEXT_BYTES)?;
                self.budget.text(text.len() as u64)?;
                Json::from(text)
            }
        };
        self.metadata.insert(key.to_owned(), value);
        Ok(())
    }

    /// Reads a message of a key and a value, which is a text, or a number for `opset_import`.
    fn read_entry(&mut self, map: &str, entry: Range<u64>) -> Result<(), Stop> {
        let (mut key, mut value) = ("", Json::from(""));
        let mut message = Message::new(self.window, entry);
        while let Some(field) = message.next()? {
            match (field.number, &field.value) {
                (1, _) => key = name(self.window, &field)?,
                (2, Value::Varint(number)) => value = Json::from(number.cast_signed()),
                (2, _) => {
                    let text = text(self.window, &field, MAX_TEXT_BYTES)?;
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
