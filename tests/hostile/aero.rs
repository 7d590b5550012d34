//! AERO: compressed metadata and indexes, and entries that refer to the same bytes.

use super::alone;
use super::ceiling::{assert_accepted, assert_rejected, read};
use super::generated::{BLOCK_BYTES, Chunk, NAMES, aero as file, frame};
use super::zstd::compress;
use serde_json::json;
use weightstream::ErrorKind;
use weightstream::internals::native::Reader;

/// A chunk that is compressed with the reference library.
fn compressed(kind: &'static [u8; 4], content: &[u8]) -> Chunk {
    Chunk::compressed(kind, compress(content), content.len())
}

fn index(tensors: serde_json::Value) -> Vec<u8> {
    rmp_serde::to_vec_named(&json!({ "tensors": tensors })).unwrap()
}

fn empty_index() -> Chunk {
    Chunk::raw(b"TIDX", index(json!([])))
}

fn entry(name: &str) -> serde_json::Value {
    json!({ "name": name, "dtype": 1, "shape": [0], "shard_id": 0, "data_off": 0, "data_len": 0 })
}

#[test]
fn compressed_metadata_with_many_values_is_rejected() {
    let _alone = alone();
    // Repeated values in JSON that compress to less than 23 kB.
    for (item, last) in [("0,", "0"), ("[],", "[]"), (r#"{"":0},"#, "0"), (r#""a","#, "0")] {
        for bytes in [12 << 20, 96 << 20] {
            let json = format!(r#"{{"a":[{}{last}]}}"#, item.repeat(bytes / item.len()));
            let json = compressed(b"MJSN", json.as_bytes());
            assert!(json.stored.len() < 23_000, "{}", json.stored.len());
            assert_rejected(&format!("{item} in JSON"), ErrorKind::Limit, file(NAMES, &[json, empty_index()]));
        }
    }

    let msgpack = |before: &[u8], byte, blocks: usize| {
        let stored = frame(before, byte, blocks, b"");
        Chunk::compressed(b"MMSG", stored, before.len() + blocks * BLOCK_BYTES)
    };
    let count = |blocks: usize| ((blocks * BLOCK_BYTES) as u32).to_be_bytes();
    let array = |blocks| [b"\x81\xa1a\xdd", &count(blocks)[..]].concat();
    let cases = [
        ("zeros in MessagePack", msgpack(&array(128), 0, 128)),
        ("more zeros", msgpack(&array(2000), 0, 2000)),
        ("many zeros", msgpack(&array(100), 0, 100)),
        ("empty maps", msgpack(&array(5), 0x80, 5)),
        ("nested arrays", msgpack(b"\x81\xa1a", 0x91, 100)),
        ("a string", msgpack(&[b"\x81\xa1a\xdb", &count(600)[..]].concat(), b'x', 600)),
        ("binary data", msgpack(&[b"\x81\xa1a\xc6", &count(500)[..]].concat(), 1, 500)),
    ];
    for (what, chunk) in cases {
        let (outcome, _) = read(what, file(NAMES, &[chunk, empty_index()]));
        assert!(outcome.is_err(), "{what}");
    }
}

#[test]
fn compressed_indexes_with_many_tensors_are_rejected() {
    let _alone = alone();
    let entries = |count: usize, entry_at: &dyn Fn(usize) -> serde_json::Value| {
        let tensors: Vec<_> = (0..count).map(entry_at).collect();
        compressed(b"TIDX", &index(tensors.into()))
    };
    let shard = || Chunk::raw(b"WTSH", Vec::new());
    let many = entries(300_000, &|at| entry(&format!("{at:x}")));
    assert_rejected("an index of 300,000 tensors", ErrorKind::Limit, file(NAMES, &[many, shard()]));
    let names = entries(500, &|at| entry(&format!("{at}{}", "x".repeat(300_000))));
    assert_rejected("an index of long names", ErrorKind::Limit, file(NAMES, &[names, shard()]));
    let zeros = Chunk::compressed(b"TIDX", frame(b"\x81\xa1a\xdd\x04\0\0\0", 0, 512, b""), 8 + 512 * BLOCK_BYTES);
    assert_rejected("zeros in the index", ErrorKind::Limit, file(NAMES, &[zeros]));
}

/// How closely the largest index that is accepted is found, in tensors.
const STEP: usize = 2000;

/// Loads the maximum number of tensors that the memory budget allows, each as small as possible.
#[test]
fn all_tensors_of_the_largest_accepted_index_load_within_the_limits() {
    let _alone = alone();
    load_largest_index(108_000, &|_, entry| entry, &|_| 0);
}

/// As above, with an unused byte between two tensors. The verification of the whole file reads these bytes.
#[test]
fn an_index_with_a_gap_after_each_tensor_loads_within_the_limits() {
    let _alone = alone();
    let with_gap = |at: usize, mut entry: serde_json::Value| {
        entry["shape"] = json!([1]);
        entry["data_off"] = json!(5 * at);
        entry["data_len"] = json!(4);
        entry
    };
    load_largest_index(110_000, &with_gap, &|count| 5 * count);
}

/// Finds the largest index that is accepted, and loads all of its tensors. `about` is the number of its tensors before
/// the last change of the budget: each index takes seconds to write and to parse without optimization.
fn load_largest_index(
    about: usize,
    change: &dyn Fn(usize, serde_json::Value) -> serde_json::Value,
    shard_bytes: &dyn Fn(usize) -> usize,
) {
    let file_of = |count: usize| {
        let tensors: Vec<_> = (0..count).map(|at| change(at, entry(&format!("{at:x}")))).collect();
        let shard = Chunk::raw(b"WTSH", vec![0; shard_bytes(count)]);
        file(NAMES, &[compressed(b"TIDX", &index(tensors.into())), shard])
    };
    let is_accepted = |count: usize| Reader::from_bytes(vec![(String::new(), file_of(count))]).is_ok();
    let mut accepted = about;
    while !is_accepted(accepted) {
        accepted -= STEP;
    }
    while is_accepted(accepted + STEP) {
        accepted += STEP;
    }
    assert!(accepted >= 100_000, "only {accepted} tensors are accepted");
    let (streamed, mapped) = read(&format!("an index of {accepted} tensors"), file_of(accepted));
    assert!(streamed.is_ok() && mapped.is_ok(), "{streamed:?} {mapped:?}");
}

#[test]
fn chunks_that_share_a_name_do_not_copy_it_without_limit() {
    let _alone = alone();
    let names = vec![b'x'; 512 << 10];
    let chunks: Vec<_> = (0..6000).map(|_| Chunk { name: (0, 512 << 10), ..Chunk::raw(b"XTRA", Vec::new()) }).collect();
    assert_rejected("6,000 names of 512 KiB", ErrorKind::Limit, file(&names, &chunks));

    let named = |at: usize, kind| Chunk { name: (at as u32, 1024), ..Chunk::raw(kind, b"{}".to_vec()) };
    let mut chunks: Vec<_> = (0..6000).map(|at| named(at, b"MJSN")).collect();
    chunks.push(empty_index());
    _ = read("6,000 chunks of JSON", file(&names, &chunks));

    let mut chunks: Vec<_> = (0..6000).map(|at| named(at, if at % 2 == 0 { b"WTSH" } else { b"PHSH" })).collect();
    chunks.push(empty_index());
    _ = read("3,000 shards", file(&names, &chunks));
}

#[test]
fn metadata_chunks_share_one_budget_and_must_not_overlap() {
    let _alone = alone();
    let mut shared =
        file(NAMES, &(0..6000).map(|_| Chunk::raw(b"MJSN", Vec::new())).chain([empty_index()]).collect::<Vec<_>>());
    let at = shared.len();
    shared.extend(format!(r#"{{"a":"{}"}}"#, "x".repeat(1 << 20)).as_bytes());
    for chunk in 0..6000 {
        let entry = 96 + 16 + 80 * chunk + 8;
        let length = (shared.len() - at) as u64;
        shared[entry..entry + 24].copy_from_slice(&[at as u64, length, length].map(u64::to_le_bytes).concat());
    }
    assert_rejected("6,000 chunks of the same bytes", ErrorKind::Format, shared);

    let white_space = || Chunk::compressed(b"MJSN", frame(b"{}", b' ', 100, b""), 2 + 100 * BLOCK_BYTES);
    let mut chunks: Vec<_> = (0..1000).map(|_| white_space()).collect();
    chunks.push(empty_index());
    assert_rejected("1,000 chunks of white space", ErrorKind::Limit, file(NAMES, &chunks));
}

#[test]
fn tensors_that_share_a_descriptor_do_not_copy_it_without_limit() {
    let _alone = alone();
    let descriptor = json!({ "quant_descriptors": [{ "id": 0, "text": "x".repeat(1 << 20) }] });
    let tensors: Vec<_> = (0..6000)
        .map(|at| {
            let mut entry = entry(&at.to_string());
            entry["quant_id"] = 0.into();
            entry
        })
        .collect();
    let chunks = [
        Chunk::raw(b"MJSN", descriptor.to_string().into_bytes()),
        Chunk::raw(b"TIDX", index(tensors.into())),
        Chunk::raw(b"WTSH", Vec::new()),
    ];
    assert_rejected("6,000 tensors with one descriptor", ErrorKind::Limit, file(NAMES, &chunks));
}

#[test]
fn realistic_indexes_and_metadata_with_a_high_compression_ratio_are_accepted() {
    let _alone = alone();
    let tensors: Vec<_> =
        (0..100_000).map(|at| entry(&format!("model.layers.{}.self_attn.expert_{at}.weight", at / 100))).collect();
    let chunks = [compressed(b"TIDX", &index(tensors.into())), Chunk::raw(b"WTSH", Vec::new())];
    assert!(chunks[0].stored.len() * 20 < chunks[0].decoded_length.unwrap());
    assert_accepted("a large index", file(NAMES, &chunks));

    let vocabulary: Vec<_> = (0..150_000).map(|at| format!("token {at}")).collect();
    let types = vec![1; 150_000];
    let metadata = json!({ "tokenizer": { "tokens": vocabulary, "types": types } });
    let json = compressed(b"MJSN", metadata.to_string().as_bytes());
    assert_accepted("a vocabulary in JSON", file(NAMES, &[json, empty_index()]));
    let msgpack = compressed(b"MMSG", &rmp_serde::to_vec_named(&metadata).unwrap());
    assert_accepted("a vocabulary in MessagePack", file(NAMES, &[msgpack, empty_index()]));
}
