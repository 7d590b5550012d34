//! Checks the indices of sparse tensors: their number, bounds and order.

use super::values::ValueRule;
use super::{Component, Layout, Tensor};
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};

/// The width in bytes of the widest index.
const MAX_INDEX_BYTES: usize = 8;

impl Tensor {
    /// Whether the tensor has indices that [`index_checks`] can check.
    pub(crate) fn is_sparse(&self) -> bool {
        matches!(self.layout, Layout::SparseCsr | Layout::SparseCoo)
    }
}

/// The number of values that any shape may have: tools also write tensors in COO that have several values at one place.
const FEW_VALUES: u64 = 4096;

/// Checks the counts of values and indices of a sparse tensor. `lengths` are the decoded lengths of its components, as
/// far as they are known.
///
/// # Errors
/// `FORMAT` if a count does not match the shape or the others, if there are many more values than the shape has
/// elements, or if a component does not have whole elements.
pub(crate) fn check_counts(
    layout: &Layout,
    shape: &[u64],
    components: &[Component],
    lengths: &[Option<u64>],
) -> Result<()> {
    let (index_role, each) = match (layout, shape) {
        (Layout::SparseCsr, [_, _]) => ("indices", 1),
        (Layout::SparseCsr, _) => {
            return Err(malformed(format!("its layout is sparse_csr, which does not allow the shape {shape:?}")));
        }
        (Layout::SparseCoo, _) => ("coords", shape.len() as u64),
        _ => return check_claims(shape, components, lengths),
    };
    // What a small shape needs is known before anything is decoded.
    let most = element_count(shape)?;
    let (mut values, mut indices) = (None, None);
    for (component, length) in components.iter().zip(lengths) {
        let (Some(bytes), Some(length)) = (element_bytes(component)?, *length) else { continue };
        if !length.is_multiple_of(bytes) {
            let Component { role, dtype, range, .. } = component;
            let what = format!("`{role}` has {length} bytes, which are not whole elements of {dtype}");
            return Err(malformed(what).at(range.clone()));
        }
        let count = length / bytes;
        match &*component.role {
            "values" => values = Some(count),
            "indptr" => {
                let needed = shape.first().map_or(1, |rows| rows.saturating_add(1));
                if count != needed {
                    return Err(malformed(format!("`indptr` has {count} elements, but its tensor needs {needed}")));
                }
            }
            role if role == index_role => indices = Some(count),
            _ => {}
        }
    }
    if let Some(count) =
        values.max(indices.map(|indices| indices / each.max(1))).filter(|count| *count > most.max(FEW_VALUES))
    {
        return Err(malformed(format!("it has {count} values, but its shape {shape:?} has only {most} elements")));
    }
    match (values, indices) {
        (Some(values), Some(indices)) if values.checked_mul(each) != Some(indices) => {
            Err(malformed(format!("it has {values} values but {indices} {index_role}; each needs {each}")))
        }
        _ => Ok(()),
    }
}

/// The decoded bytes that a compressed component of an unknown layout or dtype may have besides those for each element:
/// tables, such as codebooks.
const OTHER_BYTES: u64 = 16 << 20;

/// The decoded bytes that such a component may have for each element of the shape. Prevents a few kilobytes that
/// describe a small tensor from being decoded to gigabytes.
const OTHER_BYTES_PER_ELEMENT: u64 = 64;

/// Checks the decoded lengths that compressed components claim, if the layout does not determine them.
fn check_claims(shape: &[u64], components: &[Component], lengths: &[Option<u64>]) -> Result<()> {
    let most = element_count(shape)?.saturating_mul(OTHER_BYTES_PER_ELEMENT).saturating_add(OTHER_BYTES);
    for (component, length) in components.iter().zip(lengths) {
        let Component { role, range, encoding, .. } = component;
        if let Some(length) = length.filter(|length| *length > most && !encoding.keeps_positions()) {
            let what =
                format!("`{role}` claims to decode to {length} bytes; the limit for the shape {shape:?} is {most}");
            return Err(Error::new(ErrorKind::Limit, what).at(range.clone()));
        }
    }
    Ok(())
}

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

/// The width of an element; `None` if the dtype is not known, as that of bytes in an unknown encoding.
fn element_bytes(component: &Component) -> Result<Option<u64>> {
    let Component { role, dtype, range, .. } = component;
    let is_index = matches!(&**role, "indices" | "indptr" | "coords");
    let is_integer = index_bytes(dtype).is_some();
    match dtype.block() {
        Some(block) if block.elements == 1 && (is_integer || !is_index) => Ok(Some(block.bytes)),
        Some(_) if is_index => Err(malformed(format!("`{role}` are {dtype}, but must be integers")).at(range.clone())),
        _ => Ok(None),
    }
}

/// The width of an index; `None` for a dtype that is not an integer.
pub(crate) fn index_bytes(dtype: &Dtype) -> Option<usize> {
    let is_integer = is_signed(dtype) || matches!(dtype, Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64);
    dtype.block().filter(|_| is_integer).map(|block| block.bytes as usize)
}

fn is_signed(dtype: &Dtype) -> bool {
    matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64)
}

fn count_of(components: &[Component], lengths: &[u64], role: &str) -> Option<u64> {
    let (component, length) = components.iter().zip(lengths).find(|(component, _)| &*component.role == role)?;
    Some(length / component.dtype.block()?.bytes)
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A tensor, and the outcome of its checks if the bytes come in chunks of `chunk` bytes.
    fn outcome(layout: Layout, shape: &[u64], parts: &[(&'static str, Dtype, Vec<u8>)], chunk: usize) -> String {
        let component = |(role, dtype, bytes): &(&'static str, Dtype, Vec<u8>)| Component {
            role: (*role).into(),
            rule: (*dtype == Dtype::U32 && *role == "indices").then_some(ValueRule::IncreasingColumns),
            ..Component::raw(dtype.clone(), 0..bytes.len() as u64)
        };
        let components: Vec<_> = parts.iter().map(component).collect();
        let data = Component::raw(Dtype::F32, 0..0);
        let dense = Tensor::dense("t".to_owned(), Dtype::F32, shape.to_vec(), data);
        let tensor = Tensor { layout, components, ..dense };
        let lengths: Vec<_> = parts.iter().map(|(.., bytes)| bytes.len() as u64).collect();
        let check = || {
            let mut rows = None;
            for (at, mut check) in index_checks(&tensor, &lengths)? {
                rows.take().into_iter().for_each(|rows| check.with_rows(rows));
                parts[at].2.chunks(chunk).try_for_each(|bytes| check.push(bytes))?;
                rows = check.take_rows();
            }
            Ok(())
        };
        check().map_or_else(|error: Error| error.what, |()| "ok".to_owned())
    }

    fn csr(indices: &[u16], indptr: &[i32], chunk: usize) -> String {
        let indices: Vec<_> = indices.iter().flat_map(|index| index.to_le_bytes()).collect();
        let indptr: Vec<_> = indptr.iter().flat_map(|index| index.to_le_bytes()).collect();
        let values = vec![0; indices.len() / 2];
        let parts = [("values", Dtype::U8, values), ("indices", Dtype::U16, indices), ("indptr", Dtype::I32, indptr)];
        outcome(Layout::SparseCsr, &[3, 300], &parts, chunk)
    }

    fn coo(coords: &[u8], values: usize) -> String {
        let parts = [("values", Dtype::U8, vec![0; values]), ("coords", Dtype::U8, coords.to_vec())];
        outcome(Layout::SparseCoo, &[2, 5], &parts, 1)
    }

    #[test]
    fn indices_of_rows_are_checked() {
        assert_eq!(csr(&[0, 299, 1], &[0, 2, 2, 3], 3), "ok");
        assert_eq!(csr(&[], &[0, 0, 0, 0], 3), "ok");
        let wrong = csr(&[0, 300, 1], &[0, 2, 2, 3], 3);
        assert_eq!(wrong, "element 1 of `indices` is 300, but must be below 300, the size of its dimension");
        assert_eq!(csr(&[0], &[1, 1, 1, 1], 3), "element 0 of `indptr` is 1, but must be 0");
        assert_eq!(
            csr(&[0], &[0, 1, 0, 1], 3),
            "element 2 of `indptr` is 0, but must not be below the previous one, 1"
        );
        assert_eq!(csr(&[0], &[0, 0, 0, 2], 3), "element 3 of `indptr` is 2, but must be 1, the number of values");
        assert_eq!(csr(&[0], &[0, 0, -1, 1], 3), "element 2 of `indptr` is negative");
        assert_eq!(csr(&[0], &[0, 1, 1], 3), "`indptr` has 3 elements, but its tensor needs 4");
    }

    #[test]
    fn coordinates_are_checked_against_their_dimension() {
        assert_eq!(coo(&[0, 1, 1, 4, 0, 3], 3), "ok");
        assert_eq!(coo(&[], 0), "ok");
        assert_eq!(coo(&[0, 2, 4, 0], 2), "element 1 of `coords` is 2, but must be below 2, the size of its dimension");
        assert_eq!(coo(&[0, 1, 4, 5], 2), "element 3 of `coords` is 5, but must be below 5, the size of its dimension");
        assert_eq!(coo(&[0, 1, 4], 2), "it has 2 values but 3 coords; each needs 2");
    }

    #[test]
    fn indices_must_be_whole_integers() {
        let csr = |dtype: Dtype, bytes: usize| {
            let parts = [("values", Dtype::U8, vec![0]), ("indices", dtype, vec![0; bytes])];
            outcome(Layout::SparseCsr, &[1, 1], &parts, 1)
        };
        assert_eq!(csr(Dtype::F32, 4), "`indices` are F32, but must be integers");
        assert_eq!(csr(Dtype::U32, 5), "`indices` has 5 bytes, which are not whole elements of U32");
        assert_eq!(csr(Dtype::Other("u64 in lz9".into()), 5), "ok", "what cannot be decoded cannot be checked");
    }

    #[test]
    fn columns_of_a_row_increase_if_the_format_requires_it() {
        let csr = |indices: &[u32], indptr: &[u32]| {
            let bytes = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
            let values = vec![0; indices.len()];
            let parts = [
                ("indices", Dtype::U32, bytes(indices)),
                ("indptr", Dtype::U32, bytes(indptr)),
                ("values", Dtype::U8, values),
            ];
            outcome(Layout::SparseCsr, &[4, 9], &parts, 3)
        };
        assert_eq!(csr(&[1, 5, 0, 8, 3], &[0, 2, 2, 4, 5]), "ok");
        assert_eq!(
            csr(&[1, 5, 0, 8, 3], &[0, 1, 1, 4, 5]),
            "element 2 of `indices` is 0, but must be above the one before it in its row, 5"
        );
        assert_eq!(
            csr(&[1, 1], &[0, 2, 2, 2, 2]),
            "element 1 of `indices` is 1, but must be above the one before it in its row, 1"
        );
    }

    #[test]
    fn there_are_at_most_as_many_values_as_elements() {
        let claimed = |layout: Layout, index_role: &'static str| {
            let part = |role: &'static str, dtype| Component { role: role.into(), ..Component::raw(dtype, 0..10) };
            let components = [part("values", Dtype::F32), part(index_role, Dtype::U64)];
            check_counts(&layout, &[3, 4], &components, &[Some(1 << 30), Some(1 << 31)]).unwrap_err().what
        };
        let what = "it has 268435456 values, but its shape [3, 4] has only 12 elements";
        assert_eq!(claimed(Layout::SparseCsr, "indices"), what);
        assert_eq!(claimed(Layout::SparseCoo, "coords"), what);
    }

    #[test]
    fn rows_need_a_matrix() {
        let wrong = outcome(Layout::SparseCsr, &[3], &[], 1);
        assert_eq!(wrong, "its layout is sparse_csr, which does not allow the shape [3]");
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_outcome(
            indices in proptest::collection::vec(0u16..310, 0..20),
            indptr in proptest::collection::vec(0i32..20, 4),
            chunk in 1usize..20,
        ) {
            prop_assert_eq!(csr(&indices, &indptr, chunk), csr(&indices, &indptr, 1000));
        }
    }
}
