//! The options of conversions, for `convert` and `publish`.

use super::model::ModelArguments;
use super::size;
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde_json::Value;
use std::path::{Path, PathBuf};
use weightstream::Dtype;
use weightstream::internals::format::Format;
use weightstream::internals::index::Metadata;
use weightstream::internals::native::read_file;
use weightstream::internals::write::{self, Compression, ConvertOptions, DigestAlgorithm, TensorOrder, Writer};
use weightstream::{Error, ErrorKind, Result};

/// The maximum size of a metadata file. A config.json has a few kilobytes, a vocabulary a few megabytes.
const MAX_METADATA_BYTES: u64 = 64 << 20;

/// How to convert a model.
#[derive(clap::Args)]
pub(super) struct ConversionArguments {
    /// The format to write. By default, it is inferred from the name of OUT: .apr, .safetensors …
    #[arg(long, value_parser = format_parser(|_| true))]
    format: Option<&'static Format>,
    /// The version of the format to write: 1.2 (the default), 1.1 or 1.0 of zTensor. Tools for one version may refuse
    /// files of another.
    #[arg(long, value_name = "VERSION")]
    format_version: Option<String>,
    /// Cast matrices of floats, and quantized tensors, to this dtype. Vectors of floats, such as biases and norms, are
    /// not cast.
    #[arg(long, value_enum, ignore_case = true)]
    dtype: Option<CastTo>,
    /// The compression of tensors. By default `none`. LZ4 and Zstandard hardly compress trained floats; `auto` in
    /// zTensor compresses their exponents, without a loss.
    #[arg(long, value_parser = compression_parser())]
    compress: Option<Compression>,
    /// The digest of each tensor. The default depends on the format.
    #[arg(long, value_parser = digest_parser())]
    digest: Option<DigestAlgorithm>,
    /// Write several files of at most this size, such as 24MB or 2GiB, if one would be larger. At most 1024 files.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    shard_size: Option<u64>,
    /// Write the tensors in the order in which a model computes with them (`layers`), or in that of a text file with a
    /// name on each line, so that a page receives the first layers first. By default, or with `source`, they keep their
    /// order.
    #[arg(long, value_name = "layers|source|FILE", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "layers")]
    order: Option<PathBuf>,
    /// Write all metadata of GGUF to the first of several files, and the tensors to the others.
    #[arg(long, requires = "shard_size")]
    metadata_first: bool,
    /// The alignment of tensors in bytes. The default depends on the format.
    #[arg(long, value_name = "BYTES")]
    align: Option<u64>,
    /// A JSON file whose keys become the model's metadata, such as its config.json.
    #[arg(long, value_name = "JSON")]
    metadata: Option<PathBuf>,
    /// Leave out the metadata of the source. For SafeTensors, also leave out the attributes of tensors, and store
    /// dtypes that it does not have as U8. This is the file that `toBlob()` presents in a browser.
    #[arg(long, conflicts_with = "metadata")]
    no_metadata: bool,
    /// Leave out data that the format cannot store, with a warning, instead of failing.
    #[arg(long)]
    allow_loss: bool,
}

#[derive(Clone, Copy, ValueEnum)]
#[allow(non_camel_case_types, reason = "the usual spelling of the dtypes")]
enum CastTo {
    #[value(name = "F32")]
    F32,
    #[value(name = "F16")]
    F16,
    #[value(name = "BF16")]
    BF16,
    /// Blocks of 32 elements, 8.5 bits each
    #[value(name = "Q8_0")]
    Q8_0,
    /// Blocks of 32 elements, 4.5 bits each
    #[value(name = "Q4_0")]
    Q4_0,
}

impl From<CastTo> for Dtype {
    fn from(dtype: CastTo) -> Self {
        match dtype {
            CastTo::F32 => Dtype::F32,
            CastTo::F16 => Dtype::F16,
            CastTo::BF16 => Dtype::BF16,
            CastTo::Q8_0 => Dtype::Q8_0,
            CastTo::Q4_0 => Dtype::Q4_0,
        }
    }
}

impl ConversionArguments {
    /// The format to write, if it is given.
    pub(super) fn format(&self) -> Option<&'static Format> {
        self.format
    }

    /// The dtype that floats and quantized tensors are cast to.
    pub(super) fn dtype(&self) -> Option<Dtype> {
        self.dtype.map(Dtype::from)
    }

    /// Whether an option is given that APR has and zTensor has not.
    pub(super) fn needs_apr(&self) -> bool {
        self.compress == Some(Compression::Lz4)
    }

    /// The options for files that are downloaded by many: in the order in which a model computes, and, in zTensor, as
    /// small as possible, with digests that detect tampering.
    pub(super) fn options_to_publish(&self, input: &ModelArguments, format: &'static Format) -> Result<ConvertOptions> {
        let options = self.options(input, Some(format), TensorOrder::Layers)?.format(Some(format));
        if format.name != "ztensor" {
            return Ok(options);
        }
        let options = options.compression(self.compress.unwrap_or(Compression::Auto));
        Ok(options.digest(self.digest.or(Some(DigestAlgorithm::Sha256))))
    }

    /// The options of a conversion of `input` to `format`.
    pub(super) fn options(
        &self,
        input: &ModelArguments,
        format: Option<&'static Format>,
        default_order: TensorOrder,
    ) -> Result<ConvertOptions> {
        Ok(ConvertOptions::default()
            .format(self.format)
            .format_version(self.format_version.clone())
            .dtype(self.dtype.map(Dtype::from))
            .compression(self.compress.unwrap_or_default())
            .digest(self.digest)
            .alignment(self.align)
            .max_shard_bytes(self.shard_size)
            .order(self.order.as_deref().map(read_order).transpose()?.unwrap_or(default_order))
            .metadata_first(self.metadata_first)
            .metadata(self.metadata(input, format)?)
            .omit_metadata(self.no_metadata)
            .allow_loss(self.allow_loss))
    }

    /// The metadata of the folder, replaced and extended by `--metadata`.
    fn metadata(&self, input: &ModelArguments, format: Option<&'static Format>) -> Result<Metadata> {
        let mut metadata = Metadata::new();
        if let (Some(folder), Some(format), false) = (input.folder(), format, self.no_metadata) {
            metadata = write::folder_metadata(folder, format)?;
        }
        if let Some(path) = &self.metadata {
            metadata.extend(read_metadata(path)?);
        }
        Ok(metadata)
    }
}

/// Parses the name of a format that can be written and is accepted.
pub(super) fn format_parser(accepts: fn(&Format) -> bool) -> impl TypedValueParser<Value = &'static Format> {
    let names = write::formats().filter(|format| accepts(format)).map(|format| format.name);
    PossibleValuesParser::new(names).try_map(|name| write::format_named(&name))
}

/// Parses compressions that at least one format supports.
fn compression_parser() -> impl TypedValueParser<Value = Compression> {
    let is_supported = |it: &Compression| {
        matches!(it, Compression::None | Compression::Auto) || writers().any(|writer| writer.compressions.contains(it))
    };
    let supported = Compression::ALL.iter().filter(|compression| is_supported(compression));
    let values = supported.map(|compression| PossibleValue::new(compression.name()).help(compression.description()));
    PossibleValuesParser::new(values).try_map(|name| Compression::from_name(&name).ok_or("unknown compression"))
}

/// Parses digests that at least one format supports.
fn digest_parser() -> impl TypedValueParser<Value = DigestAlgorithm> {
    let is_supported =
        |it: &DigestAlgorithm| *it == DigestAlgorithm::None || writers().any(|writer| writer.digests.contains(it));
    let supported = DigestAlgorithm::ALL.iter().filter(|algorithm| is_supported(algorithm));
    PossibleValuesParser::new(supported.map(|algorithm| algorithm.name()))
        .try_map(|name| DigestAlgorithm::from_name(&name).ok_or("unknown digest"))
}

fn writers() -> impl Iterator<Item = &'static Writer> {
    write::formats().filter_map(Format::writer)
}

fn read_metadata(path: &Path) -> Result<Metadata> {
    let place = |error: Error| error.in_file(&path.display().to_string());
    let text = read_file(path, MAX_METADATA_BYTES)?;
    match serde_json::from_slice(&text) {
        Ok(Value::Object(metadata)) => Ok(metadata),
        Ok(_) => Err("it is JSON, but not an object".to_owned()),
        Err(error) => Err(format!("it is not valid JSON: {error}")),
    }
    .map_err(|what| place(Error::new(ErrorKind::InvalidArgument, what).advise("`--metadata` requires a JSON object.")))
}

fn read_order(value: &Path) -> Result<TensorOrder> {
    match value.to_str() {
        Some("layers") => return Ok(TensorOrder::Layers),
        Some("source") => return Ok(TensorOrder::Source),
        _ => {}
    }
    let text = String::from_utf8(read_file(value, MAX_METADATA_BYTES)?).map_err(|_| {
        let error = Error::new(ErrorKind::InvalidArgument, "it is not a text in UTF-8");
        error.advise("`--order` takes a file with a tensor name on each line.").in_file(&value.display().to_string())
    })?;
    Ok(TensorOrder::Names(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()))
}
