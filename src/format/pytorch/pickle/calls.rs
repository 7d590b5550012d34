//! The opcodes that build containers and objects.

use super::graph::{Node, Object, Value};
use super::machine::{Failure, Machine};
use super::opcode;
use crate::error::{Result, malformed};

/// The size of an object beside its node.
const OBJECT_BYTES: u64 = size_of::<Object>() as u64 + 8;

impl Machine<'_, '_> {
    /// Builds or extends a container. Returns whether the opcode does so.
    pub(super) fn container(&mut self, code: u8) -> Result<bool> {
        match code {
            opcode::EMPTY_TUPLE => self.push_node(Node::Tuple(Box::default()))?,
            opcode::TUPLE1 => self.tuple_of(1)?,
            opcode::TUPLE2 => self.tuple_of(2)?,
            opcode::TUPLE3 => self.tuple_of(3)?,
            opcode::TUPLE => {
                let items = self.pop_to_mark()?;
                self.push_node(Node::Tuple(items.into()))?;
            }
            opcode::EMPTY_LIST | opcode::EMPTY_SET => self.push_node(Node::List(Vec::new()))?,
            opcode::LIST | opcode::FROZENSET => {
                let items = self.pop_to_mark()?;
                self.push_node(Node::List(items))?;
            }
            opcode::EMPTY_DICT => self.push_node(Node::Dict(Vec::new()))?,
            opcode::DICT => {
                let items = self.pop_to_mark()?;
                self.push_node(Node::Dict(Vec::new()))?;
                self.set(items)?;
            }
            opcode::APPEND => {
                let item = self.pop()?;
                self.extend(vec![item])?;
            }
            opcode::APPENDS | opcode::ADDITEMS => {
                let items = self.pop_to_mark()?;
                self.extend(items)?;
            }
            opcode::SETITEM => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(vec![key, value])?;
            }
            opcode::SETITEMS => {
                let items = self.pop_to_mark()?;
                self.set(items)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Names something, or records a call of what is named. Returns whether the opcode does so.
    pub(super) fn call(&mut self, code: u8) -> Result<bool, Failure> {
        match code {
            opcode::GLOBAL => {
                let (module, name) = (self.line()?, self.line()?);
                self.push_node(Node::Global { module, name })?;
            }
            opcode::STACK_GLOBAL => {
                let (Value::Text(name), Value::Text(module)) = (self.pop()?, self.pop()?) else {
                    return Err(malformed("the pickle names something by other values than texts").into());
                };
                self.push_node(Node::Global { module, name })?;
            }
            opcode::BINPERSID => {
                let id = self.pop()?;
                self.push_node(Node::Persistent(id))?;
            }
            opcode::REDUCE | opcode::NEWOBJ => {
                let (arguments, class) = (self.pop()?, self.pop()?);
                self.push_object(class, arguments)?;
            }
            opcode::NEWOBJ_EX => {
                let (_, arguments, class) = (self.pop()?, self.pop()?, self.pop()?);
                self.push_object(class, arguments)?;
            }
            opcode::BUILD => {
                let state = self.pop()?;
                if let Node::Object(object) = self.top_node()? {
                    object.state = state;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn tuple_of(&mut self, count: usize) -> Result<()> {
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(self.pop()?);
        }
        items.reverse();
        self.charge_values(count)?;
        self.push_node(Node::Tuple(items.into()))
    }

    fn push_object(&mut self, class: Value, arguments: Value) -> Result<()> {
        self.charge(OBJECT_BYTES)?;
        let (items, entries) = (Vec::new(), Vec::new());
        self.push_node(Node::Object(Box::new(Object { class, arguments, state: Value::None, items, entries })))
    }

    /// Appends items to the list on the top of the stack.
    fn extend(&mut self, added: Vec<Value>) -> Result<()> {
        self.charge_growth(added.len())?;
        match self.top_node()? {
            Node::List(items) => items.extend(added),
            Node::Object(object) => object.items.extend(added),
            _ => return Err(malformed("the pickle appends to something that is no list")),
        }
        Ok(())
    }

    /// Sets keys and values, in turn, of the dictionary on the top of the stack.
    fn set(&mut self, added: Vec<Value>) -> Result<()> {
        self.charge_growth(added.len())?;
        let (pairs, []) = added.as_chunks::<2>() else {
            return Err(malformed("the pickle sets a key without a value"));
        };
        match self.top_node()? {
            Node::Dict(entries) => entries.extend(pairs),
            Node::Object(object) => object.entries.extend(pairs),
            _ => return Err(malformed("the pickle sets items of something that is no dictionary")),
        }
        Ok(())
    }

    fn top_node(&mut self) -> Result<&mut Node> {
        let top = self.top()?;
        let Value::Node(number) = top else { return Err(malformed("the pickle changes a value that cannot change")) };
        self.graph.nodes.get_mut(number as usize).ok_or_else(|| malformed("the pickle refers to no value"))
    }
}
