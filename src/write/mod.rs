//! Writes models: reads one through an [`Input`] and streams it into another format.
//!
//! Only a few blocks of the model are in memory, independent of its size. Files are written under temporary names and
//! renamed when all of them are complete, so that a failed or interrupted conversion leaves no incomplete model. The
//! same input and options give the same bytes.

pub(crate) mod cancellation;
#[doc(hidden)]
pub mod cast;
mod checked;
mod companion;
pub(crate) mod conversion;
mod converted;
mod files;
mod folder;
mod formats;
#[cfg(all(feature = "onnx", feature = "apr", feature = "safetensors"))]
mod graph;
mod input;
mod input_tensor;
mod npy;
mod options;
mod order;
mod output;
pub(crate) mod plan;
mod positions;
mod readers;
mod source;

#[doc(hidden)]
pub use crate::output::writer::Writer;
pub use crate::output::writer::{Compression, DigestAlgorithm};
pub use converted::Converted;
#[doc(hidden)]
pub use converted::Sizes;
#[doc(hidden)]
pub use folder::folder_metadata;
#[doc(hidden)]
pub use formats::{format_named, format_of_name, formats};
#[doc(hidden)]
pub use input::{AsInput, Extent, Input};
#[doc(hidden)]
pub use npy::extract_with;
pub use npy::{ExtractOptions, Extracted};
pub use options::ConvertOptions;
pub use order::TensorOrder;
#[doc(hidden)]
pub use output::{check_output, write_output};

use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;
use files::convert_to;
use std::path::Path;

/// Writes all tensors of a model to `out`: one file, or several with a manifest. Compares whatever
/// [`Model::verify`](crate::blocking::Model::verify) compares before the files get their names.
///
/// If the model is ONNX, and `out` is a folder or ends with a separator, the graph is written too: `model.onnx`, whose
/// external data is `model.safetensors`, and the weights as `model.apr`, or in another format. See the documentation of
/// the command line.
///
/// ```
/// # #[cfg(all(feature = "safetensors", feature = "apr"))]
/// # fn main() -> weightstream::Result<()> {
/// use weightstream::blocking::Model;
/// use weightstream::write::{Compression, ConvertOptions, convert};
///
/// # let folder = tempfile::tempdir()?;
/// # let header = r#"{"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
/// # let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 8]].concat();
/// # let model = Model::from_bytes([("model.safetensors", file)])?;
/// # let out = folder.path().join("model.apr");
/// let options = ConvertOptions::new().compression(Compression::Auto);
/// let converted = convert(&model, out, &options)?;
/// assert_eq!(converted.tensors, 1);
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "safetensors", feature = "apr")))]
/// # fn main() {}
/// ```
///
/// # Errors
/// `UNSUPPORTED` and `LIMIT` for data that the target format cannot store; `INVALID_ARGUMENT` if an output is an input,
/// is not a regular file (a folder, a device, a symbolic link), or exists and [`ConvertOptions::keep_existing`] is set,
/// or if the format does not support an option or cannot be inferred from the name of the output; `CHECKSUM` for a
/// damaged input; `IO`; errors of reading. After an error, existing files at the outputs are unchanged, unless it
/// occurred while finished files were renamed.
pub fn convert(model: &impl AsInput, out: impl AsRef<Path>, options: &ConvertOptions) -> Result<Converted> {
    let out = out.as_ref();
    let progress = options.on_progress.clone().meter();
    with_input(model, |input| convert_with(input, out, options, &progress))
}

/// Like [`convert()`], from any input.
///
/// # Errors
/// Those of [`convert()`]; `IO` if `progress` cancels.
#[doc(hidden)]
pub fn convert_with(
    input: &dyn Input,
    out: &Path,
    options: &ConvertOptions,
    progress: &(dyn Progress + Sync),
) -> Result<Converted> {
    let checked = input.begin()?;
    let input = checked.as_deref().unwrap_or(input);
    #[cfg(all(feature = "onnx", feature = "apr", feature = "safetensors"))]
    if graph::is_split(input, out) {
        return graph::convert(input, out, options, progress);
    }
    if options.by_layer {
        let error = Error::new(ErrorKind::InvalidArgument, "only the graph of an ONNX model has parts");
        return Err(error.advise("With `ConvertOptions::by_layer`, convert an ONNX model to a folder, such as `out/`."));
    }
    convert_to(input, out, options, progress, None)
}

/// Writes the tensor called `name` as the NumPy array `output`. BF16, which NumPy does not have, is cast to F32, which
/// represents it exactly. The file is complete and the tensor verified before it gets its name: with its own digest, or
/// with that of its file.
///
/// # Errors
/// `NOT_FOUND` if there is no such tensor or component; `INVALID_ARGUMENT` for a tensor of several components, or if
/// `output` exists; `UNSUPPORTED` for a dtype that NumPy does not have; errors of reading and writing.
pub fn extract_npy(
    model: &impl AsInput,
    name: &str,
    output: impl AsRef<Path>,
    options: &ExtractOptions,
) -> Result<Extracted> {
    let output = output.as_ref();
    with_input(model, |input| extract_with(input, name, output, options, &()))
}

fn with_input<T: Send>(model: &impl AsInput, mut work: impl FnMut(&dyn Input) -> Result<T> + Send) -> Result<T> {
    let mut done = None;
    model.with_input(&mut |input| {
        done = Some(work(input)?);
        Ok(())
    })?;
    done.ok_or_else(|| Error::new(ErrorKind::Internal, "the model was not read"))
}
