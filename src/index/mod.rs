//! The vocabulary that all formats share: logical tensors, made of physical components.

pub use crate::codec::digest::Hasher;
use crate::dtype::Dtype;
pub use crate::long_array::{LongArray, Strings};
use serde_json::{Map, Value};
use split::Split;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

mod checks;
mod digest;
mod manifest;
pub(crate) mod split;

pub(crate) use checks::{check_tensors, check_tied_tensors, next_start};
pub use digest::{ComponentDigest, Digest, DigestedBytes};
pub(crate) use manifest::MAX_PARTS;
#[doc(hidden)]
pub use manifest::{Catalog, Manifest, Part};
pub(crate) use manifest::{check_elsewhere, check_part_count, part_path};

/// What the model says of itself: a JSON object, in the order of the file.
pub type Metadata = Map<String, Value>;

/// What one file holds.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Index {
    /// The format's name: `"apr"`, `"safetensors"` …
    pub format: &'static str,
    /// The version of the format, as the file states it.
    pub version: String,
    /// What the model says of itself; null stands where `long_arrays` has something. See [`Index::whole_metadata`].
    pub metadata: Metadata,
    /// Long arrays of the metadata, by their keys.
    pub long_arrays: Vec<(String, LongArray)>,
    /// In file order: ascending offsets of their first byte.
    pub tensors: Vec<Tensor>,
    /// Things a user may want to know that are no reason to refuse the file.
    pub warnings: Vec<String>,
    /// Tensors that the file lists although another one holds them, with the number of the shard that they are in:
    /// see [`Catalog`].
    pub elsewhere: HashMap<String, u64>,
}

impl Index {
    /// As [`Index::whole_metadata`], of which nothing is left then.
    pub(crate) fn take_metadata(&mut self) -> Metadata {
        let mut metadata = std::mem::take(&mut self.metadata);
        for (key, array) in std::mem::take(&mut self.long_arrays) {
            metadata.insert(key, (&array).into());
        }
        metadata
    }

    /// What the model says of itself, all of it as JSON.
    pub fn whole_metadata(&self) -> Metadata {
        let mut metadata = self.metadata.clone();
        for (key, array) in &self.long_arrays {
            metadata.insert(key.clone(), array.into());
        }
        metadata
    }
}

/// A named array: what a user asks for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Tensor {
    /// Unique within a model; any UTF-8.
    pub name: String,
    /// The type of the elements.
    pub dtype: Dtype,
    /// Row-major, outermost dimension first; empty for a scalar.
    pub shape: Vec<u64>,
    /// How the components make up the tensor.
    pub layout: Layout,
    /// The stretches of the file that hold it: one called `data` for a dense tensor.
    pub components: Vec<Component>,
    /// What else the format says of this tensor (quantization, `param_id` …).
    pub attributes: Metadata,
    /// Which file of the model holds it, counted from 0.
    pub shard: usize,
}

/// How a tensor is laid out in its components.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// One component, `data`, row by row.
    Dense,
    /// Compressed sparse rows: `values`, `indices`, `indptr`.
    SparseCsr,
    /// Coordinates: `values`, `coords`.
    SparseCoo,
    /// A layout that weightstream lists and loads by components without interpreting it.
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

/// The sum of lengths that files claim, or the largest number if there is none so large.
pub(crate) fn saturating_sum(lengths: impl Iterator<Item = u64>) -> u64 {
    lengths.fold(0, u64::saturating_add)
}

/// The component that dense tensors have.
const DATA: &str = "data";

/// A stretch of a file that holds a tensor, or a part of one.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Component {
    /// What it is to the tensor: `data`, `values`, `indices` …
    pub role: Cow<'static, str>,
    /// The type of its elements.
    pub dtype: Dtype,
    /// The stored bytes, from the start of the file.
    pub range: Range<u64>,
    /// How the stored bytes become elements.
    pub encoding: Encoding,
    /// Bytes once decoded; `None` where the format does not say (zstd without a length).
    pub decoded_length: Option<u64>,
    /// The most bytes that it can be once decoded, where `decoded_length` is `None` but layout and shape say so.
    pub max_decoded_length: Option<u64>,
    /// What the bytes can be checked by.
    pub digest: Option<ComponentDigest>,
    /// What any part of the bytes can be checked by.
    pub pages: Option<Box<PageTable>>,
}

/// Where a file has the digests of the pages that one of its stretches is cut into. They are read when they are needed:
/// see [`page_digests`](crate::format::page_digests).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageTable {
    /// The stretch of the file.
    pub over: Range<u64>,
    /// The digests.
    pub at: Range<u64>,
}

/// How stored bytes become elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// As they are.
    Raw,
    /// As they are, but the bytes of each number in the opposite order: byte `n` of the stored bytes belongs to
    /// the same element as byte `n` of the decoded ones. A number is as wide as an element of the dtype's
    /// [`ArrayKind`](crate::dtype::ArrayKind), so that a complex one is two.
    BigEndian,
    /// APR v2's LZ4: blocks of at most 64 KiB, each behind its stored length as a u32.
    #[cfg(feature = "lz4")]
    Lz4Blocks,
    /// One LZ4 block of any length, behind its decoded length as a u32.
    #[cfg(feature = "lz4")]
    Lz4Block,
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
            #[cfg(feature = "zstd")]
            Encoding::Zstd => "zstd",
        }
    }

    /// Whether byte `n` of the stored bytes belongs to the same element as byte `n` of the decoded ones.
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

    /// Bytes once decoded, over all components; `None` where one of them does not say.
    pub fn byte_length(&self) -> Option<u64> {
        self.components.iter().try_fold(0u64, |sum, c| sum.checked_add(c.decoded_length?))
    }

    /// Bytes as the file stores them, over all components.
    pub fn stored_length(&self) -> u64 {
        let lengths = self.components.iter().map(|c| c.range.end - c.range.start);
        lengths.fold(0, u64::saturating_add) // files of unknown length may claim anything
    }

    /// Where the tensor begins in its file.
    pub fn first_byte(&self) -> u64 {
        self.components.iter().map(|c| c.range.start).min().unwrap_or(0)
    }
}

impl Component {
    /// The page digests that its bytes are checked by: where only some are read, or where it has no digest of its own.
    pub(crate) fn checking_pages(&self, is_read_whole: bool) -> Option<&PageTable> {
        self.pages.as_deref().filter(|_| !is_read_whole || self.digest.is_none())
    }

    /// Raw bytes called `data`, as long as they are stored.
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
        }
    }
}

/// What a file calls a component. Nearly all are called the same: that takes no memory.
pub(crate) fn role_named(name: &str) -> Cow<'static, str> {
    if name == DATA { DATA.into() } else { name.to_owned().into() }
}

/// What a file turned out to be.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq)]
pub enum Parsed {
    /// A file of tensors.
    File(Index),
    /// A file of tensors that says of itself which part of a model it is.
    Part(Index, Split),
    /// A document that names files of tensors.
    Manifest(Manifest),
    /// A file that is compressed as a whole: this component of it decodes to another file, which is read instead.
    Packed(Component),
}
