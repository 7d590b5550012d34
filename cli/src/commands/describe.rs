//! Descriptions of tensors, files and warnings in the output of `inspect --json`.

use super::model::Model;
use serde_json::{Map, Value, json};
use weightstream::Result;
use weightstream::internals::index::{ByteStream, Component, Digest, DigestedBytes, Tensor};

/// Adds to the description of a component, for example its digest or its statistics.
pub(super) type AddOfComponent<'a> = &'a mut dyn FnMut(&Component) -> Result<Map<String, Value>>;

/// The files of the model, in the order of `shard`.
pub(super) fn files(model: &Model) -> Value {
    let files = model.files().into_iter();
    files.map(|(name, byte_length)| json!({ "name": name, "byteLength": byte_length })).collect()
}

/// The warnings from opening the model.
pub(super) fn warnings(model: &Model) -> Value {
    let warnings = model.warnings().into_iter();
    warnings.map(|(file, warning)| json!({ "file": file, "message": warning })).collect()
}

/// A tensor. What is known of its only component is among its own entries.
pub(super) fn tensor(model: &Model, tensor: &Tensor, add: AddOfComponent) -> Result<Map<String, Value>> {
    let mut described = Map::new();
    described.insert("name".to_owned(), json!(tensor.name));
    described.insert("dtype".to_owned(), json!(tensor.dtype.name()));
    described.insert("shape".to_owned(), json!(tensor.shape));
    described.insert("layout".to_owned(), json!(tensor.layout.name()));
    described.insert("byteLength".to_owned(), json!(tensor.byte_length()));
    described.insert("storedByteLength".to_owned(), json!(tensor.stored_length()));
    if !tensor.attributes.is_empty() {
        described.insert("attributes".to_owned(), json!(tensor.attributes));
    }
    if model.file_count() > 1 {
        described.insert("shard".to_owned(), json!(tensor.shard));
    }
    if let [component] = tensor.components.as_slice() {
        described.extend(storage(component));
        described.append(&mut add(component)?);
        return Ok(described);
    }
    let mut components = Vec::new();
    for component in &tensor.components {
        let Component { role, dtype, decoded_length, range, .. } = component;
        let mut part = Map::new();
        part.insert("role".to_owned(), json!(role));
        part.insert("dtype".to_owned(), json!(dtype.name()));
        part.insert("byteLength".to_owned(), json!(decoded_length));
        part.insert("storedByteLength".to_owned(), json!(range.end.saturating_sub(range.start)));
        part.extend(storage(component));
        part.append(&mut add(component)?);
        components.push(Value::Object(part));
    }
    described.insert("components".to_owned(), Value::Array(components));
    Ok(described)
}

/// How a component is stored: its encoding, offset and digest.
fn storage(component: &Component) -> Map<String, Value> {
    let mut described = Map::new();
    described.insert("encoding".to_owned(), json!(component.encoding.name()));
    described.insert("offset".to_owned(), json!(component.range.start));
    let digest = match (component.streams(), &component.digest) {
        (Some(streams), _) => {
            described.insert("streams".to_owned(), streams.iter().map(stream).collect());
            streams.digest().map(|digest| (digest, "decoded"))
        }
        (None, Some(stated)) if stated.over == DigestedBytes::Stored => Some((stated.digest, "stored")),
        (None, stated) => stated.map(|stated| (stated.digest, "decoded")),
    };
    described.extend(digest.map(|(digest, of)| ("digest".to_owned(), describe_digest(digest, of))));
    described
}

/// How the bytes of one significance are stored.
fn stream(stream: &ByteStream) -> Value {
    let mut described = Map::new();
    described.insert("encoding".to_owned(), json!(if stream.is_zstd { "zstd" } else { "raw" }));
    described.insert("offset".to_owned(), json!(stream.range.start));
    described.insert("storedByteLength".to_owned(), json!(stream.range.end - stream.range.start));
    described.extend(stream.digest.map(|digest| ("digest".to_owned(), describe_digest(digest, "stored"))));
    Value::Object(described)
}

fn describe_digest(digest: Digest, of: &str) -> Value {
    json!({ "algorithm": digest.algorithm().name(), "value": digest.to_string(), "of": of })
}
