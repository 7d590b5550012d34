//! `weightstream convert`: converts a model to another format, in one file or several.

use super::conversion::ConversionArguments;
use super::gguf_names::foreign_name;
use super::model::ModelArguments;
use super::terminal::inform;
use super::{Failure, count, one_line, progress::Bar, warn};
use indicatif::DecimalBytes;
use signal_hook::flag;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weightstream::internals::write::{self, Compression, ConvertOptions, Converted, Input, Sizes, TensorOrder};
use weightstream::{Adapter, Dtype, Error, ErrorKind, Result};

/// Converts a model of any size to another format, with little memory.
///
/// The output is written as NAME.weightstream.partial, and renamed when it is complete. It keeps the permissions of a
/// file that it replaces (see --force). Devices, pipes and symbolic links are never replaced.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 for success, 1 for an error, 2 for wrong usage, 130 after Ctrl-C or another signal."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    input: ModelArguments,
    /// The file to write; with --shard-size the manifest, with its files in the same folder. Several GGUF files have no
    /// manifest: model.gguf becomes model-00001-of-00003.gguf and so on. For an ONNX model also a folder: its graph is
    /// then written too, as model.onnx.
    #[arg(value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    conversion: ConversionArguments,
    /// A LoRA adapter whose updates are added to the weights: a file or a folder of PEFT, of kohya's scripts or in
    /// GGUF; a URL if the model is at one. Can be repeated.
    #[arg(long = "adapter", value_name = "FILE|FOLDER|URL")]
    adapters: Vec<PathBuf>,
    /// What the updates of the adapter are multiplied by, in addition to what it states. The second of these options is
    /// for the second adapter, and so on.
    #[arg(long = "adapter-scale", value_name = "NUMBER", requires = "adapters", allow_negative_numbers = true)]
    scales: Vec<f32>,
    /// Mark in the graph of an ONNX model where it can be split, and write its weights in the order in which the nodes
    /// need them: a page then computes with the first layers while the others arrive. OUT must be a folder.
    #[arg(long, conflicts_with = "order")]
    by_layer: bool,
    /// Replace OUT, and with --shard-size its files, if they exist. Without this option, nothing is written if one of
    /// them exists.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { input, output, conversion, adapters, scales, by_layer, force } = arguments;
    let format = conversion.format().or_else(|| write::format_of_name(&output));
    let options = conversion.options(&input, format, TensorOrder::Source)?.by_layer(by_layer).keep_existing(!force);
    let model = input.open_with(scaled(&adapters, &scales)?)?;
    let tensors = model.input().tensors();
    if let Some(name) = format.filter(|format| format.name == "gguf").and_then(|_| foreign_name(tensors)) {
        warn(&format!(
            "llama.cpp does not run this GGUF file, because it needs other tensor names than those of Hugging Face, \
             such as {name}: for llama.cpp, convert the folder with its convert_hf_to_gguf.py",
        ));
    }
    write(model.input(), &output, &options)
}

/// The adapters with their scales, of which the last ones may be left out.
fn scaled(adapters: &[PathBuf], scales: &[f32]) -> Result<Vec<Adapter>> {
    if scales.len() > adapters.len() {
        let what = format!("{} adapters have {} of `--adapter-scale`", adapters.len(), scales.len());
        return Err(Error::new(ErrorKind::InvalidArgument, what).advise("Give one for each adapter."));
    }
    let scales = scales.iter().copied().chain(std::iter::repeat(1.0));
    Ok(adapters.iter().zip(scales).map(|(adapter, scale)| Adapter::new(adapter).scale(scale)).collect())
}

/// Converts with a progress bar, stops at a signal, and prints a summary.
pub(super) fn write(input: &dyn Input, output: &Path, options: &ConvertOptions) -> Result<(), Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    watch_signals(&interrupted).map_err(Error::from)?;
    let bar = Bar::cancelled_by("converting", Arc::clone(&interrupted));
    let converted = write::convert(input, output, options, &bar);
    drop(bar);
    let converted = match converted {
        Err(_) if interrupted.load(Ordering::Relaxed) => return Err(Failure::Interrupted("nothing was written")),
        converted => converted?,
    };
    for warning in &converted.warnings {
        warn(warning);
    }
    let file_bytes = converted.files.iter().map(|(_, byte_length)| byte_length).sum();
    inform(&format!(
        "{}: {}, {}, {}",
        one_line(&converted.path.display().to_string()),
        count(converted.files.len(), "file"),
        count(converted.tensors, "tensor"),
        DecimalBytes(file_bytes),
    ))?;
    match steps(&converted) {
        steps if steps.is_empty() => {}
        steps => inform(&steps)?,
    }
    Ok(())
}

/// The sizes of the tensors before and after each step: `F32 → Q8_0: 90.9 MB → 24.1 MB; compressed (LZ4): …`.
fn steps(converted: &Converted) -> String {
    let Sizes { source, cast, stored, .. } = converted.sizes;
    let (source, cast_size, stored_size) = (DecimalBytes(source), DecimalBytes(cast), DecimalBytes(stored));
    let mut steps = Vec::new();
    if let Some((from, to)) = &converted.cast {
        let from = from.iter().map(Dtype::name).collect::<Vec<_>>().join(", ");
        steps.push(format!("{from} → {to}: {source} → {cast_size}"));
    }
    let compression = match converted.compression {
        Compression::Lz4 => "LZ4",
        Compression::Zstd => "Zstandard",
        _ => return steps.join("; "),
    };
    let ratio = if cast > 0 { stored as f64 / cast as f64 } else { 1.0 };
    steps.push(format!("compressed ({compression}): {cast_size} → {stored_size} ({ratio:.2})"));
    steps.join("; ")
}

/// Registers signal handlers: the first signal sets the flag, so that incomplete files are removed; the second exits.
pub(super) fn watch_signals(interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let signals = [
        SIGINT,
        SIGTERM,
        #[cfg(unix)]
        signal_hook::consts::SIGHUP,
    ];
    for signal in signals {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(interrupted))?;
        flag::register(signal, Arc::clone(interrupted))?;
    }
    Ok(())
}
