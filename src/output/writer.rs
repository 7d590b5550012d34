//! How a format is written: the options that its writer takes, and what the writer is given.

use super::losses::Losses;
use super::target::Target;
use crate::error::Result;
use crate::index::Metadata;

/// How a format is written, and by which options.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Writer {
    /// How tensors can be compressed. Every writer also takes [`Compression::None`] and [`Compression::Auto`].
    pub compressions: &'static [Compression],
    /// The digests that tensors can have, beside [`DigestAlgorithm::None`]. The first one is the default.
    pub digests: &'static [DigestAlgorithm],
    /// The multiples of bytes at which tensors can begin. The first one is the default.
    pub alignments: &'static [u64],
    /// Whether a model can be written in several files.
    pub shards: bool,
    pub(crate) new: fn(&Settings, &mut Losses) -> Result<Box<dyn Target>>,
}

/// What a writer is given: options that it takes, and the model's metadata.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings<'a> {
    pub(crate) compression: Compression,
    pub(crate) digest: DigestAlgorithm,
    pub(crate) alignment: u64,
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

impl Compression {
    /// All of them.
    pub const ALL: &'static [Compression] = &[Self::None, Self::Lz4, Self::Zstd, Self::Auto];

    /// The name in the command line.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
            Compression::Auto => "auto",
        }
    }

    /// What it does, as the command line explains it.
    pub fn description(self) -> &'static str {
        match self {
            Compression::None => "As they are",
            Compression::Lz4 => "Every tensor in LZ4 blocks of 64 KiB",
            Compression::Zstd => "Every tensor in Zstandard frames",
            Compression::Auto => "By what the format has, but only the tensors that it makes smaller",
        }
    }

    /// The compression of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|compression| compression.name() == name)
    }
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

impl DigestAlgorithm {
    /// All of them.
    pub const ALL: &'static [DigestAlgorithm] = &[Self::None, Self::Crc32c, Self::Sha256, Self::Blake3];

    /// The name in the command line.
    pub fn name(self) -> &'static str {
        match self {
            DigestAlgorithm::None => "none",
            DigestAlgorithm::Crc32c => "crc32c",
            DigestAlgorithm::Sha256 => "sha256",
            DigestAlgorithm::Blake3 => "blake3",
        }
    }

    /// The algorithm of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|algorithm| algorithm.name() == name)
    }
}
