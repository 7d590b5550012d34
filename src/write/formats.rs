//! The formats that can be written, and their names.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{self, Format};
use crate::output::writer::Writer;
use std::path::Path;

/// Lists the formats that weightstream writes.
pub fn formats() -> impl Iterator<Item = &'static Format> {
    format::formats().iter().filter(|format| format.writer().is_some())
}

/// Returns the format with this name.
///
/// # Errors
/// `INVALID_ARGUMENT` if weightstream does not write a format with this name.
pub fn format_named(name: &str) -> Result<&'static Format> {
    formats().find(|format| format.name == name).ok_or_else(|| {
        let what = format!("weightstream does not write a format named `{name}`");
        let error = Error::new(ErrorKind::InvalidArgument, what);
        error.advise(format!("It must be one of {}.", names(|_| true)))
    })
}

/// Infers the format from a file name: from the extension, or from the name before `.json`. Any other JSON document is
/// one of TensorFlow.js.
///
/// ```
/// # #[cfg(all(feature = "apr", feature = "safetensors"))] {
/// use weightstream::write::format_of_name;
///
/// let format = |name: &str| format_of_name(name.as_ref()).map(|format| format.name);
/// assert_eq!(format("models/m.apr"), Some("apr"));
/// assert_eq!(format("m.safetensors.index.json"), Some("safetensors"));
/// assert_eq!(format("m.bin"), None);
/// # #[cfg(feature = "tfjs")]
/// assert_eq!(format("web/model.json"), Some("tfjs"));
/// # }
/// ```
pub fn format_of_name(path: &Path) -> Option<&'static Format> {
    let name = path.file_name()?.to_str()?.to_lowercase();
    let stem = name.strip_suffix(".index.json").or(name.strip_suffix(".json")).unwrap_or(&name);
    let named = |name: &str| formats().find(|format| format.extensions.iter().any(|end| name.ends_with(end)));
    named(stem).or_else(|| named(&name).filter(|_| !stem.contains('.')))
}

/// Returns the names of the formats whose writer satisfies the predicate, for error messages.
pub(super) fn names(predicate: impl Fn(&Writer) -> bool) -> String {
    let matching = formats().filter(|format| format.writer().is_some_and(&predicate));
    matching.map(|format| format.name).collect::<Vec<_>>().join(", ")
}
