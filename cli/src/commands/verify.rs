//! `weightstream verify`: verifies a whole model.

use super::{Failure, count, model::ModelArguments, progress::Bar};
use std::io::{self, Write};

/// Verifies a whole model: every bound, every compressed block, every checksum.
#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: ModelArguments,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let verified = arguments.place.open()?.verify(&Bar::new("verifying"))?;
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
