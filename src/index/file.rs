//! The index of one file.

use super::{Blocks, LongArray, Metadata, StatedQuantization, Tensors};
use std::collections::HashMap;

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
    /// [`Catalog`](super::Catalog).
    pub other_shards: HashMap<String, u64>,
    /// The positions of the blocks of compressed components, by the offset of the component, if the file states them.
    /// They are a hint, which may be wrong.
    pub(crate) blocks: Vec<(u64, Blocks)>,
    /// How the file describes its quantized tensors, if it does. The other files that it names have the same.
    pub(crate) quantized: Option<StatedQuantization>,
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

    /// A copy with other tensors.
    pub(crate) fn with_tensors(&self, tensors: Tensors) -> Self {
        let Index { format, version, metadata, long_arrays, warnings, other_shards, blocks, quantized, .. } = self;
        Index {
            format,
            version: version.clone(),
            metadata: metadata.clone(),
            long_arrays: long_arrays.clone(),
            tensors,
            warnings: warnings.clone(),
            other_shards: other_shards.clone(),
            blocks: blocks.clone(),
            quantized: quantized.clone(),
        }
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
