//! Tests of APRN: metadata, and one opaque serialized value.

use super::files::{load, open, parse, refused, verify};
use crate::error::ErrorKind;
use crate::index::Algorithm;

const VALUE: &[u8] = b"a value of some Rust type, serialized";

#[test]
fn the_value_is_one_tensor_of_bytes() {
    for file in [aprn(0, VALUE), aprn(3, &lz4_flex::compress_prepend_size(VALUE))] {
        let index = parse(&file).unwrap();
        assert_eq!((index.version.as_str(), index.tensors.len()), ("1.0", 1));
        assert_eq!(serde_json::to_string(&index.metadata).unwrap(), r#"{"n":7,"model_type":5,"quality_score":90}"#);
        let loader = open(file.clone()).unwrap();
        assert_eq!(load(&loader, "payload", None).unwrap(), VALUE);
        assert_eq!(load(&loader, "payload", Some(2..7)).unwrap(), &VALUE[2..7]);
        assert_eq!(verify(file.clone()), Ok(Some(Algorithm::Crc32)));
        let mut flipped = file;
        flipped[34] ^= 1;
        assert_eq!(verify(flipped).unwrap_err().kind, ErrorKind::Checksum);
    }
}

#[test]
fn rejects_unsupported_and_invalid_headers() {
    let forged = |at: usize, bytes: &[u8]| {
        let mut file = aprn(3, &lz4_flex::compress_prepend_size(VALUE));
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let refusals = [
        (4, &[2][..], ErrorKind::Unsupported, "version 2"),
        (8, &[0, 0, 0x80, 0], ErrorKind::Limit, "8 MiB of metadata"),
        (8, &[2], ErrorKind::Format, "metadata that end early"),
        (12, &[0xff; 4], ErrorKind::Truncated, "a payload beyond the file"),
        (12, &[48], ErrorKind::Truncated, "a payload in the footer"),
        (16, &[0xff; 4], ErrorKind::Limit, "a value of 4 GiB"),
        (16, &[0, 0, 0x80, 0], ErrorKind::Format, "a value that LZ4 cannot reach"),
        (20, &[0], ErrorKind::Format, "raw, and not as long as the value"),
        (20, &[9], ErrorKind::Unsupported, "an unknown compression"),
        (21, &[1], ErrorKind::Unsupported, "encrypted"),
    ];
    for (at, bytes, kind, what) in refusals {
        assert_eq!(refused(&forged(at, bytes)).kind, kind, "{what}");
    }
    assert_eq!(parse(&forged(21, &[2])).unwrap().warnings.len(), 1, "signed");
    let loader = open(forged(16, &[VALUE.len() as u8 + 1])).unwrap();
    assert_eq!(load(&loader, "payload", None).unwrap_err().kind, ErrorKind::Format, "two lengths");
}

fn aprn(compression: u8, payload: &[u8]) -> Vec<u8> {
    let metadata = b"\x81\xa1n\x07";
    let mut file = b"APRN\x01\x00\x05\x00".to_vec();
    for length in [metadata.len(), payload.len(), VALUE.len()] {
        file.extend((length as u32).to_le_bytes());
    }
    file.extend([compression, 0, 90]);
    file.resize(32, 0);
    file.extend(metadata);
    file.extend(payload);
    file.extend(crc32fast::hash(&file).to_le_bytes());
    file
}
