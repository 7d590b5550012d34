//! What a caller can ask of a conversion, and which format answers.

use super::losses::Losses;
use super::target::Target;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Metadata;
use crate::loader::ModelMetadata;
use crate::setters::setters;
use std::path::Path;

/// How to write a model.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// The format to write.
    pub format: TargetFormat,
    /// Casts matrices of floats to F32, F16, BF16 or Q8_0: see [`cast`](super::cast). Vectors stay as they are.
    pub dtype: Option<Dtype>,
    /// How tensors are stored, where that makes them smaller.
    pub compression: Compression,
    /// The digest that each tensor gets; `None` for the one that the format's readers expect, if it has any.
    pub digest: Option<DigestAlgorithm>,
    /// At which multiple of bytes tensors begin; `None` for what the format is used to.
    pub alignment: Option<u64>,
    /// Writes several files of at most so many bytes, with a manifest, if one file would be longer.
    pub max_shard_bytes: Option<u64>,
    /// What the new file says of the model, before what the source says of it.
    pub metadata: Metadata,
    /// Leaves out what the format cannot hold, with a warning, instead of refusing the model.
    pub allow_loss: bool,
    /// Refuses an output that exists, instead of replacing it. A file that is replaced keeps its permissions.
    pub keep_existing: bool,
}

impl ConvertOptions {
    setters! {
        with_format format: TargetFormat;
        with_dtype dtype: Option<Dtype>;
        with_compression compression: Compression;
        with_digest digest: Option<DigestAlgorithm>;
        with_alignment alignment: Option<u64>;
        with_max_shard_bytes max_shard_bytes: Option<u64>;
        with_metadata metadata: Metadata;
        with_allow_loss allow_loss: bool;
        with_keep_existing keep_existing: bool;
    }
}

/// A format that weightstream writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetFormat {
    /// APR v2 as its specification lays it out.
    #[default]
    Apr,
    /// Burnpack as `burn-pack` 0.22 writes it.
    #[cfg(feature = "burnpack")]
    Burnpack,
    /// EMBD `.weights` as their specification lays them out, which is not how the format's tools do.
    #[cfg(feature = "embd")]
    Embd,
    /// SafeTensors, with `model.safetensors.index.json` for several files.
    SafeTensors,
    /// zTensor 1.2.
    #[cfg(feature = "ztensor")]
    ZTensor,
    /// AERO 0.1, with an AEROSET for several files.
    #[cfg(feature = "aero")]
    Aero,
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
    /// In Zstandard frames, every tensor.
    Zstd,
    /// By what the format has, where that makes a tensor smaller, else as they are.
    Auto,
}

/// What the bytes of each tensor can be checked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DigestAlgorithm {
    /// Nothing.
    None,
    /// CRC-32C: finds damage, says nothing about intent.
    Crc32c,
    /// SHA-256.
    Sha256,
    /// BLAKE3 with its ordinary 256-bit output.
    Blake3,
}

impl TargetFormat {
    /// Every format that is written.
    pub const ALL: &'static [TargetFormat] = &[
        TargetFormat::Apr,
        #[cfg(feature = "burnpack")]
        TargetFormat::Burnpack,
        #[cfg(feature = "embd")]
        TargetFormat::Embd,
        TargetFormat::SafeTensors,
        #[cfg(feature = "ztensor")]
        TargetFormat::ZTensor,
        #[cfg(feature = "aero")]
        TargetFormat::Aero,
    ];

    /// The format's name, as `inspect` prints it.
    pub fn name(self) -> &'static str {
        match self {
            TargetFormat::Apr => "apr",
            #[cfg(feature = "burnpack")]
            TargetFormat::Burnpack => "burnpack",
            #[cfg(feature = "embd")]
            TargetFormat::Embd => "embd",
            TargetFormat::SafeTensors => "safetensors",
            #[cfg(feature = "ztensor")]
            TargetFormat::ZTensor => "ztensor",
            #[cfg(feature = "aero")]
            TargetFormat::Aero => "aero",
        }
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<TargetFormat> {
        TargetFormat::ALL.iter().copied().find(|format| format.name() == name)
    }

    /// The format of files that are called like this: by the extension, or by what stands before `.json`.
    ///
    /// ```
    /// use weightstream::write::TargetFormat;
    ///
    /// let format = |name: &str| TargetFormat::of_file_name(name.as_ref());
    /// assert_eq!(format("models/m.apr"), Some(TargetFormat::Apr));
    /// assert_eq!(format("m.safetensors.index.json"), Some(TargetFormat::SafeTensors));
    /// assert_eq!(format("m.bin"), None);
    /// ```
    pub fn of_file_name(path: &Path) -> Option<TargetFormat> {
        let name = path.file_name()?.to_str()?.to_lowercase();
        let name = name.strip_suffix(".index.json").or(name.strip_suffix(".json")).unwrap_or(&name);
        let is_its = |format: &TargetFormat| format.extensions().iter().any(|extension| name.ends_with(extension));
        TargetFormat::ALL.iter().copied().find(is_its)
    }

    /// How names of its files end, the usual one first.
    fn extensions(self) -> &'static [&'static str] {
        match self {
            TargetFormat::Apr => &[".apr"],
            #[cfg(feature = "burnpack")]
            TargetFormat::Burnpack => &[".bpk", ".burnpack"],
            #[cfg(feature = "embd")]
            TargetFormat::Embd => &[".weights", ".embd"],
            TargetFormat::SafeTensors => &[".safetensors"],
            #[cfg(feature = "ztensor")]
            TargetFormat::ZTensor => &[".zt", ".ztensor"],
            #[cfg(feature = "aero")]
            TargetFormat::Aero => &[".aero", ".aeroset"],
        }
    }
}

impl Compression {
    fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
            Compression::Auto => "auto",
        }
    }
}

impl DigestAlgorithm {
    fn name(self) -> &'static str {
        match self {
            DigestAlgorithm::None => "none",
            DigestAlgorithm::Crc32c => "crc32c",
            DigestAlgorithm::Sha256 => "sha256",
            DigestAlgorithm::Blake3 => "blake3",
        }
    }
}

impl ConvertOptions {
    /// How tensors are stored, if it is one of those that the format `has`; `Auto` always is.
    pub(super) fn compression_of(&self, has: &[Compression]) -> Result<Compression> {
        let compression = self.compression;
        if matches!(compression, Compression::None | Compression::Auto) || has.contains(&compression) {
            return Ok(compression);
        }
        Err(self.not_for_this("compress", compression.name(), "none", has.iter().map(|has| has.name())))
    }

    /// The digest of each tensor, if it is one of those that the format `has`: the first of them is what its readers
    /// expect.
    pub(super) fn digest_of(&self, has: &[DigestAlgorithm]) -> Result<DigestAlgorithm> {
        let expected = has.first().copied().unwrap_or(DigestAlgorithm::None);
        let digest = self.digest.unwrap_or(expected);
        if digest == DigestAlgorithm::None || has.contains(&digest) {
            return Ok(digest);
        }
        Err(self.not_for_this("digest", digest.name(), "none", has.iter().map(|has| has.name())))
    }

    /// The multiple at which tensors begin, if it is one of those that the format `has`: the first is what it is used to.
    pub(super) fn alignment_of(&self, has: &[u64]) -> Result<u64> {
        let usual = has.first().copied().unwrap_or(1);
        let alignment = self.alignment.unwrap_or(usual);
        if has.contains(&alignment) {
            return Ok(alignment);
        }
        let more = has.iter().skip(1).map(u64::to_string).collect::<Vec<_>>();
        Err(self.not_for_this("align", &alignment.to_string(), &usual.to_string(), more.iter().map(String::as_str)))
    }

    fn not_for_this<'a>(&self, option: &str, value: &str, first: &'a str, has: impl Iterator<Item = &'a str>) -> Error {
        let what = format!("{} has no `--{option} {value}`", self.format.name());
        let has = std::iter::once(first).chain(has).collect::<Vec<_>>().join(", ");
        Error::new(ErrorKind::InvalidArgument, what).advise(format!("It has: {has}."))
    }
}

/// The format that the options ask for, told what the new file is to say of the model.
pub(super) fn target(options: &ConvertOptions, source: &ModelMetadata, losses: &mut Losses) -> Result<Box<dyn Target>> {
    let _ = &losses;
    Ok(match options.format {
        TargetFormat::Apr => Box::new(super::apr::Apr::new(options, source)?),
        #[cfg(feature = "burnpack")]
        TargetFormat::Burnpack => Box::new(super::burnpack::Burnpack::new(options, source)?),
        #[cfg(feature = "embd")]
        TargetFormat::Embd => Box::new(super::embd::Embd::new(options, source, losses)?),
        TargetFormat::SafeTensors => Box::new(super::safetensors::SafeTensors::new(options, source)?),
        #[cfg(feature = "ztensor")]
        TargetFormat::ZTensor => Box::new(super::ztensor::ZTensor::new(options, source)?),
        #[cfg(feature = "aero")]
        TargetFormat::Aero => Box::new(super::aero::Aero::new(options, source)?),
    })
}
