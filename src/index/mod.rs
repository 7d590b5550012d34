//! The types that all formats share: logical tensors, made of physical components.

pub use crate::codec::digest::Hasher;
use crate::dtype::Dtype;
pub use crate::long_array::{LongArray, Strings};
use serde_json::{Map, Value};
use split::Split;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use values::ValueRule;

mod blocks;
mod checks;
pub(crate) mod copies;
mod digest;
mod manifest;
pub(crate) mod padding;
pub(crate) mod publication;
mod raw_tensors;
pub(crate) mod sparse;
pub(crate) mod split;
mod tensors;
pub(crate) mod values;

pub use crate::algorithm::Algorithm;
pub(crate) use blocks::BlockSpan;
#[doc(hidden)]
pub use blocks::{BlockEnd, Blocks};
pub(crate) use checks::{check_tensors, check_tied_tensors, next_start};
pub use copies::CopiedRange;
pub use digest::{ComponentDigest, Digest, DigestedBytes};
pub(crate) use manifest::MAX_PARTS;
#[doc(hidden)]
pub use manifest::{Catalog, DataFile, Manifest, Part};
pub(crate) use manifest::{check_catalog, check_part_count, part_path};
#[cfg(all(feature = "js", target_arch = "wasm32"))]
pub(crate) use raw_tensors::RawTensor;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
pub(crate) use tensors::Entry;
pub use tensors::Tensors;

/// The metadata of a model: a JSON object, in file order.
pub type Metadata = Map<String, Value>;

/// The content of one file: metadata and tensors.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Index {
    /// The format's name: `"apr"`, `"safetensors"` …
    pub format: &'static str,
    /// The version of the format, as stated in the file.
    pub version: String,
    /// The metadata of the model. Keys whose values are in `long_arrays` are null here. See [`Index::whole_metadata`].
    pub metadata: Metadata,
    /// Long arrays of the metadata, with their keys.
    pub long_arrays: Vec<(String, LongArray)>,
    /// The tensors in file order: by ascending offset of their first byte.
    pub tensors: Tensors,
    /// Warnings for the user. They do not prevent the file from being loaded.
    pub warnings: Vec<String>,
    /// Tensors that this file lists although other files contain them, with the shard number of that file. See
    /// [`Catalog`].
    pub other_shards: HashMap<String, u64>,
    /// The positions of the blocks of compressed components, by the offset of the component, if the file states them.
    /// They are a hint, which may be wrong.
    pub(crate) blocks: Vec<(u64, Blocks)>,
}

impl Index {
    /// The index of a file that was opened itself: if it lists tensors of other files, only their manifest names these.
    pub(crate) fn without_manifest(mut self) -> Self {
        if !self.other_shards.is_empty() {
            let warning = "the tensors that it lists are in other files: open the manifest of the model";
            self.warnings.push(warning.to_owned());
        }
        self
    }

    /// Like [`Index::whole_metadata`], but moves the metadata out of the index.
    pub(crate) fn take_metadata(&mut self) -> Metadata {
        let mut metadata = std::mem::take(&mut self.metadata);
        for (key, array) in std::mem::take(&mut self.long_arrays) {
            metadata.insert(key, (&array).into());
        }
        metadata
    }

    /// The complete metadata as JSON, including `long_arrays`. Copies all of it.
    pub fn whole_metadata(&self) -> Metadata {
        let mut metadata = self.metadata.clone();
        for (key, array) in &self.long_arrays {
            metadata.insert(key.clone(), array.into());
        }
        metadata
    }
}

/// A named array of numbers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Tensor {
    /// The name: any UTF-8, unique within a model.
    pub name: String,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The shape, outermost dimension first, for row-major order. Empty for a scalar.
    pub shape: Vec<u64>,
    /// How the components make up the tensor.
    pub layout: Layout,
    /// The parts of the file that contain the tensor. A dense tensor has one component, `data`.
    pub components: Vec<Component>,
    /// Further format-specific attributes (quantization, `param_id` …).
    pub attributes: Metadata,
    /// The number of the model's file that contains the tensor, counted from 0.
    pub shard: usize,
}

/// How a tensor is laid out in its components.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// One component, `data`, in row-major order.
    Dense,
    /// Compressed sparse rows: `values`, `indices`, `indptr`.
    SparseCsr,
    /// Coordinates: `values`, `coords`.
    SparseCoo,
    /// Another layout. Its components are listed and loaded without interpretation.
    Other(Box<str>),
}

impl Layout {
    /// The layout's name, as zTensor spells it.
    pub fn name(&self) -> &str {
        match self {
            Layout::Dense => "dense",
            Layout::SparseCsr => "sparse_csr",
            Layout::SparseCoo => "sparse_coo",
            Layout::Other(name) => name,
        }
    }
}

/// The sum of lengths that a file states; `u64::MAX` on overflow.
pub(crate) fn saturating_sum(lengths: impl Iterator<Item = u64>) -> u64 {
    lengths.fold(0, u64::saturating_add)
}

/// The role of a dense tensor's component.
pub(crate) const DATA: &str = "data";

/// A range of a file that contains a tensor, or a part of one.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Component {
    /// The role in the tensor: `data`, `values`, `indices` …
    pub role: Cow<'static, str>,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The range of the stored bytes in the file.
    pub range: Range<u64>,
    /// How the elements are encoded.
    pub encoding: Encoding,
    /// The decoded length in bytes; `None` if the format does not state it (zstd without a content size).
    pub decoded_length: Option<u64>,
    /// The maximum decoded length in bytes, if `decoded_length` is `None` and layout and shape determine a maximum.
    pub max_decoded_length: Option<u64>,
    /// The digest of the component, if the file has one.
    pub digest: Option<ComponentDigest>,
    /// The digests of the pages that contain the bytes, if the file has them. They verify partial reads.
    pub pages: Option<Box<PageTable>>,
    /// The rule for the decoded values, if the format has one.
    pub(crate) rule: Option<ValueRule>,
}

/// The location of the page digests of a range of the file. The digests are read when they are needed: see
/// [`page_digests`](crate::format::page_digests).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageTable {
    /// The range of the file that is divided into pages.
    pub over: Range<u64>,
    /// The range of the file that contains the digests.
    pub at: Range<u64>,
}

/// How the elements of a component are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// Not encoded: the stored bytes are the decoded bytes.
    Raw,
    /// The bytes of each number are in the opposite order of the decoded ones. Stored byte `n` belongs to the same
    /// element as decoded byte `n`. A number is as wide as an element of the dtype's
    /// [`ArrayKind`](crate::dtype::ArrayKind), so a complex element is two numbers.
    BigEndian,
    /// LZ4 in APR v2: blocks of at most 64 KiB, each preceded by its stored length as a u32.
    #[cfg(feature = "lz4")]
    Lz4Blocks,
    /// One LZ4 block of any length, preceded by its decoded length as a u32.
    #[cfg(feature = "lz4")]
    Lz4Block,
    /// Packed varints of Protobuf, one for each element (two 4-bit elements, four 2-bit elements).
    #[cfg(feature = "onnx")]
    Varint,
    /// Zstandard frames, one or more.
    #[cfg(feature = "zstd")]
    Zstd,
}

impl Encoding {
    /// The encoding's name.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Raw => "raw",
            Encoding::BigEndian => "big-endian",
            #[cfg(feature = "lz4")]
            Encoding::Lz4Blocks | Encoding::Lz4Block => "lz4",
            #[cfg(feature = "onnx")]
            Encoding::Varint => "varint",
            #[cfg(feature = "zstd")]
            Encoding::Zstd => "zstd",
        }
    }

    /// Whether stored byte `n` belongs to the same element as decoded byte `n`.
    pub fn keeps_positions(self) -> bool {
        matches!(self, Encoding::Raw | Encoding::BigEndian)
    }
}

impl Tensor {
    /// A dense tensor of one component.
    pub fn dense(name: String, dtype: Dtype, shape: Vec<u64>, data: Component) -> Self {
        let (layout, attributes) = (Layout::Dense, Metadata::new());
        Tensor { name, dtype, shape, layout, components: vec![data], attributes, shard: 0 }
    }

    /// The decoded length in bytes over all components; `None` if it is unknown for one of them.
    pub fn byte_length(&self) -> Option<u64> {
        self.components.iter().try_fold(0u64, |sum, c| sum.checked_add(c.decoded_length?))
    }

    /// The stored length in bytes over all components.
    pub fn stored_length(&self) -> u64 {
        let lengths = self.components.iter().map(|c| c.range.end - c.range.start);
        lengths.fold(0, u64::saturating_add) // in a file of unknown length, the lengths are unchecked
    }

    /// Whether another tensor has exactly the same stored bytes, as tied weights have. Their dtypes and shapes may
    /// differ. Tensors without bytes share nothing.
    pub(crate) fn shares_bytes_with(&self, other: &Tensor) -> bool {
        let is_same = |(one, other): (&Component, &Component)| {
            let is_encoded_same = one.encoding == other.encoding && one.decoded_length == other.decoded_length;
            one.range == other.range && is_encoded_same
        };
        self.shard == other.shard
            && self.components.len() == other.components.len()
            && self.stored_length() > 0
            && self.components.iter().zip(&other.components).all(is_same)
    }

    /// The offset of the tensor's first byte in its file.
    pub fn first_byte(&self) -> u64 {
        self.components.iter().map(|c| c.range.start).min().unwrap_or(0)
    }
}

impl Component {
    /// The page digests that verify the component: for partial reads, and for components without their own digest.
    pub(crate) fn checking_pages(&self, is_read_whole: bool) -> Option<&PageTable> {
        self.pages.as_deref().filter(|_| !is_read_whole || self.digest.is_none())
    }

    /// A component `data` of raw bytes.
    pub fn raw(dtype: Dtype, range: Range<u64>) -> Self {
        let decoded_length = Some(range.end - range.start);
        Component {
            role: DATA.into(),
            dtype,
            range,
            encoding: Encoding::Raw,
            decoded_length,
            max_decoded_length: None,
            digest: None,
            pages: None,
            rule: None,
        }
    }
}

/// The role of a component. The most frequent role needs no allocation.
pub(crate) fn role_named(name: &str) -> Cow<'static, str> {
    if name == DATA { DATA.into() } else { name.to_owned().into() }
}

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
