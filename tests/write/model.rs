//! Models to convert, and their contents for comparison.

use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use weightstream::Result;
use weightstream::internals::format::Format;
use weightstream::internals::index::Tensor;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{ConvertOptions, Converted, convert};

/// A temporary folder, which is deleted when it is dropped.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Folder(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    pub(crate) fn open(&self, name: &str) -> Reader {
        Reader::open(self.path(name)).unwrap()
    }

    /// The names of all files, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Converts a file. `from` is the name of a file in the folder, or an absolute path.
    pub(crate) fn convert(&self, from: impl AsRef<Path>, to: &str, options: &ConvertOptions) -> Result<Converted> {
        convert(&Reader::open(self.0.path().join(from))?, &self.path(to), options, &())
    }
}

/// The contents of a tensor, for comparison: name, dtype, shape, layout, and the role, dtype and decoded bytes of each
/// component.
pub(crate) type Content = (String, String, Vec<u64>, String, Vec<(String, String, Vec<u8>)>);

/// The contents of a model, sorted by name, because formats may reorder tensors.
pub(crate) fn content(reader: &Reader) -> Vec<Content> {
    let mut all: Vec<_> = reader.tensors().iter().map(|tensor| content_of(reader, tensor)).collect();
    all.sort();
    all
}

fn content_of(reader: &Reader, tensor: &Tensor) -> Content {
    let mut components = Vec::new();
    for component in &tensor.components {
        let mut bytes = Vec::new();
        let take = &mut |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        reader.read_pieces(&tensor.name, &component.role, take).unwrap();
        components.push((component.role.to_string(), component.dtype.to_string(), bytes));
    }
    components.sort();
    // Formats keep the codes and the attribute that has the scales, and may not make floats of them.
    let (dtype, layout) = match &*tensor.components {
        [codes] if tensor.layout.name() == "quantized" => (&codes.dtype, "dense"),
        _ => (&tensor.dtype, tensor.layout.name()),
    };
    (tensor.name.clone(), dtype.to_string(), tensor.shape.clone(), layout.to_owned(), components)
}

/// A tensor of a SafeTensors file: name, dtype, shape, bytes.
pub(crate) type Given<'a> = (&'a str, &'a str, &'a [u64], Vec<u8>);

/// Builds a SafeTensors file independently of the library's writer.
pub(crate) fn safetensors_file(metadata: Value, tensors: &[Given]) -> Vec<u8> {
    let mut header = Map::new();
    header.insert("__metadata__".to_owned(), metadata);
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert((*name).to_owned(), json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets }));
        data.extend_from_slice(bytes);
    }
    let text = Value::Object(header).to_string();
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &data].concat()
}

/// Incompressible bytes, determined by the seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Options to write a format, with the metadata that it requires.
pub(crate) fn to(format: &'static Format) -> ConvertOptions {
    ConvertOptions::default().format(format).metadata(required_by(format))
}

/// The metadata that a format requires.
pub(crate) fn required_by(format: &Format) -> Map<String, Value> {
    match format.name {
        "embd" => required_by_embd(),
        "gguf" => Map::from_iter([("general.architecture".to_owned(), "test".into())]),
        _ => Map::new(),
    }
}

/// The metadata that EMBD requires.
pub(crate) fn required_by_embd() -> Map<String, Value> {
    let numbers =
        "embedding_dim vocab_size num_layers num_attention_heads hidden_size intermediate_size max_position_emb";
    let mut required: Map<_, _> =
        numbers.split(' ').zip(11..).map(|(key, n)| (key.to_owned(), n.to_string().into())).collect();
    for (key, text) in [("model_name", "tiny"), ("model_version", "1.0.0"), ("created_at", "2025-01-16T12:00:00Z")] {
        required.insert(key.to_owned(), text.into());
    }
    required
}

/// A SafeTensors file with unusual names, shapes and sizes, in dtypes that every format supports.
pub(crate) fn varied() -> Vec<u8> {
    varied_with(|_| true)
}

/// Those of these tensors that all of the formats store.
pub(crate) fn varied_for(formats: &[&Format]) -> Vec<u8> {
    let is_tfjs = formats.iter().any(|format| format.name == "tfjs");
    varied_with(|dtype| !is_tfjs || matches!(dtype, "F32" | "F16" | "I32"))
}

fn varied_with(is_wanted: impl Fn(&str) -> bool) -> Vec<u8> {
    let tensors: [Given; 7] = [
        ("bytes", "I8", &[3], noise(1, 3)),
        ("encoder.weight", "F32", &[50, 1000], noise(2, 200_000)),
        ("empty", "F32", &[0, 7], Vec::new()),
        ("größe/層 1", "F16", &[5], noise(3, 10)),
        ("same.everywhere", "I32", &[30_000], vec![7; 120_000]),
        ("deep", "I8", &[2, 1, 3, 1], noise(4, 6)),
        ("one", "BF16", &[1], noise(5, 2)),
    ];
    let wanted: Vec<_> = tensors.into_iter().filter(|(_, dtype, ..)| is_wanted(dtype)).collect();
    safetensors_file(json!({ "format": "pt", "author": "Zoë" }), &wanted)
}
