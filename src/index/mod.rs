//! The types that all formats share: logical tensors, made of physical components.

pub use crate::codec::digest::Hasher;
pub use crate::digest::Digest;
#[doc(hidden)]
pub use crate::digest_state::DigestState;
pub use crate::long_array::{LongArray, Strings};
use serde_json::{Map, Value};

mod blocks;
mod byte_streams;
mod checks;
mod component;
pub(crate) mod copies;
pub(crate) mod differences;
mod digest;
mod file;
mod manifest;
pub(crate) mod padding;
mod parsed;
pub(crate) mod part;
pub(crate) mod publication;
mod quantized;
mod raw_tensors;
pub(crate) mod sparse;
pub(crate) mod split;
mod stated;
mod stored_end;
pub(crate) mod strides;
mod tensor;
mod tensors;
pub(crate) mod values;

pub use crate::algorithm::Algorithm;
pub(crate) use blocks::BlockSpan;
#[doc(hidden)]
pub use blocks::{BlockEnd, Blocks};
#[doc(hidden)]
pub use byte_streams::{ByteStream, ByteStreams};
#[cfg(feature = "pytorch")]
pub(crate) use checks::check_views;
pub(crate) use checks::{check_tensors, check_tied_tensors, next_start};
pub use component::{Component, Encoding, PageTable, SkippedBytes};
pub(crate) use component::{DATA, role_named};
pub use copies::CopiedRange;
pub use digest::{ComponentDigest, DigestedBytes};
pub use file::Index;
pub(crate) use manifest::check_catalog;
#[doc(hidden)]
pub use manifest::{Catalog, DataFile, Manifest};
#[cfg(npm)]
pub(crate) use parsed::NamedFiles;
#[doc(hidden)]
pub use parsed::Parsed;
#[doc(hidden)]
pub use part::Part;
pub(crate) use part::{MAX_PARTS, check_part_count, part_path};
pub use quantized::Quantized;
pub(crate) use quantized::{Bytes, PartTensor, Scheme, matrix_of};
#[cfg(npm)]
pub(crate) use raw_tensors::RawTensor;
pub(crate) use stated::StatedQuantization;
#[cfg(feature = "onnx")]
pub(crate) use stated::{Operator, QuantizedNode};
#[doc(hidden)]
pub use stored_end::StoredEnd;
pub use tensor::{Layout, Tensor};
pub(crate) use tensors::Entry;
pub use tensors::Tensors;

/// The metadata of a model: a JSON object, in file order.
pub type Metadata = Map<String, Value>;

/// The sum of lengths that a file states; `u64::MAX` on overflow.
pub(crate) fn saturating_sum(lengths: impl Iterator<Item = u64>) -> u64 {
    lengths.fold(0, u64::saturating_add)
}
