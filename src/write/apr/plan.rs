//! Which tensor goes into which file, and how long each file's head is: known before anything is written.

use super::file::AprFile;
use super::metadata;
use crate::dtype::element_count;
use crate::error::{Error, ErrorKind, Result};
use crate::format::apr::draft::{FOOTER_BYTES, HEADER_BYTES, INDEX_HEADER_BYTES, MAX_DIMS, dtype_code, dtypes};
use crate::format::part_path;
use crate::index::{Layout, Tensor};
use crate::native::Reader;
use crate::write::output::{FinishedFile, PartialFile};
use crate::write::{Compression, ConvertOptions};
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The head's offsets are 32 bits wide (specification, "Header").
const MAX_HEAD_BYTES: u64 = u32::MAX as u64;

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
    /// full when the next tensor, stored raw, would make it longer than the limit.
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
        let mut size = plan.empty_file();
        for (at, tensor) in tensors.iter().enumerate() {
            let mut grown = size.with(tensor, plan.alignment).map_err(|e| e.in_tensor(&tensor.name))?;
            if let Some(limit) = options.max_shard_bytes {
                if grown.file_bytes(plan.alignment) > limit && size.tensors > 0 {
                    plan.shards.push(Shard { tensors: at..at, metadata: required.clone() });
                    grown = plan.empty_file().with(tensor, plan.alignment).map_err(|e| e.in_tensor(&tensor.name))?;
                }
                let file_bytes = grown.file_bytes(plan.alignment);
                if file_bytes > limit && grown.tensors == 1 {
                    plan.warnings.push(format!(
                        "tensor \"{}\" alone makes a file of {file_bytes} bytes, more than the {limit} of the limit",
                        tensor.name
                    ));
                }
            }
            if grown.head_bytes() > MAX_HEAD_BYTES {
                let what = format!(
                    "the index up to it makes a head of {} bytes; APR's offsets end at 4 GiB",
                    grown.head_bytes()
                );
                let error = Error::new(ErrorKind::Limit, what).in_tensor(&tensor.name);
                return Err(error.advise("Give a smaller `--metadata`, or write several files with `--shard-size`."));
            }
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
                "crc32": format!("{:08x}", file.crc32()), // of the whole file, footer included
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

/// How long a file becomes, in bytes, with all tensors stored raw.
struct FileSize {
    metadata: u64,
    index: u64,
    data: u64,
    tensors: u64,
}

impl FileSize {
    fn with(&self, tensor: &Tensor, alignment: u64) -> Result<FileSize> {
        let byte_length = check(tensor)?;
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

/// Bytes of a tensor's entry in the index (specification, "Tensor Entry").
pub(super) fn entry_bytes(tensor: &Tensor) -> u64 {
    2 + tensor.name.len() as u64 + 1 + 1 + 8 * tensor.shape.len() as u64 + 8 + 8 + 8 + 4
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
