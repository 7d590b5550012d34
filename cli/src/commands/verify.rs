//! `weightstream verify`: verifies a whole model.

use super::signature::SignatureArguments;
use super::terminal::{CHANGED, GOOD, inform, styled};
use super::{Failure, count, model::ModelArguments, progress::Bar, warn};
use weightstream::internals::native::Verified;
use weightstream::{Error, ErrorKind};

/// Formats with valid dtypes that weightstream does not know. In others, an unknown dtype is probably damage.
const OPEN_DTYPES: [&str; 6] = ["burnpack", "npy", "npz", "onnx", "pytorch", "ztensor"];

/// Verifies a whole model: every bound, every compressed block, every checksum, and a signature.
///
/// The report names what was not checked. An unknown dtype without a checksum is an error, except in Burnpack, NumPy's
/// files, ONNX, PyTorch and zTensor, which have more dtypes.
///
/// With `--signature`, the model must be what was signed. A folder must have all the files that were signed, and no
/// others besides those that were left out; these must not belong to the model. Of a file or a manifest, and of a model
/// at a URL, the files that are read must be signed.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 if all checks pass, 1 if one fails or the model cannot be read, 2 for wrong usage."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: ModelArguments,
    #[command(flatten)]
    signature: SignatureArguments,
    /// Fail if there is any warning, such as padding or a reserved field that is not zero.
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let signature = arguments.signature.verify(&arguments.place)?;
    let model = arguments.place.open_signed(signature.remote())?;
    signature.check(&model)?;
    let verified = model.verify(&Bar::new("verifying"))?;
    for (file, warning) in &verified.warnings {
        warn(&format!("{file}: {warning}"));
    }
    let warnings = model.warnings().len() + verified.warnings.len() + verified.unchecked.len();
    if arguments.strict && warnings > 0 {
        let what = format!("the checks gave {}, and --strict allows none", count(warnings, "warning"));
        let error = Error::new(ErrorKind::Format, what).in_file(&arguments.place.name());
        return Err(error.advise("Create the file again with a tool that follows its specification.").into());
    }
    let has_open_dtypes = OPEN_DTYPES.contains(&model.input().metadata().format);
    if let Some(unchecked) = unknown_dtypes(&verified).filter(|_| !has_open_dtypes) {
        let what = format!("{unchecked}. The other tensors passed all checks");
        let error = Error::new(ErrorKind::Unsupported, what).in_file(&arguments.place.name());
        return Err(error.advise("Check it with the tool that wrote the file.").into());
    }
    // Warnings about the head of the file were printed when it was opened.
    let is_known = |what: &str| model.warnings().iter().any(|(_, warning)| *warning == what);
    for (file, what) in verified.unchecked.iter().filter(|(_, what)| !is_known(what)) {
        warn(&format!("{file}: not checked: {what}"));
    }
    let mut checked: Vec<_> = verified.checksums.iter().map(ToString::to_string).collect();
    // Without a checksum, nothing shows that such a file is what its writer meant.
    let verdict = match verified.tensors_without_checksum > 0 && !verified.unchecked.is_empty() {
        true => styled(CHANGED, "incomplete"),
        false => styled(GOOD, "ok"),
    };
    if checked.is_empty() {
        checked.push("structure only: there is no checksum".to_owned());
    } else if verified.tensors_without_checksum > 0 {
        checked.push(format!("structure only of {}", count(verified.tensors_without_checksum, "tensor")));
    }
    let (files, tensors) = (count(verified.files, "file"), count(verified.tensors, "tensor"));
    inform(&format!("{verdict}: {files}, {tensors}, {}", checked.join(", ")))?;
    Ok(())
}

/// Names the dtypes of the tensors of which nothing could be checked.
fn unknown_dtypes(verified: &Verified) -> Option<String> {
    let tensors = |(dtype, number): (&String, &usize)| format!("{} of {dtype}", count(*number, "tensor"));
    let unchecked = verified.unchecked_tensors.iter().map(tensors).collect::<Vec<_>>().join(", ");
    (!unchecked.is_empty()).then(|| format!("not checked: {unchecked}, a dtype of unknown size, without a checksum"))
}
