//! APR: wrappers that are compressed as a whole, compressed tensors, metadata.

use super::alone;
#[allow(dead_code, reason = "shared with the tests of what is read and written")]
#[path = "../native/bytes.rs"]
mod bytes;

use super::ceiling::{read, refused};
use super::generated::{BLOCK_BYTES, apr1, frame, wrapper};
use bytes::{Apr, Entry};
use serde_json::Value;
use weightstream::error::ErrorKind;

#[test]
fn a_wrapper_that_decodes_to_much_more_than_it_is_is_refused() {
    let _alone = alone();
    for blocks in [1000, 8000] {
        let length = 8 + blocks * BLOCK_BYTES;
        let payload = frame(&apr1(length - 8), b' ', blocks, b"");
        refused("a zstd wrapper", ErrorKind::Limit, wrapper(2, length, &payload));
    }
    let lz4 = lz4_flex::compress_prepend_size(&vec![0; 1 << 30]);
    refused("an LZ4 wrapper", ErrorKind::Limit, wrapper(1, 1 << 30, &lz4));
}

#[test]
fn what_a_wrapper_holds_is_decoded_as_far_as_it_is_needed() {
    let _alone = alone();
    let zeros = format!(r#"{{"a":[{}0]}}"#, "0,".repeat(3 << 20));
    let inner = [&apr1(zeros.len()), zeros.as_bytes(), &[0; 8], &[0; 4]].concat();
    refused("zeros in a zstd wrapper", ErrorKind::Limit, wrapper(2, inner.len(), &super::zstd::compress(&inner)));
    let lz4 = lz4_flex::compress_prepend_size(&inner);
    refused("zeros in an LZ4 wrapper", ErrorKind::Limit, wrapper(1, inner.len(), &lz4));

    // It claims what it may, and decodes to a thousand times as much.
    let payload = frame(&apr1(1 << 20), b' ', 8000, b"");
    _ = read("a wrapper of another length", wrapper(2, 8 << 20, &payload));
}

#[test]
fn metadata_of_many_values_are_refused() {
    let _alone = alone();
    let metadata: Value = serde_json::from_str(&format!("[{}0]", "0,".repeat(4 << 20))).unwrap();
    let file = Apr { metadata: serde_json::json!({ "a": metadata }), ..Apr::new(Vec::new()) }.build();
    drop(metadata);
    refused("zeros in the metadata", ErrorKind::Limit, file);
}

#[test]
fn blocks_that_compress_well_take_no_more_than_their_tensor() {
    let _alone = alone();
    let zeros = vec![0; 32 << 20];
    let tensor = Entry::lz4("zeros", 7, &[32 << 20], &zeros);
    let (outcome, _) = read("zeros in LZ4", Apr::new(vec![tensor]).build());
    assert_eq!(outcome, Ok(()));
}

#[cfg(feature = "msgpack")]
#[test]
fn the_metadata_of_a_serialized_model_share_the_budget() {
    let _alone = alone();
    let metadata = [b"\x81\xa1a\xdd\x00\x3f\x00\x00", &vec![0; 0x3f_0000][..]].concat();
    let mut file = b"APRN\x01\0\0\0".to_vec();
    file.extend([metadata.len() as u32, 0, 0].map(u32::to_le_bytes).concat());
    file.resize(32, 0);
    file.extend(metadata);
    file.extend(crc32fast::hash(&file).to_le_bytes());
    refused("zeros in APRN", ErrorKind::Limit, file);
}
