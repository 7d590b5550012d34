//! AEROSET 0.1 and 0.2: a JSON manifest that names the files of a model, next to it or at other URLs, and an index file
//! that lists the file of each tensor.
//!
//! The index file numbers shards across all files; each file numbers its shards from 0. Tensors are therefore looked up
//! by name.

use super::toc::{NAME, unsupported};
use crate::digest::from_hex;
use crate::error::{Result, malformed};
use crate::index::{Catalog, Digest, Manifest, Metadata, Part, check_part_count, part_path};
use crate::names;
use crate::values::json::shown;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Whether a JSON document is an AEROSET.
pub(crate) fn is_manifest(document: &Map<String, Value>) -> bool {
    document.get("format").and_then(|format| format.get("name")).and_then(Value::as_str) == Some("AEROSET")
}

/// Reads an AEROSET.
///
/// # Errors
/// `UNSUPPORTED` for a version other than 0.x; `FORMAT` if a file has no path, if a path that is not a URL points
/// outside the folder, or if a shard is in two files; `LIMIT` for too many files.
pub(crate) fn parse_manifest(document: &Map<String, Value>) -> Result<Manifest> {
    let base_url = match document.get("base_url") {
        None | Some(Value::Null) => None,
        Some(Value::String(url)) if is_url(url) => Some(url.trim_end_matches('/')),
        Some(other) => return Err(malformed(format!("the manifest's `base_url` is {}, not a URL", shown(other)))),
    };
    let listed = document.get("parts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let index = document.get("global_tidx").filter(|index| !index.is_null());
    check_part_count((listed.len() as u64).saturating_add(u64::from(index.is_some())))?;
    let mut parts = listed.iter().map(|part| parse_part(part, base_url)).collect::<Result<Vec<_>>>()?;
    let mut part_of_shard = HashMap::new();
    for (number, part) in listed.iter().enumerate() {
        for shard in part.get("shards").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_u64) {
            if part_of_shard.insert(shard, number).is_some() {
                return Err(malformed(format!("the manifest has shard {shard} in two files")));
            }
        }
    }
    let mut catalog = None;
    if let Some(index) = index {
        catalog = Some(Catalog { part: parts.len(), part_of_shard });
        parts.push(parse_part(index, base_url)?);
    }
    let own_keys = ["format", "parts", "global_tidx", "base_url"];
    let metadata = document.iter().filter(|(key, _)| !own_keys.contains(&key.as_str()));
    let metadata = metadata.map(|(key, value)| (key.clone(), value.clone())).collect::<Metadata>();
    let version = parse_version(document)?;
    Ok(Manifest {
        format: NAME,
        version,
        metadata,
        parts,
        tensor_parts: HashMap::new(),
        states_all_tensors: false,
        catalog,
        publication: None,
    })
}

/// Writers always write version 0.1; version 0.2 only adds keys.
fn parse_version(document: &Map<String, Value>) -> Result<String> {
    let numbers = document.get("format").and_then(|format| format.get("version")).and_then(Value::as_array);
    let numbers: Vec<String> = numbers.into_iter().flatten().take(3).map(shown).collect();
    match numbers.first().map(String::as_str) {
        None | Some("0") => Ok(numbers.join(".")),
        Some(_) => Err(unsupported(format!("AEROSET version {}; weightstream reads 0.1 and 0.2", numbers.join(".")))),
    }
}

fn parse_part(part: &Value, base_url: Option<&str>) -> Result<Part> {
    let path =
        part.get("path").and_then(Value::as_str).ok_or_else(|| malformed("the manifest has a file without `path`"))?;
    let wrong =
        |key: &str, value: &Value| malformed(format!("the `{key}` of \"{path}\" is {} in the manifest", shown(value)));
    let stated = |key: &str| part.get(key).filter(|value| !value.is_null());
    let byte_length = match stated("size_bytes") {
        Some(size) => Some(size.as_u64().ok_or_else(|| wrong("size_bytes", size))?),
        None => None,
    };
    let digest = match stated("sha256") {
        Some(hex) => Some(hex.as_str().and_then(from_hex).ok_or_else(|| wrong("sha256", hex))?),
        None => None,
    };
    let (path, url) = path_and_url(path, base_url)?;
    Ok(Part { path, url, byte_length, digest: digest.map(Digest::Sha256), ..Part::default() })
}

/// Returns the path and the URL of a file: at its own URL, below the manifest's base URL, or next to the manifest.
fn path_and_url(path: &str, base_url: Option<&str>) -> Result<(String, Option<String>)> {
    if is_url(path) {
        let name = path.split(['?', '#']).next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        return Ok((part_path(name).unwrap_or_default(), Some(path.to_owned())));
    }
    let path = part_path(path)?;
    let url = base_url.map(|base_url| format!("{base_url}/{}", names::encoded(&path)));
    Ok((path, url))
}

fn is_url(text: &str) -> bool {
    let is_http = |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    (is_http("https://") || is_http("http://")) && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

#[cfg(all(test, native))]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::error::ErrorKind;
    use serde_json::json;

    fn parts(manifest: Value) -> Result<Vec<Part>> {
        parse_manifest(manifest.as_object().unwrap()).map(|manifest| manifest.parts)
    }

    fn place_of(path: &str, base_url: Value) -> Result<(String, Option<String>)> {
        let part = parts(json!({ "parts": [{ "path": path }], "base_url": base_url }))?.remove(0);
        Ok((part.path, part.url))
    }

    #[test]
    fn resolves_files_next_to_the_manifest_below_its_base_url_or_at_their_own_url() {
        let place = |path, base_url| place_of(path, base_url).unwrap();
        assert_eq!(place("a/b.aero", Value::Null), ("a/b.aero".into(), None));
        let below = Some("https://h/x/a/b%3F%20%C3%BC.aero".to_owned());
        assert_eq!(place("a/b? ü.aero", json!("https://h/x/")), ("a/b? ü.aero".into(), below));
        let own = Some("HTTPS://h/y/b.aero?sig=1".to_owned());
        assert_eq!(place("HTTPS://h/y/b.aero?sig=1", json!("http://other")), ("b.aero".into(), own));
    }

    #[test]
    fn rejects_paths_outside_the_folder_that_are_not_urls() {
        for path in ["../b.aero", "/b.aero", "//h/b.aero", "ftp://h/b.aero", "data:,x", "https://h/a b", ""] {
            for base_url in [Value::Null, json!("https://h/x")] {
                assert_eq!(place_of(path, base_url).unwrap_err().kind, ErrorKind::Format, "{path}");
            }
        }
        assert!(place_of("b.aero", json!("models/x")).is_err());
    }

    #[test]
    fn rejects_a_shard_in_two_files_and_invalid_digests_and_sizes() {
        let part = |shard: u64| json!({ "path": format!("{shard}.aero"), "shards": [0, shard] });
        assert!(parts(json!({ "parts": [part(1), part(2)] })).is_err());
        assert!(parts(json!({ "parts": [{ "path": "a", "sha256": "00" }] })).is_err());
        assert!(parts(json!({ "parts": [{ "path": "a", "size_bytes": -1 }] })).is_err());
        assert!(parts(json!({ "parts": [{ "size_bytes": 1 }] })).is_err());
    }

    #[test]
    fn rejects_another_major_version() {
        let version = |numbers| parts(json!({ "format": { "name": "AEROSET", "version": numbers } })).map(|_| ());
        assert_eq!(version(json!([0, 2])), Ok(()));
        assert_eq!(version(json!([1, 0])).unwrap_err().kind, ErrorKind::Unsupported);
    }
}
