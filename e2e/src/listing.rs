//! What a tool says is in a file, as `weightstream inspect --json --sha256` says it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The tensors of a file and what else is known of it.
#[derive(Debug, Clone, Deserialize)]
pub struct Listing {
    pub tensors: Vec<Tensor>,
    /// Where the tool tells them.
    pub metadata: Option<Map<String, Value>>,
    /// The checksums that the file has: the tool's only, which `weightstream verify` must name.
    #[serde(default)]
    pub checksums: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Tensor {
    pub name: String,
    pub dtype: String,
    shape: Vec<u64>,
    /// Dense where it is absent.
    pub layout: Option<String>,
    /// Of a tensor of one component.
    sha256: Option<String>,
    #[serde(default)]
    components: Vec<Component>,
    /// Where the tool tells them.
    pub attributes: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Component {
    role: String,
    dtype: String,
    sha256: String,
}

impl Tensor {
    pub fn is_dense(&self) -> bool {
        self.layout.is_none()
    }
}

impl Listing {
    /// What `weightstream inspect` prints, which leaves attributes out where there are none.
    pub fn of_inspect(json: &str) -> Result<Listing> {
        let mut listing = Listing::parse(json)?;
        for tensor in &mut listing.tensors {
            tensor.attributes.get_or_insert_default();
        }
        Ok(listing)
    }

    /// Components come sorted by their roles: tools disagree on their order.
    pub fn parse(json: &str) -> Result<Listing> {
        let mut listing: Listing = serde_json::from_str(json).context("this is no list of tensors")?;
        for tensor in &mut listing.tensors {
            tensor.components.sort();
        }
        Ok(listing)
    }

    /// What of it a format takes of which not every tensor or attribute fits.
    pub fn retain(&mut self, tensors: impl Fn(&Tensor) -> bool, attributes: bool) {
        self.tensors.retain(tensors);
        if !attributes {
            self.tensors.iter_mut().for_each(|tensor| tensor.attributes = None);
        }
    }

    /// Fails, and says where, unless `found` has exactly these tensors, and at least these metadata and attributes.
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
                None => differences.push(format!("there is no {name:?}")),
                Some(mut found) => {
                    found.attributes = match (found.attributes, &expected.attributes) {
                        (Some(mut found), Some(expected)) => {
                            found.retain(|key, _| expected.contains_key(key));
                            Some(found)
                        }
                        // One of them says nothing of attributes.
                        (_, expected) => expected.clone(),
                    };
                    if found != *expected {
                        differences.push(format!("{found:?}\n    instead of {expected:?}"));
                    }
                }
            }
        }
        differences.extend(found_tensors.keys().map(|name| format!("there should be no {name:?}")));
        for (key, expected) in self.metadata.iter().flatten() {
            let Some(metadata) = &found.metadata else { break };
            let found = metadata.get(key);
            if !found.is_some_and(|found| found == expected || is_text_of(found, expected)) {
                differences.push(format!("the metadata {key:?} are {found:?} instead of {expected}"));
            }
        }
        ensure!(differences.is_empty(), "{}", few(&differences));
        Ok(())
    }
}

/// Formats that keep texts only have anything else as JSON.
fn is_text_of(text: &Value, value: &Value) -> bool {
    let parsed = text.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    parsed.is_some_and(|parsed| parsed == *value)
}

/// Where one tensor is wrong, hundreds are.
const MOST_DIFFERENCES: usize = 5;

fn few(differences: &[String]) -> String {
    let mut lines: Vec<_> = differences.iter().take(MOST_DIFFERENCES).map(String::as_str).collect();
    let rest = format!("and {} more", differences.len().saturating_sub(MOST_DIFFERENCES));
    if differences.len() > MOST_DIFFERENCES {
        lines.push(&rest);
    }
    lines.join("\n  ")
}
