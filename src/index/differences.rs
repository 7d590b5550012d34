//! Differences of a published model to its previous revision: a client that has that revision downloads these.
//!
//! ```json
//! "differences": {
//!   "file": "model-52ab9d0c17e4f836.zt", "size": 123456, "sha256": "…",
//!   "bases": { "model-41c29e06d3f7ab18.zt": "…" },
//!   "tensors": { "encoder.weight": { "base": ["model-41c29e06d3f7ab18.zt", "…"], "sha256": "…" } }
//! }
//! ```
//!
//! `file` is a zTensor file with one tensor of unsigned integers for each tensor, as wide as its elements: the elements
//! of the new revision minus those of the base, as integers, zigzag-encoded. `base` is the file that contains the
//! tensor of the same name, and the SHA-256 of that tensor's dense bytes; `sha256` is that of the result. `bases` are
//! the SHA-256 of the files. `before` may have the differences of the previous revision to the one before it, in the
//! same form, for clients that have that one.

use super::{Part, part_path};
use crate::digest::{Digest, from_hex};
use crate::error::{Result, malformed};
use serde_json::Value;
use std::collections::HashMap;

/// The differences to a revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Differences {
    /// The file with the differences.
    pub file: Part,
    /// The difference of each tensor that has one.
    tensors: HashMap<String, Difference>,
    /// Those that the base itself has to an earlier revision.
    before: Option<Box<Differences>>,
}

/// The key of the differences of the previous revision to the one before it.
pub const BEFORE: &str = "before";

/// The maximum number of revisions that differences go back: each takes about 200 bytes of the entry for a tensor.
pub const MAX_STEPS: usize = 4;

/// What a difference is to, and what it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The path of the file of the previous revision with the tensor, relative to the manifest.
    pub base_path: String,
    /// The SHA-256 of that file.
    pub base_file: Digest,
    /// The SHA-256 of the dense bytes of that tensor.
    pub base: Digest,
    /// The SHA-256 of the dense bytes of the new tensor.
    pub result: Digest,
}

impl Differences {
    /// The difference of a tensor.
    pub fn get(&self, tensor: &str) -> Option<&Difference> {
        self.tensors.get(tensor)
    }

    /// The files with differences, the latest first.
    #[cfg_attr(not(npm), allow(dead_code, reason = "only the npm package lists cached models"))]
    pub(crate) fn files(&self) -> impl Iterator<Item = &Part> {
        std::iter::successors(Some(self), |differences| differences.before.as_deref()).map(|step| &step.file)
    }

    /// The differences of the base of a tensor to the revision before, if they lead to that base.
    pub(crate) fn before(&self, tensor: &str) -> Option<&Differences> {
        let base = self.get(tensor)?.base;
        self.before.as_deref().filter(|before| before.get(tensor).is_some_and(|stated| stated.result == base))
    }
}

/// Parses the key of the entry.
///
/// # Errors
/// `FORMAT` if it is malformed.
pub(super) fn parse(stated: &Value) -> Result<Differences> {
    parse_steps(stated, MAX_STEPS)
}

fn parse_steps(stated: &Value, max_steps: usize) -> Result<Differences> {
    let wrong = || malformed("the manifest's differences to the previous revision are malformed");
    let path = |value: Option<&Value>| part_path(value.and_then(Value::as_str).ok_or_else(wrong)?);
    let sha256 = |value: Option<&Value>| sha256(value).ok_or_else(wrong);
    let entries = |key: &str| stated.get(key).and_then(Value::as_object).ok_or_else(wrong);
    let byte_length = Some(stated.get("size").and_then(Value::as_u64).ok_or_else(wrong)?);
    let digest = Some(sha256(stated.get("sha256"))?);
    let file = Part { path: path(stated.get("file"))?, byte_length, digest, ..Part::default() };
    let bases = entries("bases")?;
    let tensors = entries("tensors")?.iter().map(|(name, stated)| {
        let base = stated.get("base").ok_or_else(wrong)?;
        let difference = Difference {
            base_path: path(base.get(0))?,
            base_file: sha256(base.get(0).and_then(Value::as_str).and_then(|file| bases.get(file)))?,
            base: sha256(base.get(1))?,
            result: sha256(stated.get("sha256"))?,
        };
        Ok((name.clone(), difference))
    });
    let before = stated.get(BEFORE).filter(|_| max_steps > 1);
    let before = before.map(|before| parse_steps(before, max_steps - 1).map(Box::new)).transpose()?;
    Ok(Differences { file, tensors: tensors.collect::<Result<_>>()?, before })
}

fn sha256(value: Option<&Value>) -> Option<Digest> {
    value.and_then(Value::as_str).and_then(from_hex).map(Digest::Sha256)
}
