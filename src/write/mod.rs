//! Writes models: reads one through a [`Reader`] and streams it into another format.
//!
//! However large the model, no more than a few blocks of it are in memory. Files are written under
//! temporary names and take their own only when all of them are whole, so that a conversion that fails or is
//! interrupted leaves nothing that looks like a model.

mod apr;
pub mod cast;
mod output;

use crate::error::{Error, ErrorKind, Result};
use crate::index::{Metadata, Tensor};
use crate::native::Reader;
use crate::progress::Progress;
use output::PartialFile;
use std::path::{Path, PathBuf};

/// How to write a model.
#[derive(Debug, Clone, Default)]
pub struct ConvertOptions {
    /// The format to write.
    pub format: TargetFormat,
    /// How tensors are stored, where that makes them smaller.
    pub compression: Compression,
    /// Writes several files of at most so many bytes, with a manifest, if one file would be longer.
    pub max_shard_bytes: Option<u64>,
    /// At which bytes of the file tensors begin.
    pub alignment: Alignment,
    /// What the new file says of the model, before what the source says of it.
    pub metadata: Metadata,
}

/// A format that weightstream writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetFormat {
    /// APR v2 as its specification lays it out.
    #[default]
    Apr,
}

/// How tensors are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// In LZ4 blocks, every tensor: one that does not compress grows by at most 0.4 %.
    Lz4,
    /// In LZ4 blocks where that makes a tensor smaller, else as they are.
    Auto,
}

/// Where tensors begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Alignment {
    /// At multiples of 64 bytes, the line of a processor's cache.
    #[default]
    Bytes64,
    /// At multiples of 32 bytes, as in GGUF.
    Bytes32,
}

impl Alignment {
    /// In bytes.
    pub fn byte_length(self) -> u64 {
        match self {
            Alignment::Bytes64 => 64,
            Alignment::Bytes32 => 32,
        }
    }
}

/// What [`convert`] wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// The files of tensors, in order, each with its length in bytes.
    pub files: Vec<(PathBuf, u64)>,
    /// How many tensors they hold.
    pub tensors: usize,
    /// Bytes of all tensors once decoded.
    pub decoded_bytes: u64,
    /// Things the caller may want to know.
    pub warnings: Vec<String>,
}

/// Reads all tensors of `reader` and writes them to `out`: one file, or several with `out` as their manifest.
///
/// # Errors
/// `UNSUPPORTED` and `LIMIT` for what the target format cannot hold, naming the tensor; `INVALID_ARGUMENT` where an
/// output is an input; `IO`; those of reading. After an error, what was at the outputs before is still there,
/// unless the error came while finished files were given their names.
pub fn convert(reader: &Reader, out: &Path, options: &ConvertOptions, progress: &dyn Progress) -> Result<Converted> {
    let plan = match options.format {
        TargetFormat::Apr => apr::Plan::new(reader, options)?,
    };
    let names = plan.file_names(out)?;
    for name in names.iter().map(PathBuf::as_path).chain([out]) {
        output::refuse_input(name, reader)?;
    }
    let decoded_bytes = reader.tensors().iter().filter_map(Tensor::byte_length).sum();
    progress.expects(decoded_bytes);

    // Made first, since its lock keeps other conversions to the same place away; takes its name last, since it
    // makes the other files a model.
    let mut last = Some(PartialFile::create(out)?);
    let mut finished = Vec::new();
    for (shard, name) in names.iter().enumerate() {
        let partial = match last.take_if(|_| name == out) {
            Some(partial) => partial,
            None => PartialFile::create(name)?,
        };
        let mut file = plan.begin(shard, partial)?;
        for tensor in plan.tensors(shard) {
            let mut source = TensorSource { reader, tensor, progress, counted: 0 };
            file.write_tensor(tensor, &mut source).map_err(|e| e.in_tensor(&tensor.name))?;
        }
        let file = file.finish()?;
        finished.push(if last.is_some() { file.unlocked() } else { file });
    }
    let files = finished.iter().map(|file| (file.path().to_owned(), file.byte_length())).collect();
    if let Some(partial) = last {
        let manifest = plan.write_manifest(partial, &finished)?;
        finished.push(manifest);
    }
    check_cancelled(progress)?;
    output::publish(finished)?;
    Ok(Converted { files, tensors: reader.tensors().len(), decoded_bytes, warnings: plan.into_warnings() })
}

/// A tensor to write, which can be read more than once.
struct TensorSource<'a> {
    reader: &'a Reader,
    tensor: &'a Tensor,
    progress: &'a dyn Progress,
    /// Bytes that the progress knows of.
    counted: u64,
}

impl TensorSource<'_> {
    /// Reads the tensor's only component in pieces, from its start.
    fn read(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let TensorSource { reader, tensor, progress, counted } = self;
        let [component] = tensor.components.as_slice() else {
            return Err(Error::new(ErrorKind::Internal, "a tensor of several components was to be written as one"));
        };
        let mut position = 0;
        reader.read_pieces(&tensor.name, &component.role, &mut |bytes| {
            check_cancelled(*progress)?;
            take(bytes)?;
            position += bytes.len() as u64;
            progress.advanced(position.saturating_sub(*counted));
            *counted = position.max(*counted);
            Ok(())
        })?;
        Ok(())
    }
}

fn check_cancelled(progress: &dyn Progress) -> Result<()> {
    match progress.is_cancelled() {
        true => Err(Error::new(ErrorKind::Io, "the conversion was interrupted").advise("Run it again.")),
        false => Ok(()),
    }
}
