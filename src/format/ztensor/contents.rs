//! Shared code for the indexes of all layouts.

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Metadata, Tensor};

/// The name of the format in the registry.
pub(super) const NAME: &str = "ztensor";

/// The size of a magic in bytes.
pub(super) const MAGIC_BYTES: u64 = 8;

/// The maximum size of the manifest. An index of 100,000 tensors has about 30 MB; the reference implementation reads up
/// to 1 GiB. Prevents an invalid size from making the reader fetch tensor data as the index.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 256 << 20;

/// The newest supported minor version of 1.
const NEWEST_MINOR: u64 = 2;

/// The content of an index of any layout.
pub(super) struct Contents {
    pub(super) version: String,
    pub(super) metadata: Metadata,
    pub(super) tensors: Vec<Tensor>,
    pub(super) warnings: Vec<String>,
}

pub(super) fn too_large(size: u64, at: u64) -> Error {
    let what = format!("the manifest claims {size} bytes; weightstream reads up to {MAX_MANIFEST_BYTES}");
    Error::new(ErrorKind::Limit, what).at(at..at + 8)
}

/// Applies the specification's rules (§6.1): rejects another major version, and warns about a newer minor version.
pub(super) fn check_version(version: &str) -> Result<Option<String>> {
    let mut numbers = version.split('.').map(str::parse::<u64>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return Err(malformed(format!("the version of the manifest is `{version}`")));
    };
    if major != 1 {
        let what = format!("zTensor version {version}; weightstream reads versions 0.1 and 1.x");
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    let warning = format!("the file has version {version}; features newer than 1.{NEWEST_MINOR} were ignored");
    Ok((minor > NEWEST_MINOR).then_some(warning))
}
