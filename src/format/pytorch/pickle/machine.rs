//! The machine of pickles: a stack, marks in it, and a memo.

use super::graph::{Graph, Node, Span, Value};
use super::opcode;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format::pytorch::chunked::Chunked;
use crate::values::budget::Budget;

/// The size of a value on the stack or in a list. A vector that grows has twice the capacity that it needs, and the one
/// before it, which is copied, half of that.
const GROWING_BYTES: u64 = 3 * VALUE_BYTES;

/// The size of a value.
const VALUE_BYTES: u64 = size_of::<Value>() as u64;

/// The size of a node.
const NODE_BYTES: u64 = size_of::<Node>() as u64;

/// The overhead of an allocation.
const ALLOCATION_BYTES: u64 = 8;

/// The newest protocol.
const MAX_PROTOCOL: u8 = 5;

/// A pickle that was read.
#[derive(Debug)]
pub(in crate::format::pytorch) struct Loaded<'a> {
    pub(in crate::format::pytorch) graph: Graph<'a>,
    pub(in crate::format::pytorch) root: Value,
    /// The number of bytes of the pickle.
    pub(in crate::format::pytorch) length: u64,
}

/// Why a pickle was not read.
#[derive(Debug)]
pub(in crate::format::pytorch) enum Failure {
    /// The bytes end before the pickle does.
    Ended,
    Failed(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Failed(error)
    }
}

/// Reads the pickle that `bytes` begin with, which are at the offset `start` of the file, if they are stored there as
/// they are.
///
/// # Errors
/// [`Failure::Ended`]; `FORMAT` for an invalid pickle; `UNSUPPORTED` for other protocols; `LIMIT` if the objects take
/// more memory than the budget allows.
pub(in crate::format::pytorch) fn load<'a>(
    bytes: &'a [u8],
    start: Option<u64>,
    budget: &mut Budget,
) -> Result<Loaded<'a>, Failure> {
    let graph = Graph { bytes, nodes: Chunked::default() };
    let mut machine = Machine { graph, at: 0, stack: Vec::new(), marks: Vec::new(), memo: Chunked::default(), budget };
    loop {
        let at = machine.at;
        let place = |error: Error| match start {
            Some(start) => error.at(start + at as u64..start + at as u64 + 1),
            None => error,
        };
        let opcode = machine.u8()?;
        if opcode == opcode::STOP {
            let root = machine.pop().map_err(place)?;
            return Ok(Loaded { graph: machine.graph, root, length: machine.at as u64 });
        }
        machine.step(opcode).map_err(|failure| match failure {
            Failure::Failed(error) => Failure::Failed(place(error)),
            Failure::Ended => Failure::Ended,
        })?;
    }
}

pub(super) struct Machine<'a, 'b> {
    pub(super) graph: Graph<'a>,
    at: usize,
    stack: Vec<Value>,
    /// The heights of the stack at marks.
    marks: Vec<u32>,
    memo: Chunked<Value>,
    pub(super) budget: &'b mut Budget,
}

impl<'a> Machine<'a, '_> {
    fn step(&mut self, code: u8) -> Result<(), Failure> {
        match code {
            opcode::PROTO => {
                let protocol = self.u8()?;
                if protocol > MAX_PROTOCOL {
                    let what = format!("a pickle of protocol {protocol}; weightstream reads 2 to {MAX_PROTOCOL}");
                    return Err(Error::new(ErrorKind::Unsupported, what).into());
                }
            }
            opcode::FRAME => _ = self.take(8)?,
            opcode::MARK => {
                self.charge(GROWING_BYTES)?;
                self.marks.push(self.stack.len() as u32);
            }
            opcode::POP if self.marks.last().copied() == Some(self.stack.len() as u32) => _ = self.marks.pop(),
            opcode::POP => _ = self.pop()?,
            opcode::POP_MARK => drop(self.pop_to_mark()?),
            opcode::DUP => {
                let top = self.pop()?;
                self.push(top)?;
                self.push(top)?;
            }
            _ if opcode::OLD.contains(&code) => {
                let what = "a pickle of protocol 0 or 1; weightstream reads 2 to 5";
                let error = Error::new(ErrorKind::Unsupported, what);
                return Err(error.advise("Save it again with `torch.save`, with its default protocol.").into());
            }
            _ => {
                let is_read = self.memo_step(code)? || self.constant(code)?;
                if !is_read && !self.container(code)? && !self.call(code)? {
                    return Err(malformed(format!("the opcode 0x{code:02x} is not one of a pickle")).into());
                }
            }
        }
        Ok(())
    }

    /// Remembers or recalls a value. Returns whether the opcode does so.
    fn memo_step(&mut self, code: u8) -> Result<bool, Failure> {
        match code {
            opcode::MEMOIZE => self.remember(self.memo.len())?,
            opcode::BINPUT => {
                let index = self.u8()?.into();
                self.remember(index)?;
            }
            opcode::LONG_BINPUT => {
                let index = self.length(4)?;
                self.remember(index)?;
            }
            opcode::BINGET => {
                let index = self.u8()?.into();
                self.recall(index)?;
            }
            opcode::LONG_BINGET => {
                let index = self.length(4)?;
                self.recall(index)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Pushes a constant. Returns whether the opcode is that of one.
    fn constant(&mut self, code: u8) -> Result<bool, Failure> {
        let value = match code {
            opcode::NONE => Value::None,
            opcode::NEWTRUE => Value::Bool(true),
            opcode::NEWFALSE => Value::Bool(false),
            opcode::BININT => Value::Int(i32::from_le_bytes(self.array()?).into()),
            opcode::BININT1 => Value::Int(self.u8()?.into()),
            opcode::BININT2 => Value::Int(u16::from_le_bytes(self.array()?).into()),
            opcode::BINFLOAT => Value::Float(f64::from_be_bytes(self.array()?)),
            opcode::LONG1 => self.long(1)?,
            opcode::LONG4 => self.long(4)?,
            opcode::SHORT_BINUNICODE | opcode::SHORT_BINSTRING => Value::Text(self.sized(1)?),
            opcode::BINUNICODE | opcode::BINSTRING => Value::Text(self.sized(4)?),
            opcode::BINUNICODE8 => Value::Text(self.sized(8)?),
            opcode::SHORT_BINBYTES => self.sized(1).map(|_| Value::Bytes)?,
            opcode::BINBYTES => self.sized(4).map(|_| Value::Bytes)?,
            opcode::BINBYTES8 | opcode::BYTEARRAY8 => self.sized(8).map(|_| Value::Bytes)?,
            _ => return Ok(false),
        };
        self.push(value)?;
        Ok(true)
    }

    /// An integer whose number of bytes is stated in `width` bytes.
    fn long(&mut self, width: usize) -> Result<Value, Failure> {
        let span = self.sized(width)?;
        let bytes = self.graph.bytes(span);
        let sign = if bytes.last().is_some_and(|last| *last >= 0x80) { 0xff } else { 0 };
        let mut wide = [sign; 8];
        let Some(low) = wide.get_mut(..bytes.len()) else { return Ok(Value::BigInt) };
        low.copy_from_slice(bytes);
        Ok(Value::Int(i64::from_le_bytes(wide)))
    }

    /// The bytes whose length is stated in `width` bytes.
    fn sized(&mut self, width: usize) -> Result<Span, Failure> {
        let length = self.length(width)?;
        let start = self.at;
        self.take(length)?;
        Ok(self.span(start, self.at))
    }

    /// The bytes up to the next line feed, which is stepped over.
    pub(super) fn line(&mut self) -> Result<Span, Failure> {
        let start = self.at;
        let rest = self.graph.bytes.get(start..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == b'\n').ok_or(Failure::Ended)?;
        self.take(length + 1)?;
        Ok(self.span(start, start + length))
    }

    /// Callers limit pickles to fewer than 2^32 bytes.
    fn span(&self, start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    fn length(&mut self, width: usize) -> Result<usize, Failure> {
        let mut wide = [0; 8];
        let bytes = self.take(width)?;
        wide.iter_mut().zip(bytes).for_each(|(wide, byte)| *wide = *byte);
        usize::try_from(u64::from_le_bytes(wide)).map_err(|_| Failure::Ended)
    }

    fn u8(&mut self) -> Result<u8, Failure> {
        self.array().map(u8::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        self.take(N)?.try_into().map_err(|_| Failure::Ended)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Failure> {
        let end = self.at.checked_add(length).ok_or(Failure::Ended)?;
        let taken = self.graph.bytes.get(self.at..end).ok_or(Failure::Ended)?;
        self.at = end;
        Ok(taken)
    }

    /// Pickles number what they remember consecutively, so that a number is smaller than that of the bytes before it.
    fn remember(&mut self, index: usize) -> Result<()> {
        let top = self.stack.last().copied().ok_or_else(empty)?;
        if index > self.at {
            return Err(malformed(format!("the memo of the pickle has no {index} entries yet")));
        }
        while self.memo.len() <= index {
            self.charge(VALUE_BYTES)?;
            self.memo.push(Value::None);
        }
        if let Some(slot) = self.memo.get_mut(index) {
            *slot = top;
        }
        Ok(())
    }

    fn recall(&mut self, index: usize) -> Result<()> {
        let missing = || malformed(format!("the pickle refers to the entry {index} of its memo, which is not set"));
        let value = self.memo.get(index).copied().ok_or_else(missing)?;
        self.push(value)
    }

    /// Counts the memory of the stack only while it grows.
    pub(super) fn push(&mut self, value: Value) -> Result<()> {
        if self.stack.len() == self.stack.capacity() {
            self.charge(self.stack.len().max(4) as u64 * GROWING_BYTES)?;
        }
        self.stack.push(value);
        Ok(())
    }

    /// Adds a node, and pushes it.
    pub(super) fn push_node(&mut self, node: Node) -> Result<()> {
        self.charge(NODE_BYTES)?;
        let number = self.graph.nodes.len() as u32;
        self.graph.nodes.push(node);
        self.push(Value::Node(number))
    }

    /// Takes the top of the stack, above the last mark.
    pub(super) fn pop(&mut self) -> Result<Value> {
        let floor = self.marks.last().map_or(0, |mark| *mark as usize);
        if self.stack.len() <= floor {
            return Err(empty());
        }
        self.stack.pop().ok_or_else(empty)
    }

    pub(super) fn top(&self) -> Result<Value> {
        self.stack.last().copied().ok_or_else(empty)
    }

    /// Takes the values above the last mark, and the mark.
    pub(super) fn pop_to_mark(&mut self) -> Result<Vec<Value>> {
        let mark = self.marks.pop().ok_or_else(|| malformed("the pickle takes values up to a mark that is not set"))?;
        let count = self.stack.len().saturating_sub(mark as usize);
        self.charge_values(count)?;
        Ok(self.stack.drain(self.stack.len() - count..).collect())
    }

    pub(super) fn charge(&mut self, bytes: u64) -> Result<()> {
        self.budget.bytes(bytes, 0)
    }

    /// Counts the values of a container of constant length.
    pub(super) fn charge_values(&mut self, count: usize) -> Result<()> {
        self.charge(VALUE_BYTES.saturating_mul(count as u64).saturating_add(ALLOCATION_BYTES))
    }

    /// Counts values that are added to a container.
    pub(super) fn charge_growth(&mut self, count: usize) -> Result<()> {
        self.charge(GROWING_BYTES.saturating_mul(count as u64))
    }
}

fn empty() -> Error {
    malformed("the pickle takes a value from an empty stack")
}
