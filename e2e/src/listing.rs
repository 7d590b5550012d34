//! The contents of a file as a tool lists them, in the format of `weightstream inspect --json --sha256`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The tensors, metadata and checksums of a file.
#[derive(Debug, Clone, Deserialize)]
pub struct Listing {
    pub tensors: Vec<Tensor>,
    /// `None` if the tool does not list them.
    pub metadata: Option<Map<String, Value>>,
    /// The checksum algorithms of a file that the tool wrote, which `weightstream verify` must name.
    #[serde(default)]
    pub checksums: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Tensor {
    pub name: String,
    pub dtype: String,
    shape: Vec<u64>,
    /// `None` for a dense tensor.
    pub layout: Option<String>,
    /// Only for tensors with one component.
    sha256: Option<String>,
    #[serde(default)]
    components: Vec<Component>,
    /// `None` if the tool does not list them.
    pub attributes: Option<Map<String, Value>>,
    /// How the only component is stored. `None` if the tool does not list it.
    encoding: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Component {
    role: String,
    dtype: String,
    /// Empty if no contents were read.
    #[serde(default)]
    sha256: String,
}

/// The layout of zTensor whose tensors are split into streams of bytes. For tools that join the streams, it is the
/// encoding of a dense tensor.
const SPLIT: &str = "byte_stream_split";

/// Keys that describe how a model is divided into files. A conversion leaves them out.
const OF_FILES: [&str; 4] = ["sharding", "split.count", "split.no", "split.tensors.count"];

impl Tensor {
    /// The dtypes of the components of a sparse tensor that hold indices.
    pub fn index_dtypes(&self) -> impl Iterator<Item = &str> {
        let indices = self.components.iter().filter(|part| !matches!(&*part.role, "data" | "values"));
        indices.map(|part| &*part.dtype)
    }

    pub fn is_scalar(&self) -> bool {
        self.shape.is_empty()
    }

    pub fn is_dense(&self) -> bool {
        self.layout.is_none()
    }

    fn is_joined(&self) -> bool {
        self.encoding.as_deref() == Some(SPLIT)
    }
}

impl Listing {
    /// Parses the output of `weightstream inspect`, which omits empty attributes and names the layout of all tensors.
    pub fn of_inspect(json: &str) -> Result<Listing> {
        let mut listing = Listing::parse(json)?;
        for tensor in &mut listing.tensors {
            tensor.attributes.get_or_insert_default();
            tensor.layout.take_if(|layout| layout == "dense");
        }
        Ok(listing)
    }

    /// Parses a listing. Sorts components by role, because tools disagree on their order.
    pub fn parse(json: &str) -> Result<Listing> {
        let mut listing: Listing = serde_json::from_str(json).context("cannot parse the list of tensors")?;
        for tensor in &mut listing.tensors {
            tensor.components.sort();
        }
        Ok(listing)
    }

    /// Removes the attributes of all tensors.
    pub fn remove_attributes(&mut self) {
        self.tensors.iter_mut().for_each(|tensor| tensor.attributes = None);
    }

    /// Removes the encodings of all tensors, which a conversion changes.
    pub fn remove_encodings(&mut self) {
        self.tensors.iter_mut().for_each(|tensor| tensor.encoding = None);
    }

    /// The names of the tensors whose streams of bytes the tool joined.
    pub fn joined(&self) -> BTreeSet<&str> {
        self.tensors.iter().filter(|tensor| tensor.is_joined()).map(|tensor| &*tensor.name).collect()
    }

    /// Removes the tensors whose streams the tool that `found` them does not join, from both lists. Returns their
    /// number. Fails if the tool lists a tensor that is `split` as something else, or another one as streams.
    pub fn remove_unjoined(&mut self, found: &mut Listing, split: &BTreeSet<&str>) -> Result<usize> {
        let mut unjoined = BTreeSet::new();
        for tensor in &found.tensors {
            let (name, is_unjoined) = (&tensor.name, tensor.layout.as_deref() == Some(SPLIT));
            ensure!(split.contains(&**name) == (is_unjoined || tensor.is_joined()), "the layout of {name:?} is wrong");
            if is_unjoined {
                let shape = self.tensors.iter().find(|expected| expected.name == *name).map(|expected| &expected.shape);
                ensure!(shape == Some(&tensor.shape), "the shape of {name:?} is {:?}", tensor.shape);
                unjoined.insert(name.clone());
            }
        }
        for listing in [self, found] {
            listing.tensors.retain(|tensor| !unjoined.contains(&tensor.name));
        }
        Ok(unjoined.len())
    }

    /// Fails with a list of differences unless `found` has exactly these tensors and at least these metadata,
    /// attributes and encodings.
    pub fn ensure_same(&self, found: &Listing) -> Result<()> {
        let mut differences = Vec::new();
        let by_name = |listing: &Listing| -> BTreeMap<String, Tensor> {
            listing.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.clone())).collect()
        };
        let (expected_tensors, mut found_tensors) = (by_name(self), by_name(found));
        if self.tensors.len() != found.tensors.len() {
            differences.push(format!("{} tensors instead of {}", found.tensors.len(), self.tensors.len()));
        }
        for (name, expected) in &expected_tensors {
            match found_tensors.remove(name) {
                None => differences.push(format!("{name:?} is missing")),
                Some(mut found) => {
                    found.attributes = match (found.attributes, &expected.attributes) {
                        (Some(mut found), Some(expected)) => {
                            found.retain(|key, _| expected.contains_key(key));
                            Some(found)
                        }
                        // One of the tools does not list attributes.
                        (_, expected) => expected.clone(),
                    };
                    found.encoding.take_if(|_| expected.encoding.is_none());
                    if found != *expected {
                        differences.push(format!("{found:?}\n    instead of {expected:?}"));
                    }
                }
            }
        }
        differences.extend(found_tensors.keys().map(|name| format!("{name:?} is unexpected")));
        for (key, expected) in self.metadata.iter().flatten() {
            let Some(metadata) = &found.metadata else { break };
            let found = metadata.get(key);
            if found.is_none() && OF_FILES.contains(&key.as_str()) {
                continue;
            }
            if !found.is_some_and(|found| found == expected || is_text_of(found, expected)) {
                differences.push(format!("the metadata entry {key:?} is {found:?} instead of {expected}"));
            }
        }
        ensure!(differences.is_empty(), "{}", summarize(&differences));
        Ok(())
    }
}

/// Whether `text` is the JSON of `value`. Formats with only string metadata store other values as JSON.
fn is_text_of(text: &Value, value: &Value) -> bool {
    let parsed = text.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    parsed.is_some_and(|parsed| parsed == *value)
}

/// The maximum number of differences in a message. One cause often affects hundreds of tensors.
const MAX_DIFFERENCES: usize = 5;

fn summarize(differences: &[String]) -> String {
    let mut lines: Vec<_> = differences.iter().take(MAX_DIFFERENCES).map(String::as_str).collect();
    let rest = format!("and {} more", differences.len().saturating_sub(MAX_DIFFERENCES));
    if differences.len() > MAX_DIFFERENCES {
        lines.push(&rest);
    }
    lines.join("\n  ")
}
