//! The tensors of an input, as writers read them.

use super::cancellation::check_cancelled;
use super::cast::Cast;
use super::input::Input;
use crate::dtype::element_count;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Tensor};
use crate::output::target::TensorSource;
use crate::pipeline::{Dequantization, LoadedComponent};
use crate::progress::Progress;

/// The bytes of a tensor to write, cast to another dtype if requested.
pub(super) struct InputTensor<'a> {
    input: &'a dyn Input,
    /// The tensor of the input.
    tensor: &'a Tensor,
    progress: &'a (dyn Progress + Sync),
    /// The number of bytes that have been reported as progress.
    counted: u64,
}

impl<'a> InputTensor<'a> {
    pub(super) fn new(input: &'a dyn Input, tensor: &'a Tensor, progress: &'a (dyn Progress + Sync)) -> Self {
        InputTensor { input, tensor, progress, counted: 0 }
    }

    /// The decoded size in the dtype of the input; if the file does not state it, the bytes that were read.
    pub(super) fn decoded_bytes(&self) -> u64 {
        self.tensor.byte_length().unwrap_or(self.counted)
    }
}

impl InputTensor<'_> {
    /// Computes the values of a quantized tensor of several components, which are read first.
    fn read_quantized(&mut self, wanted: &Component, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let InputTensor { input, tensor, progress, counted } = self;
        let dequantization = Dequantization::of(tensor, None, Some(&wanted.dtype))?;
        let mut components = Vec::with_capacity(tensor.components.len());
        let mut position = 0;
        for Component { role, dtype, .. } in &tensor.components {
            let mut buffer = Vec::new();
            input.read_pieces(tensor, role, &mut |bytes| {
                check_cancelled(*progress)?;
                buffer.extend_from_slice(bytes);
                position += bytes.len() as u64;
                progress.advanced(position.saturating_sub(*counted));
                *counted = position.max(*counted);
                Ok(())
            })?;
            components.push(LoadedComponent { role: role.clone(), dtype: dtype.clone(), buffer });
        }
        dequantization.decode(tensor, &components, take)
    }
}

impl TensorSource for InputTensor<'_> {
    fn read_component(&mut self, wanted: &Component, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.tensor.quantized().is_some() {
            return self.read_quantized(wanted, take);
        }
        let InputTensor { input, tensor, progress, counted } = self;
        let mut components = tensor.components.iter();
        let stored = components.find(|component| component.role == wanted.role);
        let stored = stored.ok_or_else(|| Error::new(ErrorKind::Internal, "the component to write does not exist"))?;
        let cast = (stored.dtype != wanted.dtype).then(|| Cast::new(&stored.dtype, &wanted.dtype)).transpose()?;
        let elements = element_count(&tensor.shape)?;
        let mut cast = cast.map(|cast| cast.with_elements(elements));
        let mut position = 0;
        input.read_pieces(tensor, &stored.role, &mut |bytes| {
            check_cancelled(*progress)?;
            if bytes.is_empty() {
                return Ok(()); // an empty piece only checks for cancellation
            }
            match &mut cast {
                Some(cast) => cast.push(bytes, take)?,
                None => take(bytes)?,
            }
            position += bytes.len() as u64;
            progress.advanced(position.saturating_sub(*counted));
            *counted = position.max(*counted);
            Ok(())
        })?;
        cast.map_or(Ok(()), Cast::finish)
    }

    fn is_remote(&self) -> bool {
        !self.input.urls().is_empty()
    }
}
