//! `weightstream verify`: is everything as the file says?

use super::{Failure, count, progress::Bar, warn};
use std::io::{self, Write};
use std::path::PathBuf;
use weightstream::native::Reader;

/// Checks everything that a model lets one check: every bound, every block, every checksum.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A file of tensors, or a manifest with its files beside it.
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let reader = Reader::open(&arguments.file)?;
    for (file, warning) in reader.warnings() {
        warn(&format!("{file}: {warning}"));
    }
    let verified = reader.verify(&Bar::new("verifying"))?;
    let mut checked: Vec<_> = verified.checksums.into_iter().map(str::to_owned).collect();
    if checked.is_empty() {
        checked.push("structure only: there is no checksum".to_owned());
    } else if verified.tensors_without_checksum > 0 {
        checked.push(format!("structure only of {}", count(verified.tensors_without_checksum, "tensor")));
    }
    let (files, tensors) = (count(verified.files, "file"), count(verified.tensors, "tensor"));
    writeln!(io::stdout(), "ok: {files}, {tensors}, {}", checked.join(", "))?;
    Ok(())
}
