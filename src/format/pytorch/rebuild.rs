//! Recognises the calls that create tensors, and reads their arguments.

use super::dtypes::ElementType;
use super::pickle::{Graph, Node, Object, Span, Value};
use crate::dtype::MAX_DIMS;

/// A tensor: a view of a storage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct View {
    pub(super) storage: Storage,
    pub(super) elements: ElementType,
    /// The position of the first element, in elements.
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    /// In elements.
    pub(super) strides: Vec<u64>,
}

/// A storage, as a tensor refers to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Storage {
    pub(super) key: Span,
    pub(super) elements: ElementType,
    pub(super) count: u64,
}

/// Parameters contain a tensor, which may be of another type.
const MAX_WRAPPERS: usize = 4;

/// The tensor that a call creates; `None` if it creates none; the reason if it is not read.
pub(super) fn view_of(graph: &Graph, object: &Object) -> Option<Result<View, String>> {
    let (mut class, mut arguments) = (object.class, object.arguments);
    for _ in 0..MAX_WRAPPERS {
        let (module, name) = graph.global(class)?;
        let items = graph.tuple(arguments).unwrap_or_default();
        match (module, name, items) {
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3", items) => {
                return Some(rebuilt(graph, name, items));
            }
            (
                "torch._utils" | "torch.nn.parameter",
                "_rebuild_parameter" | "_rebuild_parameter_with_state" | "Parameter" | "Buffer",
                [data, ..],
            ) => match graph.node(*data) {
                Some(Node::Object(inner)) => (class, arguments) = (inner.class, inner.arguments),
                _ => return Some(Err(format!("{module}.{name} of something that is no tensor"))),
            },
            // The function that creates the tensor, its class, and the arguments.
            ("torch._tensor", "_rebuild_from_type_v2" | "_rebuild_from_type", [function, _, inner, ..]) => {
                (class, arguments) = (*function, *inner);
            }
            ("torch._utils" | "torch._tensor", name, _) if name.starts_with("_rebuild") => {
                return Some(Err(format!("{module}.{name}")));
            }
            _ => return None,
        }
    }
    Some(Err("parameters of parameters".to_owned()))
}

/// The tensor of a call of `_rebuild_tensor` or its successors.
fn rebuilt(graph: &Graph, function: &str, items: &[Value]) -> Result<View, String> {
    let invalid = || format!("torch._utils.{function} with other arguments than PyTorch's");
    let [storage, offset, shape, strides, rest @ ..] = items else { return Err(invalid()) };
    let storage = storage_of(graph, *storage)?;
    let (stated, extras) = match (function, rest) {
        ("_rebuild_tensor_v3", [_, _, dtype, extras @ ..]) => {
            let Some(("torch", name)) = graph.global(*dtype) else { return Err(invalid()) };
            let elements = ElementType::of_dtype(name).ok_or_else(|| format!("the dtype torch.{name}"))?;
            (Some(elements), extras)
        }
        (_, rest) => (None, rest.get(2..).unwrap_or_default()),
    };
    for bit in ["conj", "neg"] {
        if extras.iter().any(|extra| has_bit(graph, *extra, bit)) {
            return Err(format!("its elements are stored without their `{bit}`, which is not applied yet"));
        }
    }
    let (Some(shape), Some(strides)) = (sizes(graph, *shape), sizes(graph, *strides)) else { return Err(invalid()) };
    let offset = size(*offset).filter(|_| shape.len() == strides.len()).ok_or_else(invalid)?;
    let elements = stated.unwrap_or_else(|| storage.elements.clone());
    Ok(View { storage, elements, offset, shape, strides })
}

/// Whether the metadata of a tensor says that its elements must be conjugated or negated.
fn has_bit(graph: &Graph, extra: Value, bit: &str) -> bool {
    let is_set = |[key, value]: &[Value; 2]| match key {
        Value::Text(key) => graph.text(*key) == Some(bit) && *value == Value::Bool(true),
        _ => false,
    };
    matches!(graph.node(extra), Some(Node::Dict(entries)) if entries.iter().any(is_set))
}

/// Reads the id of a storage: `("storage", class, key, device, count)`, and before PyTorch 1.6 a view of another one.
fn storage_of(graph: &Graph, value: Value) -> Result<Storage, String> {
    let invalid = || "a storage that PyTorch does not describe so".to_owned();
    let id = match graph.node(value) {
        Some(Node::Persistent(id)) => graph.tuple(*id).ok_or_else(invalid)?,
        _ => return Err(invalid()),
    };
    let [Value::Text(kind), class, Value::Text(key), _, count, rest @ ..] = id else { return Err(invalid()) };
    if graph.text(*kind) != Some("storage") || rest.iter().any(|view| *view != Value::None) {
        return Err(invalid());
    }
    let (_, class) = graph.global(*class).ok_or_else(invalid)?;
    let elements = ElementType::of_storage(class).ok_or_else(|| format!("a storage of the class {class}"))?;
    Ok(Storage { key: *key, elements, count: size(*count).ok_or_else(invalid)? })
}

impl<'a> Graph<'a> {
    /// The storages that the pickle refers to: the key, the number of elements and their size. Those that are not
    /// recognised are left out.
    pub(super) fn storages(&self) -> Vec<(&'a [u8], (u64, u64))> {
        let persistent = (0..self.node_count() as u32).map(Value::Node);
        let found = persistent.filter_map(|value| storage_of(self, value).ok());
        found.map(|storage| (self.bytes(storage.key), (storage.count, storage.elements.bytes))).collect()
    }
}

fn size(value: Value) -> Option<u64> {
    match value {
        Value::Int(size) => u64::try_from(size).ok(),
        _ => None,
    }
}

/// The sizes in a tuple, which may be a `torch.Size`.
fn sizes(graph: &Graph, value: Value) -> Option<Vec<u64>> {
    let items = match graph.node(value)? {
        Node::Object(object) if graph.global(object.class) == Some(("torch", "Size")) => {
            graph.tuple(*graph.tuple(object.arguments)?.first()?)?
        }
        _ => graph.tuple(value)?,
    };
    if items.len() > MAX_DIMS {
        return None;
    }
    items.iter().map(|item| size(*item)).collect()
}
