//! Writes SafeTensors: a JSON header, then the tensors without gaps; for several files, also the index that Hugging
//! Face's tools expect.
//!
//! Tensors keep the order of the source. Metadata values are text: other values are written as JSON. Without metadata,
//! the file is the one that `Loader::safetensors` describes, byte for byte, for a model in one file.

use super::layout::{self, ALIGNMENT, LENGTH_BYTES, Stored};
use crate::error::{Error, ErrorKind, Result};
use crate::format::safetensors::parse::MAX_HEADER_BYTES;
use crate::index::{Metadata, Tensor};
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::losses::Losses;
use crate::output::metadata;
use crate::output::origin::Changes;
use crate::output::shards::numbered_path;
use crate::output::target::{
    CAST, FileSize, ManifestWriter, Naming, SMALLER_HEAD, Shard, ShardKind, ShardPosition, Sharded, Target, TensorFile,
    TensorSource,
};
use crate::output::weight_map;
use crate::output::writer::{Settings, Writer};
use serde_json::{Map, json};
use std::path::{Path, PathBuf};

/// The writer of the format.
pub(super) const WRITER: Writer = Writer {
    compressions: &[],
    digests: &[],
    alignments: &[ALIGNMENT, 16, 32, 64, 128, 256, 512, 4096],
    shards: true,
    versions: &[],
    metadata_first: false,
    vocabulary: false,
    describe: None,
    new: |settings, _| Ok(Box::new(SafeTensors::new(settings))),
};

/// The format with the options of the caller.
struct SafeTensors {
    /// All values are text. Empty if the metadata is left out.
    metadata: Metadata,
    omits_metadata: bool,
    alignment: u64,
}

impl SafeTensors {
    fn new(settings: &Settings) -> Self {
        let mut joined: Metadata = if settings.omits_metadata { Map::new() } else { metadata::join(settings) };
        Changes::to_text(&joined).record("safetensors", settings, &mut joined);
        let metadata = joined.into_iter().map(|(key, value)| (key, metadata::as_text(&value).into_owned().into()));
        SafeTensors {
            metadata: metadata.collect(),
            omits_metadata: settings.omits_metadata,
            alignment: settings.alignment,
        }
    }

    /// Returns the metadata of a file: all of it for the first file, only `format`, which readers need, for the others.
    fn metadata(&self, kind: ShardKind) -> Metadata {
        let is_wanted = |key: &str| kind == ShardKind::First || key == "format";
        let wanted = self.metadata.iter().filter(|(key, _)| is_wanted(key));
        wanted.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

impl Target for SafeTensors {
    fn check(&self, tensor: &Tensor, losses: &mut Losses) -> Result<()> {
        if self.omits_metadata {
            return layout::exactly_or_as_bytes(tensor).map(drop);
        }
        layout::exactly(tensor).map_err(|error| match layout::has_dtype(&tensor.dtype) {
            true => error,
            false => error.advise(CAST),
        })?;
        losses.leave_out_attributes(tensor, "SafeTensors", |_| false)
    }

    fn begin<'a>(
        &'a self,
        file: PartialFile,
        tensors: &'a [Tensor],
        place: ShardPosition,
    ) -> Result<Box<dyn TensorFile + 'a>> {
        let mut file = SafeTensorsFile { file };
        let metadata = self.metadata(place.kind());
        file.file.write(&layout::head(tensors.iter(), &metadata, self.alignment)?)?;
        Ok(Box::new(file))
    }

    fn sharded(&self) -> Option<&dyn Sharded> {
        Some(self)
    }
}

/// A file whose head has been written.
struct SafeTensorsFile {
    file: PartialFile,
}

impl TensorFile for SafeTensorsFile {
    fn position(&self) -> u64 {
        self.file.position()
    }

    fn write_tensor(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<()> {
        source.read(tensor, &mut |bytes| self.file.write(bytes))
    }

    fn finish(self: Box<Self>) -> Result<FinishedFile> {
        self.file.finish()
    }
}

impl Sharded for SafeTensors {
    fn file_bytes(&self, size: &FileSize) -> u64 {
        size.head.next_multiple_of(self.alignment) + size.data
    }

    fn empty_head_bytes(&self, kind: ShardKind) -> u64 {
        let metadata = json!({ "__metadata__": self.metadata(kind) });
        LENGTH_BYTES + metadata.to_string().len() as u64
    }

    fn entry_bytes(&self, tensor: &Tensor) -> u64 {
        let Ok(stored) = layout::exactly_or_as_bytes(tensor) else { return 0 }; // `check` has refused it
        let punctuation = ":,".len();
        let name = json!(tensor.name).to_string();
        (name.len() + punctuation + layout::entry(&stored, u64::MAX, u64::MAX).len()) as u64
    }

    fn max_data_bytes(&self, tensor: &Tensor) -> Result<u64> {
        byte_length(tensor)
    }

    fn alignment(&self) -> u64 {
        1
    }

    fn check_head(&self, size: &FileSize) -> Result<()> {
        if size.head <= MAX_HEADER_BYTES {
            return Ok(());
        }
        let what = format!("the header would have {} bytes; SafeTensors allows {MAX_HEADER_BYTES}", size.head);
        let error = Error::new(ErrorKind::Limit, what);
        Err(error.advise(SMALLER_HEAD))
    }

    fn shard_path(&self, out: &Path, place: ShardPosition) -> Result<PathBuf> {
        numbered_path(out, "safetensors", place)
    }

    fn manifest(&self) -> Option<&dyn ManifestWriter> {
        Some(self)
    }
}

impl ManifestWriter for SafeTensors {
    fn manifest_path(&self, out: &Path) -> PathBuf {
        weight_map::path(out)
    }

    fn write_manifest(&self, manifest: PartialFile, shards: &[Shard], _: Naming) -> Result<Vec<FinishedFile>> {
        let tensors = shards.iter().flat_map(|shard| shard.tensors);
        let total_size = tensors.map(byte_length).sum::<Result<u64>>()?;
        weight_map::write(manifest, shards, Map::from_iter([("total_size".to_owned(), total_size.into())]))
    }
}

fn byte_length(tensor: &Tensor) -> Result<u64> {
    layout::exactly_or_as_bytes(tensor).map(|Stored { byte_length, .. }| byte_length)
}

#[cfg(all(test, not(miri)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
mod tests;
