//! Checks the bounds and the order of indices, which may come in pieces.

use super::counts::check_counts;
use super::{element_bytes, is_signed};
use crate::error::{Error, Result, malformed};
use crate::index::values::ValueRule;
use crate::index::{Component, Layout, Tensor};

/// The width in bytes of the widest index.
const MAX_INDEX_BYTES: usize = 8;

/// The checks of the components that have indices, each with the position of its component, the pointers to rows first.
/// `lengths` are the decoded lengths of all components. Indices in an unknown encoding are not checked.
///
/// # Errors
/// As for [`check_counts`].
pub(crate) fn index_checks(tensor: &Tensor, lengths: &[u64]) -> Result<Vec<(usize, IndexCheck)>> {
    if !tensor.is_sparse() {
        return Ok(Vec::new());
    }
    let Tensor { layout, shape, components, .. } = tensor;
    let known: Vec<_> = lengths.iter().copied().map(Some).collect();
    check_counts(layout, shape, components, &known)?;
    let mut checks = Vec::new();
    for (at, (component, length)) in components.iter().zip(lengths).enumerate() {
        let rule = match (layout, &*component.role) {
            (Layout::SparseCsr, "indices") => Rule::Below(shape.get(1).copied().into_iter().collect()),
            (Layout::SparseCsr, "indptr") => Rule::Pointers {
                last: count_of(components, lengths, "indices").or_else(|| count_of(components, lengths, "values")),
                rows: increases(components).then(Vec::new),
            },
            (Layout::SparseCoo, "coords") => Rule::Below(shape.clone()),
            _ => continue,
        };
        let Some(bytes) = element_bytes(component)? else { continue };
        let check = IndexCheck {
            role: component.role.clone().into_owned(),
            bytes: bytes as usize,
            is_signed: is_signed(&component.dtype),
            rule,
            count: length / bytes,
            position: 0,
            previous: 0,
            partial: Vec::new(),
            rows: Vec::new().into_iter(),
            next_row: None,
        };
        checks.push((at, check));
    }
    let (mut sorted, others): (Vec<_>, Vec<_>) =
        checks.into_iter().partition(|(_, check)| matches!(check.rule, Rule::Pointers { .. }));
    sorted.extend(others);
    Ok(sorted)
}

fn increases(components: &[Component]) -> bool {
    components.iter().any(|component| component.rule == Some(ValueRule::IncreasingColumns))
}

/// Checks the indices of one component, in order.
#[derive(Debug)]
pub(crate) struct IndexCheck {
    role: String,
    /// The width of an index.
    bytes: usize,
    is_signed: bool,
    rule: Rule,
    /// The number of indices.
    count: u64,
    /// The number of indices that were checked.
    position: u64,
    previous: u64,
    /// The first bytes of an index whose other bytes come with the next call.
    partial: Vec<u8>,
    /// The positions at which rows begin whose column indices increase, after `next_row`.
    rows: std::vec::IntoIter<u64>,
    /// The position at which the next row begins. `None` if the columns may be in any order.
    next_row: Option<u64>,
}

#[derive(Debug)]
enum Rule {
    /// All indices of the first dimension, then those of the next one. Each is below the size of its dimension.
    Below(Vec<u64>),
    /// Ascending from 0 to the number of values, if that is known. Collects the beginnings of rows, if the columns of
    /// each row must increase.
    Pointers { last: Option<u64>, rows: Option<Vec<u64>> },
}

impl IndexCheck {
    /// The beginnings of the rows, once all pointers were checked.
    pub(crate) fn take_rows(&mut self) -> Option<Vec<u64>> {
        match &mut self.rule {
            Rule::Pointers { rows, .. } => rows.take(),
            Rule::Below(_) => None,
        }
    }

    /// Checks that the column indices of each row increase.
    pub(crate) fn with_rows(&mut self, rows: Vec<u64>) {
        self.rows = rows.into_iter();
        self.next_row = self.rows.next();
    }

    /// Checks the next decoded bytes, which may be split at any position.
    ///
    /// # Errors
    /// `FORMAT` for an index that is out of bounds or out of order.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        if !self.partial.is_empty() {
            let (rest, after) = bytes.split_at(bytes.len().min(self.bytes - self.partial.len()));
            self.partial.extend_from_slice(rest);
            bytes = after;
            if self.partial.len() < self.bytes {
                return Ok(());
            }
            let whole = std::mem::take(&mut self.partial);
            self.index(&whole)?;
        }
        let elements = bytes.chunks_exact(self.bytes);
        self.partial.extend_from_slice(elements.remainder());
        for element in elements {
            self.index(element)?;
        }
        Ok(())
    }

    fn index(&mut self, element: &[u8]) -> Result<()> {
        let mut wide = [0; MAX_INDEX_BYTES];
        for (wide, byte) in wide.iter_mut().zip(element) {
            *wide = *byte;
        }
        let index = u64::from_le_bytes(wide);
        let at = self.position;
        self.position += 1;
        if self.is_signed && element.last().is_some_and(|byte| *byte >= 0x80) {
            return Err(malformed(format!("element {at} of `{}` is negative", self.role)));
        }
        let broken = match &mut self.rule {
            Rule::Below(shape) => {
                let in_each = (self.count / (shape.len() as u64).max(1)).max(1);
                let size = usize::try_from(at / in_each).ok().and_then(|dim| shape.get(dim)).copied().unwrap_or(0);
                match index >= size {
                    true => Some(format!("must be below {size}, the size of its dimension")),
                    false => self.out_of_order(at, index),
                }
            }
            Rule::Pointers { last, rows } => {
                rows.iter_mut().for_each(|rows| rows.push(index));
                let last = last.filter(|last| at + 1 == self.count && *last != index);
                match (at, index, last) {
                    (0, 1.., _) => Some("must be 0".to_owned()),
                    _ if index < self.previous => {
                        Some(format!("must not be below the previous one, {}", self.previous))
                    }
                    (_, _, Some(last)) => Some(format!("must be {last}, the number of values")),
                    _ => None,
                }
            }
        };
        self.previous = index;
        broken.map_or(Ok(()), |rule| Err(self.wrong(at, index, &rule)))
    }

    /// Which rule a column index breaks that is not above the one before it in its row, if the rows are known.
    fn out_of_order(&mut self, at: u64, index: u64) -> Option<String> {
        let next_row = self.next_row.as_mut()?;
        let begins_row = *next_row <= at;
        while *next_row <= at {
            *next_row = self.rows.next().unwrap_or(u64::MAX); // rows may be empty
        }
        let previous = self.previous;
        (!begins_row && index <= previous).then(|| format!("must be above the one before it in its row, {previous}"))
    }

    fn wrong(&self, at: u64, index: u64, rule: &str) -> Error {
        malformed(format!("element {at} of `{}` is {index}, but {rule}", self.role))
    }
}

fn count_of(components: &[Component], lengths: &[u64], role: &str) -> Option<u64> {
    let (component, length) = components.iter().zip(lengths).find(|(component, _)| &*component.role == role)?;
    Some(length / component.dtype.block()?.bytes)
}
