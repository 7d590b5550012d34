//! Files that lie, are cut, or are damaged: one clear error each, the same kind from the reader and the loader.

use super::Folder;
use super::bytes::{Apr, Entry, apr_manifest, crc32, lz4_literals, noise, ramp, safetensors, seal, varied};
use super::loader::{Chunks, check_with_loader};
use serde_json::{Value, json};
use std::fs;
use weightstream::ErrorKind::{self, Checksum, Format, Limit, NotFound, Truncated, Unsupported};
use weightstream::native::{Reader, Verified};
use weightstream::{Error, Result};

/// Opens and verifies the model, natively and over a source, and gives the reader's error.
#[track_caller]
fn refused(files: Vec<(&str, Vec<u8>)>, kind: ErrorKind, words: &str) -> Error {
    let folder = Folder::new();
    for (name, bytes) in &files {
        folder.write(name, bytes);
    }
    let verify = || -> Result<Verified> { Reader::open(folder.path(files[0].0))?.verify(&()) };
    let error = verify().unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
    assert!(!error.to_string().contains('\n'));
    assert!(
        error.place.url.as_deref().is_some_and(|path| path.starts_with(folder.0.path().to_str().unwrap())),
        "{error}"
    );

    let in_memory = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    let over_source = check_with_loader(in_memory, Chunks::new(&[1000])).unwrap_err();
    assert_eq!(over_source.kind, kind, "the loader says: {over_source}");
    assert!(over_source.to_string().contains(words), "the loader says: {over_source}");
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
fn a_wrong_magic() {
    refused(one(b"APR7 and more bytes after it".to_vec()), Unsupported, "no known model format begins with `APR7");
    refused(one(Vec::new()), Truncated, "the file is empty");
    refused(one(b"<!DOCTYPE html><html>".to_vec()), Unsupported, "this is a web page");
}

#[test]
fn another_version_and_encryption() {
    let mut file = varied().build();
    file[4] = 3;
    refused(one(file), Unsupported, "APR version 3.0; weightstream reads version 2");
    let mut file = varied().build();
    file[8] |= 16;
    refused(one(file), Unsupported, "the file is encrypted");
}

#[test]
fn a_file_cut_anywhere() {
    let file = varied().build();
    let folder = Folder::new();
    for length in (0..file.len()).step_by(97).chain([file.len() - 1]) {
        folder.write("m.apr", &file[..length]);
        let error = Reader::open(folder.path("m.apr")).unwrap_err();
        assert!(matches!(error.kind, Truncated | Unsupported), "{length}: {error}");
    }
    let error = refused(one(file[..file.len() - 1].to_vec()), Truncated, "tensors end at");
    assert!(error.to_string().ends_with("The file was probably not copied or uploaded whole: replace it."), "{error}");
    let safetensors = safetensors(None, &[("a", "U8", &[9], noise(1, 9))]);
    refused(one(safetensors[..safetensors.len() - 1].to_vec()), Truncated, "tensor \"a\": its bytes reach to");
}

#[test]
fn a_footer_that_is_not_there_or_lies() {
    let mut file = varied().build();
    let footer = file.len() - 16;
    file[footer + 4] = b'X';
    refused(one(file), Truncated, "the file does not end with the footer's `2RPA`");
    let mut file = varied().build();
    file[footer + 8] ^= 1;
    refused(one(file), Truncated, "the footer says");
}

#[test]
fn a_byte_that_changed() {
    let file = varied().build();
    for at in [100, file.len() - 17, file.len() / 2] {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        let folder = Folder::new();
        folder.write("m.apr", &damaged);
        assert!(Reader::open(folder.path("m.apr")).and_then(|reader| reader.verify(&())).is_err(), "{at}");
    }
    let mut damaged = Apr::new(vec![entry()]).build();
    let at = damaged.len() - 20;
    damaged[at] ^= 1;
    let error = refused(one(damaged), Checksum, "says the footer");
    assert!(error.what.contains("the bytes have the crc32"), "{error}");
}

#[test]
fn offsets_past_the_end() {
    refused(with(|e| e.stated_offset = Some(1 << 20)), Truncated, "tensor \"tensor\": its bytes reach to");
    refused(with(|e| e.stated_offset = Some(u64::MAX - 10)), Format, "leave 64 bits");
    refused(with(|e| e.stated_size = Some(u64::MAX)), Format, "tensor \"tensor\"");
}

#[test]
fn sections_that_overlap_or_lie_outside() {
    let mut file = varied().build();
    file[20..24].copy_from_slice(&8u32.to_le_bytes()); // the index
    refused(one(file), Format, "the sections overlap");
    let mut file = varied().build();
    file[28..32].copy_from_slice(&u32::MAX.to_le_bytes()); // the data
    refused(one(file), Limit, "the tensors begin at byte 4294967295");
    let mut file = varied().build();
    file[24..28].copy_from_slice(&3u32.to_le_bytes()); // the index is shorter than its header
    refused(one(file), Format, "the tensor index ends at byte");
}

#[test]
fn a_count_beyond_the_index() {
    let apr = Apr { stated_count: Some(u32::MAX), ..Apr::new(vec![entry()]) };
    refused(one(apr.build()), Format, "the tensor index ends at byte");
}

#[test]
fn shapes_that_overflow_or_do_not_fit() {
    refused(with(|e| e.dims = vec![1 << 33, 1 << 33]), Format, "more than 2^64 elements");
    refused(with(|e| e.dims = vec![1 << 62]), Format, "are more than 2^64 bytes");
    refused(with(|e| e.dims = vec![2, 4]), Format, "its 24 bytes are not those of F32 [2, 4]");
    refused(with(|e| e.dims = vec![1; 9]), Format, "it has 9 dimensions; the format allows 8");
    let blocks = with(|e| (e.dtype, e.dims) = (16, vec![33]));
    refused(blocks, Format, "33 elements do not fill whole blocks of 32");
}

#[test]
fn names_that_are_no_names() {
    let twice = Apr::new(vec![entry(), entry()]).build();
    refused(one(twice), Format, "tensor \"tensor\": the name occurs twice");
    let mut file = Apr::new(vec![entry()]).build();
    let at = file.windows(6).position(|bytes| bytes == b"tensor").unwrap();
    file[at] = 0xff;
    refused(one(file), Format, "is not UTF-8");
    let header =
        r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend([1, 2]);
    refused(one(file), Format, "tensor \"a\": the name occurs twice");
}

#[test]
fn tensors_that_share_bytes() {
    let mut second = entry();
    second.name = "second".to_owned();
    second.stated_offset = Some(8);
    refused(one(Apr::new(vec![entry(), second]).build()), Format, "its bytes overlap those of \"tensor\"");
}

#[test]
fn blocks_that_lie() {
    let lz4 = |change: &dyn Fn(&mut Entry)| {
        let mut entry = Entry::lz4("packed", 7, &[100_000], &noise(3, 100_000));
        change(&mut entry);
        one(Apr::new(vec![entry]).build())
    };
    refused(
        lz4(&|e| e.stored[..4].copy_from_slice(&65_810u32.to_le_bytes())),
        Format,
        "an LZ4 block claims 65810 bytes",
    );
    refused(lz4(&|e| e.stored[..4].fill(0)), Format, "an LZ4 block claims 0 bytes");
    refused(
        lz4(&|e| (e.raw_size, e.dims) = (99_999, vec![99_999])),
        Format,
        "decodes to more than the 34463 bytes it may",
    );
    refused(
        lz4(&|e| (e.raw_size, e.dims) = (100_001, vec![100_001])),
        Format,
        "decode to 1 bytes less than the index says",
    );
    refused(
        lz4(&|e| (e.raw_size, e.dims) = (1 << 40, vec![1 << 40])),
        Format,
        "bytes of LZ4 cannot decode to 1099511627776",
    );
    refused(lz4(&|e| e.stored.truncate(50_000)), Format, "tensor \"packed\"");
    // The first block has 65,537 bytes once decoded.
    let long = |e: &mut Entry| {
        let block = lz4_literals(&ramp(65_537));
        e.stored = [&(block.len() as u32).to_le_bytes()[..], &block].concat();
        (e.raw_size, e.dims) = (65_537, vec![65_537]);
    };
    refused(lz4(&long), Format, "decodes to more than the 65536 bytes it may");
    // An offset that points before the block.
    let mut stored = 8u32.to_le_bytes().to_vec();
    stored.extend([0x10, b'a', 9, 0, 0x10, b'a', 0, 0]);
    let entry = Entry { stored, raw_size: 6, ..Entry::raw("packed", 7, &[6], Vec::new()) };
    let error = refused(one(Apr::new(vec![entry]).build()), Format, "tensor \"packed\": an LZ4 block is damaged");
    assert!(error.place.range.is_some());
}

#[test]
fn metadata_that_is_no_object() {
    for metadata in [json!([1]), json!("x"), Value::Null] {
        refused(
            one(Apr { metadata, ..Apr::new(vec![entry()]) }.build()),
            Format,
            "the metadata is not as the format asks",
        );
    }
}

#[test]
fn safetensors_that_lie() {
    let file = |header: &str, data: usize| {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.resize(file.len() + data, 7);
        one(file)
    };
    refused(file(r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}}"#, 1), Format, "not those of U8 [2]");
    refused(file(r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#, 2), Format, "behind the tensor before it");
    refused(
        file(r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#, 2),
        Format,
        "1 bytes follow the last tensor",
    );
    refused(
        file(r#"{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}"#, 1),
        Format,
        "\"a\": invalid value: integer `-1`",
    );
    refused(file(r#"{"a":{"#, 0), Format, "the header is not as the format asks");
    let mut huge = 100_000_001u64.to_le_bytes().to_vec();
    huge.extend(b"{}");
    refused(one(huge), Limit, "the header claims 100000001 bytes");
    let mut cut = 1000u64.to_le_bytes().to_vec();
    cut.extend(b"{}");
    refused(one(cut), Truncated, "the file has 10 bytes but should go on to byte 1008");
}

#[test]
fn manifests_that_lie() {
    let shard = Apr::new(vec![entry()]).build();
    let manifest = |map: Value| apr_manifest(&[("s.apr", &shard)], map);
    let changed = |key: &str, value: Value| {
        let mut manifest: Value = serde_json::from_slice(&manifest(json!({ "tensor": 0 }))).unwrap();
        *manifest.pointer_mut(key).unwrap() = value;
        vec![("m.apr", manifest.to_string().into_bytes()), ("s.apr", shard.clone())]
    };
    for outside in ["../s.apr", "/s.apr", "a/../../s.apr", "https://host/s.apr", "..\\s.apr", ""] {
        refused(changed("/shards/0/file", json!(outside)), Format, "which is not inside its folder");
    }
    refused(changed("/shards/0/file", json!("other.apr")), NotFound, "other.apr");
    let of_itself = json!({ "shards": [{ "file": "m.apr" }] }).to_string().into_bytes();
    refused(one(of_itself), Format, "a manifest names another manifest");
    refused(changed("/shard_count", json!(2)), Format, "the manifest says 2 shards but lists 1");
    refused(changed("/shards/0/size", json!(shard.len() + 1)), Truncated, "the manifest says");
    refused(changed("/shards/0/size", json!(shard.len() - 1)), Format, "the manifest says");
    refused(changed("/shards/0/crc32", json!("00000000")), Checksum, "says the manifest");
    refused(changed("/shards/0/crc32", json!("zzz")), Format, "not 8 hexadecimal digits");
    refused(changed("/tensor_shard_map", json!({ "tensor": 1 })), Format, "the manifest maps it to shard 1 of 1");
    refused(changed("/tensor_shard_map", json!({ "other": 0 })), Format, "the manifest says that it is in this file");
    let twice = apr_manifest(&[("s.apr", &shard), ("t.apr", &shard)], json!({}));
    refused(
        vec![("m.apr", twice), ("s.apr", shard.clone()), ("t.apr", shard)],
        Format,
        "it is in two files of the model, 0 and 1",
    );
    refused(one(b"{\"a\": 1}".to_vec()), Unsupported, "not one that names the files of a model");
}

#[test]
fn a_shard_of_another_model_is_found_by_its_length_or_crc() {
    let (shard, other) = (varied().build(), seal(b"APR2".to_vec()));
    let manifest = apr_manifest(&[("s.apr", &shard)], json!({}));
    refused(vec![("m.apr", manifest), ("s.apr", other)], Truncated, "s.apr");

    // Of the same length, and with a footer that is right for its bytes. Where the manifest has the CRC of the
    // whole file, nothing could tell: a CRC over bytes and their CRC is the same for all bytes.
    let mut another = varied();
    another.entries[0].stored[0] ^= 1;
    let another = another.build();
    assert_eq!(crc32(&shard), crc32(&another));
    let covered = crc32(&shard[..shard.len() - 16]);
    let manifest = json!({ "shards": [{ "file": "s.apr", "size": shard.len(), "crc32": format!("{covered:08x}") }] });
    let files = vec![("m.apr", manifest.to_string().into_bytes()), ("s.apr", another)];
    let error = refused(files, Checksum, "says the manifest");
    assert!(error.to_string().contains("s.apr"), "{error}");
}

#[test]
fn damage_in_one_tensor_leaves_the_others_readable() {
    let folder = Folder::new();
    let mut bad = Entry::lz4("bad", 7, &[1000], &noise(1, 1000));
    bad.stored[3] = 1;
    folder.write("m.apr", &Apr::new(vec![entry(), bad]).build());
    let reader = folder.open("m.apr");
    assert_eq!(reader.tensor_slice("tensor").unwrap(), entry().stored);
    let error = reader.tensor_slice("bad").unwrap_err();
    assert_eq!((error.kind, error.place.tensor.as_deref()), (Format, Some("bad")));
    assert_eq!(reader.tensor_slice("none").unwrap_err().kind, NotFound);
    fs::remove_file(folder.path("m.apr")).unwrap();
    assert_eq!(reader.tensor_slice("tensor").unwrap(), entry().stored, "a replaced file stays mapped");
}

/// Names of files that do not exist: a model of so many is refused before one of them is looked for.
#[test]
fn refuses_models_of_too_many_files() {
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
        refused(vec![("m.apr", manifest.to_string().into_bytes())], Limit, "at most 1024");
    }
    for manifest in manifests(1000) {
        refused(vec![("m.apr", manifest.to_string().into_bytes())], NotFound, "0.bin");
    }
}
