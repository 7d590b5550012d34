//! `weightstream verify`: is everything as the file says?

use super::{Failure, count, model::Place, progress::Bar};
use std::io::{self, Write};

/// Checks everything that a model lets one check: every bound, every block, every checksum.
#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let verified = arguments.place.open()?.verify(&Bar::new("verifying"))?;
    let mut checked: Vec<_> = verified.checksums.into_iter().map(str::to_owned).collect();
    if verified.files_without_checksum == verified.files {
        checked = vec!["structure only: the format keeps no checksum".to_owned()];
    } else if verified.files_without_checksum > 0 {
        checked.push(format!("structure only of {}", count(verified.files_without_checksum, "file")));
    }
    let (files, tensors) = (count(verified.files, "file"), count(verified.tensors, "tensor"));
    writeln!(io::stdout(), "ok: {files}, {tensors}, {}", checked.join(", "))?;
    Ok(())
}
