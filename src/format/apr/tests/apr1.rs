//! Tests of APR1 and of its compressed wrapper.

use super::files::{apr1, load, open, packed, parse, refused, verify};
use crate::error::ErrorKind;
use crate::index::Algorithm;

#[test]
fn reads_an_apr1_file() {
    let index = parse(&apr1()).unwrap();
    assert_eq!((index.version.as_str(), &index.metadata["a"]), ("1", &1.into()));
    assert_eq!(load(&open(apr1()).unwrap(), "t", Some(1..2)).unwrap(), [8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(verify(apr1()), Ok(Some(Algorithm::Crc32)));
}

#[test]
fn rejects_a_truncated_apr1_file() {
    let file = apr1();
    for missing in [1, 4, 16, 30, 90] {
        let error = refused(&file[..file.len() - missing]);
        assert_eq!(error.kind, ErrorKind::Truncated, "{missing} bytes missing: {error}");
    }
}

#[test]
fn rejects_an_index_whose_length_differs_from_its_count() {
    let mut file = apr1();
    let count = 8 + b"{\"a\":1}".len();
    file[count] = 2;
    assert!(refused(&file).what.contains("lists 1 tensors, but its header states 2"));
    file[count + 4..count + 8].fill(0xff);
    assert_eq!(refused(&file).kind, ErrorKind::Limit);
}

#[test]
fn a_compressed_file_is_read_as_its_decoded_content() {
    let loader = open(packed(&apr1())).unwrap();
    assert_eq!(load(&loader, "t", None).unwrap(), (0..16).collect::<Vec<u8>>());
    assert_eq!(load(&loader, "t", Some(0..1)).unwrap(), (0..8).collect::<Vec<u8>>());
    assert_eq!(verify(packed(&apr1())), Ok(Some(Algorithm::Crc32)));
}

#[test]
fn a_flipped_bit_in_a_compressed_file_is_detected() {
    let mut file = apr1();
    let at = file.len() - 6;
    file[at] ^= 1;
    assert_eq!(verify(packed(&file)).unwrap_err().kind, ErrorKind::Checksum);
}

#[test]
fn rejects_a_compressed_file_in_a_compressed_file() {
    let error = open(packed(&packed(&apr1()))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Format);
}

#[test]
fn rejects_lengths_that_do_not_match_the_payload() {
    let file = packed(&apr1());
    let forged = |length: u32| {
        let mut file = file.clone();
        file[5..9].copy_from_slice(&length.to_le_bytes());
        file[9..13].copy_from_slice(&length.to_le_bytes());
        open(file).unwrap_err().kind
    };
    let length = apr1().len() as u32;
    assert_eq!(forged(length - 1), ErrorKind::Format);
    assert_eq!(forged(length + 1), ErrorKind::Format);
    assert_eq!(forged(1 << 20), ErrorKind::Format);
    assert_eq!(forged((1 << 30) + 1), ErrorKind::Limit);
    assert!(open(file[..file.len() - 1].to_vec()).is_err());
}
