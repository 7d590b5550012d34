//! Checks which tensors APR can store, and names and lists the files of a model in several files.

use super::blocks;
use super::file::AprFile;
use super::ggml_types::{self, code_of, is_extension};
use super::metadata;
use crate::codec::lz4::{MAX_BLOCK_BYTES, MAX_STORED_BLOCK_BYTES};
use crate::dtype::element_count;
use crate::error::{Error, ErrorKind, Result};
use crate::format::apr::draft::{FOOTER_BYTES, HEADER_BYTES, INDEX_HEADER_BYTES, MAX_DIMS, flags};
use crate::format::apr::head::MAX_HEAD_BYTES;
use crate::index::{Layout, Tensor};
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::losses::Losses;
use crate::output::shards::numbered_path;
use crate::output::target::{
    CAST, FileSize, ManifestWriter, Naming, SMALLER_HEAD, Shard, ShardKind, ShardPosition, Sharded, Target, TensorFile,
};
use crate::output::writer::{Compression, Settings};
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// APR v2 with the options of the caller.
pub(super) struct Apr {
    /// The metadata of the first file, as JSON.
    metadata: Vec<u8>,
    /// The metadata of all other files, as JSON: only the required keys.
    required_metadata: Vec<u8>,
    alignment: u64,
    compression: Compression,
    /// The flags that all files have.
    flags: u32,
}

impl Apr {
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        let joined = metadata::join(settings);
        Ok(Apr {
            metadata: to_json(&joined)?,
            required_metadata: to_json(&metadata::required(&joined))?,
            alignment: settings.alignment,
            compression: settings.compression,
            flags: if settings.is_for_streaming { flags::STREAMING } else { 0 },
        })
    }

    fn metadata(&self, kind: ShardKind) -> &[u8] {
        match kind {
            ShardKind::First => &self.metadata,
            ShardKind::Other => &self.required_metadata,
        }
    }
}

impl Target for Apr {
    fn check(&self, tensor: &Tensor, losses: &mut Losses) -> Result<()> {
        let refuse = |kind, what: String, advice: &str| Err(Error::new(kind, what).advise(advice));
        if tensor.layout != Layout::Dense || tensor.components.len() != 1 {
            let what = format!("its layout is {}, and APR supports only dense tensors", tensor.layout.name());
            return refuse(ErrorKind::Unsupported, what, "Convert it to a dense tensor first.");
        }
        if code_of(tensor).is_none() {
            let what = format!("APR has no dtype {}", tensor.dtype);
            return refuse(ErrorKind::Unsupported, what, CAST);
        }
        if tensor.name.len() > usize::from(u16::MAX) {
            let what = format!("its name has {} bytes, and APR allows 65535", tensor.name.len());
            return refuse(ErrorKind::Limit, what, "Rename it before the conversion.");
        }
        if tensor.shape.len() > usize::from(MAX_DIMS) {
            let what = format!("it has {} dimensions, and APR allows {MAX_DIMS}", tensor.shape.len());
            return refuse(ErrorKind::Limit, what, "Reshape it before the conversion.");
        }
        if is_extension(tensor) {
            losses.extend(tensor);
        }
        losses.leave_out_attributes(tensor, "APR", |_| false)
    }

    fn begin<'a>(
        &'a self,
        file: PartialFile,
        tensors: &'a [Tensor],
        place: ShardPosition,
    ) -> Result<Box<dyn TensorFile + 'a>> {
        let metadata = self.metadata(place.kind());
        let flags = self.flags | if place.count > 1 { flags::SHARDED } else { 0 };
        let file = AprFile::begin(file, metadata, tensors, self.alignment, self.compression, flags)?;
        Ok(Box::new(file))
    }

    fn sharded(&self) -> Option<&dyn Sharded> {
        Some(self)
    }
}

impl Sharded for Apr {
    fn file_bytes(&self, size: &FileSize) -> u64 {
        size.head.next_multiple_of(self.alignment) + size.data + FOOTER_BYTES
    }

    fn empty_head_bytes(&self, kind: ShardKind) -> u64 {
        HEADER_BYTES + self.metadata(kind).len() as u64 + blocks::key_bytes(self.compression) + INDEX_HEADER_BYTES
    }

    fn entry_bytes(&self, tensor: &Tensor) -> u64 {
        entry_bytes(tensor) + blocks::entry_bytes(self.compression, tensor) + ggml_types::max_entry_bytes(tensor)
    }

    fn max_data_bytes(&self, tensor: &Tensor) -> Result<u64> {
        let byte_length = tensor.dtype.byte_length(element_count(&tensor.shape)?)?;
        let byte_length = byte_length.ok_or_else(|| Error::new(ErrorKind::Internal, "a dtype of APR has no size"))?;
        Ok(if self.compression == Compression::Lz4 { max_lz4_length(byte_length) } else { byte_length })
    }

    fn alignment(&self) -> u64 {
        self.alignment
    }

    /// The head's offsets have 32 bits (specification, "Header"), but the reader's limit is lower.
    fn check_head(&self, size: &FileSize) -> Result<()> {
        let head = size.head;
        if head <= MAX_HEAD_BYTES {
            return Ok(());
        }
        let what = format!("metadata and index take {head} bytes; weightstream reads at most {MAX_HEAD_BYTES}");
        let error = Error::new(ErrorKind::Limit, what);
        Err(error.advise(SMALLER_HEAD))
    }

    fn shard_path(&self, out: &Path, place: ShardPosition) -> Result<PathBuf> {
        numbered_path(out, "apr", place)
    }

    fn manifest(&self) -> Option<&dyn ManifestWriter> {
        Some(self)
    }
}

impl ManifestWriter for Apr {
    /// Specification, "Manifest File". The SHA-256 is an addition, which readers that do not know it ignore.
    fn write_manifest(&self, mut manifest: PartialFile, shards: &[Shard], _: Naming) -> Result<Vec<FinishedFile>> {
        let entry = |shard: &Shard| {
            Ok(json!({
                "file": shard.file.name(),
                "size": shard.file.byte_length(),
                "crc32": format!("{:08x}", shard.file.crc32()),
                "sha256": shard.file.sha256()?.to_string(),
            }))
        };
        let shard_entries = shards.par_iter().map(entry).collect::<Result<Vec<_>>>()?;
        let mut tensor_shard_map = Map::new();
        for (at, shard) in shards.iter().enumerate() {
            tensor_shard_map.extend(shard.tensors.iter().map(|tensor| (tensor.name.clone(), Value::from(at))));
        }
        let document = json!({
            "apr_version": "2.0.0",
            "sharded": true,
            "shard_count": shards.len(),
            "shards": shard_entries,
            "tensor_shard_map": tensor_shard_map,
        });
        manifest.write_json(&document)?;
        Ok(vec![manifest.finish()?])
    }
}

/// Returns the length of incompressible data as LZ4 blocks: each has a length field, and one more byte for each 255.
fn max_lz4_length(byte_length: u64) -> u64 {
    let per_block = (MAX_STORED_BLOCK_BYTES - MAX_BLOCK_BYTES + 4) as u64;
    byte_length.saturating_add(byte_length.div_ceil(MAX_BLOCK_BYTES as u64).saturating_mul(per_block))
}

/// Returns the size in bytes of a tensor's entry in the index (specification, "Tensor Entry").
pub(super) fn entry_bytes(tensor: &Tensor) -> u64 {
    2 + tensor.name.len() as u64 + 1 + 1 + 8 * tensor.shape.len() as u64 + 8 + 8 + 8 + 4
}

fn to_json(metadata: &Map<String, Value>) -> Result<Vec<u8>> {
    serde_json::to_vec(metadata)
        .map_err(|e| Error::new(ErrorKind::Internal, format!("the metadata cannot be written as JSON: {e}")))
}
