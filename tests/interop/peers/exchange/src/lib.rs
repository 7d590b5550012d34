//! What all peers in Rust share: the command line, random tensors, and how tensors are told.
//!
//! ```text
//! PEER write SEED FOLDER   writes files with the tool, each with FILE.expected.json beside it
//! PEER read FILE           reads a file with the tool and prints what it found
//! ```
//!
//! Both tell tensors as `weightstream inspect --json --sha256` does: dtypes in weightstream's spelling, shapes with
//! the outermost dimension first, sha256 over the decoded little-endian bytes. A peer may panic: that is how it fails.

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
    /// Empty for a dense one.
    pub layout: String,
    /// What there is to say of it besides.
    pub attributes: Map<String, Value>,
    /// One called `data`, or several.
    pub components: Vec<Component>,
}

/// A part of a tensor.
#[derive(Clone)]
pub struct Component {
    pub role: String,
    pub dtype: String,
    pub data: Vec<u8>,
}

/// What a file holds.
#[derive(Default)]
pub struct Listing {
    pub tensors: Vec<Tensor>,
    /// Where the tool tells them.
    pub metadata: Option<Map<String, Value>>,
    /// The checksums that `weightstream verify` must name.
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

    fn told(&self) -> Value {
        let mut told = json!({ "name": self.name, "dtype": self.dtype, "shape": self.shape });
        told["attributes"] = json!(self.attributes);
        if !self.layout.is_empty() {
            told["layout"] = json!(self.layout);
        }
        match self.components.as_slice() {
            [component] => told["sha256"] = json!(sha256(&component.data)),
            several => told["components"] = several.iter().map(Component::told).collect(),
        }
        told
    }
}

impl Component {
    pub fn new(role: &str, dtype: &str, data: Vec<u8>) -> Self {
        Component { role: role.to_owned(), dtype: dtype.to_owned(), data }
    }

    fn told(&self) -> Value {
        json!({ "role": self.role, "dtype": self.dtype, "sha256": sha256(&self.data) })
    }
}

impl Listing {
    /// Says beside a file what was written into it.
    pub fn expect(&self, file: &Path) {
        let mut path = file.as_os_str().to_owned();
        path.push(".expected.json");
        std::fs::write(path, self.told().to_string()).unwrap();
    }

    fn told(&self) -> Value {
        let tensors: Vec<_> = self.tensors.iter().map(Tensor::told).collect();
        json!({ "tensors": tensors, "metadata": self.metadata, "checksums": self.checksums })
    }
}

/// Does what the command line says.
pub fn run(write: impl Fn(&mut Noise, &Path), read: impl Fn(&Path) -> Listing) {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["write", seed, folder] => write(&mut Noise::new(seed.parse().unwrap()), folder.as_ref()),
        ["read", file] => println!("{}", read(file.as_ref()).told()),
        _ => panic!("write SEED FOLDER, or read FILE"),
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
