//! APR: compressed wrappers, compressed tensors and metadata.

use super::alone;
#[allow(dead_code, reason = "shared with the native tests")]
#[path = "../native/bytes.rs"]
mod bytes;

use super::ceiling::{assert_rejected, read};
use super::generated::{BLOCK_BYTES, apr1, frame, wrapper};
use bytes::{Apr, Entry};
use serde_json::Value;
use weightstream::ErrorKind;

#[test]
fn wrappers_with_a_high_compression_ratio_are_rejected() {
    let _alone = alone();
    for blocks in [1000, 8000] {
        let length = 8 + blocks * BLOCK_BYTES;
        let payload = frame(&apr1(length - 8), b' ', blocks, b"");
        assert_rejected("a zstd wrapper", ErrorKind::Limit, wrapper(2, length, &payload));
    }
    let lz4 = lz4_flex::compress_prepend_size(&vec![0; 1 << 30]);
    assert_rejected("an LZ4 wrapper", ErrorKind::Limit, wrapper(1, 1 << 30, &lz4));
}

#[test]
fn files_in_wrappers_are_decoded_within_the_limits() {
    let _alone = alone();
    let zeros = format!(r#"{{"a":[{}0]}}"#, "0,".repeat(3 << 20));
    let inner = [&apr1(zeros.len()), zeros.as_bytes(), &[0; 8], &[0; 4]].concat();
    let zstd = super::zstd::compress(&inner);
    assert_rejected("zeros in a zstd wrapper", ErrorKind::Limit, wrapper(2, inner.len(), &zstd));
    let lz4 = lz4_flex::compress_prepend_size(&inner);
    assert_rejected("zeros in an LZ4 wrapper", ErrorKind::Limit, wrapper(1, inner.len(), &lz4));

    // The stated length is within the limit. The decoded length is more than a hundred times as much.
    let payload = frame(&apr1(1 << 20), b' ', 8000, b"");
    _ = read("a wrapper with a wrong length", wrapper(2, 8 << 20, &payload));
}

#[test]
fn metadata_with_many_values_is_rejected() {
    let _alone = alone();
    let metadata: Value = serde_json::from_str(&format!("[{}0]", "0,".repeat(4 << 20))).unwrap();
    let file = Apr { metadata: serde_json::json!({ "a": metadata }), ..Apr::new(Vec::new()) }.build();
    drop(metadata);
    assert_rejected("zeros in the metadata", ErrorKind::Limit, file);
}

#[test]
fn highly_compressed_blocks_use_no_more_memory_than_their_tensor() {
    let _alone = alone();
    let zeros = vec![0; 32 << 20];
    let tensor = Entry::lz4("zeros", 7, &[32 << 20], &zeros);
    let (outcome, _) = read("zeros in LZ4", Apr::new(vec![tensor]).build());
    assert_eq!(outcome, Ok(()));
}

#[cfg(feature = "msgpack")]
#[test]
fn aprn_metadata_is_bounded_by_the_memory_budget() {
    let _alone = alone();
    let metadata = [b"\x81\xa1a\xdd\x00\x3f\x00\x00", &vec![0; 0x3f_0000][..]].concat();
    let mut file = b"APRN\x01\0\0\0".to_vec();
    file.extend([metadata.len() as u32, 0, 0].map(u32::to_le_bytes).concat());
    file.resize(32, 0);
    file.extend(metadata);
    file.extend(crc32fast::hash(&file).to_le_bytes());
    assert_rejected("zeros in APRN", ErrorKind::Limit, file);
}
