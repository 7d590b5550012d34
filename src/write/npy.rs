//! Writes one tensor as a NumPy array: a `.npy` file of version 1.0.

use super::cancellation::check_cancelled;
use super::cast::Cast;
use super::input::{Extent, Input};
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Tensor};
use crate::output::destination::{self, Existing};
use crate::output::file::ShardFile;
use crate::output::file::{self, PartialFile};
use crate::output::npy::{self, Order, head};
use crate::progress::Progress;
use crate::setters::plain_setters as setters;
use crate::similar_names::no_tensor;
use std::borrow::Cow;
use std::path::Path;

/// Options of [`extract_npy`](super::extract_npy).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ExtractOptions {
    component: Option<String>,
    as_bytes: bool,
    keep_existing: bool,
}

impl ExtractOptions {
    /// A tensor of one component, in its dtype.
    pub fn new() -> Self {
        ExtractOptions::default()
    }

    setters! {
        /// The component to write, as a vector. By default, writes a tensor that has one component.
        component: Option<String>;
        /// Whether the decoded bytes are written, as a vector of U8, whatever the dtype.
        as_bytes: bool;
        /// Whether an existing file is an error. Otherwise it is replaced.
        keep_existing: bool;
    }

    fn existing(&self) -> Existing {
        if self.keep_existing { Existing::Keep } else { Existing::Replace }
    }
}

/// A NumPy array that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extracted {
    /// The dtype of the array: that of the tensor, F32 for BF16, or U8 for bytes.
    pub dtype: Dtype,
    /// The shape of the array.
    pub shape: Vec<u64>,
    /// The number of bytes of the file.
    pub byte_length: u64,
    /// The files of a model at URLs whose digests were not compared, because more of them would have to be read.
    pub not_compared: Vec<String>,
}

/// Like [`extract_npy`](super::extract_npy), from any input.
///
/// # Errors
/// Those of [`extract_npy`](super::extract_npy); `IO` if `progress` cancels.
pub fn extract_with(
    input: &dyn Input,
    name: &str,
    output: &Path,
    options: &ExtractOptions,
    progress: &(dyn Progress + Sync),
) -> Result<Extracted> {
    destination::check(output, &input.paths(), options.existing())?;
    let checked = input.begin()?;
    let input = checked.as_deref().unwrap_or(input);
    let tensor = input
        .tensors()
        .iter()
        .find(|tensor| tensor.name == name)
        .ok_or_else(|| no_tensor(name, input.tensors().iter().map(|tensor| &*tensor.name)))?;
    let in_tensor = |error: Error| error.in_tensor(name);
    let component = component_of(tensor, options.component.as_deref()).map_err(in_tensor)?;
    let stored = if options.as_bytes { &Dtype::U8 } else { &component.dtype };
    let (dtype, descr) = numpy_dtype(stored).map_err(in_tensor)?;
    let casts = component.dtype == Dtype::BF16 && !options.as_bytes;
    let mut cast = casts.then(|| Cast::new(&Dtype::BF16, &dtype)).transpose()?;
    let whole_shape = (options.component.is_none() && !options.as_bytes).then(|| tensor.shape.clone());

    let mut file = PartialFile::create(output)?;
    let head_length = head(&descr, Order::RowMajor, whole_shape.as_deref().unwrap_or(&[u64::MAX]), 0, 0).len();
    file.reserve_head(head_length as u64)?;
    progress.expects(component.decoded_length.unwrap_or_default());
    input.read_pieces(tensor, &component.role, &mut |bytes| {
        check_cancelled(progress)?;
        progress.advanced(bytes.len() as u64);
        match &mut cast {
            Some(cast) => cast.push(bytes, &mut |bytes| file.write(bytes)),
            None => file.write(bytes),
        }
    })?;
    cast.map_or(Ok(()), Cast::finish).map_err(in_tensor)?;

    let data_bytes = file.position() - head_length as u64;
    let element_bytes = npy::element_bytes(&dtype).unwrap_or(1);
    let shape = whole_shape.unwrap_or_else(|| vec![data_bytes / element_bytes]);
    if element_count(&shape)?.checked_mul(element_bytes) != Some(data_bytes) {
        let what = format!("its {data_bytes} bytes do not match {dtype} {shape:?}");
        return Err(Error::new(ErrorKind::Format, what).in_tensor(name));
    }
    file.write_head(&head(&descr, Order::RowMajor, &shape, 0, head_length))?;
    let finished = file.finish()?;
    let byte_length = finished.byte_length();
    let not_compared = input.compare_files(Extent::Read, progress)?;
    file::publish(vec![finished], options.existing())?;
    Ok(Extracted { dtype, shape, byte_length, not_compared })
}

fn component_of<'t>(tensor: &'t Tensor, role: Option<&str>) -> Result<&'t Component> {
    let roles = || tensor.components.iter().map(|component| &*component.role).collect::<Vec<_>>().join(", ");
    match (role, tensor.components.as_slice()) {
        (None, [component]) => Ok(component),
        (None, _) => {
            let what = format!("it has several components ({}), but an array is one", roles());
            Err(Error::new(ErrorKind::InvalidArgument, what)
                .advise("Name one of them with `ExtractOptions::component`."))
        }
        (Some(role), components) => components.iter().find(|component| &*component.role == role).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("it has no component \"{role}\", only: {}", roles()))
        }),
    }
}

/// The dtype of the array, and its name in NumPy.
fn numpy_dtype(dtype: &Dtype) -> Result<(Dtype, Cow<'static, str>)> {
    let stored = match dtype {
        Dtype::BF16 => &Dtype::F32,
        dtype => dtype,
    };
    npy::descr(stored).map(|descr| (stored.clone(), descr)).ok_or_else(|| {
        let error = Error::new(ErrorKind::Unsupported, format!("NumPy has no dtype for {dtype}"));
        error.advise("Write its bytes with `ExtractOptions::as_bytes`, as an array of unsigned 8-bit integers.")
    })
}
