//! Computes the values of quantized tensors whose codes and scales are components, a few rows at a time.

use crate::buffer::Buffer;
use crate::codec::cast::{Kind, encoder_of, kind_of};
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Bytes, Component, Encoding, Quantized, Tensor, matrix_of};
use crate::pipeline::LoadedComponent;
use std::ops::Range;
use std::sync::Arc;

/// The number of values that are computed at a time: 256 KiB of F32, which stay in the processor's cache.
const STEP_VALUES: u64 = 64 << 10;

/// The same if the rows of the tensor are columns of a component, of which few would make short reads.
const STEP_VALUES_OF_COLUMNS: u64 = 1 << 20;

/// Steps begin at multiples of this number of rows, so that codes that are packed across rows are read once.
const STEP_ROWS: u64 = 32;

/// How a quantized tensor, or rows of it, become floats.
#[derive(Debug, Clone)]
pub(crate) struct Dequantization {
    /// The dtype of the elements.
    pub(super) dtype: Dtype,
    /// The size of the elements in bytes.
    pub(super) byte_length: u64,
    /// The rows of the tensor as a matrix whose columns are the last dimension.
    rows: Range<u64>,
    columns: u64,
    /// Where the bytes that were loaded of each component begin in the component.
    starts: Vec<u64>,
}

/// The part of a tensor that is loaded for some of its rows.
pub(crate) struct QuantizedRows {
    /// The tensor with only the bytes of its components that are needed.
    pub(crate) tensor: Arc<Tensor>,
    pub(crate) dequantization: Dequantization,
}

impl Dequantization {
    /// The conversion of a tensor, or of these rows of it as a matrix, to the dtype `to`, or to its own.
    ///
    /// # Errors
    /// `UNSUPPORTED` if the tensor is ambiguous, or for a dtype that floats are not converted to; `FORMAT` if the shape
    /// has more than 2^64 bytes.
    pub(crate) fn of(tensor: &Tensor, rows: Option<Range<u64>>, to: Option<&Dtype>) -> Result<Self> {
        let place = |error: Error| error.in_tensor(&tensor.name);
        let quantized = quantized(tensor)?;
        quantized.scheme.check().map_err(place)?;
        let dtype = to.unwrap_or(&tensor.dtype).clone();
        if kind_of(&dtype) != Kind::Float || encoder_of(&dtype).is_none() {
            let error = Error::new(ErrorKind::InvalidArgument, format!("tensors are not converted to {dtype}"));
            return Err(place(error.advise("Choose F32, F16 or BF16.")));
        }
        let [all, columns] = matrix_of(&tensor.shape).map_err(place)?;
        let rows = rows.unwrap_or(0..all);
        let elements = (rows.end - rows.start).checked_mul(columns).ok_or_else(|| place(overflow()))?;
        let byte_length = dtype.byte_length(elements).map_err(place)?.unwrap_or(u64::MAX);
        let starts = vec![0; tensor.components.len()];
        Ok(Dequantization { dtype, byte_length, rows, columns, starts })
    }

    /// The size of all values in bytes.
    pub(crate) fn byte_length(&self) -> u64 {
        self.byte_length
    }

    /// Like [`Dequantization::of`], for rows `[start, end)` of the outermost dimension: only the bytes of these are
    /// loaded, as far as the layout allows.
    ///
    /// # Errors
    /// Those of [`Dequantization::of`].
    pub(crate) fn of_rows(tensor: &Tensor, rows: &Range<u64>, to: Option<&Dtype>) -> Result<QuantizedRows> {
        let inner = tensor.shape.get(1..tensor.shape.len().saturating_sub(1)).unwrap_or_default();
        let inner = element_count(inner).map_err(|e| e.in_tensor(&tensor.name))?;
        let of_matrix = rows.start.saturating_mul(inner)..rows.end.saturating_mul(inner);
        let mut dequantization = Dequantization::of(tensor, Some(of_matrix.clone()), to)?;
        let needs = match dequantization.byte_length {
            0 => tensor.components.iter().map(|_| Bytes::Range(0..0)).collect(),
            _ => quantized(tensor)?.scheme.needs(&of_matrix),
        };
        let mut components = Vec::with_capacity(needs.len());
        for (at, (component, needed)) in tensor.components.iter().zip(needs).enumerate() {
            if component.encoding != Encoding::Raw {
                components.push(component.clone()); // it can be decoded only as a whole
                continue;
            }
            let bounds = needed.bounds();
            let length = component.range.end - component.range.start;
            let bounds = bounds.start.min(length)..bounds.end.min(length);
            let range = component.range.start + bounds.start..component.range.start + bounds.end;
            if let Some(start) = dequantization.starts.get_mut(at) {
                *start = bounds.start;
            }
            let decoded_length = Some(range.end - range.start);
            let digest = component.digest.filter(|_| range == component.range); // over the whole component
            components.push(Component { range, decoded_length, digest, ..component.clone() });
        }
        let tensor = Arc::new(Tensor { components, ..tensor.clone() });
        Ok(QuantizedRows { tensor, dequantization })
    }

    /// Computes the values in a new buffer, or in `into`.
    ///
    /// # Errors
    /// `FORMAT` if a component is shorter than needed; `LIMIT` if there is not enough memory.
    pub(super) fn decoded<B: Buffer>(
        &self,
        tensor: &Tensor,
        components: Vec<LoadedComponent<B>>,
        into: Option<B>,
    ) -> Result<B> {
        if let (None, Some(part)) = (&into, quantized(tensor)?.scheme.replaced_by_values(&self.dtype)) {
            let length = components.get(part).map(|component| component.buffer.byte_length());
            if length == Some(self.byte_length) {
                return self.decoded_in_place(tensor, components, part);
            }
        }
        let mut output = into.map_or_else(|| B::allocate(self.byte_length), Ok)?;
        let mut at = 0;
        self.decode(tensor, &components, &mut |encoded| {
            output.write(at, encoded)?;
            at += encoded.len() as u64;
            Ok(())
        })?;
        Ok(output)
    }

    /// Replaces the bytes of a component by the values.
    fn decoded_in_place<B: Buffer>(
        &self,
        tensor: &Tensor,
        mut components: Vec<LoadedComponent<B>>,
        part: usize,
    ) -> Result<B> {
        let (mut steps, mut at) = (Steps::default(), 0);
        while steps.next(self, tensor, &components)? {
            if let Some(component) = components.get_mut(part) {
                component.buffer.write(at, steps.bytes())?;
            }
            at += steps.bytes().len() as u64;
        }
        Ok(components.swap_remove(part).buffer)
    }

    /// Computes the values, and passes them to `emit` in order.
    ///
    /// # Errors
    /// `FORMAT` if a component is shorter than needed; errors of `emit`.
    pub(crate) fn decode<B: Buffer>(
        &self,
        tensor: &Tensor,
        components: &[LoadedComponent<B>],
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut steps = Steps::default();
        while steps.next(self, tensor, components)? {
            emit(steps.bytes())?;
        }
        Ok(())
    }

    /// The end of the rows that are computed together, from `start` on.
    fn step_end(&self, start: u64, needs: &[Bytes]) -> u64 {
        let has_columns = needs.iter().any(|bytes| matches!(bytes, Bytes::Columns { .. }));
        let values = if has_columns { STEP_VALUES_OF_COLUMNS } else { STEP_VALUES };
        let rows = (values / self.columns.max(1)).max(1);
        let end = start.saturating_add(rows);
        let aligned = end - end % STEP_ROWS;
        (if aligned > start { aligned } else { end }).min(self.rows.end)
    }
}

/// A computation of values that goes on a few rows at a time.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// The values of the last step, in the dtype that they are converted to, unless `floats` has the same bytes.
    encoded: Vec<u8>,
    /// The number of rows that were computed.
    done: u64,
    floats: Vec<f32>,
    parts: Vec<Vec<u8>>,
}

impl Steps {
    /// Computes the next values. Returns false after the last ones.
    ///
    /// # Errors
    /// `FORMAT` if a component is shorter than needed.
    pub(crate) fn next<B: Buffer>(
        &mut self,
        dequantization: &Dequantization,
        tensor: &Tensor,
        components: &[LoadedComponent<B>],
    ) -> Result<bool> {
        let Dequantization { dtype, byte_length, rows, columns, starts } = dequantization;
        let start = rows.start.saturating_add(self.done);
        if start >= rows.end || *byte_length == 0 {
            self.floats.clear();
            self.encoded.clear();
            return Ok(false);
        }
        let Quantized { scheme, .. } = &**quantized(tensor)?;
        let encode = encoder_of(dtype).ok_or_else(|| malformed("its dtype has no encoder"))?;
        let rows = start..dequantization.step_end(start, &scheme.needs(&(start..start + 1)));
        let needs = scheme.needs(&rows);
        self.parts.resize_with(needs.len(), Vec::new);
        for ((needed, component), (part, base)) in needs.iter().zip(components).zip(self.parts.iter_mut().zip(starts)) {
            read(component, needed, *base, part)?;
        }
        let slices: Vec<&[u8]> = self.parts.iter().map(Vec::as_slice).collect();
        let values = (rows.end - rows.start) * columns;
        self.floats.resize(values as usize, 0.0);
        scheme.decode(&rows, &slices, dtype, &mut self.floats);
        self.encoded.clear();
        if *dtype != Dtype::F32 || cfg!(target_endian = "big") {
            let element_bytes = dtype.block().map_or(1, |block| block.bytes);
            self.encoded.resize((values * element_bytes) as usize, 0);
            encode(&self.floats, &mut self.encoded);
        }
        self.done += rows.end - rows.start;
        Ok(true)
    }

    /// The values of the last step, in the dtype that they are converted to.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.encoded.is_empty() { bytemuck::cast_slice(&self.floats) } else { &self.encoded }
    }
}

/// Reads bytes of a component, of which `base` is the first that was loaded.
fn read<B: Buffer>(component: &LoadedComponent<B>, needed: &Bytes, base: u64, into: &mut Vec<u8>) -> Result<()> {
    into.clear();
    let length = component.buffer.byte_length();
    let mut append = |range: Range<u64>| {
        if range.end > length || range.start > range.end {
            let role = &component.role;
            return Err(malformed(format!("`{role}` has {length} bytes, but {} are needed", range.end)));
        }
        component.buffer.inspect(range, &mut |bytes| {
            into.extend_from_slice(bytes);
            Ok(())
        })
    };
    match needed {
        Bytes::Range(range) => append(range.start.saturating_sub(base)..range.end.saturating_sub(base)),
        Bytes::Columns { columns, row_bytes, count } => (0..*count).try_for_each(|row| {
            let start = row.saturating_mul(*row_bytes).saturating_sub(base);
            append(start.saturating_add(columns.start)..start.saturating_add(columns.end))
        }),
    }
}

fn quantized(tensor: &Tensor) -> Result<&Arc<Quantized>> {
    match &tensor.layout {
        crate::index::Layout::Quantized(quantized) => Ok(quantized),
        _ => Err(Error::new(ErrorKind::Internal, "the tensor is not quantized").in_tensor(&tensor.name)),
    }
}

fn overflow() -> Error {
    malformed("its shape has more than 2^64 elements")
}
