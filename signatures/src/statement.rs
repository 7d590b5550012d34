//! The in-toto statement of a signature: the names and digests of the files of a model.

use crate::fields::{Fields, shortened};
use crate::refusal::{Refusal, SIGN_AGAIN, invalid, unsupported};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE: &str = "https://model_signing/signature/v1.0";

/// The predicate of the experimental version 0.2, which states less.
const OLD_PREDICATE_TYPE: &str = "https://model_signing/Digests/v0.1";

/// The algorithms of digests.
const ALGORITHMS: [&str; 2] = ["sha256", "blake3"];

/// The largest offset in a file. No file is longer, and numbers of JavaScript are exact up to it.
const MAX_OFFSET: u64 = (1 << 53) - 1;

/// What a signature states about a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement {
    /// The name of the signed folder or file. It is informative.
    pub name: String,
    /// The digests of the files, or of their pieces.
    pub resources: Vec<Resource>,
    /// Paths in the signed folder that were left out, with everything below them.
    pub ignored: Vec<String>,
    /// Whether files behind symbolic links were signed.
    pub allows_symlinks: bool,
}

/// The digest of a file, or of a piece of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resource {
    /// The path of the file in the signed folder; `"."` for a single file.
    pub path: String,
    /// The offset of the piece.
    pub start: u64,
    /// The end of the piece. `None` for the whole file.
    pub end: Option<u64>,
    /// The algorithm of the digest: `sha256` or `blake3`.
    pub algorithm: &'static str,
    /// The digest.
    pub digest: [u8; 32],
}

impl Resource {
    /// The digest in hexadecimal.
    pub fn digest_text(&self) -> String {
        hex(&self.digest)
    }
}

impl Statement {
    /// Parses the payload of an envelope whose signature was verified.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Refusal> {
        let json: Value = serde_json::from_slice(payload)
            .map_err(|error| invalid(format!("the signed payload is not JSON: {error}")))?;
        let json = Fields::new("", &json)?;
        let (stated_type, predicate_type) = (json.text("_type")?, json.text("predicateType")?);
        if stated_type != STATEMENT_TYPE || predicate_type != PREDICATE_TYPE {
            let (one, other) = (shortened(stated_type), shortened(predicate_type));
            return Err(unsupported(format!("the signed statement is of type \"{one}\" with \"{other}\""), SIGN_AGAIN));
        }
        let subjects = json.objects("subject")?;
        let [subject] = subjects.as_slice() else {
            return Err(invalid("the signed statement is not about exactly one model"));
        };
        let predicate = json.object("predicate")?;
        let serialization = predicate.object("serialization")?;
        let method = Method::read(&serialization)?;
        let allows_symlinks = serialization.get("allow_symlinks").and_then(Value::as_bool);
        let mut statement = Statement {
            name: subject.text("name")?.to_owned(),
            allows_symlinks: allows_symlinks
                .ok_or_else(|| invalid("the signature does not state whether symbolic links were followed"))?,
            ..Statement::default()
        };
        if serialization.get("ignore_paths").is_some() {
            let texts = serialization.list("ignore_paths")?.iter().map(|path| path.as_str().map(str::to_owned));
            statement.ignored = texts
                .collect::<Option<_>>()
                .ok_or_else(|| invalid("the signature lists an ignored path that is not a text"))?;
        }
        let mut root = Sha256::new();
        for resource in predicate.objects("resources")? {
            let resource = method.resource(&resource)?;
            root.update(resource.digest);
            statement.resources.push(resource);
        }
        if hex(&root.finalize()) != subject.object("digest")?.text("sha256")? {
            return Err(invalid("the digest of the model in the signature is not that of its list of files"));
        }
        Ok(statement)
    }
}

/// The payload to sign for files with their SHA-256. Equal models give equal bytes.
pub fn payload(name: &str, mut files: Vec<(&str, [u8; 32])>, ignored: &[String], allows_symlinks: bool) -> String {
    // The order of the reference: part by part.
    files.sort_unstable_by(|(one, _), (other, _)| one.split('/').cmp(other.split('/')));
    let mut root = Sha256::new();
    let resource = |(path, digest): (&str, [u8; 32])| {
        root.update(digest);
        json!({ "name": path, "algorithm": "sha256", "digest": hex(&digest) })
    };
    let resources: Vec<Value> = files.into_iter().map(resource).collect();
    let mut serialization = json!({ "method": "files", "hash_type": "sha256", "allow_symlinks": allows_symlinks });
    if let (Some(serialization), false) = (serialization.as_object_mut(), ignored.is_empty()) {
        serialization.insert("ignore_paths".to_owned(), json!(ignored));
    }
    let statement = json!({
        "_type": STATEMENT_TYPE,
        "subject": [{ "name": name, "digest": { "sha256": hex(&root.finalize()) } }],
        "predicateType": PREDICATE_TYPE,
        "predicate": { "serialization": serialization, "resources": resources },
    });
    statement.to_string()
}

/// Refuses a payload of a version before 1.0 by its name.
pub(crate) fn refuse_old(payload: &[u8]) -> Result<(), Refusal> {
    let json: Option<Value> = serde_json::from_slice(payload).ok();
    let predicate_type = json.as_ref().and_then(|json| json.get("predicateType")?.as_str());
    match predicate_type {
        Some(OLD_PREDICATE_TYPE) => {
            Err(unsupported("the model was signed with a version of model-signing before 1.0", SIGN_AGAIN))
        }
        _ => Ok(()),
    }
}

/// How a model was divided into resources.
struct Method {
    /// The name of the algorithm that each resource must have.
    algorithm: String,
    /// The length of all pieces but the last of each file; `None` if files were not divided.
    piece_bytes: Option<u64>,
}

/// A number without a fraction. model-signing writes all numbers as floating-point numbers, such as `100000.0`.
fn whole_number(value: &Value) -> Option<u64> {
    let is_whole = |number: &f64| number.fract() == 0.0 && (0.0..=MAX_EXACT).contains(number);
    value.as_u64().or_else(|| value.as_f64().filter(is_whole).map(|number| number as u64))
}

/// 2^53: all smaller whole numbers are exact.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

impl Method {
    fn read(serialization: &Fields<'_>) -> Result<Self, Refusal> {
        let hash = serialization.text("hash_type")?;
        match serialization.text("method")? {
            "files" => Ok(Method { algorithm: hash.to_owned(), piece_bytes: None }),
            "shards" => {
                let size = serialization.get("shard_size").and_then(whole_number).filter(|size| *size > 0);
                let size = size.ok_or_else(|| invalid("the signature states no size of its shards"))?;
                Ok(Method { algorithm: format!("{hash}-sharded-{size}"), piece_bytes: Some(size) })
            }
            method => {
                let what = format!("the signature lists \"{}\" rather than files or shards", shortened(method));
                Err(unsupported(what, SIGN_AGAIN))
            }
        }
    }

    fn resource(&self, resource: &Fields<'_>) -> Result<Resource, Refusal> {
        let (name, stated, digest) = (resource.text("name")?, resource.text("algorithm")?, resource.text("digest")?);
        let base = stated.split_once("-sharded-").map_or(stated, |(base, _)| base);
        let Some(algorithm) = ALGORITHMS.into_iter().find(|known| *known == base) else {
            let advice = "Sign the model with SHA-256, which is the default, or with BLAKE3.";
            return Err(unsupported(format!("the signature has digests of \"{}\"", shortened(stated)), advice));
        };
        if stated != self.algorithm {
            let (stated, expected) = (shortened(stated), shortened(&self.algorithm));
            let what = format!("the signature has a digest of \"{stated}\", but says that all are of \"{expected}\"");
            return Err(invalid(what));
        }
        let digest = from_hex(digest)
            .ok_or_else(|| invalid(format!("the signature has the digest \"{}\"", shortened(digest))))?;
        let Some(piece_bytes) = self.piece_bytes else {
            return Ok(Resource { path: name.to_owned(), start: 0, end: None, algorithm, digest });
        };
        let (path, start, end) = piece(name, piece_bytes)
            .ok_or_else(|| invalid(format!("the signature lists \"{}\", which is no shard", shortened(name))))?;
        Ok(Resource { path: path.to_owned(), start, end: Some(end), algorithm, digest })
    }
}

/// The path and the range of a shard: `path:start:end`. Paths with a colon are ambiguous, and model-signing refuses
/// them.
fn piece(name: &str, piece_bytes: u64) -> Option<(&str, u64, u64)> {
    let mut parts = name.split(':');
    let (path, start, end) = (parts.next()?, offset(parts.next()?)?, offset(parts.next()?)?);
    let is_piece = start.is_multiple_of(piece_bytes) && start < end && end - start <= piece_bytes;
    (parts.next().is_none() && is_piece).then_some((path, start, end))
}

fn offset(digits: &str) -> Option<u64> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|offset| is_number && *offset <= MAX_OFFSET)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    let bytes: Vec<u8> = digits?.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    (text.len() == 64).then(|| bytes.try_into().ok()).flatten()
}
