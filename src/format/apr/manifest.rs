//! The manifest of a model in several APR files: as specified ("Sharding"), and as `apr-format` writes it
//! (`v2::ShardManifest`). The two differ in the names of their keys. weightstream adds the SHA-256 of each shard.

use super::head::NAME;
use crate::digest::from_hex;
use crate::error::{Result, malformed};
use crate::index::{Digest, Manifest, Part, check_part_count, part_path, saturating_sum};
use crate::values::json::shown;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The keys that describe the files. All other keys are metadata of the model.
const OWN_KEYS: [&str; 7] =
    ["apr_version", "version", "sharded", "shard_count", "shards", "tensor_shard_map", "weight_map"];

/// Whether a JSON document is a manifest of APR shards.
pub(crate) fn is_manifest(document: &Map<String, Value>) -> bool {
    document.get("shards").is_some_and(Value::is_array)
}

/// Reads a manifest.
///
/// # Errors
/// `FORMAT` if a shard has no path inside the folder, the count is wrong, or a tensor is mapped to a shard that does
/// not exist; `LIMIT` for too many shards.
pub(crate) fn parse_manifest(document: &Map<String, Value>) -> Result<Manifest> {
    let key = |specified: &str, written: &str| document.get(specified).or(document.get(written));
    let version = key("apr_version", "version").and_then(Value::as_str).unwrap_or("2.0").to_owned();
    let shards = document.get("shards").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if let Some(count) = document.get("shard_count")
        && count.as_u64() != Some(shards.len() as u64)
    {
        return Err(malformed(format!("the manifest states {} shards but lists {}", shown(count), shards.len())));
    }
    check_part_count(shards.len() as u64)?;
    check_order(shards)?;
    let parts = shards.iter().map(parse_shard).collect::<Result<Vec<_>>>()?;
    check_total_size(document.get("total_size"), &parts)?;
    let mut tensor_parts = HashMap::new();
    let map = key("tensor_shard_map", "weight_map").and_then(Value::as_object);
    for (name, shard) in map.into_iter().flatten() {
        let part = shard.as_u64().and_then(|s| usize::try_from(s).ok()).filter(|part| *part < parts.len());
        let part = part.ok_or_else(|| {
            malformed(format!("the manifest maps it to shard {} of {}", shown(shard), parts.len())).in_tensor(name)
        })?;
        tensor_parts.insert(name.clone(), part);
    }
    let metadata = document.iter().filter(|(key, _)| !OWN_KEYS.contains(&key.as_str()));
    let metadata = metadata.map(|(key, value)| (key.clone(), value.clone())).collect();
    let states_all_tensors = map.is_some();
    Ok(Manifest {
        format: NAME,
        version,
        metadata,
        parts,
        tensor_parts,
        states_all_tensors,
        catalog: None,
        publication: None,
    })
}

/// Checks that the total size is the sum of the sizes of all shards, as `apr-format` writes it.
fn check_total_size(stated: Option<&Value>, parts: &[Part]) -> Result<()> {
    let Some(stated) = stated.filter(|stated| !stated.is_null()) else { return Ok(()) };
    let sizes: Option<Vec<u64>> = parts.iter().map(|part| part.byte_length).collect();
    let sum = sizes.map(|sizes| saturating_sum(sizes.into_iter()));
    match (stated.as_u64(), sum) {
        (Some(stated), Some(sum)) if stated != sum => {
            Err(malformed(format!("the manifest states {stated} bytes in total, but {sum} bytes for its shards")))
        }
        (Some(_), _) => Ok(()),
        (None, _) => Err(malformed(format!("the manifest's `total_size` is {}", shown(stated)))),
    }
}

/// Checks that the shards are listed in the order of their numbers, to which tensors are mapped.
fn check_order(shards: &[Value]) -> Result<()> {
    for (at, shard) in shards.iter().enumerate() {
        if let Some(index) = shard.get("index")
            && index.as_u64() != Some(at as u64)
        {
            return Err(malformed(format!("the manifest lists shard {} in place {at}", shown(index))));
        }
    }
    Ok(())
}

fn parse_shard(shard: &Value) -> Result<Part> {
    let path = shard.get("file").or(shard.get("filename")).and_then(Value::as_str);
    let path = path.ok_or_else(|| malformed("a shard has neither `file` nor `filename`"))?;
    let byte_length = match shard.get("size") {
        None | Some(Value::Null) => None,
        Some(size) => {
            Some(size.as_u64().ok_or_else(|| malformed(format!("the size of shard \"{path}\" is {}", shown(size))))?)
        }
    };
    let stated = |key: &str| shard.get(key).filter(|value| !value.is_null());
    let wrong = |key: &str, value: &Value, digits: u8| {
        malformed(format!("the {key} of shard \"{path}\" is {}, not {digits} hexadecimal digits", shown(value)))
    };
    let crc32 = stated("crc32").map(|value| parse_crc32(value).ok_or_else(|| wrong("crc32", value, 8))).transpose()?;
    let parse_sha256 = |value: &Value| value.as_str().and_then(from_hex).ok_or_else(|| wrong("sha256", value, 64));
    let sha256 = stated("sha256").map(parse_sha256).transpose()?;
    let digest = sha256.map(Digest::Sha256).or(crc32.map(Digest::Crc32));
    Ok(Part { path: part_path(path)?, byte_length, digest, ..Part::default() })
}

/// Parses a CRC32. The specification does not define its form: accepts hexadecimal, with or without `0x`, or a number.
fn parse_crc32(value: &Value) -> Option<u32> {
    match value {
        Value::String(text) => {
            let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
            u32::from_str_radix(digits, 16).ok().filter(|_| digits.len() <= 8 && !digits.starts_with('+'))
        }
        other => other.as_u64().and_then(|n| u32::try_from(n).ok()),
    }
}
