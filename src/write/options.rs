//! The options of a conversion.

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::index::Metadata;
use crate::on_progress::{OnProgress, Progress};
use crate::output::destination::Existing;
use crate::output::writer::{Compression, DigestAlgorithm, Settings, Writer};
use crate::setters::plain_setters as setters;
use crate::write::formats::{format_of_name, names};
use crate::write::input::Input;
use crate::write::order::TensorOrder;
use crate::write::source::Source;
use std::path::Path;
use std::time::SystemTime;

/// How to write a model.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    #[doc(hidden)] // used where models are published
    pub format: Option<&'static Format>,
    pub(crate) format_version: Option<String>,
    pub(crate) dtype: Option<Dtype>,
    pub(crate) compression: Compression,
    pub(crate) digest: Option<DigestAlgorithm>,
    pub(crate) alignment: Option<u64>,
    #[doc(hidden)] // used where models are published
    pub max_shard_bytes: Option<u64>,
    pub(crate) order: TensorOrder,
    pub(crate) by_layer: bool,
    pub(crate) metadata_first: bool,
    pub(crate) metadata: Metadata,
    pub(crate) omit_metadata: bool,
    pub(crate) allow_loss: bool,
    pub(crate) keep_existing: bool,
    pub(crate) on_progress: OnProgress,
}

impl ConvertOptions {
    /// The format that the name of the output states, uncompressed, in the order of the model.
    pub fn new() -> Self {
        ConvertOptions::default()
    }

    setters! {
        /// The format to write. By default, the name of the output states it.
        format: Option<&'static Format>;
        /// The version of the format. By default, the one that most tools read.
        format_version: Option<String>;
        /// Casts matrices of floats, and quantized tensors, to F32, F16, BF16, Q8_0 or Q4_0. Vectors of floats are not
        /// cast.
        dtype: Option<Dtype>;
        /// The compression of tensors.
        compression: Compression;
        /// The digest of each tensor. By default, that of the format, if it has one.
        digest: Option<DigestAlgorithm>;
        /// The alignment of tensors in bytes. By default, that of the format.
        alignment: Option<u64>;
        /// Writes several files of at most this many bytes, with a manifest, if one file would be longer.
        max_shard_bytes: Option<u64>;
        /// The order of the tensors.
        order: TensorOrder;
        /// Marks in the graph of an ONNX model where it can be split, and writes its weights in the order in which the
        /// nodes need them: the first layers then compute while the weights of the others arrive. For an output that is
        /// a folder.
        by_layer: bool;
        /// Writes all metadata to the first of several files, and the tensors to the others. Requires
        /// `max_shard_bytes`.
        metadata_first: bool;
        /// Additional metadata of the new file. It takes precedence over the metadata of the source.
        metadata: Metadata;
        /// Leaves out the metadata of the source. SafeTensors then also leaves out the attributes of tensors and stores
        /// dtypes that it does not have as U8: the file is the one that the npm package presents as a Blob.
        omit_metadata: bool;
        /// Leaves out data that the format cannot store, with a warning, instead of failing.
        allow_loss: bool;
        /// Fails if an output exists, instead of replacing it. A replaced file keeps its permissions.
        keep_existing: bool;
    }

    /// Calls `callback` with the progress.
    #[must_use]
    pub fn on_progress(self, callback: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        ConvertOptions { on_progress: OnProgress::new(callback), ..self }
    }

    /// What receives the progress.
    #[doc(hidden)]
    pub fn meter(&self) -> impl crate::progress::Progress + Sync + use<> {
        self.on_progress.clone().meter()
    }
}

impl ConvertOptions {
    pub(super) fn existing(&self) -> Existing {
        if self.keep_existing { Existing::Keep } else { Existing::Replace }
    }

    /// Returns the format to write, and its writer.
    pub(super) fn writer(&self, out: &Path) -> Result<(&'static Format, &'static Writer)> {
        let format = self.format.or_else(|| format_of_name(out)).ok_or_else(|| {
            let error = Error::new(ErrorKind::InvalidArgument, "cannot infer an output format from this file name");
            let error = error.advise(format!("Choose one with `ConvertOptions::format`: {}.", names(|_| true)));
            error.in_file(&out.display().to_string())
        })?;
        let writer = format.writer().ok_or_else(|| {
            let what = format!("weightstream reads {}, but does not write it", format.name);
            let error = Error::new(ErrorKind::InvalidArgument, what);
            error.advise(format!("Choose one of {}.", names(|_| true)))
        })?;
        Ok((format, writer))
    }

    /// Returns the settings for a writer. Fails if the writer does not support the options.
    pub(super) fn settings<'a>(
        &'a self,
        format: &Format,
        writer: &Writer,
        input: &'a dyn Input,
        source: &'a Source,
    ) -> Result<Settings<'a>> {
        if self.omit_metadata && !self.metadata.is_empty() {
            let what = "metadata is given for a file without metadata";
            let error = Error::new(ErrorKind::InvalidArgument, what);
            return Err(error.advise("Leave out either `ConvertOptions::metadata` or `ConvertOptions::omit_metadata`."));
        }
        Ok(Settings {
            compression: self.compression_of(format, writer.compressions)?,
            digest: self.digest_of(format, writer.digests)?,
            alignment: self.alignment_of(format, writer.alignments)?,
            version: self.version_of(format, writer.versions)?,
            is_for_streaming: self.order.is_for_streaming(),
            metadata_first: self.metadata_first_of(format, writer)?,
            omits_metadata: self.omit_metadata,
            created: input.modified().unwrap_or_else(SystemTime::now),
            given: &self.metadata,
            source_format: source.format,
            source_record: &source.record,
            source: if self.omit_metadata { &self.metadata } else { &source.metadata },
        })
    }

    fn compression_of(&self, format: &Format, has: &[Compression]) -> Result<Compression> {
        let compression = self.compression;
        if matches!(compression, Compression::None | Compression::Auto) || has.contains(&compression) {
            return Ok(compression);
        }
        Err(unsupported_value(format, "compression", compression.name(), "none", has.iter().map(|has| has.name())))
    }

    fn digest_of(&self, format: &Format, has: &[DigestAlgorithm]) -> Result<DigestAlgorithm> {
        let expected = has.first().copied().unwrap_or(DigestAlgorithm::None);
        let digest = self.digest.unwrap_or(expected);
        if digest == DigestAlgorithm::None || has.contains(&digest) {
            return Ok(digest);
        }
        Err(unsupported_value(format, "digest", digest.name(), "none", has.iter().map(|has| has.name())))
    }

    fn version_of(&self, format: &Format, has: &[&'static str]) -> Result<Option<&str>> {
        let version = self.format_version.as_deref();
        match (version, has) {
            (None, _) => Ok(None),
            (Some(version), has) if has.contains(&version) => Ok(Some(version)),
            (Some(version), [first, more @ ..]) => {
                Err(unsupported_value(format, "format_version", version, first, more.iter().copied()))
            }
            (Some(_), []) => {
                let what = format!("weightstream writes only one version of {}", format.name);
                let error = Error::new(ErrorKind::InvalidArgument, what);
                Err(error.advise("Leave `ConvertOptions::format_version` out."))
            }
        }
    }

    fn metadata_first_of(&self, format: &Format, writer: &Writer) -> Result<bool> {
        let refuse = |what: &str, advice: &str| {
            Err(Error::new(ErrorKind::InvalidArgument, what.to_owned()).advise(advice.to_owned()))
        };
        match self.metadata_first {
            true if !writer.metadata_first => refuse(
                &format!("{} does not support `ConvertOptions::metadata_first`", format.name),
                &format!("Leave it out, or choose one of {}.", names(|writer| writer.metadata_first)),
            ),
            true if self.max_shard_bytes.is_none() => refuse(
                "`ConvertOptions::metadata_first` is for models in several files",
                "Specify the size of the files with `ConvertOptions::max_shard_bytes`.",
            ),
            is_first => Ok(is_first),
        }
    }

    fn alignment_of(&self, format: &Format, has: &[u64]) -> Result<u64> {
        let usual = has.first().copied().unwrap_or(1);
        let alignment = self.alignment.unwrap_or(usual);
        if has.contains(&alignment) {
            return Ok(alignment);
        }
        let more = has.iter().skip(1).map(u64::to_string).collect::<Vec<_>>();
        let more = more.iter().map(String::as_str);
        Err(unsupported_value(format, "alignment", &alignment.to_string(), &usual.to_string(), more))
    }
}

fn unsupported_value<'a>(
    format: &Format,
    option: &str,
    value: &str,
    first: &'a str,
    has: impl Iterator<Item = &'a str>,
) -> Error {
    let what = format!("{} does not support the value {value} of `ConvertOptions::{option}`", format.name);
    let has = std::iter::once(first).chain(has).collect::<Vec<_>>().join(", ");
    Error::new(ErrorKind::InvalidArgument, what).advise(format!("Supported values: {has}."))
}
