//! Tests of APR v2 as its tools write it.

use super::files::{Entry, load, open, parse, refused, seal, shipped, verify};
use crate::dtype::Dtype;
use crate::error::ErrorKind;
use crate::format;
use crate::index::Algorithm;
use crate::window::Window;
use proptest::prelude::*;

const MAGIC: &[u8; 4] = b"APR\0";
const LZ4: u16 = 1;
const ENCRYPTED: u16 = 4;
const SIGNED: u16 = 8;

#[test]
fn reads_the_dtype_codes_of_both_tables() {
    let bf16 = [2, 30].map(|code| parse(&shipped(MAGIC, 0, &[Entry::new("t", code, &[3], vec![0; 6])])).unwrap());
    assert!(bf16.iter().all(|index| index.tensors.to_vec()[0].dtype == Dtype::BF16));
    for (codes, name, length) in [([8, 128], "APR_Q4", 36), ([9, 129], "APR_Q8", 44)] {
        for code in codes {
            let index = parse(&shipped(MAGIC, 0, &[Entry::new("t", code, &[5, 8], vec![0; length])])).unwrap();
            assert_eq!(index.tensors.to_vec()[0].dtype.name(), name);
        }
    }
}

#[test]
fn an_unknown_dtype_loads_as_raw_bytes() {
    let loader = open(shipped(MAGIC, 0, &[Entry::new("t", 77, &[5], vec![1, 2, 3])])).unwrap();
    assert_eq!(load(&loader, "t", None).unwrap(), [1, 2, 3]);
}

#[test]
fn rejects_sizes_that_do_not_match_the_shape() {
    let sizes = [
        (0, vec![3], 11),
        (128, vec![33], 18),
        (129, vec![33], 33),
        (129, vec![0], 4),
        (12, vec![2, 300], 288),
        (0, vec![1 << 40, 1 << 40], 0),
        (128, vec![u64::MAX], 18),
    ];
    for (code, shape, length) in sizes {
        let error = refused(&shipped(MAGIC, 0, &[Entry::new("t", code, &shape, vec![0; length])]));
        assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Format, Some("t")), "{code} {shape:?}");
    }
}

#[test]
fn blocks_may_be_padded_at_the_end_of_rows_or_of_the_tensor() {
    for (shape, blocks) in [(vec![2, 256], 2), (vec![2, 300], 4), (vec![2, 300], 3), (vec![300], 2), (vec![2, 128], 2)]
    {
        let file = shipped(MAGIC, 0, &[Entry::new("t", 12, &shape, vec![7; blocks * 144])]);
        let loader = open(file).unwrap();
        assert_eq!(load(&loader, "t", None).unwrap().len(), blocks * 144, "{shape:?}");
        if shape != [2, 256] {
            assert_eq!(load(&loader, "t", Some(0..1)).unwrap_err().kind, ErrorKind::InvalidArgument, "{shape:?}");
        }
    }
}

#[test]
fn the_lz4_flag_does_not_affect_raw_tensors() {
    let loader = open(shipped(MAGIC, LZ4, &[Entry::new("t", 7, &[3], vec![1, 2, 3])])).unwrap();
    assert_eq!(load(&loader, "t", None).unwrap(), [1, 2, 3]);
}

#[test]
fn warns_about_a_missing_checksum_and_rejects_a_truncated_one() {
    let file = shipped(MAGIC, 0, &[Entry::new("t", 7, &[3], vec![1, 2, 3])]);
    assert!(parse(&file).unwrap().warnings.is_empty());
    assert_eq!(verify(file.clone()), Ok(Some(Algorithm::Crc32)));
    let without = &file[..file.len() - 4];
    assert_eq!(parse(without).unwrap().warnings.len(), 1);
    assert_eq!(verify(without.to_vec()), Ok(None));
    for missing in [1, 2, 3, 5, 30] {
        assert_eq!(refused(&file[..file.len() - missing]).kind, ErrorKind::Truncated, "{missing} bytes missing");
    }
}

#[test]
fn rejects_encrypted_files_and_warns_about_signatures() {
    assert_eq!(refused(&shipped(MAGIC, ENCRYPTED, &[])).kind, ErrorKind::Unsupported);
    assert_eq!(parse(&shipped(MAGIC, SIGNED, &[])).unwrap().warnings.len(), 1);
}

#[test]
fn rejects_invalid_headers_with_a_correct_checksum() {
    let forged = |at: usize, bytes: &[u8]| {
        let mut file = shipped(MAGIC, 0, &[Entry::new("t", 7, &[3], vec![1, 2, 3])]);
        file[at..at + bytes.len()].copy_from_slice(bytes);
        seal(&mut file);
        refused(&file).kind
    };
    assert_eq!(forged(4, &[3]), ErrorKind::Unsupported, "version 3");
    assert_eq!(forged(8, &u32::MAX.to_le_bytes()), ErrorKind::Format, "more tensors than entries");
    assert_eq!(forged(20, &u32::MAX.to_le_bytes()), ErrorKind::Format, "metadata that overlaps the index");
    assert_eq!(forged(12, &u64::MAX.to_le_bytes()), ErrorKind::Format, "metadata beyond 64 bits");
    assert_eq!(forged(32, &(1u64 << 40).to_le_bytes()), ErrorKind::Limit, "an index of a terabyte");
    assert_eq!(forged(32, &4096u64.to_le_bytes()), ErrorKind::Truncated, "an index beyond the file");
}

proptest! {
    #[test]
    fn invalid_headers_never_panic(at in 0usize..300, value: u64, width in 1usize..=8, magic: bool) {
        let entries = [Entry::new("t", 7, &[3], vec![1, 2, 3]), Entry::new("u", 128, &[40], vec![0; 36])];
        let mut file = shipped(if magic { MAGIC } else { b"APR2" }, 0, &entries);
        let end = file.len().min(at + width);
        file[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
        seal(&mut file);
        let window = Window::whole(&file);
        if format::parse(&window).is_ok() {
            prop_assert!(format::checksums(&window).is_ok());
            prop_assert!(format::check_tail(&window).is_ok() || !magic, "only the draft has a tail");
        }
    }
}
