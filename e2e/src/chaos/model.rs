//! Random models in every format that has a writer.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::{Map, json};
use weightstream::internals::format::Format;
use weightstream::internals::index::Metadata;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{self, Compression, ConvertOptions, DigestAlgorithm, convert};

use super::random::Random;

/// A model on a server, in two versions. Both have the same tensors, with different bytes.
pub struct Model {
    /// A description: the format and its options.
    pub name: String,
    /// The name of the file to open.
    pub entry: String,
    pub versions: [Version; 2],
}

pub struct Version {
    pub files: HashMap<String, Arc<Vec<u8>>>,
    pub tensors: BTreeMap<String, Tensor>,
}

/// The expected tensor.
#[derive(Clone)]
pub struct Tensor {
    dtype: &'static str,
    pub shape: Vec<u64>,
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// The length in bytes of one row of the outermost dimension.
    pub fn row_bytes(&self) -> usize {
        self.shape.first().map_or(0, |rows| self.bytes.len() / (*rows).max(1) as usize)
    }
}

impl Model {
    /// The bytes of a tensor, or of its `rows`, in one version.
    pub fn bytes(&self, version: usize, name: &str, rows: Option<(u64, u64)>) -> Option<&[u8]> {
        let tensor = self.versions.get(version)?.tensors.get(name)?;
        let row = |number: u64| number as usize * tensor.row_bytes();
        tensor.bytes.get(rows.map_or(0..tensor.bytes.len(), |(start, end)| row(start)..row(end)))
    }

    /// The length of the shorter version of a file.
    pub fn file_length(&self, name: &str) -> u64 {
        let files = self.versions.iter().filter_map(|version| version.files.get(name));
        files.map(|file| file.len() as u64).min().unwrap_or(0)
    }

    /// Generates a model. If the format does not support it, generates a simpler one.
    pub fn new(random: &mut Random) -> Result<Self> {
        let formats: Vec<_> = write::formats().collect();
        let format = random.pick(&formats).context("no format is written")?;
        let compressions = [Compression::None, Compression::Lz4, Compression::Zstd, Compression::Auto];
        let digests =
            [DigestAlgorithm::None, DigestAlgorithm::Crc32c, DigestAlgorithm::Sha256, DigestAlgorithm::Blake3];
        let dtypes: &[&'static str] = if random.percent(50) { &["F32"] } else { &["F32", "I64", "U8", "BF16"] };
        let first = tensors(random, dtypes);
        let total: u64 = first.values().map(|tensor| tensor.bytes.len() as u64).sum();
        let compression = random.pick(&compressions).unwrap_or_default();
        let digest = random.pick(&digests).filter(|_| random.percent(50));
        let options = ConvertOptions::default()
            .format(format)
            .compression(compression)
            .digest(digest)
            .metadata(metadata())
            .max_shard_bytes(random.percent(40).then(|| total / random.within(2..6) + 100_000));
        let second = other_bytes(random, &first);
        if let Ok(model) = write_versions(&[first, second], format, &options) {
            return Ok(model.described(&format!("{compression:?}, digest {digest:?}")));
        }
        let first = tensors(random, &["F32"]);
        let second = other_bytes(random, &first);
        let options = ConvertOptions::default().format(format).metadata(metadata());
        Ok(write_versions(&[first, second], format, &options)?.described("as the format is by default"))
    }

    fn described(self, how: &str) -> Self {
        Model { name: format!("{}, {how}", self.name), ..self }
    }
}

/// The metadata that GGUF and EMBD require.
fn metadata() -> Metadata {
    let texts = ["general.architecture", "model_name", "model_version"].map(|key| (key.to_owned(), "chaos".into()));
    let sizes = [
        "embedding_dim",
        "vocab_size",
        "num_layers",
        "num_attention_heads",
        "hidden_size",
        "intermediate_size",
        "max_position_emb",
    ];
    Metadata::from_iter(texts.into_iter().chain(sizes.map(|key| (key.to_owned(), 1.into()))))
}

/// Mostly small tensors, and a few that are large enough for several connections.
fn tensors(random: &mut Random, dtypes: &[&'static str]) -> BTreeMap<String, Tensor> {
    let tensor = |at: u64, random: &mut Random| {
        let dtype = random.pick(dtypes).unwrap_or("F32");
        let columns = random.within(1..300);
        let rows = if random.percent(8) { random.within(4_000..6_000) } else { random.within(1..400) };
        let shape = vec![rows, columns];
        let length = (rows * columns) as usize * item_bytes(dtype);
        (format!("layer.{at}.weight"), Tensor { dtype, shape, bytes: content(random, length) })
    };
    (0..random.within(2..14)).map(|at| tensor(at, random)).collect()
}

fn other_bytes(random: &mut Random, tensors: &BTreeMap<String, Tensor>) -> BTreeMap<String, Tensor> {
    let other = |(name, tensor): (&String, &Tensor)| {
        let bytes = content(random, tensor.bytes.len());
        (name.clone(), Tensor { bytes, ..tensor.clone() })
    };
    tensors.iter().map(other).collect()
}

/// Noise or compressible bytes. Every tensor starts with different bytes.
fn content(random: &mut Random, length: usize) -> Vec<u8> {
    let compresses = random.percent(40);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        let word = random.next();
        let repeats = if compresses { 1 + word as usize % 200 } else { 1 };
        bytes.extend(word.to_le_bytes().repeat(repeats.min((length - bytes.len()) / 8 + 1)));
    }
    bytes.truncate(length);
    bytes
}

fn item_bytes(dtype: &str) -> usize {
    match dtype {
        "I64" => 8,
        "F32" => 4,
        "BF16" => 2,
        _ => 1,
    }
}

/// Writes both versions. They differ only in the bytes of tensors, so their files have the same names.
fn write_versions(
    versions: &[BTreeMap<String, Tensor>; 2],
    format: &Format,
    options: &ConvertOptions,
) -> Result<Model> {
    let mut entry = String::new();
    let mut written = |tensors: &BTreeMap<String, Tensor>| -> Result<Version> {
        let folder = tempfile::tempdir()?;
        let input = Reader::from_bytes(vec![("model.safetensors".to_owned(), safetensors(tensors))])?;
        let is_sharded = options.max_shard_bytes.is_some();
        let out = folder.path().join(out_name(format, is_sharded));
        let converted = convert(&input, &out, options, &())?;
        entry = name_of(&converted.path)?;
        let mut files = HashMap::new();
        for file in fs::read_dir(folder.path())? {
            let path = file?.path();
            files.insert(name_of(&path)?, Arc::new(fs::read(&path)?));
        }
        Ok(Version { files, tensors: tensors.clone() })
    };
    let versions = [written(&versions[0])?, written(&versions[1])?];
    let name = format!("{}, {} files", format.name, versions[0].files.len());
    Ok(Model { name, entry, versions })
}

/// The file that is opened. For a sharded model it has the last extension of the format.
fn out_name(format: &Format, is_sharded: bool) -> String {
    let extension = if is_sharded { format.extensions.last() } else { format.extensions.first() };
    format!("model{}", extension.unwrap_or(&""))
}

fn name_of(path: &Path) -> Result<String> {
    Ok(path.file_name().and_then(|name| name.to_str()).context("a file has no name")?.to_owned())
}

fn safetensors(tensors: &BTreeMap<String, Tensor>) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, Tensor { dtype, shape, bytes }) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert(name.clone(), json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets }));
        data.extend(bytes);
    }
    let mut header = json!(header).to_string();
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}
