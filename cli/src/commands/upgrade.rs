//! `weightstream upgrade`: converts an old APR file to APR v2.

use super::{Failure, convert, warn};
use std::path::PathBuf;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{ConvertOptions, format_named};
use weightstream::{Error, ErrorKind};

/// Converts a model of an older APR version (APR1, or the layout that tools wrote as APR v2) to specified APR v2.
///
/// Names, shapes, dtypes, metadata and the bytes of tensors are unchanged.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 for success, 1 for an error, 2 for wrong usage, 130 after Ctrl-C or another signal."
)]
pub(super) struct Arguments {
    /// An APR file.
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The file to write.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Replace NEW if it exists.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let reader = Reader::open(&arguments.old)?;
    let (format, apr) = (reader.metadata().format, format_named("apr")?);
    if format != apr.name {
        let error = Error::new(ErrorKind::InvalidArgument, format!("this is a {format} file, not an APR file"));
        let error = error.advise("Use `weightstream convert` for files of other formats.");
        return Err(error.in_file(&arguments.old.display().to_string()).into());
    }
    for (file, warning) in reader.warnings() {
        warn(&format!("{file}: {warning}"));
    }
    let keep_existing = !arguments.force;
    let options = ConvertOptions::default().format(apr).keep_existing(keep_existing);
    convert::write(&reader, &arguments.new, &options)
}
