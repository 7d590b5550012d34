//! Checks which tensors GGUF can store, and names the files of a model in several files.

use super::file::{COUNTS_BYTES, GgufFile, byte_length, number_of};
use super::metadata::Pairs;
use crate::error::{Error, ErrorKind, Result};
use crate::format::gguf::parse::MAX_NAME_BYTES;
use crate::format::gguf::{MAX_DIMS, MAX_HEAD_BYTES};
use crate::index::{Layout, Tensor};
use crate::output::file::PartialFile;
use crate::output::losses::Losses;
use crate::output::shards::numbered_path;
use crate::output::target::{
    CAST, FileSize, ManifestWriter, SMALLER_HEAD, ShardKind, ShardPosition, Sharded, Target, TensorFile,
};
use crate::output::writer::Settings;
use std::path::{Path, PathBuf};

/// The format with the options of the caller.
pub(super) struct Gguf {
    /// The metadata of the model.
    pairs: Pairs,
    alignment: u64,
    metadata_first: bool,
}

impl Gguf {
    pub(super) fn new(settings: &Settings, losses: &mut Losses) -> Result<Self> {
        let pairs = Pairs::of_model(settings, losses)?;
        Ok(Gguf { pairs, alignment: settings.alignment, metadata_first: settings.metadata_first })
    }
}

impl Target for Gguf {
    fn check(&self, tensor: &Tensor, losses: &mut Losses) -> Result<()> {
        let refuse = |kind, what: String, advice: &str| Err(Error::new(kind, what).advise(advice));
        if tensor.layout != Layout::Dense || tensor.components.len() != 1 {
            let what = format!("its layout is {}, and GGUF supports only dense tensors", tensor.layout.name());
            return refuse(ErrorKind::Unsupported, what, "Choose a format that supports it, such as ztensor.");
        }
        if number_of(&tensor.dtype).is_none() {
            let what = format!("GGUF has no dtype {}", tensor.dtype);
            return refuse(ErrorKind::Unsupported, what, CAST);
        }
        let block_elements = tensor.dtype.block().map_or(1, |block| block.elements);
        let row = tensor.shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(block_elements) {
            let what = format!("its rows of {row} elements do not fill blocks of {} ({block_elements})", tensor.dtype);
            return refuse(ErrorKind::Unsupported, what, "Choose a format that supports it, such as ztensor.");
        }
        if tensor.shape.len() > MAX_DIMS as usize {
            let what = format!("it has {} dimensions, and ggml allows {MAX_DIMS}", tensor.shape.len());
            return refuse(ErrorKind::Limit, what, "Choose a format that supports it, such as ztensor.");
        }
        if tensor.name.len() > MAX_NAME_BYTES {
            let what = format!("its name has {} bytes, and ggml reads at most {MAX_NAME_BYTES}", tensor.name.len());
            let error = Error::new(ErrorKind::Limit, what).in_tensor(&tensor.name);
            let error = error.advise("Rename it before the conversion; tools such as Python's `gguf` read long names.");
            losses.store("under this name", error)?;
        }
        byte_length(tensor)?;
        losses.leave_out_attributes(tensor, "GGUF", |_| false)
    }

    fn begin<'a>(
        &'a self,
        file: PartialFile,
        tensors: &'a [Tensor],
        place: ShardPosition,
    ) -> Result<Box<dyn TensorFile + 'a>> {
        let pairs = self.pairs.of_file(self.alignment, place)?;
        Ok(Box::new(GgufFile::begin(file, tensors, &pairs, self.alignment)?))
    }

    fn sharded(&self) -> Option<&dyn Sharded> {
        Some(self)
    }
}

impl Sharded for Gguf {
    fn file_bytes(&self, size: &FileSize) -> u64 {
        size.head.next_multiple_of(self.alignment) + size.data.next_multiple_of(self.alignment)
    }

    fn empty_head_bytes(&self, kind: ShardKind) -> u64 {
        let number = usize::from(kind == ShardKind::Other);
        let place = ShardPosition { number, count: 2, tensors: 0 };
        let pairs = self.pairs.of_file(self.alignment, place);
        COUNTS_BYTES + pairs.map_or(0, |pairs| pairs.bytes.len() as u64)
    }

    fn entry_bytes(&self, tensor: &Tensor) -> u64 {
        8 + tensor.name.len() as u64 + 4 + 8 * tensor.shape.len() as u64 + 4 + 8
    }

    fn max_data_bytes(&self, tensor: &Tensor) -> Result<u64> {
        byte_length(tensor)
    }

    fn alignment(&self) -> u64 {
        self.alignment
    }

    fn check_head(&self, size: &FileSize) -> Result<()> {
        let head = size.head;
        if head <= MAX_HEAD_BYTES {
            return Ok(());
        }
        let what = format!("metadata and tensor infos take {head} bytes; weightstream reads at most {MAX_HEAD_BYTES}");
        let error = Error::new(ErrorKind::Limit, what);
        Err(error.advise(SMALLER_HEAD))
    }

    fn shard_path(&self, out: &Path, place: ShardPosition) -> Result<PathBuf> {
        numbered_path(out, "gguf", place)
    }

    fn begins_without_tensors(&self) -> bool {
        self.metadata_first
    }

    fn manifest(&self) -> Option<&dyn ManifestWriter> {
        None
    }
}
