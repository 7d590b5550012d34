//! What `weightstream publish` adds to a manifest, under a key of its own: the digests of files and tensors.

use super::copies::{self, Copies};
use super::differences::{self, Differences};
use super::{ComponentDigest, Digest, DigestedBytes, Index, Part, part_path};
use crate::digest::from_hex;
use crate::digest_state::DigestState;
use crate::error::{Result, malformed};
use crate::values::budget::Budget;
use crate::values::json;
use crate::values::json::shown;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// The key in the manifest.
pub const KEY: &str = "weightstream";

/// The key of the states from which the SHA-256 of a file can be continued.
pub const STATES: &str = "sha256_states";

/// The key of the digests of dense bytes.
pub const DENSE: &str = "dense";

/// The key of what files share with those of the previous revision.
pub const COPIES: &str = "copies";

/// The key of the differences to the previous revision.
pub const DIFFERENCES: &str = "differences";

/// The version of the key's content.
const VERSION: u64 = 1;

/// The content of the key.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Publication {
    /// The files of this revision, by name.
    files: HashMap<String, StatedFile>,
    /// The digests of the stored bytes of each tensor's components, with their roles. A tensor of one component has no
    /// role.
    tensors: HashMap<String, Vec<(Option<String>, Digest)>>,
    /// The digests of the dense bytes of tensors that are stored in another encoding.
    dense: HashMap<String, Digest>,
    /// What the files share with those of the previous revision, by name.
    copies: HashMap<String, Copies>,
    /// The differences to the previous revision.
    differences: Option<Differences>,
    /// Why the content is not used.
    warning: Option<String>,
}

/// The length in bytes and the SHA-256 of a file, and states from which that can be continued.
#[derive(Debug, Clone, PartialEq)]
struct StatedFile {
    byte_length: u64,
    digest: Digest,
    states: Vec<DigestState>,
}

impl Publication {
    /// Reads the key of an entry. `None` if it has none.
    ///
    /// # Errors
    /// `FORMAT` if the text is not a JSON object, or if the key is malformed; `LIMIT`.
    pub fn of_entry(text: &[u8]) -> Result<Option<Self>> {
        let text = json::without_byte_order_mark(text);
        let mut document = json::parse_object(text, 0, "the entry", &mut Budget::new(text.len() as u64))?;
        Publication::take_from(&mut document)
    }

    /// Removes the key from a manifest, and reads it.
    ///
    /// # Errors
    /// `FORMAT` if it is malformed.
    pub(crate) fn take_from(document: &mut Map<String, Value>) -> Result<Option<Self>> {
        let Some(stated) = document.shift_remove(KEY) else { return Ok(None) };
        let version = stated.get("version").and_then(Value::as_u64);
        if version != Some(VERSION) {
            let what = "the manifest's key `weightstream` has an unknown version, so that its digests are not checked";
            return Ok(Some(Publication { warning: Some(what.to_owned()), ..Publication::default() }));
        }
        let entries = |key: &str| stated.get(key).and_then(Value::as_object).into_iter().flatten();
        let files = entries("files").map(|(name, file)| Ok((part_path(name)?, parse_file(name, file)?)));
        let tensors = entries("tensors").map(|(name, digests)| {
            Ok((name.clone(), parse_digests(digests).ok_or_else(|| invalid_digest(digests).in_tensor(name))?))
        });
        let dense = entries(DENSE).map(|(name, digest)| {
            Ok((name.clone(), parse_digest(digest).ok_or_else(|| invalid_digest(digest).in_tensor(name))?))
        });
        let copies = entries(COPIES).map(|(name, stated)| Ok((name.clone(), copies::parse(name, stated)?)));
        let (files, tensors) = (files.collect::<Result<_>>()?, tensors.collect::<Result<_>>()?);
        let (dense, copies) = (dense.collect::<Result<_>>()?, copies.collect::<Result<_>>()?);
        let differences = stated.get(DIFFERENCES).map(differences::parse).transpose()?;
        Ok(Some(Publication { files, tensors, dense, copies, differences, warning: None }))
    }

    /// What a file has in common with files of the previous revision.
    pub fn copies_of(&self, path: &str) -> Option<&Copies> {
        self.copies.get(path)
    }

    /// The digest of the dense bytes of a tensor that is stored in another encoding.
    pub(crate) fn dense_digest(&self, tensor: &str) -> Option<Digest> {
        self.dense.get(tensor).copied()
    }

    /// The differences to the previous revision, if they are published.
    pub fn differences(&self) -> Option<&Differences> {
        self.differences.as_ref()
    }

    /// The path, the length in bytes and the SHA-256 of each file.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&str, u64, Digest)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file.byte_length, file.digest))
    }

    /// Adds the lengths and digests of files to those that the format's own manifest states.
    ///
    /// # Errors
    /// `FORMAT` if the manifest contradicts itself.
    pub(crate) fn describe_parts(&self, parts: &mut [Part]) -> Result<()> {
        for part in parts {
            let Some(stated) = self.files.get(&part.path) else { continue };
            let is_same = |digest: &Digest| !matches!(digest, Digest::Sha256(_)) || *digest == stated.digest;
            let agrees = part.byte_length.is_none_or(|length| length == stated.byte_length);
            if !agrees || !part.digest.as_ref().is_none_or(is_same) {
                let what = format!("the manifest states two lengths or digests of \"{}\"", part.path);
                return Err(malformed(what));
            }
            part.byte_length = Some(stated.byte_length);
            part.digest = Some(stated.digest);
            part.states.clone_from(&stated.states);
        }
        Ok(())
    }

    /// Adds digests to the components of a file that have none. `part` is the number of the file.
    pub(crate) fn describe_tensors(&self, part: usize, index: &mut Index) {
        if part == 0 {
            index.warnings.extend(self.warning.clone());
        }
        for at in 0..index.tensors.len() {
            let Some(stated) = self.tensors.get(index.tensors.name(at)) else { continue };
            let Some(mut tensor) = index.tensors.get(at).map(Arc::unwrap_or_clone) else { continue };
            let is_only = tensor.components.len() == 1;
            for component in tensor.components.iter_mut().filter(|one| one.digest.is_none() && one.pages.is_none()) {
                let mut digests = stated.iter();
                let digest = digests.find(|(role, _)| match role {
                    Some(role) => *role == *component.role,
                    None => is_only,
                });
                component.digest =
                    digest.map(|(_, digest)| ComponentDigest { digest: *digest, over: DigestedBytes::Stored });
            }
            index.tensors.replace(at, tensor);
        }
    }
}

fn parse_file(name: &str, file: &Value) -> Result<StatedFile> {
    let byte_length = file.get("size").and_then(Value::as_u64);
    let digest = file.get("sha256").and_then(Value::as_str).and_then(from_hex).map(Digest::Sha256);
    let (byte_length, digest) = byte_length.zip(digest).ok_or_else(|| {
        malformed(format!("the manifest describes \"{name}\" as {}, without `size` and `sha256`", shown(file)))
    })?;
    let states = match file.get(STATES) {
        Some(stated) => parse_states(stated).ok_or_else(|| {
            let what = format!("the manifest states the SHA-256 states of \"{name}\" as {}", shown(stated));
            malformed(what).advise("They must be pairs of an offset and the hexadecimal state there, by offset.")
        })?,
        None => Vec::new(),
    };
    Ok(StatedFile { byte_length, digest, states })
}

/// Parses `[[offset, "state"], …]`, in the order of the offsets.
fn parse_states(stated: &Value) -> Option<Vec<DigestState>> {
    let parse = |stated: &Value| {
        let [offset, hex] = stated.as_array()?.as_slice() else { return None };
        DigestState::parse(offset.as_u64()?, hex.as_str()?)
    };
    let states: Vec<_> = stated.as_array()?.iter().map(parse).collect::<Option<_>>()?;
    states.is_sorted_by(|one, next| one.offset < next.offset).then_some(states)
}

/// Parses `"sha256:…"`, or an object of roles.
fn parse_digests(stated: &Value) -> Option<Vec<(Option<String>, Digest)>> {
    match stated {
        Value::Object(roles) => {
            roles.iter().map(|(role, value)| Some((Some(role.clone()), parse_digest(value)?))).collect()
        }
        value => Some(vec![(None, parse_digest(value)?)]),
    }
}

fn parse_digest(stated: &Value) -> Option<Digest> {
    stated.as_str()?.parse().ok()
}

fn invalid_digest(stated: &Value) -> crate::error::Error {
    malformed(format!("the manifest states the digest {}; it must be like `sha256:…`", shown(stated)))
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn taken(stated: Value) -> Result<Publication> {
        let mut document = Map::from_iter([(KEY.to_owned(), stated)]);
        let taken = Publication::take_from(&mut document)?;
        assert!(document.is_empty(), "the key is not metadata of the model");
        Ok(taken.unwrap())
    }

    fn part(byte_length: Option<u64>, digest: Option<Digest>) -> Part {
        Part { path: "a.apr".to_owned(), byte_length, digest, ..Part::default() }
    }

    #[test]
    fn digests_of_files_replace_weaker_ones() {
        let publication =
            taken(json!({ "version": 1, "files": { "a.apr": { "size": 3, "sha256": DIGEST } } })).unwrap();
        let mut parts = [part(Some(3), Some(Digest::Crc32(1)))];
        publication.describe_parts(&mut parts).unwrap();
        assert_eq!(parts[0].digest.unwrap().to_string(), DIGEST);
        publication.describe_parts(&mut parts).unwrap();
    }

    #[test]
    fn refuses_a_manifest_that_contradicts_itself() {
        let publication =
            taken(json!({ "version": 1, "files": { "a.apr": { "size": 3, "sha256": DIGEST } } })).unwrap();
        publication.describe_parts(&mut [part(Some(4), None)]).unwrap_err();
        publication.describe_parts(&mut [part(None, Some(Digest::Sha256([1; 32])))]).unwrap_err();
    }

    #[test]
    fn refuses_malformed_entries() {
        for wrong in [
            json!({ "version": 1, "files": { "a.apr": { "size": 3 } } }),
            json!({ "version": 1, "files": { "../a.apr": { "size": 3, "sha256": DIGEST } } }),
            json!({ "version": 1, "files": { "a.apr": { "size": 3, "sha256": DIGEST,
                "sha256_states": [[1, DIGEST]] } } }),
            json!({ "version": 1, "files": { "a.apr": { "size": 3, "sha256": DIGEST, "sha256_states": [DIGEST] } } }),
            json!({ "version": 1, "files": { "a.apr": { "size": 3, "sha256": DIGEST, "sha256_states": {} } } }),
            json!({ "version": 1, "files": { "a.apr": { "size": 3, "sha256": DIGEST,
                "sha256_states": [[64, DIGEST], [0, DIGEST]] } } }),
            json!({ "version": 1, "tensors": { "t": "sha256:00" } }),
            json!({ "version": 1, "tensors": { "t": 5 } }),
            json!({ "version": 1, "differences": { "file": "d.zt", "size": 1, "sha256": DIGEST, "tensors": {} } }),
            json!({ "version": 1, "differences": { "file": "../d.zt", "size": 1, "sha256": DIGEST, "bases": {},
                "tensors": {} } }),
            json!({ "version": 1, "differences": { "file": "d.zt", "size": 1, "sha256": DIGEST, "bases": {},
                "tensors": { "t": { "base": ["unknown.zt", DIGEST], "sha256": DIGEST } } } }),
            json!({ "version": 1, "copies": { "new": [] } }),
            json!({ "version": 1, "copies": { "new": { "old": [[0, 1]] } } }),
            json!({ "version": 1, "copies": { "new": { "old": [[0, 1, 0]] } } }),
            json!({ "version": 1, "copies": { "new": { "old": [[u64::MAX, 0, 1]] } } }),
            json!({ "version": 1, "copies": { "new": { "../old": [] } } }),
        ] {
            assert_eq!(taken(wrong.clone()).unwrap_err().code(), "FORMAT", "{wrong}");
        }
    }

    #[test]
    fn an_unknown_version_is_a_warning() {
        let publication = taken(json!({ "version": 2, "files": 7 })).unwrap();
        assert!(publication.warning.unwrap().contains("unknown version"));
    }
}
