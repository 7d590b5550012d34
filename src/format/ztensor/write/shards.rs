//! Models in several files: each is a file of its own, and an index states the file of each tensor.

use super::target::ZTensor;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ztensor::byte_streams::stream_count;
use crate::format::ztensor::contents::MAX_MANIFEST_BYTES;
use crate::index::{Metadata, Tensor};
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::shards::numbered_path;
use crate::output::target::{FileSize, ManifestWriter, Naming, SMALLER_HEAD, Shard, ShardKind, ShardPosition, Sharded};
use crate::output::weight_map;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The magic at both ends, and the length of the manifest.
const FRAME_BYTES: u64 = 24;

/// The most that a component adds to the manifest: its role, its keys, four numbers, and a SHA-256 as text.
const COMPONENT_BYTES: u64 = 256;

/// The most that a tensor adds to the manifest besides its name, its shape, its attributes and its components.
const OBJECT_BYTES: u64 = 256;

impl Sharded for ZTensor {
    fn file_bytes(&self, size: &FileSize) -> u64 {
        size.head + self.alignment + size.data
    }

    fn empty_head_bytes(&self, kind: ShardKind) -> u64 {
        let metadata = match kind {
            ShardKind::First => json!(self.metadata).to_string().len() as u64,
            ShardKind::Other => 0,
        };
        FRAME_BYTES + OBJECT_BYTES + metadata.saturating_mul(2)
    }

    fn entry_bytes(&self, tensor: &Tensor) -> u64 {
        let streams = stream_count(&tensor.dtype).unwrap_or(1);
        let components = (tensor.components.len() as u64).max(streams).saturating_mul(COMPONENT_BYTES);
        // CBOR takes at most nine bytes for a number, and JSON at least two.
        let attributes = Value::Object(tensor.attributes.clone()).to_string().len() as u64 * 5;
        OBJECT_BYTES + tensor.name.len() as u64 + 9 * tensor.shape.len() as u64 + components + attributes
    }

    fn max_data_bytes(&self, tensor: &Tensor) -> Result<u64> {
        // Each component is aligned. Frames of incompressible bytes are a little longer than these.
        let padding = self.alignment.saturating_mul(stream_count(&tensor.dtype).unwrap_or(1).max(4));
        let length = tensor.byte_length().unwrap_or_else(|| tensor.stored_length());
        Ok(length.saturating_add(length / 1024).saturating_add(padding))
    }

    fn alignment(&self) -> u64 {
        self.alignment
    }

    fn check_head(&self, size: &FileSize) -> Result<()> {
        if size.head <= MAX_MANIFEST_BYTES {
            return Ok(());
        }
        let what = format!("the manifest may have {} bytes; zTensor allows {MAX_MANIFEST_BYTES}", size.head);
        Err(Error::new(ErrorKind::Limit, what).advise(SMALLER_HEAD))
    }

    fn shard_path(&self, out: &Path, place: ShardPosition) -> Result<PathBuf> {
        numbered_path(out, "zt", place)
    }

    fn manifest(&self) -> Option<&dyn ManifestWriter> {
        Some(self)
    }
}

impl ManifestWriter for ZTensor {
    fn manifest_path(&self, out: &Path) -> PathBuf {
        weight_map::path(out)
    }

    fn write_manifest(&self, manifest: PartialFile, shards: &[Shard], _: Naming) -> Result<Vec<FinishedFile>> {
        weight_map::write(manifest, shards, Metadata::new())
    }
}
