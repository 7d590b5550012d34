//! A temporary folder of model files, and the contents of a model for comparison.
#![allow(dead_code, reason = "each test that includes this module uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use weightstream::Result;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{ConvertOptions, Converted, convert};

/// A temporary folder, which is deleted when it is dropped.
pub(crate) struct Folder(pub(crate) TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Folder(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
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

    pub(crate) fn convert(&self, from: &str, to: &str, options: &ConvertOptions) -> Result<Converted> {
        convert(&Reader::open(self.path(from))?, &self.path(to), options, &())
    }
}

/// The contents of a model, for comparison: name, dtype, shape and decoded bytes of each tensor, in order.
pub(crate) type Content = Vec<(String, String, Vec<u64>, Vec<u8>)>;

pub(crate) fn content(reader: &Reader) -> Content {
    let of_tensor = |tensor: &weightstream::internals::index::Tensor| {
        let bytes = reader.tensor_slice(&tensor.name).unwrap().to_vec();
        (tensor.name.clone(), tensor.dtype.to_string(), tensor.shape.clone(), bytes)
    };
    reader.tensors().iter().map(of_tensor).collect()
}

pub(crate) fn content_of(path: &Path) -> Content {
    content(&Reader::open(path).unwrap())
}
