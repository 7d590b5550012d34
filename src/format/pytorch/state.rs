//! Walks what a pickle contains: finds the tensors and their names, and the metadata.

use super::chunked::Chunked;
use super::pickle::{Graph, Loaded, Node, Object, Span, Value};
use super::rebuild::{View, view_of};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format::warned::Warned;
use crate::index::Metadata;
use crate::values::budget::Budget;
use crate::values::json;
use serde_json::{Map, Value as Json};

/// The maximum depth of containers. A module in a module takes three levels. The walk is recursive.
const MAX_DEPTH: usize = 128;

/// The maximum length of a name, to which a key can contribute any number of times.
const MAX_NAME_BYTES: usize = 16 << 10;

/// The name of a tensor that was saved alone.
const ALONE: &str = "tensor";

/// The attributes of modules whose entries have the names of the module itself.
const OF_MODULES: [&str; 3] = ["_parameters", "_buffers", "_modules"];

/// The size of a view and its name, and of its place, which follows.
const VIEW_BYTES: u64 = 2 * size_of::<(String, View, usize)>() as u64;

/// What was saved.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tensors: Chunked<(String, View)>,
    pub(super) metadata: Metadata,
    /// The tensors that are not listed.
    pub(super) skipped: Warned,
}

/// Walks a pickle from its root.
///
/// # Errors
/// `FORMAT` for a key that is not UTF-8; `LIMIT` for containers that are too deep or names that are too long, or if
/// tensors and metadata take more memory than the budget allows.
pub(super) fn walk(loaded: &Loaded, budget: &mut Budget) -> Result<State> {
    let graph = &loaded.graph;
    budget.bytes(graph.node_count() as u64, 0)?;
    let mut walk = Walk {
        graph,
        budget,
        active: vec![false; graph.node_count()],
        path: String::new(),
        depth: 0,
        tensors: Chunked::default(),
        skipped: Warned::default(),
    };
    let metadata = match walk.visit(loaded.root)? {
        Some(Json::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    let Walk { tensors, skipped, .. } = walk;
    Ok(State { tensors, metadata, skipped })
}

impl State {
    /// Counts what is left when the pickle is released, in a budget without what that takes.
    ///
    /// # Errors
    /// `LIMIT`.
    pub(super) fn charge(&self, budget: &mut Budget) -> Result<()> {
        for (at, (key, value)) in self.metadata.iter().enumerate() {
            budget.entry(at, key.len())?;
            budget.copy(value)?;
        }
        let tensors = (0..self.tensors.len()).filter_map(|at| self.tensors.get(at));
        tensors.into_iter().try_for_each(|(name, view)| budget.tensor(name, view.shape.len() * 2))
    }
}

struct Walk<'a, 'g, 'b> {
    graph: &'g Graph<'a>,
    budget: &'b mut Budget,
    /// The nodes that contain the current one, so that cycles end.
    active: Vec<bool>,
    /// The name of the current value.
    path: String,
    depth: usize,
    tensors: Chunked<(String, View)>,
    skipped: Warned,
}

impl Walk<'_, '_, '_> {
    /// Visits a value. Returns it as JSON, without tensors; `None` if nothing is left.
    fn visit(&mut self, value: Value) -> Result<Option<Json>> {
        self.budget.value()?;
        Ok(Some(match value {
            Value::None => Json::Null,
            Value::Bool(value) => value.into(),
            Value::Int(value) => value.into(),
            Value::Float(value) => json::float(value),
            Value::Text(span) => {
                let text = String::from_utf8_lossy(self.graph.bytes(span));
                self.budget.text(text.len() as u64)?;
                text.into()
            }
            Value::BigInt | Value::Bytes => return Ok(None),
            Value::Node(number) => return self.visit_node(value, number as usize),
        }))
    }

    fn visit_node(&mut self, value: Value, number: usize) -> Result<Option<Json>> {
        if self.active.get(number).copied().unwrap_or(true) {
            return Ok(None); // it contains itself
        }
        if self.depth >= MAX_DEPTH {
            let what = format!("the values of the pickle are nested more than {MAX_DEPTH} levels deep");
            return Err(Error::new(ErrorKind::Limit, what));
        }
        self.set_active(number, true);
        self.depth += 1;
        let graph = self.graph;
        let found = match graph.node(value) {
            Some(Node::Tuple(items)) => self.visit_items(items),
            Some(Node::List(items)) => self.visit_items(items),
            Some(Node::Dict(entries)) => self.visit_entries(entries),
            Some(Node::Object(object)) => self.visit_object(object),
            Some(Node::Global { module, name }) => self.name_of(*module, *name),
            Some(Node::Persistent(_)) | None => Ok(None),
        };
        self.depth -= 1;
        self.set_active(number, false);
        found
    }

    fn set_active(&mut self, number: usize, is_active: bool) {
        if let Some(active) = self.active.get_mut(number) {
            *active = is_active;
        }
    }

    fn visit_items(&mut self, items: &[Value]) -> Result<Option<Json>> {
        let (mut found, mut has_any) = (Vec::new(), items.is_empty());
        for (at, item) in items.iter().enumerate() {
            let item = self.visit_below(&at.to_string(), *item)?;
            has_any |= item.is_some();
            self.budget.item(found.len())?;
            found.push(item.unwrap_or_default());
        }
        Ok(has_any.then_some(Json::Array(found)))
    }

    fn visit_entries(&mut self, entries: &[[Value; 2]]) -> Result<Option<Json>> {
        let mut found = Map::new();
        for [key, value] in entries {
            let Some(key) = self.key(*key)? else { continue };
            let below = match OF_MODULES.contains(&&*key) {
                true => self.visit(*value)?,
                false => self.visit_below(&key, *value)?,
            };
            if let Some(below) = below {
                self.budget.entry(found.len(), key.len())?;
                found.insert(key, below);
            }
        }
        Ok((!found.is_empty() || entries.is_empty()).then_some(Json::Object(found)))
    }

    /// Visits the result of a call: a tensor, a dictionary or list of another class, or an object with attributes.
    fn visit_object(&mut self, object: &Object) -> Result<Option<Json>> {
        match view_of(self.graph, object) {
            Some(Ok(view)) => {
                let name = if self.path.is_empty() { ALONE.to_owned() } else { self.path.clone() };
                let dims = view.shape.len() as u64;
                self.budget.bytes(VIEW_BYTES + name.len() as u64 + dims * 16 + 3 * 8, 0)?;
                self.tensors.push((name, view));
                return Ok(None);
            }
            Some(Err(reason)) => {
                self.skipped.add_with_reason(&self.path, &reason);
                return Ok(None);
            }
            None => {}
        }
        let class = self.graph.global(object.class);
        if class == Some(("collections", "OrderedDict")) {
            // Its attributes, `_metadata` of a `state_dict()`, are versions of modules.
            return self.visit_entries(&object.entries);
        }
        if let Some(("torch", "Size") | ("builtins", "set" | "frozenset" | "list" | "tuple")) = class
            && let Some([items]) = self.graph.tuple(object.arguments)
        {
            return self.visit(*items);
        }
        // Others are found in whatever the object was made of. Arguments mean something only to its class.
        self.visit(object.arguments)?;
        let items = self.visit_items(&object.items)?.filter(|_| !object.items.is_empty());
        let entries = self.visit_entries(&object.entries)?.filter(|_| !object.entries.is_empty());
        let state = self.visit(object.state)?.filter(|state| !state.is_null());
        Ok(state.or(entries).or(items))
    }

    fn visit_below(&mut self, key: &str, value: Value) -> Result<Option<Json>> {
        let length = self.path.len();
        if length + key.len() >= MAX_NAME_BYTES {
            let what = format!("a name in the pickle has more than {MAX_NAME_BYTES} bytes");
            return Err(Error::new(ErrorKind::Limit, what));
        }
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        let found = self.visit(value);
        self.path.truncate(length);
        found
    }

    /// The text of a key. Values below other keys, such as tuples, have no name.
    fn key(&self, key: Value) -> Result<Option<String>> {
        Ok(Some(match key {
            Value::Text(span) => {
                let text = self.graph.text(span).filter(|text| text.len() < MAX_NAME_BYTES);
                text.ok_or_else(|| malformed("a key in the pickle is not UTF-8, or too long"))?.to_owned()
            }
            Value::Int(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            Value::Float(number) => number.to_string(),
            Value::None => "None".to_owned(),
            Value::BigInt | Value::Bytes | Value::Node(_) => return Ok(None),
        }))
    }

    /// A class or function as text, such as the dtype `torch.float32`.
    fn name_of(&mut self, module: Span, name: Span) -> Result<Option<Json>> {
        let [module, name] = [module, name].map(|span| self.graph.text(span).unwrap_or_default());
        self.budget.text((module.len() + name.len()) as u64 + 1)?;
        Ok(Some(format!("{module}.{name}").into()))
    }
}
