//! `weightstream extract`: writes one tensor as a NumPy array.

use super::convert::watch_signals;
use super::digests::warn_of;
use super::terminal::inform;
use super::{Failure, model::ModelArguments, one_line, progress::Bar};
use indicatif::DecimalBytes;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weightstream::internals::write::{ExtractOptions, extract_npy};
use weightstream::{Error, ErrorKind};

/// Writes one tensor as a NumPy array (.npy).
///
/// BF16, which NumPy does not have, becomes F32, which represents it exactly.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 for success, 1 for an error, 2 for wrong usage, 130 after Ctrl-C or another signal."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: ModelArguments,
    /// The name of the tensor.
    #[arg(value_name = "TENSOR")]
    tensor: String,
    /// The file to write, such as `tensor.npy`.
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// The component of a sparse tensor to write, such as `values`, as a vector.
    #[arg(long, value_name = "ROLE")]
    component: Option<String>,
    /// Write the decoded bytes, as a vector of unsigned 8-bit integers, for dtypes that NumPy does not have.
    #[arg(long)]
    bytes: bool,
    /// Replace OUT if it exists.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { place, tensor, output, component, bytes, force } = arguments;
    if output.extension().is_none_or(|extension| extension != "npy") {
        let error = Error::new(ErrorKind::InvalidArgument, "the name of the output does not end in `.npy`");
        let error = error.advise("`extract` writes NumPy arrays: name the output `NAME.npy`.");
        return Err(error.in_file(&output.display().to_string()).into());
    }
    let options = ExtractOptions::default().component(component).as_bytes(bytes).keep_existing(!force);
    let model = place.open()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    watch_signals(&interrupted).map_err(Error::from)?;
    let bar = Bar::cancelled_by("extracting", Arc::clone(&interrupted));
    let extracted = extract_npy(model.input(), &tensor, &output, &options, &bar);
    drop(bar);
    let extracted = match extracted {
        Err(_) if interrupted.load(Ordering::Relaxed) => return Err(Failure::Interrupted("nothing was written")),
        extracted => extracted?,
    };
    warn_of(&extracted.not_compared);
    let output = one_line(&output.display().to_string());
    let (dtype, shape) = (extracted.dtype, extracted.shape);
    inform(&format!("{output}: {dtype} {shape:?}, {}", DecimalBytes(extracted.byte_length)))?;
    Ok(())
}
