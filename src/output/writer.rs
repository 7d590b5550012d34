//! The writer of a format: its supported options, and its settings.

use super::losses::Losses;
use super::target::Target;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Metadata;
use crate::window::{Stop, Window};
use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

/// The writer of a format, and the options that it supports.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Writer {
    /// The supported compressions. Every writer also supports [`Compression::None`] and [`Compression::Auto`].
    pub compressions: &'static [Compression],
    /// The supported digests of tensors, in addition to [`DigestAlgorithm::None`]. The first one is the default.
    pub digests: &'static [DigestAlgorithm],
    /// The supported alignments of tensors, in bytes. The first one is the default.
    pub alignments: &'static [u64],
    /// Whether a model can be written in several files.
    pub shards: bool,
    /// The versions of the format that can be chosen. The first one is the default. Empty if there is no choice.
    pub versions: &'static [&'static str],
    /// Whether the first of several files can have all of the metadata and no tensors.
    pub metadata_first: bool,
    /// Whether files have a place for a vocabulary.
    pub vocabulary: bool,
    /// Describes what JSON does not express in the metadata of a source in this format.
    pub(crate) describe: Option<Describe>,
    pub(crate) new: fn(&Settings, &mut Losses) -> Result<Box<dyn Target>>,
}

/// Returns entries for the metadata of a file, with which it survives conversions.
pub(crate) type Describe = fn(&Window) -> Result<Metadata, Stop>;

/// The settings of a writer: its options, and the model's metadata.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings<'a> {
    pub(crate) compression: Compression,
    pub(crate) digest: DigestAlgorithm,
    pub(crate) alignment: u64,
    /// The version that the caller has chosen.
    pub(crate) version: Option<&'a str>,
    /// Whether the tensors are in the order in which a reader needs them.
    pub(crate) is_for_streaming: bool,
    /// Whether the first of several files has no tensors.
    pub(crate) metadata_first: bool,
    /// Whether everything that only describes the tensors is left out. Without it, `given` and `source` are used.
    pub(crate) omits_metadata: bool,
    /// What a record of the changes in the metadata contains besides the changes of the writer: see `origin`.
    pub(crate) source_record: &'a Metadata,
    /// When the weights were created, as far as is known.
    pub(crate) created: SystemTime,
    /// The caller's metadata.
    pub(crate) given: &'a Metadata,
    /// The format of the source.
    pub(crate) source_format: &'a str,
    /// The source's metadata.
    pub(crate) source: &'a Metadata,
}

/// How tensors are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Uncompressed.
    #[default]
    None,
    /// Tensors in LZ4 blocks. Those that LZ4 would make larger, such as most floats, are uncompressed.
    Lz4,
    /// Tensors in Zstandard frames. Those that Zstandard would make larger are uncompressed.
    Zstd,
    /// Whatever compression of the format makes each tensor smallest; tensors that none makes smaller are uncompressed.
    Auto,
}

impl Compression {
    /// All variants.
    #[doc(hidden)]
    pub const ALL: &'static [Compression] = &[Self::None, Self::Lz4, Self::Zstd, Self::Auto];

    /// The name in the command line.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
            Compression::Auto => "auto",
        }
    }

    /// A description for the help of the command line.
    #[doc(hidden)]
    pub fn description(self) -> &'static str {
        match self {
            Compression::None => "Uncompressed",
            Compression::Lz4 => "LZ4 blocks of 64 KiB, for tensors that get smaller",
            Compression::Zstd => "Zstandard frames, for tensors that get smaller",
            Compression::Auto => "Whatever compression of the format makes each tensor smallest",
        }
    }

    /// Returns the compression with this name.
    #[doc(hidden)]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|compression| compression.name() == name)
    }
}

/// Writes the name in the command line.
impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads the name in the command line.
impl FromStr for Compression {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::from_name(name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|known| known.name()).collect();
            let error = Error::new(ErrorKind::InvalidArgument, format!("\"{name}\" is not a compression"));
            error.advise(format!("Choose one of {}.", names.join(", ")))
        })
    }
}

/// The algorithm of the digest that each tensor gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DigestAlgorithm {
    /// No digest.
    None,
    /// CRC-32C: detects accidental damage, but not tampering.
    Crc32c,
    /// SHA-256.
    Sha256,
    /// BLAKE3 with its default 256-bit output.
    Blake3,
}

impl DigestAlgorithm {
    /// All variants.
    #[doc(hidden)]
    pub const ALL: &'static [DigestAlgorithm] = &[Self::None, Self::Crc32c, Self::Sha256, Self::Blake3];

    /// The name in the command line.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            DigestAlgorithm::None => "none",
            DigestAlgorithm::Crc32c => "crc32c",
            DigestAlgorithm::Sha256 => "sha256",
            DigestAlgorithm::Blake3 => "blake3",
        }
    }

    /// Returns the algorithm with this name.
    #[doc(hidden)]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|algorithm| algorithm.name() == name)
    }
}

/// Writes the name in the command line.
impl fmt::Display for DigestAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads the name in the command line.
impl FromStr for DigestAlgorithm {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::from_name(name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|known| known.name()).collect();
            let error = Error::new(ErrorKind::InvalidArgument, format!("\"{name}\" is not a digest"));
            error.advise(format!("Choose one of {}.", names.join(", ")))
        })
    }
}
