//! The nodes that say how initializers are quantized: MatMulNBits and DequantizeLinear.

use super::fields::{attribute, node};
use super::protobuf::{Message, name};
use crate::index::{Operator, QuantizedNode};
use crate::window::{Stop, Window};
use std::ops::Range;

/// The most inputs of a node that are read: those of MatMulNBits.
const MAX_INPUTS: usize = 5;

/// A node with such an operator. Its inputs are names in its graph.
pub(super) struct NodeInputs {
    operator: Operator,
    inputs: Vec<String>,
}

impl NodeInputs {
    /// Reads a node; `None` for one with another operator.
    pub(super) fn read(window: &Window, range: Range<u64>) -> Result<Option<Self>, Stop> {
        let (mut operator, mut inputs, mut attributes) = (None, Vec::new(), Integers::default());
        let mut message = Message::new(window, range.clone());
        while let Some(field) = message.next()? {
            if field.number == node::OP_TYPE {
                operator = match name(window, &field)? {
                    "MatMulNBits" => Some(Operator::MatMulNBits { rows: 0, columns: 0, bits: 4, block: 0 }),
                    "DequantizeLinear" => Some(Operator::DequantizeLinear { axis: 1, block: 0 }),
                    _ => return Ok(None),
                };
            }
        }
        let Some(operator) = operator else { return Ok(None) };
        let mut message = Message::new(window, range);
        while let Some(field) = message.next()? {
            match field.number {
                node::INPUT if inputs.len() < MAX_INPUTS => inputs.push(name(window, &field)?.to_owned()),
                node::ATTRIBUTE => attributes.read(window, field.bytes()?)?,
                _ => {}
            }
        }
        let operator = match operator {
            Operator::MatMulNBits { .. } => Operator::MatMulNBits {
                rows: attributes.size("N", 0),
                columns: attributes.size("K", 0),
                bits: attributes.size("bits", 4),
                block: attributes.size("block_size", 0),
            },
            Operator::DequantizeLinear { .. } => Operator::DequantizeLinear {
                axis: attributes.get("axis").unwrap_or(1),
                block: attributes.size("block_size", 0),
            },
        };
        Ok(Some(NodeInputs { operator, inputs }))
    }

    /// The length of the names, which the budget of the index covers.
    pub(super) fn name_bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.len() as u64).sum()
    }

    /// What the node says, if its graph has the prefix: an initializer is `own` to it if `is_own` returns so, otherwise
    /// it is one of the main graph, which graphs of branches use as well.
    pub(super) fn stated(&self, prefix: &str, is_own: impl Fn(&str) -> bool) -> Option<QuantizedNode> {
        let place = |at: usize| {
            let input = self.inputs.get(at).filter(|input| !input.is_empty())?;
            let own = format!("{prefix}{input}");
            Some(if is_own(&own) { own } else { input.clone() })
        };
        let [codes, scales, zeros, group_indices] = match self.operator {
            Operator::MatMulNBits { .. } => [place(1), place(2), place(3), place(4)],
            Operator::DequantizeLinear { .. } => [place(0), place(1), place(2), None],
        };
        Some(QuantizedNode { operator: self.operator, codes: codes?, scales: scales?, zeros, group_indices })
    }
}

/// The attributes of a node that are integers.
#[derive(Default)]
struct Integers(Vec<(String, i64)>);

impl Integers {
    fn read(&mut self, window: &Window, range: Range<u64>) -> Result<(), Stop> {
        let (mut own, mut value) = ("", None);
        let mut message = Message::new(window, range);
        while let Some(field) = message.next()? {
            match field.number {
                attribute::NAME => own = name(window, &field)?,
                attribute::INTEGER => value = Some(field.number()?.cast_signed()),
                _ => {}
            }
        }
        self.0.extend(value.map(|value| (own.to_owned(), value)));
        Ok(())
    }

    fn get(&self, attribute: &str) -> Option<i64> {
        self.0.iter().find(|(own, _)| own == attribute).map(|(_, value)| *value)
    }

    /// The value of an attribute that is a size; 0, which no method accepts, for a negative one.
    fn size(&self, attribute: &str, default: u64) -> u64 {
        self.get(attribute).map_or(default, |value| u64::try_from(value).unwrap_or(0))
    }
}
