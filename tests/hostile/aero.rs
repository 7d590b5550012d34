//! AERO: compressed metadata and indexes, and entries that share what they name.

use super::alone;
use super::ceiling::{accepted, read, refused};
use super::generated::{BLOCK_BYTES, Chunk, NAMES, aero as file, frame};
use super::zstd::compress;
use serde_json::json;
use weightstream::error::ErrorKind;
use weightstream::native::Reader;

/// A chunk, compressed as tools do it.
fn compressed(kind: &'static [u8; 4], content: &[u8]) -> Chunk {
    Chunk::packed(kind, compress(content), content.len())
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
fn metadata_that_decode_to_many_values_are_refused() {
    let _alone = alone();
    // 23 kB of `[0,0,…]`, as JSON and as MessagePack.
    for (item, last) in [("0,", "0"), ("[],", "[]"), (r#"{"":0},"#, "0"), (r#""a","#, "0")] {
        for bytes in [12 << 20, 96 << 20] {
            let json = format!(r#"{{"a":[{}{last}]}}"#, item.repeat(bytes / item.len()));
            let json = compressed(b"MJSN", json.as_bytes());
            assert!(json.stored.len() < 23_000, "{}", json.stored.len());
            refused(&format!("{item} in JSON"), ErrorKind::Limit, file(NAMES, &[json, empty_index()]));
        }
    }

    let packed = |before: &[u8], byte, blocks: usize| {
        let stored = frame(before, byte, blocks, b"");
        Chunk::packed(b"MMSG", stored, before.len() + blocks * BLOCK_BYTES)
    };
    let count = |blocks: usize| ((blocks * BLOCK_BYTES) as u32).to_be_bytes();
    let array = |blocks| [b"\x81\xa1a\xdd", &count(blocks)[..]].concat();
    let cases = [
        ("zeros in MessagePack", packed(&array(128), 0, 128)),
        ("more zeros", packed(&array(2000), 0, 2000)),
        ("many zeros", packed(&array(100), 0, 100)),
        ("empty maps", packed(&array(5), 0x80, 5)),
        ("arrays in arrays", packed(b"\x81\xa1a", 0x91, 100)),
        ("one text", packed(&[b"\x81\xa1a\xdb", &count(600)[..]].concat(), b'x', 600)),
        ("bytes", packed(&[b"\x81\xa1a\xc6", &count(500)[..]].concat(), 1, 500)),
    ];
    for (what, chunk) in cases {
        let (outcome, _) = read(what, file(NAMES, &[chunk, empty_index()]));
        assert!(outcome.is_err(), "{what}");
    }
}

#[test]
fn an_index_that_decodes_to_many_tensors_is_refused() {
    let _alone = alone();
    let entries = |count: usize, of: &dyn Fn(usize) -> serde_json::Value| {
        let tensors: Vec<_> = (0..count).map(of).collect();
        compressed(b"TIDX", &index(tensors.into()))
    };
    let shard = || Chunk::raw(b"WTSH", Vec::new());
    let many = entries(300_000, &|at| entry(&format!("{at:x}")));
    refused("an index of 300,000", ErrorKind::Limit, file(NAMES, &[many, shard()]));
    let names = entries(500, &|at| entry(&format!("{at}{}", "x".repeat(300_000))));
    refused("an index of long names", ErrorKind::Limit, file(NAMES, &[names, shard()]));
    let zeros = Chunk::packed(b"TIDX", frame(b"\x81\xa1a\xdd\x04\0\0\0", 0, 512, b""), 8 + 512 * BLOCK_BYTES);
    refused("zeros in the index", ErrorKind::Limit, file(NAMES, &[zeros]));
}

/// The most tensors that the budget lets through, each as small as possible. All of them are loaded.
#[test]
fn all_tensors_of_an_index_just_within_the_budget_stay_below_the_ceiling() {
    let _alone = alone();
    load_largest_index(&|_, entry| entry, &|_| 0);
}

/// As above, with a byte between two tensors that belongs to none, and that the check of the whole file reads.
#[test]
fn as_many_gaps_as_tensors_stay_below_the_ceiling() {
    let _alone = alone();
    let with_gap = |at: usize, mut entry: serde_json::Value| {
        entry["shape"] = json!([1]);
        entry["data_off"] = json!(5 * at);
        entry["data_len"] = json!(4);
        entry
    };
    load_largest_index(&with_gap, &|count| 5 * count);
}

/// Finds the largest index that is accepted, and loads all of its tensors.
fn load_largest_index(
    change: &dyn Fn(usize, serde_json::Value) -> serde_json::Value,
    shard_bytes: &dyn Fn(usize) -> usize,
) {
    let file_of = |count: usize| {
        let tensors: Vec<_> = (0..count).map(|at| change(at, entry(&format!("{at:x}")))).collect();
        let shard = Chunk::raw(b"WTSH", vec![0; shard_bytes(count)]);
        file(NAMES, &[compressed(b"TIDX", &index(tensors.into())), shard])
    };
    let is_accepted = |count: usize| Reader::from_bytes(vec![(String::new(), file_of(count))]).is_ok();
    let (mut accepted, mut refused) = (100_000, 116_000);
    let first = Reader::from_bytes(vec![(String::new(), file_of(accepted))]).map(drop);
    assert_eq!(first, Ok(()));
    assert!(!is_accepted(refused));
    while refused - accepted > 2000 {
        let middle = accepted.midpoint(refused);
        *(if is_accepted(middle) { &mut accepted } else { &mut refused }) = middle;
    }
    let (streamed, mapped) = read(&format!("an index of {accepted}"), file_of(accepted));
    assert!(streamed.is_ok() && mapped.is_ok(), "{streamed:?} {mapped:?}");
}

#[test]
fn entries_that_share_what_they_name_do_not_copy_it() {
    let _alone = alone();
    let names = vec![b'x'; 512 << 10];
    let chunks: Vec<_> = (0..6000).map(|_| Chunk { name: (0, 512 << 10), ..Chunk::raw(b"XTRA", Vec::new()) }).collect();
    refused("6,000 names of 512 KiB", ErrorKind::Limit, file(&names, &chunks));

    let named = |at: usize, kind| Chunk { name: (at as u32, 1024), ..Chunk::raw(kind, b"{}".to_vec()) };
    let mut chunks: Vec<_> = (0..6000).map(|at| named(at, b"MJSN")).collect();
    chunks.push(empty_index());
    _ = read("6,000 chunks of JSON", file(&names, &chunks));

    let mut chunks: Vec<_> = (0..6000).map(|at| named(at, if at % 2 == 0 { b"WTSH" } else { b"PHSH" })).collect();
    chunks.push(empty_index());
    _ = read("3,000 shards", file(&names, &chunks));
}

#[test]
fn chunks_of_metadata_share_no_bytes_and_no_budget() {
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
    refused("6,000 chunks of the same bytes", ErrorKind::Format, shared);

    let blank = || Chunk::packed(b"MJSN", frame(b"{}", b' ', 100, b""), 2 + 100 * BLOCK_BYTES);
    let mut chunks: Vec<_> = (0..1000).map(|_| blank()).collect();
    chunks.push(empty_index());
    refused("1,000 chunks of white space", ErrorKind::Limit, file(NAMES, &chunks));
}

#[test]
fn tensors_that_share_a_descriptor_do_not_copy_it_without_end() {
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
    refused("6,000 tensors with one descriptor", ErrorKind::Limit, file(NAMES, &chunks));
}

#[test]
fn real_indexes_and_metadata_are_read_however_well_they_compress() {
    let _alone = alone();
    let tensors: Vec<_> =
        (0..100_000).map(|at| entry(&format!("model.layers.{}.self_attn.expert_{at}.weight", at / 100))).collect();
    let chunks = [compressed(b"TIDX", &index(tensors.into())), Chunk::raw(b"WTSH", Vec::new())];
    assert!(chunks[0].stored.len() * 20 < chunks[0].decoded_length.unwrap());
    accepted("a large index", file(NAMES, &chunks));

    let vocabulary: Vec<_> = (0..150_000).map(|at| format!("token {at}")).collect();
    let types = vec![1; 150_000];
    let metadata = json!({ "tokenizer": { "tokens": vocabulary, "types": types } });
    let json = compressed(b"MJSN", metadata.to_string().as_bytes());
    accepted("a vocabulary in JSON", file(NAMES, &[json, empty_index()]));
    let packed = compressed(b"MMSG", &rmp_serde::to_vec_named(&metadata).unwrap());
    accepted("a vocabulary in MessagePack", file(NAMES, &[packed, empty_index()]));
}
