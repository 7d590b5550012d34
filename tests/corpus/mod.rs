//! The fixtures: files that the formats' own tools wrote, with their expected contents.
#![allow(dead_code, reason = "each test that includes this module uses a part of it")]

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use weightstream::internals::source::memory::MemorySource;

/// A file, the other files of its folder, and its expected contents.
pub(crate) struct Fixture {
    /// The path relative to `tests/fixtures/`.
    pub(crate) path: String,
    /// The file itself, then the other files of its folder, each with its name in the folder.
    pub(crate) files: Vec<(String, Rc<[u8]>)>,
    pub(crate) expected: Expected,
}

/// The contents of `<file>.expected.json`.
#[derive(Deserialize)]
pub(crate) struct Expected {
    /// Metadata whose structure depends on the format; null if there is none.
    #[serde(default)]
    pub(crate) metadata: serde_json::Value,
    pub(crate) tensors: Vec<ExpectedTensor>,
}

#[derive(Deserialize, Clone)]
pub(crate) struct ExpectedTensor {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) numpy_shape: Option<Vec<u64>>,
    pub(crate) nbytes: Option<u64>,
    pub(crate) sha256: Option<String>,
    pub(crate) layout: Option<String>,
    pub(crate) components: Option<BTreeMap<String, ExpectedComponent>>,
    pub(crate) decoded: Option<serde_json::Value>,
    pub(crate) quant_params: Option<serde_json::Value>,
    pub(crate) param_id: Option<u64>,
}

#[derive(Deserialize, Clone)]
pub(crate) struct ExpectedComponent {
    #[serde(rename = "type")]
    pub(crate) logical: Option<String>,
    pub(crate) nbytes: u64,
    pub(crate) sha256: String,
}

impl Fixture {
    /// The folder directly below `tests/fixtures/`. Each format has one.
    pub(crate) fn folder(&self) -> &str {
        folder_of(&self.path)
    }

    pub(crate) fn bytes(&self) -> &Rc<[u8]> {
        &self.files[0].1
    }

    /// The tensors that the index of the opened file should have. Opening a part of a split GGUF opens all parts.
    pub(crate) fn tensors_of_the_model(&self) -> Vec<ExpectedTensor> {
        let Some(folder) = self.path.strip_suffix(&self.files[0].0).filter(|folder| *folder == "gguf/split/") else {
            return self.expected.tensors.clone();
        };
        let parts = self.files.iter().filter(|(name, _)| name.ends_with(".gguf"));
        parts.flat_map(|(name, _)| read_expected(&root().join(folder), name).unwrap().tensors).collect()
    }

    pub(crate) fn source(&self) -> MemorySource {
        MemorySource::new(self.files.clone()).unwrap()
    }
}

pub(crate) fn root() -> PathBuf {
    // Other crates of the workspace include this file too.
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("tests/fixtures"));
    folders.find(|fixtures| fixtures.is_dir()).unwrap()
}

pub(crate) fn folder_of(path: &str) -> &str {
    path.split('/').next().unwrap()
}

/// Every file below `tests/fixtures/` that has an `.expected.json`, sorted by path.
pub(crate) fn fixtures() -> Vec<Fixture> {
    let mut found = Vec::new();
    collect(&root(), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "there are no fixtures below {}", root().display());
    found
}

fn read_expected(folder: &Path, name: &str) -> Option<Expected> {
    let path = folder.join(format!("{name}.expected.json"));
    let text = fs::read_to_string(&path).ok()?;
    Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn collect(folder: &Path, found: &mut Vec<Fixture>) {
    let paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut files = Vec::new();
    for path in &paths {
        if path.is_dir() {
            collect(path, found);
        } else if !path.to_str().unwrap().ends_with(".expected.json") {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.push((name, Rc::<[u8]>::from(fs::read(path).unwrap())));
        }
    }
    for (at, (name, _)) in files.iter().enumerate() {
        if let Some(expected) = read_expected(folder, name) {
            let mut files = files.clone();
            files.swap(0, at);
            let path = folder.join(name).strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
            found.push(Fixture { path, files, expected });
        }
    }
}
