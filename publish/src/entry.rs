//! The entry: the manifest of the format, with one more key for readers that know it.
//!
//! ```json
//! "weightstream": {
//!   "version": 1,
//!   "files": { "model-7d0f3c2a91b84e65.apr": { "size": 16777216, "sha256": "…" } },
//!   "tensors": { "encoder.weight": "sha256:…" },
//!   "dense": { "encoder.weight": "sha256:…" },
//!   "copies": { "model-7d0f3c2a91b84e65.apr": { "model-41c29e06d3f7ab18.apr": [[4096, 4096, 16000000]] } }
//! }
//! ```
//!
//! Digests in `tensors` are of the stored bytes; a tensor with several components has an object with their roles. Those
//! in `dense` are of the dense bytes of tensors in streams, by which clients find these tensors in other files.
//!
//! `copies` states ranges of new files that a file of the previous revision contains, too: the offset, the offset in
//! the previous file, and the length in bytes.
//!
//! A file with large tensors in streams also has `sha256_states`: pairs of an offset and the state of its SHA-256 there
//! ([`DigestState`](weightstream::internals::index::DigestState)). Clients that read streams side by side continue the
//! digest there.
//!
//! `differences` states a file with the differences of tensors to those of the previous revision: see the library's
//! `index::differences`.

use super::record::FileRecord;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use weightstream::internals::output::FinishedFile;
use weightstream::internals::publication::{DENSE, KEY, STATES};
use weightstream::{Error, ErrorKind, Result};

/// A file beside the files of tensors: the index file of AEROSET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) name: String,
    pub(super) byte_length: u64,
    pub(super) sha256: String,
}

/// Returns the manifest with the key. `revision` has the keys that refer to the previous revision.
///
/// # Errors
/// `IO`; `INTERNAL` if the manifest is not a JSON object.
pub(super) fn complete(
    manifest: &FinishedFile,
    records: &[FileRecord],
    documents: &[Document],
    revision: Vec<(&str, Value)>,
) -> Result<Vec<u8>> {
    let internal = |error: serde_json::Error| Error::new(ErrorKind::Internal, format!("the manifest: {error}"));
    let text = std::fs::read(manifest.temporary_path())?;
    let mut document: Map<String, Value> = serde_json::from_slice(&text).map_err(internal)?;
    let mut files = Map::new();
    for FileRecord { name, byte_length, sha256, states, .. } in records {
        let mut file = Map::from_iter([("size".to_owned(), json!(byte_length)), ("sha256".to_owned(), json!(sha256))]);
        if !states.is_empty() {
            file.insert(STATES.to_owned(), json!(states));
        }
        files.insert(name.clone(), file.into());
    }
    for Document { name, byte_length, sha256 } in documents {
        files.insert(name.clone(), json!({ "size": byte_length, "sha256": sha256 }));
    }
    let tensors: Map<String, Value> = records
        .iter()
        .flat_map(|record| &record.tensors)
        .map(|(name, components)| (name.clone(), digests(components)))
        .collect();
    let mut stated = Map::from_iter([("version".to_owned(), json!(1)), ("files".to_owned(), files.into())]);
    stated.insert("tensors".to_owned(), tensors.into());
    let dense = records.iter().flat_map(|record| &record.dense);
    let dense: Map<String, Value> = dense.map(|(name, digest)| (name.clone(), spelled(digest))).collect();
    if !dense.is_empty() {
        stated.insert(DENSE.to_owned(), dense.into());
    }
    stated.extend(revision.into_iter().map(|(key, value)| (key.to_owned(), value)));
    document.insert(KEY.to_owned(), stated.into());
    let mut text = serde_json::to_vec_pretty(&document).map_err(internal)?;
    text.push(b'\n');
    Ok(text)
}

/// The digests of a tensor's components.
fn digests(components: &BTreeMap<String, String>) -> Value {
    let mut all = components.values();
    match (all.next(), all.next()) {
        (Some(only), None) => spelled(only),
        _ => components.iter().map(|(role, digest)| (role.clone(), spelled(digest))).collect(),
    }
}

fn spelled(digest: &String) -> Value {
    Value::from(format!("sha256:{digest}"))
}
