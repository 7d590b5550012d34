//! The in-toto statement of a signature: the names and digests of the files of a model.

use super::{SignedFiles, invalid};
use crate::error::{Error, ErrorKind, Result};
use crate::index::Digest;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE: &str = "https://model_signing/signature/v1.0";

/// The predicate of the experimental version 0.2, which states less.
const OLD_PREDICATE_TYPE: &str = "https://model_signing/Digests/v0.1";

/// What a signature states about a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement {
    /// The name of the signed folder or file. It is informative.
    pub name: String,
    /// The files and their digests.
    pub files: SignedFiles,
    /// Paths in the signed folder that were left out, with everything below them.
    pub ignored: Vec<String>,
    /// Whether files behind symbolic links were signed.
    pub allows_symlinks: bool,
}

impl Statement {
    /// Parses the payload of an envelope whose signature was verified.
    ///
    /// # Errors
    /// `SIGNATURE` for a payload that is no such statement or contradicts itself; `UNSUPPORTED` for other versions and
    /// for digests with BLAKE2.
    pub(super) fn parse(payload: &[u8]) -> Result<Self> {
        let json: Value = serde_json::from_slice(payload)
            .map_err(|error| invalid(format!("the signed payload is not JSON: {error}")))?;
        let (stated_type, predicate_type) = (text(&json, "/_type")?, text(&json, "/predicateType")?);
        if stated_type != STATEMENT_TYPE || predicate_type != PREDICATE_TYPE {
            let what = format!("the signed statement is of type \"{stated_type}\" with \"{predicate_type}\"");
            let error = Error::new(ErrorKind::Unsupported, what);
            return Err(match predicate_type {
                OLD_PREDICATE_TYPE => error.advise("Sign the model again with model-signing 1.0 or newer."),
                _ => error.advise("Sign the model with `weightstream sign` or model-signing."),
            });
        }
        if list(&json, "/subject")?.len() != 1 {
            return Err(invalid("the signed statement is not about exactly one model"));
        }
        let method = text(&json, "/predicate/serialization/method")?;
        let is_in_pieces = match method {
            "files" => false,
            "shards" => true,
            _ => {
                let what = format!("the signature lists \"{method}\" rather than files or shards");
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
        };
        let mut statement = Statement {
            name: text(&json, "/subject/0/name")?.to_owned(),
            allows_symlinks: json.pointer("/predicate/serialization/allow_symlinks") == Some(&Value::Bool(true)),
            ..Statement::default()
        };
        if json.pointer("/predicate/serialization/ignore_paths").is_some() {
            for path in list(&json, "/predicate/serialization/ignore_paths")? {
                statement.ignored.extend(path.as_str().map(str::to_owned));
            }
        }
        let mut root = Sha256::new();
        for resource in list(&json, "/predicate/resources")? {
            let (name, hex) = (text(resource, "/name")?, text(resource, "/digest")?);
            let digest = digest(text(resource, "/algorithm")?, hex, is_in_pieces)?;
            root.update(bytes_of(&digest));
            match is_in_pieces.then(|| piece(name)) {
                None => statement.files.add_file(name, digest)?,
                Some(Some((path, start, end))) => statement.files.add_piece(path, start, Some(end), digest)?,
                Some(None) => return Err(invalid(format!("the signature lists \"{name}\", which is no shard"))),
            }
        }
        let root = Digest::Sha256(root.finalize().into()).to_string();
        if root != text(&json, "/subject/0/digest/sha256")? {
            return Err(invalid("the digest of the model in the signature is not that of its list of files"));
        }
        Ok(statement)
    }

    /// The payload to sign. Equal models give equal bytes.
    pub(super) fn payload(&self) -> String {
        let mut root = Sha256::new();
        let mut files: Vec<_> = self
            .files
            .iter()
            .filter_map(|(path, file)| Some((path.split('/').collect::<Vec<_>>(), file.whole()?)))
            .collect();
        files.sort_unstable_by(|(one, _), (other, _)| one.cmp(other)); // the order of the reference: part by part
        let resource = |(path, digest): (Vec<&str>, Digest)| {
            root.update(bytes_of(&digest));
            json!({ "name": path.join("/"), "algorithm": digest.algorithm(), "digest": digest.to_string() })
        };
        let resources: Vec<Value> = files.into_iter().map(resource).collect();
        let root = Digest::Sha256(root.finalize().into()).to_string();
        let mut serialization =
            json!({ "method": "files", "hash_type": "sha256", "allow_symlinks": self.allows_symlinks });
        if let (Some(serialization), false) = (serialization.as_object_mut(), self.ignored.is_empty()) {
            serialization.insert("ignore_paths".to_owned(), json!(self.ignored));
        }
        let statement = json!({
            "_type": STATEMENT_TYPE,
            "subject": [{ "name": self.name, "digest": { "sha256": root } }],
            "predicateType": PREDICATE_TYPE,
            "predicate": { "serialization": serialization, "resources": resources },
        });
        statement.to_string()
    }
}

/// The text at a JSON pointer.
pub(super) fn text<'a>(json: &'a Value, pointer: &str) -> Result<&'a str> {
    json.pointer(pointer)
        .and_then(Value::as_str)
        .ok_or_else(|| invalid(format!("the signature has no text `{pointer}`")))
}

/// The list at a JSON pointer.
pub(super) fn list<'a>(json: &'a Value, pointer: &str) -> Result<&'a [Value]> {
    let list = json.pointer(pointer).and_then(Value::as_array);
    list.map(Vec::as_slice).ok_or_else(|| invalid(format!("the signature has no list `{pointer}`")))
}

/// The digest of a resource. The algorithm of a shard ends with its size, which its name states as well.
fn digest(algorithm: &str, hex: &str, is_in_pieces: bool) -> Result<Digest> {
    let name = match algorithm.split_once("-sharded-") {
        Some((name, _)) if is_in_pieces => name,
        _ => algorithm,
    };
    if name != "sha256" && name != "blake3" {
        let error = Error::new(ErrorKind::Unsupported, format!("the signature has digests of \"{algorithm}\""));
        return Err(error.advise("Sign the model with SHA-256, which is the default, or with BLAKE3."));
    }
    format!("{name}:{hex}").parse().map_err(|_| invalid(format!("the signature has the digest \"{hex}\"")))
}

/// The path and the range of a shard: `path:start:end`.
fn piece(name: &str) -> Option<(&str, u64, u64)> {
    let mut parts = name.rsplitn(3, ':');
    let (end, start, path) = (parts.next()?, parts.next()?, parts.next()?);
    Some((path, start.parse().ok()?, end.parse().ok()?))
}

fn bytes_of(digest: &Digest) -> &[u8] {
    match digest {
        Digest::Sha256(bytes) | Digest::Blake3(bytes) => bytes,
        _ => &[], // `digest` returns no other
    }
}
