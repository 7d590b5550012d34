//! Expands sparse tensors to dense ones: the elements of `values` are written to their positions among zeros.

use crate::buffer::Buffer;
use crate::codec::cast::{Cast, converted_dtype};
use crate::dtype::{Block, Dtype, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::sparse::index_bytes;
use crate::index::{Layout, Tensor};
use crate::pipeline::LoadedComponent;
use std::ops::Range;

/// The number of values that are placed at a time.
const STEP_VALUES: u64 = 4096;

/// The size of the windows in which the dense tensor is written. Values in row-major order need each window once. In
/// another order each value may need another window, so windows are small.
const WINDOW_BYTES: u64 = 4 << 10;

/// How a sparse tensor becomes a dense one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SparseExpansion {
    /// The dtype of the dense elements.
    pub(crate) dtype: Dtype,
    /// The size of the dense tensor in bytes.
    pub(crate) byte_length: u64,
    element_bytes: usize,
}

impl SparseExpansion {
    /// The expansion of a sparse tensor to elements of the dtype `to`, or of its own dtype.
    ///
    /// # Errors
    /// `UNSUPPORTED` for another layout, or for values that cannot be converted; `FORMAT` if the shape has more than
    /// 2^64 bytes.
    pub(super) fn of(tensor: &Tensor, to: Option<&Dtype>) -> Result<SparseExpansion> {
        let unsupported = |what: String| {
            let error = Error::new(ErrorKind::Unsupported, what).in_tensor(&tensor.name);
            error.advise("Load its components as they are stored.")
        };
        let values = tensor.components.iter().find(|component| component.role == "values");
        let Some(values) = values.filter(|_| tensor.is_sparse()) else {
            return Err(unsupported(format!("its layout is {}, which cannot be made dense", tensor.layout.name())));
        };
        let converted = to.map(|to| converted_dtype(&values.dtype, to)).transpose();
        let dtype = converted.map_err(|e| e.in_tensor(&tensor.name))?.flatten().unwrap_or(&values.dtype);
        let (Some(Block { elements: 1, bytes }), Some(Block { elements: 1, .. })) =
            (dtype.block(), values.dtype.block())
        else {
            return Err(unsupported(format!("its values are {}, which cannot be made dense", values.dtype)));
        };
        let length = element_count(&tensor.shape).and_then(|elements| dtype.byte_length(elements));
        let byte_length = length.map_err(|e| e.in_tensor(&tensor.name))?.unwrap_or(u64::MAX);
        Ok(SparseExpansion { dtype: dtype.clone(), byte_length, element_bytes: bytes as usize })
    }

    /// Writes the values to their positions in a new buffer, or in `into`, which has the length of the dense tensor.
    /// The indices were checked: see [`check_indices`](crate::pipeline::check_indices).
    ///
    /// # Errors
    /// `UNSUPPORTED` if two values have the same position; `LIMIT` if there is not enough memory.
    pub(super) fn placed<B: Buffer>(
        &self,
        tensor: &Tensor,
        components: &[LoadedComponent<B>],
        into: Option<B>,
    ) -> Result<B> {
        let values = with_role(components, "values")?;
        let value_bytes = values.dtype.block().map_or(1, |block| block.bytes);
        let count = values.buffer.byte_length() / value_bytes;
        let mut positions = Positions::of(tensor, components, count)?;
        let mut dense = DenseWriter::new(self, into)?;
        for first in (0..count).step_by(STEP_VALUES as usize) {
            let step = first..count.min(first + STEP_VALUES);
            let mut elements = read(&values.buffer, step.start * value_bytes..step.end * value_bytes)?;
            if values.dtype != self.dtype {
                let stored = std::mem::take(&mut elements);
                Cast::new(&values.dtype, &self.dtype)?.push(&stored, &mut |cast| {
                    elements.extend_from_slice(cast);
                    Ok(())
                })?;
            }
            for (position, element) in positions.next(step)?.into_iter().zip(elements.chunks_exact(self.element_bytes))
            {
                dense.put(position, element)?;
            }
        }
        dense.finish()
    }
}

/// The positions of the values in row-major order.
enum Positions<'a, B> {
    /// For each dimension the indices of all values, one dimension after another.
    Coordinates { coords: &'a LoadedComponent<B>, shape: &'a [u64], count: u64 },
    /// The columns of the values, and for each row the number of values up to its end.
    Rows { columns: &'a LoadedComponent<B>, width: u64, rows: Rows<'a, B> },
}

/// The current row, and the ends of the rows after it.
struct Rows<'a, B> {
    pointers: &'a LoadedComponent<B>,
    row: u64,
    end: u64,
    /// The ends that were read, of the rows from `row + 1` on.
    ends: std::vec::IntoIter<u64>,
}

impl<'a, B: Buffer> Positions<'a, B> {
    fn of(tensor: &'a Tensor, components: &'a [LoadedComponent<B>], count: u64) -> Result<Self> {
        if tensor.layout == Layout::SparseCoo {
            return Ok(Positions::Coordinates {
                coords: with_role(components, "coords")?,
                shape: &tensor.shape,
                count,
            });
        }
        let (columns, pointers) = (with_role(components, "indices")?, with_role(components, "indptr")?);
        let width = tensor.shape.get(1).copied().unwrap_or(1);
        let end = integers(pointers, 1..2)?.first().copied().unwrap_or(0);
        Ok(Positions::Rows { columns, width, rows: Rows { pointers, row: 0, end, ends: Vec::new().into_iter() } })
    }

    /// The positions of the next values. Positions saturate; those out of bounds are errors of the writer.
    fn next(&mut self, values: Range<u64>) -> Result<Vec<u64>> {
        match self {
            Positions::Coordinates { coords, shape, count } => {
                let mut positions = vec![0u64; (values.end - values.start) as usize];
                for (dimension, size) in shape.iter().enumerate() {
                    let first = *count * dimension as u64;
                    let indices = integers(coords, first + values.start..first + values.end)?;
                    for (position, index) in positions.iter_mut().zip(indices) {
                        *position = position.saturating_mul(*size).saturating_add(index);
                    }
                }
                Ok(positions)
            }
            Positions::Rows { columns, width, rows } => {
                let mut positions = integers(columns, values.clone())?;
                for (position, value) in positions.iter_mut().zip(values) {
                    *position = rows.of(value)?.saturating_mul(*width).saturating_add(*position);
                }
                Ok(positions)
            }
        }
    }
}

impl<B: Buffer> Rows<'_, B> {
    /// The row of a value. Values are requested in order.
    fn of(&mut self, value: u64) -> Result<u64> {
        while value >= self.end {
            self.row += 1;
            self.end = match self.ends.next() {
                Some(end) => end,
                None => {
                    let first = self.row + 1;
                    self.ends = integers(self.pointers, first..first + STEP_VALUES)?.into_iter();
                    self.ends.next().ok_or_else(|| malformed(format!("value {value} is in no row")))?
                }
            };
        }
        Ok(self.row)
    }
}

/// Writes elements of a dense tensor in any order, through a window.
struct DenseWriter<B> {
    dense: B,
    element_bytes: usize,
    /// The offset of the window.
    start: u64,
    window: Vec<u8>,
    /// For each element a bit, whether its value is zero, as that of an element without a value is. Empty if there is
    /// no such value.
    zeros: Vec<u8>,
}

impl<B: Buffer> DenseWriter<B> {
    fn new(expansion: &SparseExpansion, into: Option<B>) -> Result<Self> {
        let SparseExpansion { byte_length, element_bytes, .. } = *expansion;
        let dense = match into {
            None => B::allocate(byte_length)?,
            Some(mut dense) => {
                let zeros = [0; WINDOW_BYTES as usize];
                for at in (0..byte_length).step_by(zeros.len()) {
                    let length = (byte_length - at).min(WINDOW_BYTES) as usize;
                    dense.write(at, zeros.get(..length).unwrap_or_default())?;
                }
                dense
            }
        };
        Ok(DenseWriter { dense, element_bytes, start: 0, window: Vec::new(), zeros: Vec::new() })
    }

    fn put(&mut self, position: u64, element: &[u8]) -> Result<()> {
        let at = position.saturating_mul(self.element_bytes as u64);
        if at.checked_sub(self.start).is_none_or(|offset| offset >= self.window.len() as u64) {
            self.flush()?;
            self.start = at - at % WINDOW_BYTES;
            let end = self.dense.byte_length().min(self.start.saturating_add(WINDOW_BYTES));
            if at >= end {
                return Err(malformed(format!("a value is at position {position}, which is out of bounds")));
            }
            self.window = read(&self.dense, self.start..end)?;
        }
        let has_zero = self.note_zero(position, element.iter().all(|byte| *byte == 0))?;
        let offset = (at - self.start) as usize;
        let place = self.window.get_mut(offset..offset + self.element_bytes).unwrap_or_default();
        if has_zero || place.iter().any(|byte| *byte != 0) {
            let error = Error::new(ErrorKind::Unsupported, format!("two of its values have the position {position}"));
            return Err(
                error.advise("Load its components as they are stored, and add or replace such values yourself.")
            );
        }
        place.copy_from_slice(element);
        Ok(())
    }

    /// Whether the element has a value that is zero. Records one if `is_zero`.
    fn note_zero(&mut self, position: u64, is_zero: bool) -> Result<bool> {
        if is_zero && self.zeros.is_empty() {
            let elements = self.dense.byte_length() / self.element_bytes as u64;
            self.zeros = Buffer::allocate(elements.div_ceil(8))?;
        }
        let bit = 1 << (position % 8);
        let Some(byte) = self.zeros.get_mut((position / 8) as usize) else { return Ok(false) };
        let has_zero = *byte & bit != 0;
        *byte |= if is_zero { bit } else { 0 };
        Ok(has_zero)
    }

    fn flush(&mut self) -> Result<()> {
        self.dense.write(self.start, &self.window)
    }

    fn finish(mut self) -> Result<B> {
        self.flush()?;
        Ok(self.dense)
    }
}

fn with_role<'a, B>(components: &'a [LoadedComponent<B>], role: &str) -> Result<&'a LoadedComponent<B>> {
    let component = components.iter().find(|component| component.role == role);
    component.ok_or_else(|| malformed(format!("it has no component `{role}`")))
}

/// The indices with these numbers, as far as the component has them.
fn integers<B: Buffer>(component: &LoadedComponent<B>, numbers: Range<u64>) -> Result<Vec<u64>> {
    let unsupported = || {
        let LoadedComponent { role, dtype, .. } = component;
        Error::new(ErrorKind::Unsupported, format!("`{role}` are {dtype}, which cannot be read as indices"))
    };
    let width = index_bytes(&component.dtype).ok_or_else(unsupported)?;
    let length = component.buffer.byte_length();
    let at = |number: u64| number.saturating_mul(width as u64).min(length);
    let bytes = read(&component.buffer, at(numbers.start)..at(numbers.end))?;
    let wide = |index: &[u8]| index.iter().rev().fold(0, |wide, byte| wide << 8 | u64::from(*byte));
    Ok(bytes.chunks_exact(width).map(wide).collect())
}

fn read<B: Buffer>(buffer: &B, range: Range<u64>) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
    buffer.inspect(range, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}
