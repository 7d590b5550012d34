//! Tests with files that the available tools do not write. Files written by tools are in `tests/fixtures/`.

use super::super::tests::encode;
use super::*;
use crate::dtype::Dtype;
use crate::index::Algorithm;
use crate::index::{Encoding, Index, Layout, Parsed};
use crate::loader::{Loader, Options, TensorRequest};
use crate::source::memory::MemorySource;
use futures::executor::block_on;
use minicbor::Encoder;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::rc::Rc;

/// The offset of the manifests in these tests, after three blobs.
const MANIFEST_START: u64 = 4 * ALIGNMENT;

/// Builds a file of zeros, followed by this manifest and a footer.
fn file(manifest: &Value) -> Vec<u8> {
    file_with_manifest(&deterministic_cbor(manifest))
}

fn file_with_manifest(manifest: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.resize(MANIFEST_START as usize, 0);
    file.extend(manifest);
    file.extend(footer(MANIFEST_START, manifest.len() as u64, XxHash3_64::oneshot(manifest), 2, &MAGIC));
    file
}

fn footer(offset: u64, length: u64, hash: u64, version: u64, magic: &[u8; 8]) -> Vec<u8> {
    [offset.to_le_bytes(), length.to_le_bytes(), hash.to_le_bytes(), version.to_le_bytes(), *magic].concat()
}

fn deterministic_cbor(value: &Value) -> Vec<u8> {
    let mut cbor = Encoder::new(Vec::new());
    encode(&sorted(value), &mut cbor);
    cbor.into_writer()
}

/// Sorts the keys of maps in the order of their CBOR encoding: by length first.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            entries.sort_by_key(|(key, _)| (key.len(), key.clone()));
            Value::Object(Map::from_iter(entries))
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

fn parse_file(file: &[u8]) -> Result<Index> {
    match crate::format::parse(&Window::whole(file)) {
        Ok(Parsed::File(index)) => Ok(index),
        Err(Stop::Failed(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn object(layout: &str, shape: Value, parts: Value) -> Result<Index> {
    parse_file(&file(&json!({ "objects": { "t": { "layout": layout, "shape": shape, "parts": parts } } })))
}

/// Parses a file whose only object has four elements in this part.
fn dense(part: Value) -> Result<Index> {
    object("dense", json!([4]), json!({ "data": part }))
}

fn kind(outcome: Result<Index>) -> ErrorKind {
    outcome.unwrap_err().kind
}

#[test]
fn rejects_footers_of_another_version() {
    for version in [1, 3, u64::from(u32::MAX)] {
        let file = [&MAGIC[..], &footer(4096, 1, 0, version, &MAGIC)].concat();
        let error = parse_file(&file).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.what.contains(&format!("version {version}")), "{error}");
    }
    let mut reserved = file(&json!({ "objects": {} }));
    let at = reserved.len() - 12;
    reserved[at..at + 4].fill(7);
    assert_eq!(parse_file(&reserved).unwrap().version, "2");
}

#[test]
fn rejects_footers_without_a_valid_manifest() {
    let manifest = deterministic_cbor(&json!({ "objects": {} }));
    let (length, hash) = (manifest.len() as u64, XxHash3_64::oneshot(&manifest));
    let with = |offset, length, hash, magic| {
        let blobs = &file_with_manifest(&manifest)[..MANIFEST_START as usize + manifest.len()];
        kind(parse_file(&[blobs, &footer(offset, length, hash, 2, magic)].concat()))
    };
    for (offset, length) in [(0, length), (8, length), (MANIFEST_START + 1, length), (MANIFEST_START, 0)] {
        assert_eq!(with(offset, length, hash, &MAGIC), ErrorKind::Format, "{offset} {length}");
    }
    for (offset, length) in [(MANIFEST_START, length + 1), (1 << 40, length), (u64::MAX - 4095, 1 << 20)] {
        assert_eq!(with(offset, length, hash, &MAGIC), ErrorKind::Format, "{offset} {length}");
    }
    assert_eq!(with(MANIFEST_START, u64::MAX, hash, &MAGIC), ErrorKind::Limit);
    assert_eq!(with(MANIFEST_START, length, hash ^ 1, &MAGIC), ErrorKind::Checksum);
    assert_eq!(with(MANIFEST_START, length, hash, b"ZTEN1000"), ErrorKind::Truncated);
    assert_eq!(kind(parse_file(&MAGIC)), ErrorKind::Truncated);
}

#[test]
fn rejects_manifests_that_violate_the_specification() {
    for manifest in [&b"\xa1\x67objects\xa0\x00"[..], b"\xbf\x67objects\xa0\xff", b"\xa1\x67objects\xb8\x00", b"\x00"] {
        assert_eq!(kind(parse_file(&file_with_manifest(manifest))), ErrorKind::Format, "{manifest:x?}");
    }
    let long = "x".repeat(1025);
    for manifest in [
        json!({}),
        json!({ "objects": [] }),
        json!({ "objects": {}, "attributes": [] }),
        json!({ "objects": {}, "attributes": { "": 1 } }),
        json!({ "objects": {}, "attributes": { "a\0": 1 } }),
        json!({ "objects": {}, "attributes": { long: 1 } }),
        json!({ "objects": { "t": {} } }),
        json!({ "objects": { "t": { "layout": "dense", "shape": [] } } }),
        json!({ "objects": { "t": { "layout": "acme.x/1", "shape": [], "parts": {} } } }),
    ] {
        assert_eq!(kind(parse_file(&file(&manifest))), ErrorKind::Format, "{manifest}");
    }
    let part = json!({ "dtype": "u8", "blob": [4096, 1] });
    assert!(object("dense", json!(vec![1; 64]), json!({ "data": part })).is_ok());
    for shape in [json!(vec![1; 65]), json!([1u64 << 32, 1u64 << 32, 0]), json!([u64::MAX, 2]), json!(1)] {
        assert_eq!(kind(object("dense", shape.clone(), json!({ "data": part }))), ErrorKind::Format, "{shape}");
    }
}

#[test]
fn unknown_fields_are_ignored() {
    let part = json!({ "dtype": "u8", "blob": [4096, 4], "new": [{}] });
    let object = json!({ "layout": "dense", "shape": [4], "parts": { "data": part }, "new": 1 });
    let index = parse_file(&file(&json!({ "objects": { "t": object }, "attributes": { "a": 1 }, "new": {} }))).unwrap();
    assert_eq!(Value::from(index.metadata), json!({ "a": 1 }));
    assert_eq!((index.version.as_str(), index.tensors.len(), index.warnings.len()), ("2", 1, 0));
}

#[test]
fn blobs_must_be_aligned_inside_the_file_and_disjoint_or_identical() {
    let pair = |first: [u64; 2], second: [u64; 2]| {
        let object = |[offset, length]: [u64; 2]| {
            let data = json!({ "dtype": "u8", "blob": [offset, length] });
            json!({ "layout": "dense", "shape": [length], "parts": { "data": data } })
        };
        parse_file(&file(&json!({ "objects": { "a": object(first), "b": object(second) } })))
    };
    let tied = pair([4096, 100], [4096, 100]).unwrap();
    assert_eq!(tied.tensors.to_vec()[0].components[0].range, tied.tensors.to_vec()[1].components[0].range);
    assert!(pair([4096, 100], [8192, 4096]).is_ok());
    assert!(pair([4096, 0], [4096, 100]).is_ok());
    for (first, second, expected) in [
        ([4096, 100], [4096, 101], "overlap"),
        ([4096, 5000], [8192, 100], "overlap"),
        ([4096, 100], [MANIFEST_START, 20], "overlap the manifest"),
        ([4096, 100], [12288, 4097], "overlap the manifest"),
        ([4096, 100], [4097, 100], "multiple of 4096"),
        ([0, 8], [4096, 100], "multiple of 4096"),
        ([4096, 100], [u64::MAX - 4095, 4096], "offset"),
        ([4096, 100], [1 << 40, 1], "end at"),
    ] {
        let error = pair(first, second).unwrap_err();
        assert!(error.what.contains(expected), "{error}");
    }
    assert_eq!(kind(dense(json!({ "dtype": "u8", "blob": [4096, 4, 0] }))), ErrorKind::Format);
}

#[test]
fn rejects_lengths_beyond_any_file_without_overflow() {
    let half = json!({ "dtype": "u8", "type": "x", "blob": [4096, 1u64 << 63] });
    let object = json!({ "layout": "acme.x/1", "shape": [], "parts": { "a": half, "b": half } });
    let manifest = json!({ "objects": { "t": object, "u": object } });
    assert_eq!(kind(parse_file(&file(&manifest))), ErrorKind::Truncated);
}

#[test]
fn types_are_in_the_registry_or_listed_by_name() {
    let read = |dtype: &str, logical: &str, bytes: u64| {
        dense(json!({ "dtype": dtype, "type": logical, "blob": [4096, bytes] }))
    };
    let dtype = |index: Result<Index>| index.unwrap().tensors.to_vec()[0].dtype.clone();
    assert_eq!(dtype(read("u8", "bool", 4)), Dtype::Bool);
    assert_eq!(dtype(read("u8", "f4_e2m1", 2)), Dtype::F4);
    assert_eq!(dtype(read("f32", "complex64", 32)), Dtype::C64);
    assert_eq!(dtype(read("u16", "int3", 7)), Dtype::Other("int3".into()));
    for (dtype, logical, bytes) in [("i8", "bool", 4), ("f64", "complex64", 32), ("f32", "complex64", 16)] {
        assert_eq!(kind(read(dtype, logical, bytes)), ErrorKind::Format, "{dtype} {logical}");
    }
    for dtype in ["bool", "float32", "F32", "f8_e5m2"] {
        assert_eq!(kind(dense(json!({ "dtype": dtype, "blob": [4096, 4] }))), ErrorKind::Format, "{dtype}");
    }
    assert_eq!(kind(dense(json!({ "blob": [4096, 4] }))), ErrorKind::Format);
}

#[test]
fn unknown_layouts_encodings_and_digests_are_listed() {
    let digest = "xxh3:0000000000000000";
    let encoded =
        json!({ "dtype": "f32", "blob": [8192, 3], "encoding": "acme.lz/1", "decoded_length": 8, "digest": digest });
    let parts = json!({ "a": { "dtype": "u8", "blob": [4096, 5], "digest": "blake3:00" }, "b": encoded });
    let index = object("acme.tiled/3", json!([3]), parts).unwrap();
    let tensor = index.tensors.to_vec().remove(0);
    assert_eq!(tensor.layout, Layout::Other("acme.tiled/3".into()));
    let listed: Vec<_> = tensor.components.iter().map(|c| (c.dtype.name(), c.encoding, c.decoded_length)).collect();
    assert_eq!(listed, [("U8", Encoding::Raw, Some(5)), ("F32 in acme.lz/1", Encoding::Raw, Some(3))]);
    assert!(tensor.components.iter().all(|component| component.digest.is_none()));
    assert!(
        index.warnings[0].contains("\"blake3\"") && index.warnings[1].contains("acme.lz/1"),
        "{:?}",
        index.warnings
    );

    // The claimed decoded length of an unknown encoding must still match the tensor.
    let part =
        |decoded: u64| json!({ "dtype": "f32", "blob": [4096, 3], "encoding": "acme.lz/1", "decoded_length": decoded });
    assert!(dense(part(16)).is_ok());
    assert_eq!(kind(dense(part(15))), ErrorKind::Format);
}

#[test]
fn rejects_incomplete_encodings_and_digests() {
    for part in [
        json!({ "dtype": "u8", "blob": [4096, 4], "decoded_length": 4 }),
        json!({ "dtype": "u8", "blob": [4096, 9], "encoding": "zt.zstd-seekable/1" }),
        json!({ "dtype": "u8", "blob": [4096, 9], "encoding": "zt.zstd-seekable/1", "decoded_length": 5 }),
        json!({ "dtype": "u8", "blob": [4096, 4], "digest": "xxh3:00" }),
        json!({ "dtype": "u8", "blob": [4096, 4], "digest": "xxh3:00000000000000FF" }),
        json!({ "dtype": "u8", "blob": [4096, 4], "digest": "xxh3:0x000000000000ff" }),
        json!({ "dtype": "u8", "blob": [4096, 4], "digest": "sha256" }),
    ] {
        assert_eq!(kind(dense(part.clone())), ErrorKind::Format, "{part}");
    }
    let huge =
        json!({ "dtype": "u8", "blob": [4096, 9], "encoding": "zt.zstd-seekable/1", "decoded_length": 1u64 << 40 });
    assert_eq!(kind(object("dense", json!([1u64 << 40]), json!({ "data": huge }))), ErrorKind::Format);
}

#[test]
fn rejects_inconsistent_parts() {
    let part = |dtype: &str, at: u64, length: u64| json!({ "dtype": dtype, "blob": [at * 4096, length] });
    let csr = |indices: Value, indptr: Value| {
        let parts = json!({ "values": part("f32", 1, 12), "indices": indices, "indptr": indptr });
        object("zt.sparse_csr/1", json!([3, 4]), parts)
    };
    assert_eq!(csr(part("u64", 2, 24), part("u64", 3, 32)).unwrap().tensors.to_vec()[0].layout, Layout::SparseCsr);
    assert!(csr(part("u32", 2, 12), part("u32", 3, 16)).is_ok());
    assert!(csr(part("u64", 2, 16), part("u64", 3, 32)).is_err());
    assert!(csr(part("u64", 2, 25), part("u64", 3, 32)).is_err());
    assert!(csr(part("u64", 2, 24), part("u64", 3, 24)).is_err());
    assert!(csr(part("u64", 2, 24), part("u32", 3, 16)).is_err());
    assert!(csr(part("i64", 2, 24), part("i64", 3, 32)).is_err());

    let coo = |shape: Value, length: u64| {
        object("zt.sparse_coo/1", shape, json!({ "values": part("f32", 1, 12), "coords": part("u32", 2, length) }))
    };
    assert_eq!(coo(json!([3, 4]), 24).unwrap().tensors.to_vec()[0].layout, Layout::SparseCoo);
    assert!(coo(json!([3, 4]), 28).is_err());
    assert!(coo(json!([3]), 24).is_err());
    assert!(coo(json!([]), 24).is_err());

    let data = part("u8", 1, 4);
    assert!(object("dense", json!([4]), json!({ "values": data })).is_err());
    assert!(object("dense", json!([4]), json!({ "data": data, "more": data })).is_err());
    assert!(object("zt.sparse_coo/1", json!([4]), json!({ "values": data })).is_err());
    assert!(object("zt.sparse_csr/1", json!([4]), json!({ "values": data, "indices": data, "indptr": data })).is_err());
}

#[test]
fn rejects_models_in_several_files() {
    let part = json!({ "dtype": "u8", "blob": [4096, 4], "shard": "00001" });
    let error = dense(part).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.what.contains("00001"), "{error}");
    let shard = [&MAGIC[..], &footer(0, 0, 0, 2, &MAGIC)].concat();
    assert_eq!(kind(parse_file(&shard)), ErrorKind::Unsupported);

    let shards = json!({ "00001": { "size": 48, "digest": "xxh3:0000000000000000" } });
    assert!(parse_file(&file(&json!({ "objects": {}, "shards": shards }))).is_ok());
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn tensors_are_verified_by_xxh3() {
    let blob: Vec<u8> = (0..1000u32).flat_map(u32::to_le_bytes).collect();
    let digest = format!("xxh3:{:016x}", XxHash3_64::oneshot(&blob));
    let part = json!({ "dtype": "u32", "blob": [4096, 4000], "digest": digest });
    let object = json!({ "layout": "dense", "shape": [1000], "parts": { "data": part } });
    let mut file = file(&json!({ "objects": { "a": object, "b": object } }));
    file[4096..8096].copy_from_slice(&blob);
    let load = |file: Vec<u8>| {
        block_on(async {
            let source = MemorySource::new(vec![("m.zt".to_owned(), file.into())]).unwrap();
            let loader = Rc::new(Loader::open(source, Options::default()).await?);
            loader.load_tensor("b", TensorRequest::default(), Rc::new(())).await
        })
    };
    let loaded = load(file.clone()).unwrap();
    assert_eq!((loaded.verified, &loaded.components[0].buffer), (Some(Algorithm::Xxh3), &blob));
    file[5000] ^= 1;
    assert_eq!(load(file).unwrap_err().kind, ErrorKind::Checksum);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Damages the manifest before the footer's checksum is computed.
    #[test]
    fn invalid_manifests_never_panic(
        forgeries in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..6)
    ) {
        let digest = "xxh3:0000000000000000";
        let part = |at: u64, dtype: &str| json!({ "dtype": dtype, "blob": [at * 4096, 24], "digest": digest });
        let encoding = "zt.zstd-seekable/1";
        let blocks = json!({ "dtype": "u8", "blob": [4096, 34], "encoding": encoding, "decoded_length": 34 });
        let block_size = json!({ "elems_per_block": 32, "block_bytes": 34 });
        let csr = json!({ "values": part(2, "f64"), "indices": part(2, "u64"), "indptr": part(2, "u64") });
        let coo = json!({ "values": part(3, "i16"), "coords": part(2, "u32") });
        let mut manifest = deterministic_cbor(&json!({ "objects": {
            "dense": { "layout": "dense", "shape": [3, 2], "parts": { "data": part(1, "f32") } },
            "csr": { "layout": "zt.sparse_csr/1", "shape": [2, 9], "parts": csr },
            "coo": { "layout": "zt.sparse_coo/1", "shape": [2, 9], "parts": coo },
            "q": { "layout": "gguf.q8_0/1", "shape": [32], "attributes": block_size, "parts": { "data": blocks } },
        } }));
        for (at, byte, inserts) in forgeries {
            let at = at.index(manifest.len());
            if inserts { manifest.insert(at, byte) } else { manifest[at] = byte }
        }
        let _ = parse_file(&file_with_manifest(&manifest));
    }
}
