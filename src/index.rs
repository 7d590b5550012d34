//! The vocabulary that all formats share: logical tensors, made of physical components.

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result, malformed};
pub use crate::long_array::{LongArray, Strings};
use crate::names::Names;
use crate::split::Split;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// What the model says of itself: a JSON object, in the order of the file.
pub type Metadata = Map<String, Value>;

/// What one file holds.
#[derive(Debug, Clone, PartialEq)]
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

/// The component that dense tensors have.
const DATA: &str = "data";

/// A stretch of a file that holds a tensor, or a part of one.
#[derive(Debug, Clone, PartialEq)]
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
    /// What the bytes can be checked by.
    pub digest: Option<ComponentDigest>,
    /// What any part of the bytes can be checked by.
    pub pages: Option<Box<PageTable>>,
}

/// Where a file has the digests of the pages that one of its stretches is cut into. They are read when they are needed:
/// see [`page_digests`](crate::format::page_digests).
#[derive(Debug, Clone, PartialEq, Eq)]
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
    Lz4Blocks,
    /// One LZ4 block of any length, behind its decoded length as a u32.
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

/// A checksum as a file states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Digest {
    /// CRC-32/IEEE.
    Crc32(u32),
    /// CRC-32C (Castagnoli).
    Crc32c(u32),
    /// XXH3 with its 64-bit output.
    Xxh3(u64),
    /// SHA-256.
    Sha256([u8; 32]),
    /// BLAKE3 with its ordinary 256-bit output.
    Blake3([u8; 32]),
}

/// What a component's bytes can be checked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComponentDigest {
    /// What they should have.
    pub digest: Digest,
    /// Which bytes it is over.
    pub over: DigestedBytes,
}

impl ComponentDigest {
    /// The digest of the bytes as stored, of a component that is stored in this encoding, where it is a strong one.
    pub fn content(&self, encoding: Encoding) -> Option<&Digest> {
        let is_stored = self.over == DigestedBytes::Stored || encoding == Encoding::Raw;
        (is_stored && self.digest.is_strong()).then_some(&self.digest)
    }
}

impl Digest {
    /// Whether nobody can make other bytes that have it: then it stands for the bytes themselves.
    pub fn is_strong(&self) -> bool {
        matches!(self, Digest::Sha256(_) | Digest::Blake3(_))
    }
}

/// Which bytes of a component a digest is over. They are the same where the component is stored raw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestedBytes {
    /// The bytes as stored.
    Stored,
    /// The bytes once decoded.
    Decoded,
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
            digest: None,
            pages: None,
        }
    }
}

/// What a file calls a component. Nearly all are called the same: that takes no memory.
#[cfg(feature = "ztensor")]
pub(crate) fn role_named(name: &str) -> Cow<'static, str> {
    if name == DATA { DATA.into() } else { name.to_owned().into() }
}

/// A small document that names the files of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The format of the manifest's files.
    pub format: &'static str,
    /// The version, as the manifest states it.
    pub version: String,
    /// What the manifest says of the model.
    pub metadata: Metadata,
    /// The files, in the manifest's order: a tensor's `shard` counts them.
    pub parts: Vec<Part>,
    /// Which file holds which tensor, where the manifest says.
    pub tensor_parts: HashMap<String, usize>,
    /// The file that says it in the manifest's stead, where there is one.
    pub catalog: Option<Catalog>,
}

/// The file of a model that lists the tensors of the others ([`Index::elsewhere`]), with numbers of shards that only
/// the manifest explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// Which of the manifest's parts it is.
    pub part: usize,
    /// Which part holds a shard.
    pub part_of_shard: HashMap<u64, usize>,
}

/// One file of a model in several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Relative to the manifest; checked to stay in its folder. May be empty where there is a URL.
    pub path: String,
    /// Where the file is instead, if the model was opened from a URL: any http(s) URL. Only AEROSET has some.
    pub url: Option<String>,
    /// Length in bytes, where the manifest says.
    pub byte_length: Option<u64>,
    /// A checksum of the file, where the manifest has one.
    pub digest: Option<Digest>,
}

/// What a file turned out to be.
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

impl Catalog {
    /// The part that holds a tensor of this shard.
    ///
    /// # Errors
    /// `FORMAT` where the manifest has no part with this shard.
    pub(crate) fn part_of(&self, tensor: &str, shard: u64) -> Result<usize> {
        let part = self.part_of_shard.get(&shard).copied();
        part.ok_or_else(|| {
            malformed(format!("it is in shard {shard}, which no file of the manifest has")).in_tensor(tensor)
        })
    }
}

impl Manifest {
    /// Which part holds which tensor, as far as the manifest and its catalog say. `listed` is what the catalog lists.
    ///
    /// # Errors
    /// As for [`Catalog::part_of`].
    pub(crate) fn stated_parts<'a>(
        &'a self,
        listed: Option<&'a HashMap<String, u64>>,
    ) -> impl Iterator<Item = Result<(&'a str, usize)>> {
        let mapped = self.tensor_parts.iter().map(|(name, part)| Ok((name.as_str(), *part)));
        let catalog = self.catalog.iter().zip(listed);
        let listed = catalog.flat_map(|(catalog, listed)| listed.iter().map(move |listed| (catalog, listed)));
        mapped.chain(listed.map(|(catalog, (name, shard))| Ok((name.as_str(), catalog.part_of(name, *shard)?))))
    }
}

/// Checks that a part that lists tensors of other files is the one that the manifest has for that.
///
/// # Errors
/// `FORMAT` where it should hold them itself.
pub(crate) fn check_elsewhere(index: &Index, manifest: Option<&Manifest>, part: usize) -> Result<()> {
    let catalog = manifest.and_then(|manifest| manifest.catalog.as_ref());
    if index.elsewhere.is_empty() || catalog.is_some_and(|catalog| catalog.part == part) {
        return Ok(());
    }
    Err(malformed("it lists tensors but holds none of them, and the manifest does not have it as its index"))
}

/// Brings an index's tensors into file order (one without bytes before one that begins where it lies) and checks what
/// must hold in every format: unique names, components inside the file (before `data_end`) that do not overlap.
///
/// # Errors
/// `FORMAT` for a duplicate name or an overlap, `TRUNCATED` for a component beyond the file's end.
pub(crate) fn check_tensors(tensors: &mut [Tensor], data_end: Option<u64>) -> Result<()> {
    check(tensors, data_end, false)
}

/// As [`check_tensors`], for formats in which components may have just the same bytes, as tied weights do.
///
/// # Errors
/// As for [`check_tensors`].
#[cfg(feature = "ztensor")]
pub(crate) fn check_tied_tensors(tensors: &mut [Tensor], data_end: Option<u64>) -> Result<()> {
    check(tensors, data_end, true)
}

fn check(tensors: &mut [Tensor], data_end: Option<u64>, may_be_tied: bool) -> Result<()> {
    let order = |tensor: &Tensor| (tensor.first_byte(), tensor.stored_length() > 0);
    if !tensors.is_sorted_by_key(order) {
        tensors.sort_by_key(order); // takes half as much memory again, whether it is needed or not
    }
    let name_at = &|at: usize| tensors.get(at).map_or("", |tensor| tensor.name.as_str());
    if let Some(twice) = Names::new(tensors.len(), name_at).twice(name_at) {
        return Err(malformed("the name occurs twice").in_tensor(twice));
    }
    let components = || tensors.iter().flat_map(|t| t.components.iter().map(move |c| (t, &c.range)));
    if let Some(data_end) = data_end {
        for (tensor, range) in components() {
            if range.end > data_end {
                let what = format!("its bytes reach to {}, but the file's tensors end at {data_end}", range.end);
                return Err(Error::new(ErrorKind::Truncated, what).at(range.clone()).in_tensor(&tensor.name));
            }
        }
    }
    let mut ranges: Vec<_> = components().filter(|(_, range)| !range.is_empty()).collect();
    ranges.sort_by_key(|(_, range)| (range.start, range.end));
    if may_be_tied {
        ranges.dedup_by_key(|(_, range)| range.clone());
    }
    for pair in ranges.windows(2) {
        if let [(first, a), (second, b)] = pair
            && b.start < a.end
        {
            let what = format!("its bytes overlap those of \"{}\" (bytes {} to {})", first.name, a.start, a.end);
            return Err(malformed(what).at((*b).clone()).in_tensor(&second.name));
        }
    }
    Ok(())
}
