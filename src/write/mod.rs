//! Writes models: reads one through an [`Input`] and streams it into another format.
//!
//! Only a few blocks of the model are in memory, independent of its size. Files are written under temporary names and
//! renamed when all of them are complete, so that a failed or interrupted conversion leaves no incomplete model. The
//! same input and options give the same bytes.

pub(crate) mod cancellation;
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

pub use crate::output::writer::{Compression, DigestAlgorithm, Writer};
pub use converted::{Converted, Sizes};
pub use folder::folder_metadata;
pub use formats::{format_named, format_of_name, formats};
pub use input::{Extent, Input};
pub use npy::{ExtractOptions, Extracted, extract_npy};
pub use options::ConvertOptions;
pub use order::TensorOrder;
pub use output::{check_output, write_output};

use crate::error::Result;
use crate::progress::Progress;
use files::convert_to;
use std::path::Path;

/// Reads all tensors of `input` and writes them to `out`: one file, or several with a manifest. Compares whatever
/// [`Reader::verify`](crate::native::Reader::verify) compares before the files get their names.
///
/// If `input` is an ONNX model, and `out` is a folder or ends with a separator, the graph is written too: `model.onnx`,
/// whose external data is `model.safetensors`, and the weights as `model.apr`, or in another format. See the
/// documentation of the command line.
///
/// # Errors
/// `UNSUPPORTED` and `LIMIT` for data that the target format cannot store; `INVALID_ARGUMENT` if an output is an input,
/// is not a regular file (a folder, a device, a symbolic link), or exists and [`ConvertOptions::keep_existing`] is set,
/// or if the format does not support an option or cannot be inferred from the name of the output; `CHECKSUM` for a
/// damaged input; `IO`; errors of reading. After an error, existing files at the outputs are unchanged, unless it
/// occurred while finished files were renamed.
pub fn convert(
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
    convert_to(input, out, options, progress, None)
}
