//! `weightstream convert`: a model in another format, in one file or several.

use super::{Failure, count, one_line, progress::Bar, size, warn};
use clap::ValueEnum;
use indicatif::DecimalBytes;
use serde_json::Value;
use signal_hook::flag;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weightstream::error::{Error, ErrorKind, Result};
use weightstream::index::Metadata;
use weightstream::native::Reader;
use weightstream::write::{self, Alignment, Compression, ConvertOptions, TargetFormat};

/// Writes a model in another format, however large it is, in little memory.
///
/// The output takes its name only when it is whole; until then it is called NAME.partial.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A file of tensors, or a manifest with its files beside it.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The file to write; with --shard-size the manifest, with its files beside it.
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// The format to write.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// How tensors are stored. Trained 32-bit floats hardly compress, quantized and sparse ones do.
    #[arg(long, value_enum, default_value_t)]
    compress: Compress,
    /// Write several files of at most this size, such as 24MB or 2GiB, if one would be larger.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    shard_size: Option<u64>,
    /// The multiple of bytes at which tensors begin.
    #[arg(long, value_name = "BYTES", value_enum, default_value_t)]
    align: Align,
    /// A JSON file whose keys become the model's metadata, such as its config.json.
    #[arg(long, value_name = "JSON")]
    metadata: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Format {
    /// APR v2
    #[default]
    Apr,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Compress {
    /// As they are
    #[default]
    None,
    /// Every tensor in blocks of 64 KiB
    Lz4,
    /// So, but only the tensors that it makes smaller
    Auto,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Align {
    #[default]
    #[value(name = "64")]
    Bytes64,
    #[value(name = "32")]
    Bytes32,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    watch_signals(&interrupted).map_err(Error::from)?;
    let reader = Reader::open(&arguments.input)?;
    for (file, warning) in reader.warnings() {
        warn(&format!("{file}: {warning}"));
    }
    let options = ConvertOptions {
        format: match arguments.format {
            Format::Apr => TargetFormat::Apr,
        },
        compression: match arguments.compress {
            Compress::None => Compression::None,
            Compress::Lz4 => Compression::Lz4,
            Compress::Auto => Compression::Auto,
        },
        max_shard_bytes: arguments.shard_size,
        alignment: match arguments.align {
            Align::Bytes64 => Alignment::Bytes64,
            Align::Bytes32 => Alignment::Bytes32,
        },
        metadata: arguments.metadata.as_deref().map(read_metadata).transpose()?.unwrap_or_default(),
    };
    let bar = Bar::cancelled_by("converting", Arc::clone(&interrupted));
    let converted = write::convert(&reader, &arguments.output, &options, &bar);
    drop(bar);
    let converted = match converted {
        Err(_) if interrupted.load(Ordering::Relaxed) => return Err(Failure::Interrupted),
        converted => converted?,
    };
    for warning in &converted.warnings {
        warn(warning);
    }
    let file_bytes = converted.files.iter().map(|(_, byte_length)| byte_length).sum();
    writeln!(
        io::stdout(),
        "{}: {}, {}, {} of tensors in {}",
        one_line(&arguments.output.display().to_string()),
        count(converted.files.len(), "file"),
        count(converted.tensors, "tensor"),
        DecimalBytes(converted.decoded_bytes),
        DecimalBytes(file_bytes),
    )?;
    Ok(())
}

/// Has the first signal set the flag, so that what is half written is removed; the second ends the process.
fn watch_signals(interrupted: &Arc<AtomicBool>) -> io::Result<()> {
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

fn read_metadata(path: &Path) -> Result<Metadata> {
    let place = |error: Error| error.in_file(&path.display().to_string());
    let text = std::fs::read(path).map_err(|e| place(e.into()))?;
    match serde_json::from_slice(&text) {
        Ok(Value::Object(metadata)) => Ok(metadata),
        Ok(_) => Err("it is JSON, but not an object".to_owned()),
        Err(error) => Err(format!("it is not valid JSON: {error}")),
    }
    .map_err(|what| place(Error::new(ErrorKind::InvalidArgument, what).advise("`--metadata` takes a JSON object.")))
}
