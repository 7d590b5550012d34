//! Invalid, truncated and corrupted files give one clear error, of the same kind from the reader and the loader.

use super::Folder;
use super::bytes::{Apr, Entry, apr_manifest, crc32, lz4_literals, noise, ramp, safetensors, seal, varied};
use super::loader::{Chunks, check_with_loader};
use serde_json::{Value, json};
use std::fs;
use weightstream::ErrorKind::{self, Checksum, Format, Limit, NotFound, Truncated, Unsupported};
use weightstream::internals::native::{Reader, Verified};
use weightstream::{Error, Result};

/// Opens and verifies the model with the reader and with the loader. Returns the error of the reader.
#[track_caller]
pub(crate) fn rejected(files: Vec<(&str, Vec<u8>)>, kind: ErrorKind, text: &str) -> Error {
    let folder = Folder::new();
    for (name, bytes) in &files {
        folder.write(name, bytes);
    }
    let verify = || -> Result<Verified> { Reader::open(folder.path(files[0].0))?.verify(&()) };
    let error = verify().unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.to_string().contains(text), "{error}");
    assert!(!error.to_string().contains('\n'));
    assert!(
        error.context.url.as_deref().is_some_and(|path| path.starts_with(folder.0.path().to_str().unwrap())),
        "{error}"
    );

    let in_memory = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    let over_source = check_with_loader(in_memory, Chunks::new(&[1000])).unwrap_err();
    assert_eq!(over_source.kind, kind, "the loader says: {over_source}");
    assert!(over_source.to_string().contains(text), "the loader says: {over_source}");
    error
}

fn one(bytes: Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
    vec![("m.apr", bytes)]
}

fn entry() -> Entry {
    Entry::raw("tensor", 0, &[2, 3], noise(1, 24))
}

fn with(change: impl FnOnce(&mut Entry)) -> Vec<(&'static str, Vec<u8>)> {
    let mut entry = entry();
    change(&mut entry);
    one(Apr::new(vec![entry]).build())
}

#[test]
fn unknown_magic_bytes() {
    rejected(one(b"APR7 and more bytes after it".to_vec()), Unsupported, "no known model format begins with `APR7");
    rejected(one(Vec::new()), Truncated, "the file is empty");
    rejected(one(b"<!DOCTYPE html><html>".to_vec()), Unsupported, "this file is a web page");
}

#[test]
fn unsupported_version_and_encryption() {
    let mut file = varied().build();
    file[4] = 3;
    rejected(one(file), Unsupported, "APR version 3.0; weightstream reads version 2");
    let mut file = varied().build();
    file[8] |= 16;
    rejected(one(file), Unsupported, "the file is encrypted");
}

#[test]
fn truncated_files() {
    let file = varied().build();
    let folder = Folder::new();
    for length in (0..file.len()).step_by(97).chain([file.len() - 1]) {
        folder.write("m.apr", &file[..length]);
        let error = Reader::open(folder.path("m.apr")).unwrap_err();
        assert!(matches!(error.kind, Truncated | Unsupported), "{length}: {error}");
    }
    let error = rejected(one(file[..file.len() - 1].to_vec()), Truncated, "tensors end at");
    let advice = "The file was probably not copied or uploaded completely: replace it.";
    assert!(error.to_string().ends_with(advice), "{error}");
    let safetensors = safetensors(None, &[("a", "U8", &[9], noise(1, 9))]);
    rejected(one(safetensors[..safetensors.len() - 1].to_vec()), Truncated, "tensor \"a\": its bytes reach to");
}

#[test]
fn the_limit_of_aero_metadata_is_named() {
    let bomb = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/bad/aero_ulen_bomb.aero");
    let error = rejected(vec![("m.aero", fs::read(bomb).unwrap())], Limit, "`MAX_METADATA_BYTES`");
    assert!(error.to_string().contains("268435456"), "{error}");
}

#[test]
fn missing_and_invalid_footers() {
    let mut file = varied().build();
    let footer = file.len() - 16;
    file[footer + 4] = b'X';
    rejected(one(file), Truncated, "the file does not end with the footer's `2RPA`");
    let mut file = varied().build();
    file[footer + 8] ^= 1;
    rejected(one(file), Truncated, "the footer states");
}

#[test]
fn changed_bytes() {
    let file = varied().build();
    for at in [100, file.len() - 17, file.len() / 2] {
        let mut corrupted = file.clone();
        corrupted[at] ^= 0x10;
        let folder = Folder::new();
        folder.write("m.apr", &corrupted);
        assert!(Reader::open(folder.path("m.apr")).and_then(|reader| reader.verify(&())).is_err(), "{at}");
    }
    let mut corrupted = Apr::new(vec![entry()]).build();
    let at = corrupted.len() - 20;
    corrupted[at] ^= 1;
    let error = rejected(one(corrupted), Checksum, "says the footer");
    assert!(error.what.contains("the bytes have the crc32"), "{error}");
}

#[test]
fn offsets_past_the_end() {
    rejected(with(|e| e.stated_offset = Some(1 << 20)), Truncated, "tensor \"tensor\": its bytes reach to");
    rejected(with(|e| e.stated_offset = Some(u64::MAX - 10)), Format, "overflow u64");
    rejected(with(|e| e.stated_size = Some(u64::MAX)), Format, "tensor \"tensor\"");
}

#[test]
fn sections_that_overlap_or_exceed_the_file() {
    let mut file = varied().build();
    file[20..24].copy_from_slice(&8u32.to_le_bytes()); // the index
    rejected(one(file), Format, "the metadata (bytes 32 to 93) overlaps the index (bytes 8 to ");
    let mut file = varied().build();
    file[28..32].copy_from_slice(&u32::MAX.to_le_bytes()); // the data
    rejected(one(file), Truncated, "its bytes reach to");
    let mut file = varied().build();
    file[24..28].copy_from_slice(&u32::MAX.to_le_bytes()); // the index
    rejected(one(file), Limit, "metadata and index have 4294967356 bytes");
    let mut file = varied().build();
    file[24..28].copy_from_slice(&3u32.to_le_bytes()); // the index is shorter than its header
    rejected(one(file), Format, "the tensor index ends at byte");
}

#[test]
fn tensor_count_that_exceeds_the_index() {
    let apr = Apr { stated_count: Some(u32::MAX), ..Apr::new(vec![entry()]) };
    rejected(one(apr.build()), Format, "the tensor index ends at byte");
}

#[test]
fn shapes_that_overflow_or_do_not_fit() {
    rejected(with(|e| e.dims = vec![1 << 33, 1 << 33]), Format, "more than 2^64 elements");
    rejected(with(|e| e.dims = vec![1 << 62]), Format, "are more than 2^64 bytes");
    rejected(with(|e| e.dims = vec![2, 4]), Format, "its 24 bytes do not match F32 [2, 4]");
    rejected(with(|e| e.dims = vec![1; 9]), Format, "it has 9 dimensions; the format allows 8");
    let blocks = with(|e| (e.dtype, e.dims) = (16, vec![33]));
    rejected(blocks, Format, "33 elements do not fill whole blocks of 32");
}

#[test]
fn duplicate_and_invalid_names() {
    let twice = Apr::new(vec![entry(), entry()]).build();
    rejected(one(twice), Format, "tensor \"tensor\": the name occurs twice");
    let mut file = Apr::new(vec![entry()]).build();
    let at = file.windows(6).position(|bytes| bytes == b"tensor").unwrap();
    file[at] = 0xff;
    rejected(one(file), Format, "is not UTF-8");
    let header =
        r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend([1, 2]);
    rejected(one(file), Format, "tensor \"a\": the name occurs twice");
}

#[test]
fn tensors_that_share_bytes() {
    let mut second = entry();
    second.name = "second".to_owned();
    second.stated_offset = Some(8);
    rejected(one(Apr::new(vec![entry(), second]).build()), Format, "its bytes overlap those of \"tensor\"");
}

#[test]
fn invalid_lz4_blocks() {
    let lz4 = |change: &dyn Fn(&mut Entry)| {
        let mut entry = Entry::lz4("packed", 7, &[100_000], &noise(3, 100_000));
        change(&mut entry);
        one(Apr::new(vec![entry]).build())
    };
    rejected(
        lz4(&|e| e.stored[..4].copy_from_slice(&65_810u32.to_le_bytes())),
        Format,
        "an LZ4 block claims 65810 bytes",
    );
    rejected(lz4(&|e| e.stored[..4].fill(0)), Format, "an LZ4 block claims 0 bytes");
    rejected(
        lz4(&|e| (e.raw_size, e.dims) = (99_999, vec![99_999])),
        Format,
        "decodes to more than the 34463 bytes it may",
    );
    rejected(
        lz4(&|e| (e.raw_size, e.dims) = (100_001, vec![100_001])),
        Format,
        "decode to 1 bytes less than the index states",
    );
    rejected(
        lz4(&|e| (e.raw_size, e.dims) = (1 << 40, vec![1 << 40])),
        Format,
        "bytes of LZ4 cannot decode to 1099511627776",
    );
    rejected(lz4(&|e| e.stored.truncate(50_000)), Format, "tensor \"packed\"");
    // The first block decodes to 65,537 bytes.
    let long = |e: &mut Entry| {
        let block = lz4_literals(&ramp(65_537));
        e.stored = [&(block.len() as u32).to_le_bytes()[..], &block].concat();
        (e.raw_size, e.dims) = (65_537, vec![65_537]);
    };
    rejected(lz4(&long), Format, "decodes to more than the 65536 bytes it may");
    // A match offset that points before the block.
    let mut stored = 8u32.to_le_bytes().to_vec();
    stored.extend([0x10, b'a', 9, 0, 0x10, b'a', 0, 0]);
    let entry = Entry { stored, raw_size: 6, ..Entry::raw("packed", 7, &[6], Vec::new()) };
    let error = rejected(one(Apr::new(vec![entry]).build()), Format, "tensor \"packed\": an LZ4 block is damaged");
    assert!(error.context.range.is_some());
}

#[test]
fn metadata_that_is_not_an_object() {
    for metadata in [json!([1]), json!("x"), Value::Null] {
        rejected(
            one(Apr { metadata, ..Apr::new(vec![entry()]) }.build()),
            Format,
            "the metadata does not conform to the format",
        );
    }
}

#[test]
fn invalid_safetensors() {
    let file = |header: &str, data: usize| {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.resize(file.len() + data, 7);
        one(file)
    };
    rejected(file(r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}}"#, 1), Format, "do not match U8 [2]");
    rejected(
        file(r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#, 2),
        Format,
        "off the end of the previous tensor",
    );
    rejected(
        file(r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#, 2),
        Format,
        "1 bytes follow the last tensor",
    );
    rejected(
        file(r#"{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}"#, 1),
        Format,
        "tensor \"a\": the header is not what the format requires: expected an integer from 0",
    );
    rejected(file(r#"{"a":{"#, 0), Format, "the header is not valid JSON: EOF");
    let mut huge = 100_000_001u64.to_le_bytes().to_vec();
    huge.extend(b"{}");
    rejected(one(huge), Limit, "the header claims 100000001 bytes");
    let mut cut = 1000u64.to_le_bytes().to_vec();
    cut.extend(b"{}");
    rejected(one(cut), Truncated, "the file has 10 bytes, but bytes up to 1008 are needed");
}

#[test]
fn invalid_manifests() {
    let shard = Apr::new(vec![entry()]).build();
    let manifest = |map: Value| apr_manifest(&[("s.apr", &shard)], map);
    let changed = |key: &str, value: Value| {
        let mut manifest: Value = serde_json::from_slice(&manifest(json!({ "tensor": 0 }))).unwrap();
        *manifest.pointer_mut(key).unwrap() = value;
        vec![("m.apr", manifest.to_string().into_bytes()), ("s.apr", shard.clone())]
    };
    for outside in ["../s.apr", "/s.apr", "a/../../s.apr", "https://host/s.apr", "..\\s.apr", ""] {
        rejected(changed("/shards/0/file", json!(outside)), Format, "which is not inside its folder");
    }
    rejected(changed("/shards/0/file", json!("other.apr")), NotFound, "other.apr");
    let self_reference = json!({ "shards": [{ "file": "m.apr" }] }).to_string().into_bytes();
    rejected(one(self_reference), Format, "a manifest names another manifest");
    rejected(changed("/shard_count", json!(2)), Format, "the manifest states 2 shards but lists 1");
    rejected(changed("/shards/0/size", json!(shard.len() + 1)), Truncated, "the manifest says");
    rejected(changed("/shards/0/size", json!(shard.len() - 1)), Format, "the manifest says");
    rejected(changed("/shards/0/crc32", json!("00000000")), Checksum, "says the manifest");
    rejected(changed("/shards/0/crc32", json!("zzz")), Format, "not 8 hexadecimal digits");
    rejected(changed("/tensor_shard_map", json!({ "tensor": 1 })), Format, "the manifest maps it to shard 1 of 1");
    rejected(changed("/tensor_shard_map", json!({ "other": 0 })), Format, "the manifest says that it is in this file");
    let twice = apr_manifest(&[("s.apr", &shard), ("t.apr", &shard)], Value::Null);
    rejected(
        vec![("m.apr", twice), ("s.apr", shard.clone()), ("t.apr", shard)],
        Format,
        "it is in two files of the model, here and in ",
    );
    rejected(one(b"{\"a\": 1}".to_vec()), Unsupported, "not the manifest of a model");
}

#[test]
fn a_shard_of_another_model_is_detected_by_its_length_or_crc() {
    let (shard, other) = (varied().build(), seal(b"APR2".to_vec()));
    let manifest = apr_manifest(&[("s.apr", &shard)], Value::Null);
    rejected(vec![("m.apr", manifest), ("s.apr", other)], Truncated, "s.apr");

    // A shard of the same length with a valid footer. A CRC of the whole file could not detect it: the CRC over data
    // followed by its own CRC is the same for all data. So the manifest has the CRC of the bytes before the footer.
    let mut another = varied();
    another.entries[0].stored[0] ^= 1;
    let another = another.build();
    assert_eq!(crc32(&shard), crc32(&another));
    let covered = crc32(&shard[..shard.len() - 16]);
    let manifest = json!({ "shards": [{ "file": "s.apr", "size": shard.len(), "crc32": format!("{covered:08x}") }] });
    let files = vec![("m.apr", manifest.to_string().into_bytes()), ("s.apr", another)];
    let error = rejected(files, Checksum, "says the manifest");
    assert!(error.to_string().contains("s.apr"), "{error}");
}

#[test]
fn corruption_of_one_tensor_leaves_the_others_readable() {
    let folder = Folder::new();
    let mut bad = Entry::lz4("bad", 7, &[1000], &noise(1, 1000));
    bad.stored[3] = 1;
    folder.write("m.apr", &Apr::new(vec![entry(), bad]).build());
    let reader = folder.open("m.apr");
    assert_eq!(reader.tensor_slice("tensor").unwrap(), entry().stored);
    let error = reader.tensor_slice("bad").unwrap_err();
    assert_eq!((error.kind, error.context.tensor.as_deref()), (Format, Some("bad")));
    assert_eq!(reader.tensor_slice("none").unwrap_err().kind, NotFound);
    fs::remove_file(folder.path("m.apr")).unwrap();
    assert_eq!(reader.tensor_slice("tensor").unwrap(), entry().stored, "a replaced file stays mapped");
}

/// The files do not exist: a model with too many files is rejected before any file is opened.
#[test]
fn rejects_models_with_too_many_files() {
    let names = |count: usize| (0..count).map(|at| format!("{at}.bin")).collect::<Vec<_>>();
    let manifests = |count: usize| -> [Value; 4] {
        let parts = |key: &str| names(count).iter().map(|name| json!({ key: name })).collect::<Vec<_>>();
        let weight_map: serde_json::Map<_, _> =
            names(count).into_iter().map(|name| (format!("t{name}"), json!(name))).collect();
        let aeroset = json!({ "name": "AEROSET", "version": [0, 2] });
        [
            json!({ "shards": parts("file") }),
            json!({ "version": "2.0", "shard_count": count, "shards": parts("filename") }),
            json!({ "weight_map": weight_map }),
            json!({ "format": aeroset, "parts": parts("path"), "global_tidx": { "path": "0.bin" } }),
        ]
    };
    for manifest in manifests(1025) {
        rejected(vec![("m.apr", manifest.to_string().into_bytes())], Limit, "at most 1024");
    }
    for manifest in manifests(1000) {
        rejected(vec![("m.apr", manifest.to_string().into_bytes())], NotFound, "0.bin");
    }
}
