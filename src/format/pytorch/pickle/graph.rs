//! The objects of a pickle. They refer to each other by number, so that any pickle, also one with cycles, is released
//! without recursion; texts and names stay in its bytes.

use crate::format::pytorch::chunked::Chunked;
use std::ops::Range;

/// Bytes of the pickle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::format::pytorch) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::format::pytorch) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// An integer that has more than 64 bits.
    BigInt,
    Float(f64),
    Text(Span),
    Bytes,
    /// The number of a node.
    Node(u32),
}

/// A value that contains others, or is referred to.
#[derive(Debug)]
pub(in crate::format::pytorch) enum Node {
    /// The name of a class or function, in its module.
    Global {
        module: Span,
        name: Span,
    },
    Tuple(Box<[Value]>),
    /// A list or a set.
    List(Vec<Value>),
    Dict(Vec<[Value; 2]>),
    /// What something outside of the pickle has, such as a storage, by its id.
    Persistent(Value),
    Object(Box<Object>),
}

/// The result of a call.
#[derive(Debug)]
pub(in crate::format::pytorch) struct Object {
    /// What is called.
    pub(in crate::format::pytorch) class: Value,
    /// The arguments, usually a tuple.
    pub(in crate::format::pytorch) arguments: Value,
    /// The attributes, if they are set.
    pub(in crate::format::pytorch) state: Value,
    /// The items that are appended, of an object that is a list.
    pub(in crate::format::pytorch) items: Vec<Value>,
    /// The entries that are set, of an object that is a dictionary.
    pub(in crate::format::pytorch) entries: Vec<[Value; 2]>,
}

/// All objects of a pickle.
#[derive(Debug)]
pub(in crate::format::pytorch) struct Graph<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) nodes: Chunked<Node>,
}

impl<'a> Graph<'a> {
    /// Releases all objects, but not the texts.
    pub(in crate::format::pytorch) fn without_nodes(self) -> Self {
        Graph { nodes: Chunked::default(), ..self }
    }

    /// The number of nodes.
    pub(in crate::format::pytorch) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The bytes of a text or name.
    pub(in crate::format::pytorch) fn bytes(&self, span: Span) -> &'a [u8] {
        let Range { start, end } = span.start as usize..span.end as usize;
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// A text or name; `None` if it is not UTF-8.
    pub(in crate::format::pytorch) fn text(&self, span: Span) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(span)).ok()
    }

    /// The node of a value; `None` for a value without one.
    pub(in crate::format::pytorch) fn node(&self, value: Value) -> Option<&Node> {
        match value {
            Value::Node(number) => self.nodes.get(number as usize),
            _ => None,
        }
    }

    /// The module and the name of a class or function.
    pub(in crate::format::pytorch) fn global(&self, value: Value) -> Option<(&'a str, &'a str)> {
        match self.node(value)? {
            Node::Global { module, name } => Some((self.text(*module)?, self.text(*name)?)),
            _ => None,
        }
    }

    /// The items of a tuple.
    pub(in crate::format::pytorch) fn tuple(&self, value: Value) -> Option<&[Value]> {
        match self.node(value)? {
            Node::Tuple(items) => Some(items),
            _ => None,
        }
    }
}
