//! Loaded tensors, and their elements as typed slices.

use super::element::{Element, elements, reorder, zeros};
use crate::codec::cast::Conversion;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Algorithm, Component, Layout, Tensor};
use crate::loader::{self, Loaded};
#[cfg(web)]
use crate::source::Buffer;
use std::borrow::Cow;

/// The memory of loaded tensors.
#[cfg(native)]
pub(super) type Memory = Vec<u8>;
#[cfg(web)]
pub(super) type Memory = crate::source::js_buffer::JsBuffer;

/// A tensor with its bytes, decoded and verified as far as its format allows.
///
/// ```
/// # #[cfg(all(feature = "safetensors", not(target_arch = "wasm32")))]
/// # fn main() -> weightstream::Result<()> {
/// # let header = r#"{"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
/// # let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 8]].concat();
/// # let model = weightstream::blocking::Model::from_bytes([("model.safetensors", file)])?;
/// let bias = model.load("bias")?;
/// assert_eq!(bias.shape(), [2]);
/// assert_eq!(*bias.bytes()?, [0; 8]);
/// assert_eq!(*bias.as_f32()?, [0.0, 0.0]);
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "safetensors", not(target_arch = "wasm32"))))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct LoadedTensor {
    pub(super) loaded: Loaded<Memory>,
}

/// The bytes of one component of a tensor: `data` of most tensors, `values` and indices of a sparse one.
#[derive(Debug, Clone, Copy)]
pub struct LoadedComponent<'a> {
    component: &'a loader::LoadedComponent<Memory>,
}

impl LoadedTensor {
    /// The tensor's entry in the index, with the dtype and shape that the file states.
    pub fn tensor(&self) -> &Tensor {
        &self.loaded.tensor
    }

    /// The tensor's name.
    pub fn name(&self) -> &str {
        &self.loaded.tensor.name
    }

    /// The type of the loaded elements: that of the tensor, or the one that was requested.
    pub fn dtype(&self) -> &Dtype {
        &self.loaded.dtype
    }

    /// The shape of what was loaded, outermost dimension first. Of rows, the outermost dimension is their number.
    pub fn shape(&self) -> &[u64] {
        &self.loaded.shape
    }

    /// The layout of what was loaded: that of the tensor, or dense if that was requested.
    pub fn layout(&self) -> &Layout {
        &self.loaded.layout
    }

    /// The algorithm that the tensor's own bytes were verified with; `None` if the format has no digest for them.
    pub fn verified(&self) -> Option<Algorithm> {
        self.loaded.verified
    }

    /// The components, in the order of the index. Most tensors have one.
    pub fn components(&self) -> impl ExactSizeIterator<Item = LoadedComponent<'_>> {
        self.loaded.components.iter().map(|component| LoadedComponent { component })
    }

    /// The elements in row-major order, as little-endian bytes. Borrowed natively; on wasm32, they are copied from the
    /// memory of JavaScript, which `array` avoids.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a tensor of several components: see [`LoadedTensor::components`] and
    /// [`LoadRequest::dense`](crate::LoadRequest::dense).
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>> {
        self.only()?.bytes()
    }

    /// Like [`LoadedTensor::bytes`], without a copy natively.
    ///
    /// # Errors
    /// Those of [`LoadedTensor::bytes`].
    pub fn into_bytes(self) -> Result<Vec<u8>> {
        self.only()?;
        let mut components = self.loaded.components;
        let component = components.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a component is missing"))?;
        into_vec(component.buffer)
    }

    /// The elements as a typed slice: `f32` for F32, `u16` for F16 and BF16, whose bits they are, `i64` for I64, `u8`
    /// for booleans and quantized types. Borrowed if possible.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the elements have another type; those of [`LoadedTensor::bytes`].
    pub fn elements<T: Element>(&self) -> Result<Cow<'_, [T]>> {
        self.only()?.elements().map_err(|e| e.in_tensor(self.name()))
    }

    /// The elements as 32-bit floats: borrowed if they are F32, and otherwise converted, also from quantized types.
    /// Request [`Dtype::F32`] with [`LoadRequest::dtype`](crate::LoadRequest::dtype) to convert while bytes arrive.
    ///
    /// # Errors
    /// `UNSUPPORTED` for integers, booleans and other dtypes that have no conversion; those of [`LoadedTensor::bytes`].
    pub fn as_f32(&self) -> Result<Cow<'_, [f32]>> {
        if self.loaded.dtype == Dtype::F32 {
            return self.elements();
        }
        self.converted().map_err(|e| e.in_tensor(self.name()))
    }

    /// The elements as a `Uint8Array` over the memory of JavaScript that holds them.
    ///
    /// # Errors
    /// Those of [`LoadedTensor::bytes`].
    #[cfg(web)]
    pub fn array(&self) -> Result<js_sys::Uint8Array> {
        Ok(self.only()?.array())
    }

    fn converted(&self) -> Result<Cow<'_, [f32]>> {
        let bytes = self.bytes()?;
        let Loaded { dtype, shape, layout, .. } = &self.loaded;
        let component = Component::raw(dtype.clone(), 0..bytes.len() as u64);
        let mut tensor = Tensor::dense(self.name().to_owned(), dtype.clone(), shape.clone(), component);
        tensor.layout = layout.clone();
        let conversion = Conversion::of(&tensor, shape, &Dtype::F32)?.ok_or_else(|| {
            let error = Error::new(ErrorKind::Unsupported, format!("its elements are {dtype}, not floats"));
            error.advise("Read them with `LoadedTensor::elements`.")
        })?;
        let too_long = |_| Error::new(ErrorKind::Limit, "its floats exceed the address space");
        let mut floats = zeros::<f32>(usize::try_from(conversion.elements).map_err(too_long)?)?;
        let mut rest = bytemuck::cast_slice_mut::<f32, u8>(&mut floats);
        let mut cast = conversion.cast(dtype)?;
        cast.push(&bytes, &mut |piece| {
            let (next, after) = std::mem::take(&mut rest).split_at_mut_checked(piece.len()).ok_or_else(too_many)?;
            next.copy_from_slice(piece);
            rest = after;
            Ok(())
        })?;
        cast.finish()?;
        reorder(&mut floats);
        Ok(Cow::Owned(floats))
    }

    fn only(&self) -> Result<LoadedComponent<'_>> {
        match self.loaded.components.as_slice() {
            [component] => Ok(LoadedComponent { component }),
            several => {
                let what = format!("it has {} components, not one", several.len());
                let error = Error::new(ErrorKind::InvalidArgument, what).in_tensor(self.name());
                Err(error.advise("Read its components, or load a sparse tensor with `LoadRequest::dense`."))
            }
        }
    }
}

impl<'a> LoadedComponent<'a> {
    /// What the component is: `data`, `values`, `indices` …
    pub fn role(&self) -> &'a str {
        &self.component.role
    }

    /// The type of its elements.
    pub fn dtype(&self) -> &'a Dtype {
        &self.component.dtype
    }

    /// Like [`LoadedTensor::bytes`].
    ///
    /// # Errors
    /// On wasm32, `LIMIT` if there is not enough memory for a copy.
    pub fn bytes(&self) -> Result<Cow<'a, [u8]>> {
        read(&self.component.buffer)
    }

    /// Like [`LoadedTensor::elements`].
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the elements have another type; those of [`LoadedComponent::bytes`].
    pub fn elements<T: Element>(&self) -> Result<Cow<'a, [T]>> {
        let dtype = self.dtype();
        if dtype.array_kind() != T::KIND {
            let what = format!("its elements are {dtype}, not {}", std::any::type_name::<T>());
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        elements(self.bytes()?)
    }

    /// Like [`LoadedTensor::array`].
    #[cfg(web)]
    pub fn array(&self) -> js_sys::Uint8Array {
        self.component.buffer.bytes().clone()
    }
}

fn too_many() -> Error {
    Error::new(ErrorKind::Internal, "a conversion returned more elements than the tensor has")
}

#[cfg(native)]
fn read(buffer: &[u8]) -> Result<Cow<'_, [u8]>> {
    Ok(Cow::Borrowed(buffer))
}

#[cfg(web)]
fn read(buffer: &Memory) -> Result<Cow<'_, [u8]>> {
    let mut bytes = Vec::<u8>::allocate(buffer.byte_length())?;
    let mut filled = 0;
    buffer.inspect(0..buffer.byte_length(), &mut |piece| {
        bytes.write(filled, piece)?;
        filled += piece.len() as u64;
        Ok(())
    })?;
    Ok(Cow::Owned(bytes))
}

#[cfg(native)]
fn into_vec(buffer: Vec<u8>) -> Result<Vec<u8>> {
    Ok(buffer)
}

#[cfg(web)]
fn into_vec(buffer: Memory) -> Result<Vec<u8>> {
    read(&buffer).map(Cow::into_owned)
}
