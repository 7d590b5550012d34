//! Writes a graph with its weights in another file. All fields that do not change are copied byte for byte.

use super::fields::{attribute, function, graph, model, node, tensor as field, value_info};
use super::paths::{Attributes, check_path, function_prefix, training_prefix};
use super::protobuf::{Field, Message, name, put_bytes, put_varint};
use super::tensor::TensorProto;
use crate::error::{Error, ErrorKind};
use crate::window::{Stop, Window};
use std::collections::HashSet;
use std::ops::Range;

/// The new place of an initializer's elements.
#[derive(Debug, Clone)]
pub(crate) enum InitializerStorage {
    /// Unchanged.
    Kept,
    /// In the graph.
    Inline(Vec<u8>),
    /// In the file `location`.
    External {
        location: &'static str,
        bytes: Range<u64>,
        /// The data type and the suffix of the stored initializer, if it is another one than nodes expect. A node
        /// `Cast` after it restores the type.
        cast: Option<(u64, String)>,
    },
}

/// Returns the names of the inputs of the main graph. In old models, initializers are also inputs.
///
/// # Errors
/// As for the parser.
pub(crate) fn input_names(window: &Window) -> Result<HashSet<String>, Stop> {
    let mut names = HashSet::new();
    let mut model = Message::whole_file(window, 0..window.whole_length()?);
    while let Some(field) = model.next()? {
        if field.number != model::GRAPH {
            continue;
        }
        let mut graph = Message::new(window, field.bytes()?);
        while let Some(field) = graph.next()? {
            if field.number != graph::INPUT {
                continue;
            }
            let mut input = Message::new(window, field.bytes()?);
            while let Some(field) = input.next()? {
                if field.number == value_info::NAME {
                    names.insert(name(window, &field)?.to_owned());
                }
            }
        }
    }
    Ok(names)
}

/// Returns the model with its initializers in the places that `place_of` returns for their names in the index.
///
/// # Errors
/// As for the parser; `UNSUPPORTED` for external data that is not listed, and would be lost.
pub(crate) fn rewrite(window: &Window, place_of: &dyn Fn(&str) -> InitializerStorage) -> Result<Vec<u8>, Stop> {
    let rewriter = Rewriter { window, place_of };
    let (mut out, mut training_count) = (Vec::new(), 0);
    let mut message = Message::whole_file(window, 0..window.whole_length()?);
    while let Some(field) = message.next()? {
        match field.number {
            model::GRAPH => put_bytes(&mut out, field.number, &rewriter.graph(field.bytes()?, "", 0)?),
            model::FUNCTIONS => put_bytes(&mut out, field.number, &rewriter.function(field.bytes()?)?),
            model::TRAINING_INFO => {
                put_bytes(&mut out, field.number, &rewriter.training(field.bytes()?, training_count)?);
                training_count += 1;
            }
            _ => rewriter.copy(&mut out, &field)?,
        }
    }
    Ok(out)
}

struct Rewriter<'w, 'f> {
    window: &'w Window<'f>,
    place_of: &'w dyn Fn(&str) -> InitializerStorage,
}

impl Rewriter<'_, '_> {
    fn copy(&self, out: &mut Vec<u8>, field: &Field) -> Result<(), Stop> {
        out.extend_from_slice(self.window.get(field.range.clone())?);
        Ok(())
    }

    fn graph(&self, range: Range<u64>, prefix: &str, depth: usize) -> Result<Vec<u8>, Stop> {
        check_path(prefix, depth).map_err(|e| e.at(range.clone()))?;
        // Nodes are sorted by their inputs, so the new ones come first.
        let (mut casts, mut rest) = (Vec::new(), Vec::new());
        let mut message = Message::new(self.window, range);
        while let Some(field) = message.next()? {
            match field.number {
                graph::NODE => {
                    let rewritten = self.node(field.bytes()?, prefix, depth)?;
                    put_bytes(&mut rest, field.number, &rewritten);
                }
                graph::INITIALIZER => {
                    let tensor = self.initializer(field.bytes()?, prefix, &mut casts)?;
                    put_bytes(&mut rest, field.number, &tensor);
                }
                graph::SPARSE_INITIALIZER => {
                    let mut sparse = Message::new(self.window, field.bytes()?);
                    while let Some(part) = sparse.next()? {
                        if matches!(part.number, 1 | 2) {
                            self.check_inline(part.bytes()?, "a sparse initializer")?;
                        }
                    }
                    self.copy(&mut rest, &field)?;
                }
                _ => self.copy(&mut rest, &field)?,
            }
        }
        casts.extend(rest);
        Ok(casts)
    }

    fn initializer(&self, range: Range<u64>, prefix: &str, casts: &mut Vec<u8>) -> Result<Vec<u8>, Stop> {
        let proto = TensorProto::parse(self.window, range.clone())?;
        let place = (self.place_of)(&format!("{prefix}{}", proto.name));
        let cast = match &place {
            InitializerStorage::Kept => {
                self.check_inline(range.clone(), "an initializer that is not listed")?;
                return Ok(self.window.get(range)?.to_vec());
            }
            InitializerStorage::Inline(_) => None,
            InitializerStorage::External { cast, .. } => cast.as_ref(),
        };
        let mut out = Vec::new();
        let mut message = Message::new(self.window, range);
        while let Some(tensor_field) = message.next()? {
            match tensor_field.number {
                field::FLOAT_DATA
                | field::INT32_DATA
                | field::INT64_DATA
                | field::RAW_DATA
                | field::DOUBLE_DATA
                | field::UINT64_DATA
                | field::EXTERNAL_DATA
                | field::DATA_LOCATION => {}
                field::DATA_TYPE | field::NAME if cast.is_some() => {}
                _ => self.copy(&mut out, &tensor_field)?,
            }
        }
        if let Some((data_type, suffix)) = cast {
            let stored = format!("{}{suffix}", proto.name);
            put_varint(&mut out, field::DATA_TYPE, *data_type);
            put_bytes(&mut out, field::NAME, stored.as_bytes());
            put_bytes(casts, graph::NODE, &cast_node(&stored, &proto.name, proto.data_type));
        }
        match place {
            InitializerStorage::Kept => {}
            InitializerStorage::Inline(bytes) => put_bytes(&mut out, field::RAW_DATA, &bytes),
            InitializerStorage::External { location, bytes, .. } => {
                put_external(&mut out, location, &bytes);
            }
        }
        Ok(out)
    }

    fn node(&self, range: Range<u64>, prefix: &str, depth: usize) -> Result<Vec<u8>, Stop> {
        let attributes = Attributes::of_node(self.window, range.clone())?;
        let mut out = Vec::new();
        let mut message = Message::new(self.window, range);
        while let Some(node_field) = message.next()? {
            if node_field.number != node::ATTRIBUTE {
                self.copy(&mut out, &node_field)?;
                continue;
            }
            let attribute = node_field.bytes()?;
            let path_of = attributes.path_of(&prefix.into(), attribute.clone());
            let path = || path_of.read(self.window);
            let (mut rewritten, mut graph_count) = (Vec::new(), 0);
            let mut fields = Message::new(self.window, attribute.clone());
            while let Some(field) = fields.next()? {
                let prefix = match field.number {
                    attribute::GRAPH => format!("{}/", path()?),
                    attribute::GRAPHS => {
                        graph_count += 1;
                        format!("{}.{}/", path()?, graph_count - 1)
                    }
                    attribute::TENSOR | attribute::TENSORS => {
                        self.check_inline(field.bytes()?, "a tensor in an attribute of a node")?;
                        self.copy(&mut rewritten, &field)?;
                        continue;
                    }
                    _ => {
                        self.copy(&mut rewritten, &field)?;
                        continue;
                    }
                };
                put_bytes(&mut rewritten, field.number, &self.graph(field.bytes()?, &prefix, depth + 1)?);
            }
            put_bytes(&mut out, node_field.number, &rewritten);
        }
        Ok(out)
    }

    fn function(&self, range: Range<u64>) -> Result<Vec<u8>, Stop> {
        let prefix = function_prefix(self.window, range.clone())?;
        let mut out = Vec::new();
        let mut message = Message::new(self.window, range);
        while let Some(field) = message.next()? {
            match field.number {
                function::NODE => put_bytes(&mut out, field.number, &self.node(field.bytes()?, &prefix, 0)?),
                _ => self.copy(&mut out, &field)?,
            }
        }
        Ok(out)
    }

    fn training(&self, range: Range<u64>, number: usize) -> Result<Vec<u8>, Stop> {
        let mut out = Vec::new();
        let mut message = Message::new(self.window, range);
        while let Some(field) = message.next()? {
            match training_prefix(number, field.number) {
                Some(prefix) => put_bytes(&mut out, field.number, &self.graph(field.bytes()?, &prefix, 0)?),
                None => self.copy(&mut out, &field)?,
            }
        }
        Ok(out)
    }

    /// Checks that a tensor that is copied has no elements in another file.
    fn check_inline(&self, tensor: Range<u64>, what: &str) -> Result<(), Stop> {
        let proto = TensorProto::parse(self.window, tensor)?;
        if proto.external.is_none() {
            return Ok(());
        }
        let error = Error::new(ErrorKind::Unsupported, format!("{what} has external data")).in_tensor(&proto.name);
        Err(error.advise("Save the model with this tensor inline, then convert it again.").into())
    }
}

/// A node that casts `stored` to the data type `to`.
fn cast_node(stored: &str, output: &str, to: u64) -> Vec<u8> {
    const INT: u64 = 2;
    let (mut cast, mut to_attribute) = (Vec::new(), Vec::new());
    put_bytes(&mut to_attribute, attribute::NAME, b"to");
    put_varint(&mut to_attribute, 3, to);
    put_varint(&mut to_attribute, 20, INT);
    put_bytes(&mut cast, 1, stored.as_bytes());
    put_bytes(&mut cast, 2, output.as_bytes());
    put_bytes(&mut cast, 3, stored.as_bytes());
    put_bytes(&mut cast, 4, b"Cast");
    put_bytes(&mut cast, node::ATTRIBUTE, &to_attribute);
    cast
}

/// States that the bytes of an initializer are in another file.
fn put_external(out: &mut Vec<u8>, location: &str, bytes: &Range<u64>) {
    let entries = [
        ("location", location.to_owned()),
        ("offset", bytes.start.to_string()),
        ("length", (bytes.end - bytes.start).to_string()),
    ];
    for (key, value) in entries {
        let mut entry = Vec::new();
        put_bytes(&mut entry, 1, key.as_bytes());
        put_bytes(&mut entry, 2, value.as_bytes());
        put_bytes(out, field::EXTERNAL_DATA, &entry);
    }
    put_varint(out, field::DATA_LOCATION, 1);
}
