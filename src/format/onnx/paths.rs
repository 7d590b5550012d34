//! The paths of graphs, with which the names of their tensors begin.

use super::fields::{attribute, function, node, training};
use super::protobuf::{MAX_NAME_BYTES, Message, name};
use crate::error::{Error, ErrorKind, Result};
use crate::window::{Stop, Window};
use std::ops::Range;
use std::rc::Rc;

/// The maximum depth of subgraphs. Real models nest two or three. Bounds the messages that are open at once.
pub(super) const MAX_DEPTH: usize = 32;

/// The attributes of a node, and the name of its first output, which is unique in its graph.
pub(super) struct Attributes {
    output: Rc<str>,
    /// The last one first.
    pub(super) all: Vec<Range<u64>>,
}

impl Attributes {
    pub(super) fn of_node(window: &Window, range: Range<u64>) -> Result<Self, Stop> {
        let (mut output, mut all) = ("", Vec::new());
        let mut message = Message::new(window, range);
        while let Some(field) = message.next()? {
            match field.number {
                node::OUTPUT if output.is_empty() => output = name(window, &field)?,
                node::ATTRIBUTE => all.push(field.bytes()?),
                _ => {}
            }
        }
        all.reverse();
        Ok(Attributes { output: output.into(), all })
    }

    /// The path of an attribute of a node whose graph has this prefix.
    pub(super) fn path_of(&self, prefix: &Rc<str>, attribute: Range<u64>) -> AttributePath {
        AttributePath { prefix: Rc::clone(prefix), output: Rc::clone(&self.output), attribute }
    }
}

/// The path of an attribute, which the names of tensors in its graphs begin with.
pub(super) struct AttributePath {
    prefix: Rc<str>,
    output: Rc<str>,
    attribute: Range<u64>,
}

impl AttributePath {
    /// The path. Few attributes have graphs, so that the name of the attribute is read when it is needed.
    pub(super) fn read(&self, window: &Window) -> Result<String, Stop> {
        let mut message = Message::new(window, self.attribute.clone());
        let mut own = "";
        while let Some(field) = message.next()? {
            if field.number == attribute::NAME {
                own = name(window, &field)?;
            }
        }
        Ok(format!("{}{}/{own}", self.prefix, self.output))
    }
}

/// What the names of tensors in the body of a function begin with.
pub(super) fn function_prefix(window: &Window, range: Range<u64>) -> Result<String, Stop> {
    let (mut domain, mut own, mut overload) = ("", "", "");
    let mut message = Message::new(window, range);
    while let Some(field) = message.next()? {
        match field.number {
            function::NAME => own = name(window, &field)?,
            function::DOMAIN => domain = name(window, &field)?,
            function::OVERLOAD => overload = name(window, &field)?,
            _ => {}
        }
    }
    let separator = if overload.is_empty() { "" } else { ":" };
    Ok(format!("{domain}.{own}{separator}{overload}/"))
}

/// What the names of tensors in a graph of training information begin with; `None` for a field that is no graph.
pub(super) fn training_prefix(number: usize, field: u32) -> Option<String> {
    let graph = match field {
        training::INITIALIZATION => "initialization",
        training::ALGORITHM => "algorithm",
        _ => return None,
    };
    Some(format!("training_info.{number}.{graph}/"))
}

/// Checks the path and the depth of a graph before it is read.
pub(super) fn check_path(prefix: &str, depth: usize) -> Result<()> {
    let what = match prefix.len() as u64 {
        0..=MAX_NAME_BYTES if depth <= MAX_DEPTH => return Ok(()),
        0..=MAX_NAME_BYTES => format!("its graphs are nested more than {MAX_DEPTH} deep"),
        length => format!("the path of a graph has {length} bytes; the limit is {MAX_NAME_BYTES}"),
    };
    Err(Error::new(ErrorKind::Limit, what))
}
