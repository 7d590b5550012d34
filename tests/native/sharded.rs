//! Conversions to and from models of several files.

use super::bytes::{crc32, noise, ramp, safetensors};
use super::{Folder, content, content_of};
use serde_json::{Value, json};
use std::fs;
use weightstream::internals::index::{Digest, Hasher};
use weightstream::internals::write::{Compression, ConvertOptions};

fn at_most(max_shard_bytes: u64) -> ConvertOptions {
    ConvertOptions::default().max_shard_bytes(max_shard_bytes)
}

/// Ten tensors of 10,000 bytes, every other one compressible.
fn write_model(folder: &Folder) {
    let names: Vec<_> = (0..10).map(|at| format!("tensor.{at}")).collect();
    let bytes = |at: usize| if at.is_multiple_of(2) { ramp(10_000) } else { noise(at as u64, 10_000) };
    let tensors: Vec<_> =
        names.iter().enumerate().map(|(at, name)| (name.as_str(), "U8", &[10, 1000][..], bytes(at))).collect();
    folder.write("m.safetensors", &safetensors(Some(json!({ "format": "pt" })), &tensors));
}

#[test]
fn shards_and_manifest_match_the_specification() {
    let folder = Folder::new();
    write_model(&folder);
    let metadata = json!({ "n_layer": 2, "vocab": ["a", "b"] }).as_object().unwrap().clone();
    let options = at_most(32_000).metadata(metadata).compression(Compression::Lz4);
    let converted = folder.convert("m.safetensors", "model.apr", &options).unwrap();
    assert_eq!(converted.warnings, [""; 0]);

    // Three raw tensors fit into 32,000 bytes. The shard size is planned without compression.
    let names = [
        "model-00001-of-00004.apr",
        "model-00002-of-00004.apr",
        "model-00003-of-00004.apr",
        "model-00004-of-00004.apr",
    ];
    let manifest: Value = serde_json::from_slice(&fs::read(folder.path("model.apr")).unwrap()).unwrap();
    let mut keys: Vec<_> = manifest.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["apr_version", "shard_count", "sharded", "shards", "tensor_shard_map"]);
    assert_eq!(
        (&manifest["apr_version"], &manifest["sharded"], &manifest["shard_count"]),
        (&json!("2.0.0"), &json!(true), &json!(4))
    );
    for (at, name) in names.iter().enumerate() {
        let shard = fs::read(folder.path(name)).unwrap();
        assert!(shard.len() <= 32_000);
        let crc32 = format!("{:08x}", crc32(&shard[..shard.len() - 16])); // of the bytes before the footer
        let mut sha256 = Hasher::new(Digest::Sha256([0; 32]));
        sha256.update(&shard);
        let stated =
            json!({ "file": name, "size": shard.len(), "crc32": crc32, "sha256": sha256.finish().to_string() });
        assert_eq!(manifest["shards"][at], stated);
        assert_eq!(shard[8] & 8, 8); // SHARDED
        let reader = folder.open(name); // each shard can be opened by itself
        assert!(reader.verify(&()).is_ok());
        let metadata = &reader.metadata().metadata;
        assert_eq!(metadata["architecture"], json!({ "n_layer": 2 }));
        assert_eq!(metadata.contains_key("vocab"), at == 0);
        assert_eq!(metadata.contains_key("__metadata__"), at == 0);
    }
    for at in 0..10 {
        assert_eq!(manifest["tensor_shard_map"][format!("tensor.{at}")], at / 3);
    }
    let reader = folder.open("model.apr");
    assert!(reader.verify(&()).is_ok());
    assert_eq!(content(&reader), content_of(&folder.path("m.safetensors")));
    assert_eq!(reader.metadata().metadata["vocab"], json!(["a", "b"]));
}

#[test]
fn a_model_that_fits_into_one_file_gets_no_manifest() {
    let folder = Folder::new();
    write_model(&folder);
    let converted = folder.convert("m.safetensors", "model.apr", &at_most(200_000)).unwrap();
    assert_eq!(converted.files.len(), 1);
    assert_eq!(folder.names(), ["m.safetensors", "model.apr"]);
    let file = fs::read(folder.path("model.apr")).unwrap();
    assert!(file.starts_with(b"APR2") && file[8] & 8 == 0);
}

#[test]
fn the_shard_size_limit_is_exact() {
    let folder = Folder::new();
    write_model(&folder);
    let whole = folder.convert("m.safetensors", "model.apr", &ConvertOptions::default()).unwrap().files[0].1;
    assert_eq!(folder.convert("m.safetensors", "model.apr", &at_most(whole)).unwrap().files.len(), 1);
    assert_eq!(folder.convert("m.safetensors", "model.apr", &at_most(whole - 1)).unwrap().files.len(), 2);
}

#[test]
fn a_tensor_larger_than_the_limit_gets_its_own_file_and_a_warning() {
    let folder = Folder::new();
    let tensors = [
        ("small", "U8", &[10][..], noise(1, 10)),
        ("large", "U8", &[9000][..], noise(2, 9000)),
        ("last", "U8", &[10][..], noise(3, 10)),
    ];
    folder.write("m.safetensors", &safetensors(None, &tensors));
    let converted = folder.convert("m.safetensors", "m.apr", &at_most(5000)).unwrap();
    assert_eq!(converted.files.len(), 3);
    assert_eq!(converted.warnings.len(), 1);
    assert!(converted.warnings[0].starts_with("tensor \"large\" alone makes a file of 9"), "{}", converted.warnings[0]);
    assert_eq!(content_of(&folder.path("m.apr")), content_of(&folder.path("m.safetensors")));
    let converted = folder.convert("m.safetensors", "n.apr", &at_most(5)).unwrap();
    assert_eq!((converted.files.len(), converted.warnings.len()), (3, 1));
    let warning = &converted.warnings[0];
    assert!(warning.starts_with("3 tensors alone make files of more than 5 bytes, the limit;"), "{warning}");
    assert!(warning.contains("the largest is \"large\", with 9"), "{warning}");
}

#[test]
fn a_sharded_model_converts_to_one_file_and_to_other_shards() {
    let folder = Folder::new();
    write_model(&folder);
    folder.convert("m.safetensors", "a.apr", &at_most(32_000)).unwrap();
    folder.convert("a.apr", "b.apr", &at_most(60_000)).unwrap();
    folder.convert("b.apr", "c.apr", &ConvertOptions::default()).unwrap();
    folder.convert("m.safetensors", "d.apr", &ConvertOptions::default()).unwrap();
    assert_eq!(fs::read(folder.path("c.apr")).unwrap(), fs::read(folder.path("d.apr")).unwrap());
}

#[test]
fn file_names_may_contain_spaces_and_non_ascii_letters() {
    let folder = Folder::new();
    write_model(&folder);
    folder.convert("m.safetensors", "größe 1.5B.apr", &at_most(60_000)).unwrap();
    assert!(folder.names().contains(&"größe 1.5B-00001-of-00002.apr".to_owned()));
    assert!(folder.open("größe 1.5B.apr").verify(&()).is_ok());
}
