//! Writes a `model.json`, and each file as a group of weights of its own.
//!
//! Files have at most 4 MiB, as those of the converter of TensorFlow.js, except a file of one larger weight. The
//! metadata are further keys of the document, as in the documents of the converter: with those of a model of
//! TensorFlow.js, which include its topology, the document is that model.

use super::dtypes::{QUANTIZATION, decoded_name, stored_by_name};
use super::parse::{GROUP, NAME, OPTIMIZER, WEIGHTS};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Layout, Metadata, Tensor};
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::losses::Losses;
use crate::output::metadata;
use crate::output::origin::Changes;
use crate::output::shards::numbered_path;
use crate::output::target::{
    CAST, FileSize, ManifestWriter, Naming, Shard, ShardKind, ShardPosition, Sharded, Target, TensorFile, TensorSource,
};
use crate::output::writer::{Settings, Writer};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The maximum length of a file, which caches of browsers keep.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The writer of the format.
pub(super) const WRITER: Writer = Writer {
    compressions: &[],
    digests: &[],
    alignments: &[1],
    shards: true,
    versions: &[],
    metadata_first: false,
    vocabulary: false,
    describe: None,
    new: |settings, losses| Ok(Box::new(Tfjs::new(settings, losses)?)),
};

/// The format with the metadata of the document.
struct Tfjs {
    metadata: Metadata,
}

impl Tfjs {
    fn new(settings: &Settings, losses: &mut Losses) -> Result<Self> {
        let mut joined = if settings.omits_metadata { Map::new() } else { metadata::join(settings) };
        Changes::default().record(NAME, settings, &mut joined);
        if joined.shift_remove(WEIGHTS).is_some() {
            let what = format!("the metadata have the key `{WEIGHTS}`, which lists the weights in a `model.json`");
            losses.leave_out(Error::new(ErrorKind::Unsupported, what))?;
        }
        Ok(Tfjs { metadata: joined })
    }
}

impl Target for Tfjs {
    fn check(&self, tensor: &Tensor, losses: &mut Losses) -> Result<()> {
        if tensor.layout != Layout::Dense {
            let what = format!("its layout is {}, and TensorFlow.js supports only dense tensors", tensor.layout.name());
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let quantization = tensor.attributes.get(QUANTIZATION).and_then(|stated| decoded_name(&tensor.dtype, stated));
        if quantization.is_none() && stored_by_name(&tensor.dtype).is_none() {
            let what = format!("TensorFlow.js has no dtype {}", tensor.dtype);
            return Err(Error::new(ErrorKind::Unsupported, what).advise(CAST));
        }
        losses.leave_out_attributes(tensor, "TensorFlow.js", |key| {
            (quantization.is_some() && key == QUANTIZATION)
                || (key == GROUP && tensor.attributes.get(GROUP).is_some_and(|group| group == OPTIMIZER))
        })
    }

    fn begin<'a>(&'a self, file: PartialFile, _: &'a [Tensor], _: ShardPosition) -> Result<Box<dyn TensorFile + 'a>> {
        Ok(Box::new(Weights { file }))
    }

    fn sharded(&self) -> Option<&dyn Sharded> {
        Some(self)
    }
}

/// A file of weights.
struct Weights {
    file: PartialFile,
}

impl TensorFile for Weights {
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

impl Sharded for Tfjs {
    fn file_bytes(&self, size: &FileSize) -> u64 {
        size.data
    }

    fn empty_head_bytes(&self, _: ShardKind) -> u64 {
        0
    }

    fn entry_bytes(&self, _: &Tensor) -> u64 {
        0
    }

    fn max_data_bytes(&self, tensor: &Tensor) -> Result<u64> {
        Ok(tensor.byte_length().unwrap_or(0))
    }

    fn alignment(&self) -> u64 {
        1
    }

    fn max_file_bytes(&self) -> Option<u64> {
        Some(MAX_FILE_BYTES)
    }

    fn shard_path(&self, out: &Path, place: ShardPosition) -> Result<PathBuf> {
        numbered_path(out, "bin", place)
    }

    fn manifest(&self) -> Option<&dyn ManifestWriter> {
        Some(self)
    }
}

impl ManifestWriter for Tfjs {
    fn write_manifest(&self, mut manifest: PartialFile, shards: &[Shard], _: Naming) -> Result<Vec<FinishedFile>> {
        let group = |shard: &Shard| {
            let weights: Vec<_> = shard.tensors.iter().map(weight).collect();
            json!({ "paths": [shard.file.name()], "weights": weights })
        };
        let groups: Vec<_> = shards.iter().map(group).collect();
        let mut document = self.metadata.clone();
        document.insert(WEIGHTS.to_owned(), groups.into());
        manifest.write_json(&document.into())?;
        Ok(vec![manifest.finish()?])
    }
}

/// The description of a weight.
fn weight(tensor: &Tensor) -> Value {
    let stated = tensor.attributes.get(QUANTIZATION);
    let own = stated.and_then(|stated| Some((decoded_name(&tensor.dtype, stated)?, stated)));
    let (dtype, quantization) = match own {
        Some((to, stated)) => {
            let key = |key: &str| stated.get(key).cloned().unwrap_or_default();
            let quantization = json!({
                "dtype": key("dtype"), "scale": key("scale"), "min": key("min"), "original_dtype": to,
            });
            (to, Some(quantization))
        }
        None => stored_by_name(&tensor.dtype).unwrap_or_default(),
    };
    let mut weight = Map::new();
    weight.insert("name".to_owned(), tensor.name.as_str().into());
    weight.insert("shape".to_owned(), tensor.shape.as_slice().into());
    weight.insert("dtype".to_owned(), dtype.into());
    weight.extend(quantization.map(|quantization| (QUANTIZATION.to_owned(), quantization)));
    let group = tensor.attributes.get(GROUP).filter(|group| *group == OPTIMIZER);
    weight.extend(group.map(|group| (GROUP.to_owned(), group.clone())));
    weight.into()
}

#[cfg(all(test, not(miri)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests;
