//! What parsers return.

use super::differences::Differences;
use super::split::Split;
use super::{Component, DataFile, Index, Manifest, Part};

/// The result of parsing a file.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq)]
pub enum Parsed {
    /// A file of tensors.
    File(Index),
    /// A file of tensors that states which part of a model it is.
    Part(Index, Split),
    /// A manifest that names files of tensors.
    Manifest(Manifest),
    /// A file of tensors that names files of raw bytes, which contain further tensors.
    WithData(Index, Vec<DataFile>),
    /// A file that is compressed as a whole: this component decodes to the file that is read instead.
    Packed(Component),
}

/// The other files that a file of a model names.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(not(npm), allow(dead_code, reason = "only the npm package lists cached models"))]
pub(crate) struct NamedFiles {
    /// Those of the model itself.
    pub(crate) parts: Vec<Part>,
    /// Those with differences to earlier revisions, which only updates need.
    pub(crate) differences: Vec<Part>,
}

#[cfg_attr(not(npm), allow(dead_code, reason = "only the npm package lists cached models"))]
impl Parsed {
    /// The other files that this one names.
    pub(crate) fn into_named_files(self) -> NamedFiles {
        match self {
            Parsed::Manifest(Manifest { parts, publication, .. }) => {
                let differences = publication.as_ref().and_then(|publication| publication.differences());
                let differences = differences.into_iter().flat_map(Differences::files).cloned().collect();
                NamedFiles { parts, differences }
            }
            Parsed::WithData(_, data) => {
                NamedFiles { parts: data.into_iter().flat_map(|data| data.parts).collect(), ..NamedFiles::default() }
            }
            Parsed::File(_) | Parsed::Part(..) | Parsed::Packed(_) => NamedFiles::default(),
        }
    }
}
