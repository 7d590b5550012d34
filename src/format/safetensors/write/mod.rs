//! Writes SafeTensors: a JSON header, then the tensors without gaps; for several files, also the index that Hugging
//! Face's tools expect.
//!
//! Tensors keep the order of the source, except that tensors with larger elements come first. Each tensor therefore
//! begins at a multiple of its element size, as the format requires of writers. Metadata values are text: other values
//! are written as JSON.

use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result};
use crate::format::safetensors::parse::MAX_HEADER_BYTES;
use crate::index::{Layout, Metadata, Tensor};
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::losses::Losses;
use crate::output::metadata;
use crate::output::shards::{FileSize, numbered_path};
use crate::output::target::{Place, Shard, Sharded, Target, TensorFile, TensorSource};
use crate::output::writer::{Settings, Writer};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The dtypes that the `safetensors` package 0.8 supports.
const DTYPES: [Dtype; 22] = [
    Dtype::Bool,
    Dtype::U8,
    Dtype::I8,
    Dtype::F8_E5M2,
    Dtype::F8_E4M3,
    Dtype::F8_E8M0,
    Dtype::F8_E4M3FNUZ,
    Dtype::F8_E5M2FNUZ,
    Dtype::I16,
    Dtype::U16,
    Dtype::F16,
    Dtype::BF16,
    Dtype::I32,
    Dtype::U32,
    Dtype::F32,
    Dtype::I64,
    Dtype::U64,
    Dtype::F64,
    Dtype::C64,
    Dtype::F4,
    Dtype::F6_E2M3,
    Dtype::F6_E3M2,
];

/// Whether the format has this dtype.
#[cfg(feature = "onnx")]
pub(crate) fn has_dtype(dtype: &Dtype) -> bool {
    DTYPES.contains(dtype)
}

/// The size of the header's length field, a u64.
const LENGTH_BYTES: u64 = 8;

/// The writer of the format.
pub(super) const WRITER: Writer = Writer {
    compressions: &[],
    digests: &[],
    alignments: &[8, 16, 32, 64, 128, 256, 512, 4096],
    shards: true,
    new: |settings, _| Ok(Box::new(SafeTensors::new(settings))),
};

/// The format with the options of the caller.
struct SafeTensors {
    /// All values are text.
    metadata: Map<String, Value>,
    alignment: u64,
}

impl SafeTensors {
    fn new(settings: &Settings) -> Self {
        let joined: Metadata = metadata::join(settings);
        let as_text = |(key, value): (String, Value)| (key, metadata::as_text(&value).into_owned().into());
        let metadata = joined.into_iter().map(as_text).collect();
        SafeTensors { metadata, alignment: settings.alignment }
    }

    /// Returns the metadata of a file: all of it for the first file, only `format`, which readers need, for the others.
    fn metadata(&self, is_first: bool) -> Map<String, Value> {
        let is_wanted = |key: &str| is_first || key == "format";
        let wanted = self.metadata.iter().filter(|(key, _)| is_wanted(key));
        wanted.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The length field and the header, padded with spaces so that the data begins aligned.
    fn head(&self, tensors: &[Tensor], is_first: bool) -> Result<Vec<u8>> {
        let mut header = Map::new();
        let metadata = self.metadata(is_first);
        if !metadata.is_empty() {
            header.insert("__metadata__".to_owned(), metadata.into());
        }
        let mut offset = 0;
        for tensor in tensors {
            let end = offset + byte_length(tensor)?;
            header.insert(tensor.name.clone(), entry(tensor, offset, end));
            offset = end;
        }
        let encoding_failed = |e| Error::new(ErrorKind::Internal, format!("the header cannot be written as JSON: {e}"));
        let mut text = serde_json::to_vec(&header).map_err(encoding_failed)?;
        let padded = (LENGTH_BYTES + text.len() as u64).next_multiple_of(self.alignment) - LENGTH_BYTES;
        text.resize(usize::try_from(padded).unwrap_or(text.len()), b' ');
        Ok([&padded.to_le_bytes(), text.as_slice()].concat())
    }
}

impl Target for SafeTensors {
    fn check(&self, tensor: &Tensor, losses: &mut Losses) -> Result<()> {
        let refuse = |kind, what: String, advice: &str| Err(Error::new(kind, what).advise(advice));
        if tensor.layout != Layout::Dense || tensor.components.len() != 1 {
            let what = format!("its layout is {}, and SafeTensors supports only dense tensors", tensor.layout.name());
            return refuse(ErrorKind::Unsupported, what, "Convert it to a dense tensor first, or choose ztensor.");
        }
        if !DTYPES.contains(&tensor.dtype) {
            let what = format!("SafeTensors has no dtype {}", tensor.dtype);
            return refuse(ErrorKind::Unsupported, what, "Choose a format that supports it.");
        }
        if let Err(error) = byte_length(tensor) {
            // For example an odd number of F4 elements, which zTensor supports.
            return refuse(ErrorKind::Unsupported, error.what, "Choose ztensor.");
        }
        if tensor.name == "__metadata__" {
            let what = "SafeTensors reserves this name for its metadata".to_owned();
            return refuse(ErrorKind::Unsupported, what, "Rename it before the conversion.");
        }
        losses.leave_out_attributes(tensor, "SafeTensors", |_| false)
    }

    fn arrange(&self, tensors: &mut [Tensor]) {
        tensors.sort_by_key(|tensor| std::cmp::Reverse(tensor.dtype.array_kind().element_bytes()));
    }

    fn begin<'a>(&'a self, file: PartialFile, tensors: &'a [Tensor], place: Place) -> Result<Box<dyn TensorFile + 'a>> {
        let mut file = SafeTensorsFile { file };
        file.file.write(&self.head(tensors, place.number == 0)?)?;
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

    fn empty_head_bytes(&self, is_first: bool) -> u64 {
        let metadata = json!({ "__metadata__": self.metadata(is_first) });
        LENGTH_BYTES + metadata.to_string().len() as u64
    }

    fn entry_bytes(&self, tensor: &Tensor) -> u64 {
        let longest = json!({ &tensor.name: entry(tensor, u64::MAX, u64::MAX) });
        longest.to_string().len() as u64
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
        Err(error.advise("Provide less metadata, or write several files of fewer tensors with `--shard-size`."))
    }

    fn shard_path(&self, out: &Path, place: Place) -> Result<PathBuf> {
        numbered_path(out, "safetensors", place)
    }

    /// `model.safetensors.index.json`, unless `out` already ends with `.json`.
    fn manifest_path(&self, out: &Path) -> PathBuf {
        if out.extension().is_some_and(|extension| extension == "json") {
            return out.to_owned();
        }
        let mut name = out.as_os_str().to_owned();
        name.push(".index.json");
        PathBuf::from(name)
    }

    fn write_manifest(&self, mut manifest: PartialFile, shards: &[Shard]) -> Result<Vec<FinishedFile>> {
        let mut weight_map = Map::new();
        let mut total_size = 0;
        for shard in shards {
            for tensor in shard.tensors {
                weight_map.insert(tensor.name.clone(), shard.file.name().into());
                total_size += byte_length(tensor)?;
            }
        }
        manifest.write_json(&json!({ "metadata": { "total_size": total_size }, "weight_map": weight_map }))?;
        Ok(vec![manifest.finish()?])
    }
}

fn entry(tensor: &Tensor, start: u64, end: u64) -> Value {
    json!({ "dtype": tensor.dtype.name(), "shape": tensor.shape, "data_offsets": [start, end] })
}

fn byte_length(tensor: &Tensor) -> Result<u64> {
    let byte_length = tensor.dtype.byte_length(element_count(&tensor.shape)?)?;
    byte_length.ok_or_else(|| Error::new(ErrorKind::Internal, "a dtype of SafeTensors has no size"))
}

#[cfg(all(test, not(miri)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
mod tests;
