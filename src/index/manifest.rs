//! The manifest of a model in several files: it names the files, and states which file contains which tensor.

use super::publication::Publication;
use super::{Index, Metadata, Part, Tensor, check_tied_tensors};
use crate::error::{Result, malformed};
use std::collections::HashMap;

/// A document that names the files of a model.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The format of the manifest's files.
    pub format: &'static str,
    /// The version, as stated in the manifest.
    pub version: String,
    /// The metadata of the model in the manifest.
    pub metadata: Metadata,
    /// The files, in the manifest's order. [`Tensor::shard`](super::Tensor::shard) is an index into this list.
    pub parts: Vec<Part>,
    /// The index of the file of each tensor, as far as the manifest states it.
    pub tensor_parts: HashMap<String, usize>,
    /// Whether `tensor_parts` must state the file of every tensor.
    pub states_all_tensors: bool,
    /// The file that lists the tensors of all files instead of the manifest, if there is one.
    pub catalog: Option<Catalog>,
    /// What `weightstream publish` has added.
    pub publication: Option<Box<Publication>>,
}

/// The file of a model that lists the tensors of the other files ([`Index::other_shards`]). It identifies the files by
/// shard numbers that the manifest defines.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// The index of the file in the manifest's parts.
    pub part: usize,
    /// The index of the part of each shard number.
    pub part_of_shard: HashMap<u64, usize>,
}

/// A file of raw bytes: it has no header of its own, and another file of the model lists its tensors. Some formats
/// split it into several files, at any byte.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq)]
pub struct DataFile {
    /// The file. If there are several, their bytes follow each other, and ranges are offsets in all of them together.
    pub parts: Vec<Part>,
    /// The tensors in the file.
    pub tensors: Vec<Tensor>,
}

impl DataFile {
    /// Returns the index of the file, whose tensors are listed in `listed_in`. Tensors may share the same bytes.
    ///
    /// # Errors
    /// `FORMAT` if tensors overlap; `TRUNCATED` if a tensor ends after the end of the file, if its length is known.
    pub(crate) fn into_index(mut self, listed_in: &Index, byte_length: Option<u64>) -> Result<Index> {
        check_tied_tensors(&mut self.tensors, byte_length)?;
        Ok(Index {
            format: listed_in.format,
            version: listed_in.version.clone(),
            metadata: Metadata::new(),
            long_arrays: Vec::new(),
            tensors: self.tensors.into(),
            warnings: Vec::new(),
            other_shards: HashMap::new(),
            blocks: Vec::new(),
            quantized: listed_in.quantized.clone(),
        })
    }
}

impl Catalog {
    /// The index of the part that contains a tensor of this shard.
    ///
    /// # Errors
    /// `FORMAT` if the manifest has no part for this shard.
    pub(crate) fn part_of(&self, tensor: &str, shard: u64) -> Result<usize> {
        let part = self.part_of_shard.get(&shard).copied();
        part.ok_or_else(|| {
            malformed(format!("it is in shard {shard}, but the manifest has no file for this shard")).in_tensor(tensor)
        })
    }
}

impl Manifest {
    /// The names of tensors and the indices of their parts, as stated by the manifest and its catalog. `listed` is
    /// [`Index::other_shards`] of the catalog.
    ///
    /// # Errors
    /// The errors of [`Catalog::part_of`].
    pub(crate) fn stated_parts<'a>(
        &'a self,
        listed: Option<&'a HashMap<String, u64>>,
    ) -> impl Iterator<Item = Result<(&'a str, usize)>> {
        let mapped = self.tensor_parts.iter().map(|(name, part)| Ok((name.as_str(), *part)));
        let catalog = self.catalog.iter().zip(listed);
        let listed = catalog.flat_map(|(catalog, listed)| listed.iter().map(move |listed| (catalog, listed)));
        mapped.chain(listed.map(|(catalog, (name, shard))| Ok((name.as_str(), catalog.part_of(name, *shard)?))))
    }

    /// Removes from the index of a file the tensors that the manifest has in another file, and returns them: some tools
    /// replace tensors by adding a file. `part` is the number of the file.
    pub(crate) fn take_shadowed(&self, part: usize, index: &mut Index) -> Vec<Tensor> {
        let is_elsewhere = |name: &str| self.tensor_parts.get(name).is_some_and(|stated| *stated != part);
        if !index.tensors.names().any(is_elsewhere) {
            return Vec::new();
        }
        let tensors = std::mem::take(&mut index.tensors).into_vec();
        let (shadowed, kept): (Vec<_>, Vec<_>) = tensors.into_iter().partition(|tensor| is_elsewhere(&tensor.name));
        index.tensors = kept.into();
        index.tensors.index_names();
        shadowed
    }

    /// Adds what the manifest states about the content of a file to its index. `part` is the number of the file.
    pub(crate) fn describe(&self, part: usize, index: &mut Index) {
        if let Some(publication) = &self.publication {
            publication.describe_tensors(part, index);
        }
    }

    /// Checks that a tensor is in the manifest's map, if the map must have all tensors.
    ///
    /// # Errors
    /// `FORMAT` if it is not.
    pub(crate) fn check_stated(&self, tensor: &str) -> Result<()> {
        if !self.states_all_tensors || self.tensor_parts.contains_key(tensor) {
            return Ok(());
        }
        let error = malformed("it is in this file, but the manifest's map of tensors lacks it").in_tensor(tensor);
        Err(error.advise("The files do not belong together: upload all files of the model again."))
    }
}

/// Checks that a part that lists tensors of other files is the manifest's catalog.
///
/// # Errors
/// `FORMAT` if another part lists tensors that it does not contain.
pub(crate) fn check_catalog(index: &Index, manifest: Option<&Manifest>, part: usize) -> Result<()> {
    let catalog = manifest.and_then(|manifest| manifest.catalog.as_ref());
    if index.other_shards.is_empty() || catalog.is_some_and(|catalog| catalog.part == part) {
        return Ok(());
    }
    Err(malformed("the file lists tensors that it does not contain, and the manifest does not name it as the index"))
}
