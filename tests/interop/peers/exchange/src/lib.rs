//! Shared code of the peers in Rust: the command line, random tensors, and the JSON output.
//!
//! ```text
//! PEER write SEED FOLDER   writes files with the tool, and FILE.expected.json for each
//! PEER read FILE           reads a file with the tool and prints its contents
//! ```
//!
//! Both describe tensors like `weightstream inspect --json --sha256`: dtypes in weightstream's spelling, shapes with
//! the outermost dimension first, sha256 over the decoded little-endian bytes. A peer reports failures by panicking.

pub mod burn;
mod noise;

pub use noise::Noise;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::path::Path;

/// A tensor, its bytes little-endian.
#[derive(Clone)]
pub struct Tensor {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    /// Empty for a dense tensor.
    pub layout: String,
    /// Further attributes.
    pub attributes: Map<String, Value>,
    /// One component with the role `data`, or several.
    pub components: Vec<Component>,
}

/// A component of a tensor.
#[derive(Clone)]
pub struct Component {
    pub role: String,
    pub dtype: String,
    pub data: Vec<u8>,
}

/// The contents of a file.
#[derive(Default)]
pub struct Listing {
    pub tensors: Vec<Tensor>,
    /// `None` if the tool does not report metadata.
    pub metadata: Option<Map<String, Value>>,
    /// The checksums that `weightstream verify` must report.
    pub checksums: Vec<&'static str>,
}

impl Tensor {
    /// A dense tensor.
    pub fn dense(name: String, dtype: &str, shape: Vec<u64>, data: Vec<u8>) -> Self {
        let components = vec![Component::new("data", dtype, data)];
        let (dtype, layout, attributes) = (dtype.to_owned(), String::new(), Map::new());
        Tensor { name, dtype, shape, layout, attributes, components }
    }

    /// The bytes of a dense tensor.
    pub fn data(&self) -> &[u8] {
        &self.components[0].data
    }

    fn to_json(&self) -> Value {
        let mut json = json!({ "name": self.name, "dtype": self.dtype, "shape": self.shape });
        json["attributes"] = json!(self.attributes);
        if !self.layout.is_empty() {
            json["layout"] = json!(self.layout);
        }
        match self.components.as_slice() {
            [component] => json["sha256"] = json!(sha256(&component.data)),
            several => json["components"] = several.iter().map(Component::to_json).collect(),
        }
        json
    }
}

impl Component {
    pub fn new(role: &str, dtype: &str, data: Vec<u8>) -> Self {
        Component { role: role.to_owned(), dtype: dtype.to_owned(), data }
    }

    fn to_json(&self) -> Value {
        json!({ "role": self.role, "dtype": self.dtype, "sha256": sha256(&self.data) })
    }
}

impl Listing {
    /// Writes `FILE.expected.json` for a file.
    pub fn expect(&self, file: &Path) {
        let mut path = file.as_os_str().to_owned();
        path.push(".expected.json");
        std::fs::write(path, self.to_json().to_string()).unwrap();
    }

    fn to_json(&self) -> Value {
        let tensors: Vec<_> = self.tensors.iter().map(Tensor::to_json).collect();
        json!({ "tensors": tensors, "metadata": self.metadata, "checksums": self.checksums })
    }
}

/// Runs the command of the command line.
pub fn run(write: impl Fn(&mut Noise, &Path), read: impl Fn(&Path) -> Listing) {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["write", seed, folder] => write(&mut Noise::new(seed.parse().unwrap()), folder.as_ref()),
        ["read", file] => println!("{}", read(file.as_ref()).to_json()),
        _ => panic!("usage: write SEED FOLDER | read FILE"),
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
