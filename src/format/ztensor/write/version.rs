//! The versions of zTensor that are written, and their differences.

use crate::dtype::Dtype;
use crate::format::ztensor::dtypes::{block_layout, long_name, spelling};
use crate::format::ztensor::v1::MAGIC_1;
use crate::index::{Layout, Tensor};

/// A version of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// The version of the specification: a dtype for each tensor, and metadata of text.
    V1_0,
    /// A dtype for each component, and a magic at the end.
    V1_1,
    /// Logical types, and the decoded lengths of compressed blobs.
    V1_2,
}

impl Version {
    /// The names in the command line. The first is the default.
    pub(super) const NAMES: &[&str] = &["1.2", "1.1", "1.0"];

    /// The version of that name; the default for other names.
    pub(super) fn named(name: Option<&str>) -> Self {
        match name {
            Some("1.0") => Version::V1_0,
            Some("1.1") => Version::V1_1,
            _ => Version::V1_2,
        }
    }

    /// The version in the manifest.
    pub(super) fn stated(self) -> &'static str {
        match self {
            Version::V1_0 => "1.0",
            Version::V1_1 => "1.1.0",
            Version::V1_2 => "1.2.0",
        }
    }

    /// What follows the size of the manifest.
    pub(super) fn magic_at_end(self) -> &'static [u8] {
        if self == Version::V1_0 { &[] } else { &MAGIC_1 }
    }

    /// Whether compressed blobs state their decoded length.
    pub(super) fn states_decoded_lengths(self) -> bool {
        self == Version::V1_2
    }

    /// Returns why the version cannot store the dtypes and the layout of a tensor that 1.2 can store.
    pub(super) fn refusal(self, tensor: &Tensor) -> Option<String> {
        let is_blocks = tensor.layout == Layout::Dense && block_layout(&tensor.dtype).is_some();
        match self {
            Version::V1_2 => None,
            Version::V1_1 => {
                let has_type = |dtype: &&Dtype| spelling(dtype).is_some_and(|(_, logical)| logical.is_some());
                let dtype = tensor.components.iter().map(|component| &component.dtype).find(has_type);
                let dtype = dtype.filter(|_| !is_blocks)?;
                Some(format!("zTensor 1.1 has no dtype {dtype}"))
            }
            Version::V1_0 => match &tensor.layout {
                Layout::Other(layout) => Some(format!("zTensor 1.0 has no layout {layout}")),
                _ if long_name(&tensor.dtype).is_none() => Some(format!("zTensor 1.0 has no dtype {}", tensor.dtype)),
                _ => {
                    let is_index = |role: &str| matches!(role, "indices" | "indptr" | "coords");
                    let mut indices = tensor.components.iter().filter(|component| is_index(&component.role));
                    let other = indices.find(|component| component.dtype != Dtype::U64)?;
                    Some(format!("its `{}` are {}, and zTensor 1.0 has only U64", other.role, other.dtype))
                }
            },
        }
    }
}
