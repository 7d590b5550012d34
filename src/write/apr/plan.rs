//! Which tensor goes into which file, and how long each file's head is: known before anything is written.

use super::file::AprFile;
use super::metadata;
use crate::codec::lz4::{MAX_BLOCK_BYTES, MAX_STORED_BLOCK_BYTES};
use crate::dtype::element_count;
use crate::error::{Error, ErrorKind, Result};
use crate::format::apr::MAX_HEAD_BYTES;
use crate::format::apr::draft::{FOOTER_BYTES, HEADER_BYTES, INDEX_HEADER_BYTES, MAX_DIMS, dtype_code, dtypes};
use crate::format::part_path;
use crate::index::{Layout, Tensor};
use crate::native::Reader;
use crate::write::output::{FinishedFile, PartialFile};
use crate::write::{Compression, ConvertOptions};
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What will be written, file by file.
pub(in crate::write) struct Plan<'a> {
    tensors: &'a [Tensor],
    shards: Vec<Shard>,
    alignment: u64,
    compression: Compression,
    warnings: Vec<String>,
}

struct Shard {
    tensors: Range<usize>,
    /// As JSON.
    metadata: Vec<u8>,
}

impl<'a> Plan<'a> {
    /// Checks that APR can hold every tensor, and fills file after file in the order of the source: a file is
    /// full when the next tensor, at its longest, would make it longer than the limit.
    pub(in crate::write) fn new(reader: &'a Reader, options: &ConvertOptions) -> Result<Self> {
        let tensors = reader.tensors();
        let joined = metadata::join(&options.metadata, reader.metadata());
        let (full, required) = (to_json(&joined)?, to_json(&metadata::required(&joined))?);
        let mut plan = Plan {
            tensors,
            shards: vec![Shard { tensors: 0..0, metadata: full }],
            alignment: options.alignment.byte_length(),
            compression: options.compression,
            warnings: Vec::new(),
        };
        let limit = options.max_shard_bytes.unwrap_or(u64::MAX);
        let mut size = plan.empty_file();
        check_head(&size)?;
        for (at, tensor) in tensors.iter().enumerate() {
            let place = |error: Error| error.in_tensor(&tensor.name);
            let mut grown = size.with(tensor, plan.alignment, plan.compression).map_err(place)?;
            if size.tensors > 0 && grown.file_bytes(plan.alignment) > limit {
                plan.shards.push(Shard { tensors: at..at, metadata: required.clone() });
                grown = plan.empty_file().with(tensor, plan.alignment, plan.compression).map_err(place)?;
            }
            let file_bytes = grown.file_bytes(plan.alignment);
            if grown.tensors == 1 && file_bytes > limit {
                let name = &tensor.name;
                let warning =
                    format!("tensor \"{name}\" alone makes a file of {file_bytes} bytes; the limit is {limit}");
                plan.warnings.push(warning);
            }
            check_head(&grown).map_err(place)?;
            size = grown;
            if let Some(shard) = plan.shards.last_mut() {
                shard.tensors.end = at + 1;
            }
        }
        Ok(plan)
    }

    /// The files of tensors: `out` itself if there is only one.
    pub(in crate::write) fn file_names(&self, out: &Path) -> Result<Vec<PathBuf>> {
        let count = self.shards.len();
        if count == 1 {
            return Ok(vec![out.to_owned()]);
        }
        let stem = out.file_stem().and_then(|stem| stem.to_str()).filter(|stem| part_path(stem).is_ok());
        let stem = stem.ok_or_else(|| {
            let error = Error::new(ErrorKind::InvalidArgument, "a manifest cannot name files like this one");
            error.advise("Choose a name in UTF-8 without `:` and `\\`.").in_file(&out.display().to_string())
        })?;
        Ok((1..=count).map(|number| out.with_file_name(format!("{stem}-{number:05}-of-{count:05}.apr"))).collect())
    }

    /// The tensors of a file.
    pub(in crate::write) fn tensors(&self, shard: usize) -> &'a [Tensor] {
        self.shards.get(shard).and_then(|shard| self.tensors.get(shard.tensors.clone())).unwrap_or_default()
    }

    /// Begins to write a file.
    pub(in crate::write) fn begin(&self, shard: usize, partial: PartialFile) -> Result<AprFile> {
        let metadata = self.shards.get(shard).map(|shard| shard.metadata.clone()).unwrap_or_default();
        AprFile::begin(partial, metadata, self.tensors(shard), self.alignment, self.compression, self.shards.len() > 1)
    }

    /// Writes the manifest of the finished files (specification, "Manifest File").
    pub(in crate::write) fn write_manifest(
        &self,
        mut partial: PartialFile,
        finished: &[FinishedFile],
    ) -> Result<FinishedFile> {
        let file_name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let shards = finished.iter().map(|file| {
            json!({
                "file": file_name(file.path()),
                "size": file.byte_length(),
                "crc32": format!("{:08x}", file.crc32()), // of the whole file: see `FinishedFile::crc32`
            })
        });
        let mut tensor_shard_map = Map::new();
        for (at, shard) in self.shards.iter().enumerate() {
            let tensors = self.tensors.get(shard.tensors.clone()).unwrap_or_default();
            tensor_shard_map.extend(tensors.iter().map(|tensor| (tensor.name.clone(), Value::from(at))));
        }
        let manifest = json!({
            "apr_version": "2.0.0",
            "sharded": true,
            "shard_count": self.shards.len(),
            "shards": shards.collect::<Vec<_>>(),
            "tensor_shard_map": tensor_shard_map,
        });
        let mut text = serde_json::to_vec_pretty(&manifest).map_err(not_json)?;
        text.push(b'\n');
        partial.write(&text)?;
        partial.finish()
    }

    pub(in crate::write) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }

    /// The size of the last planned file without its tensors.
    fn empty_file(&self) -> FileSize {
        let metadata = self.shards.last().map_or(0, |shard| shard.metadata.len());
        FileSize { metadata: metadata as u64, index: INDEX_HEADER_BYTES, data: 0, tensors: 0 }
    }
}

/// How long a file can become, in bytes, before LZ4 makes it shorter.
struct FileSize {
    metadata: u64,
    index: u64,
    data: u64,
    tensors: u64,
}

impl FileSize {
    fn with(&self, tensor: &Tensor, alignment: u64, compression: Compression) -> Result<FileSize> {
        let byte_length = match compression {
            Compression::Lz4 => longest_lz4(check(tensor)?),
            Compression::None | Compression::Auto => check(tensor)?,
        };
        let too_long = || Error::new(ErrorKind::Limit, "with it the file would have more than 2^64 bytes");
        let start = self.data.checked_next_multiple_of(alignment).ok_or_else(too_long)?;
        Ok(FileSize {
            metadata: self.metadata,
            index: self.index + entry_bytes(tensor),
            data: start.checked_add(byte_length).filter(|end| *end < u64::MAX / 2).ok_or_else(too_long)?,
            tensors: self.tensors + 1,
        })
    }

    fn head_bytes(&self) -> u64 {
        HEADER_BYTES + self.metadata + self.index
    }

    fn file_bytes(&self, alignment: u64) -> u64 {
        self.head_bytes().next_multiple_of(alignment) + self.data + FOOTER_BYTES
    }
}

/// The length of LZ4 blocks that do not compress: each has its length before it, and a byte more for each 255.
fn longest_lz4(byte_length: u64) -> u64 {
    let per_block = (MAX_STORED_BLOCK_BYTES - MAX_BLOCK_BYTES + 4) as u64;
    byte_length.saturating_add(byte_length.div_ceil(MAX_BLOCK_BYTES as u64).saturating_mul(per_block))
}

/// Bytes of a tensor's entry in the index (specification, "Tensor Entry").
pub(super) fn entry_bytes(tensor: &Tensor) -> u64 {
    2 + tensor.name.len() as u64 + 1 + 1 + 8 * tensor.shape.len() as u64 + 8 + 8 + 8 + 4
}

/// The head's offsets are 32 bits wide (specification, "Header"); but long before, no reader would take it.
fn check_head(size: &FileSize) -> Result<()> {
    let head = size.head_bytes();
    if head <= MAX_HEAD_BYTES {
        return Ok(());
    }
    let what = format!("metadata and index come to {head} bytes; weightstream reads at most {MAX_HEAD_BYTES}");
    let error = Error::new(ErrorKind::Limit, what);
    Err(error.advise("Give less metadata, or write several files of fewer tensors with `--shard-size`."))
}

/// Whether APR can hold the tensor; gives its decoded length in bytes.
fn check(tensor: &Tensor) -> Result<u64> {
    let refuse = |kind, what: String, advice: &str| Err(Error::new(kind, what).advise(advice));
    if tensor.layout != Layout::Dense || tensor.components.len() != 1 {
        let what = format!("its layout is {}, and APR holds dense tensors only", tensor.layout.name());
        return refuse(ErrorKind::Unsupported, what, "Make it dense before the conversion.");
    }
    if dtype_code(&tensor.dtype).is_none() {
        let known = dtypes().map(|dtype| dtype.to_string()).collect::<Vec<_>>().join(", ");
        let what = format!("APR has no dtype {}", tensor.dtype);
        return refuse(ErrorKind::Unsupported, what, &format!("Cast it to one of {known} before the conversion."));
    }
    if tensor.name.len() > usize::from(u16::MAX) {
        let what = format!("its name has {} bytes, and APR allows 65535", tensor.name.len());
        return refuse(ErrorKind::Limit, what, "Rename it before the conversion.");
    }
    if tensor.shape.len() > usize::from(MAX_DIMS) {
        let what = format!("it has {} dimensions, and APR allows {MAX_DIMS}", tensor.shape.len());
        return refuse(ErrorKind::Limit, what, "Reshape it before the conversion.");
    }
    let byte_length = tensor.dtype.byte_length(element_count(&tensor.shape)?)?;
    byte_length.ok_or_else(|| Error::new(ErrorKind::Internal, "a dtype of APR has no size"))
}

fn to_json(metadata: &Map<String, Value>) -> Result<Vec<u8>> {
    serde_json::to_vec(metadata).map_err(not_json)
}

fn not_json(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the metadata cannot be written as JSON: {error}"))
}
