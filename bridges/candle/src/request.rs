//! Which tensors to load, their names in candle, and their device.

use candle_core::{DType, Device};
use std::collections::HashMap;
use std::fmt;
use weightstream::{Error, ErrorKind, Result, Tensor};

type Names<'a> = Box<dyn Fn(&str) -> Option<String> + 'a>;

/// Which tensors to load, their names in candle, and the device that holds them. By default all, with their own names.
///
/// ```
/// use candle_core::Device;
/// use weightstream_candle::Request;
///
/// // Only the encoder, without the prefix of its names.
/// let request = Request::new(&Device::Cpu).with_names(|name| name.strip_prefix("encoder.").map(str::to_owned));
/// ```
pub struct Request<'a> {
    pub(crate) device: Device,
    pub(crate) dtype: Option<DType>,
    names: Names<'a>,
}

impl<'a> Request<'a> {
    /// All tensors with their own names, on `device`.
    pub fn new(device: &Device) -> Self {
        Request { device: device.clone(), dtype: None, names: Box::new(|name| Some(name.to_owned())) }
    }

    /// Converts floats and quantized tensors to F32, F16 or BF16 while they arrive.
    #[must_use]
    pub fn with_dtype(self, dtype: DType) -> Self {
        Request { dtype: Some(dtype), ..self }
    }

    /// Maps the name of a tensor in the file to its name in candle. A tensor without one is not read.
    #[must_use]
    pub fn with_names(self, names: impl Fn(&str) -> Option<String> + 'a) -> Self {
        Request { names: Box::new(names), ..self }
    }

    /// Checks that no conversion is requested of tensors that stay in the blocks of the file.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`.
    pub(crate) fn check_stored(&self) -> Result<()> {
        match self.dtype {
            None => Ok(()),
            Some(_) => {
                let error = Error::new(ErrorKind::InvalidArgument, "quantized tensors are not converted");
                Err(error.advise("Leave out Request::with_dtype, or load tensors that are not quantized."))
            }
        }
    }

    /// The names in candle of the wanted tensors, by their names in the file.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if two tensors get the same name.
    pub(crate) fn renamed<'t>(&self, index: impl Iterator<Item = &'t Tensor>) -> Result<HashMap<String, String>> {
        let mut sources = HashMap::new();
        let mut renamed = HashMap::new();
        for tensor in index {
            let Some(name) = (self.names)(&tensor.name) else { continue };
            if let Some(other) = sources.insert(name.clone(), &tensor.name) {
                let what = format!("it gets the name \"{name}\", as does the tensor \"{other}\"");
                let error = Error::new(ErrorKind::InvalidArgument, what).in_tensor(&tensor.name);
                return Err(error.advise("Give each tensor a name of its own in Request::with_names."));
            }
            renamed.insert(tensor.name.clone(), name);
        }
        Ok(renamed)
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("device", &self.device).finish_non_exhaustive()
    }
}
