//! Tests of the specification's layout.

use super::files::Section::{Data, Index, Metadata};
use super::files::{Entry, draft, draft_with, load, open, packed, parse, refused, sections_in_order, shipped, verify};
use crate::dtype::Dtype;
use crate::error::ErrorKind;
use crate::index::Algorithm;

const COMPRESSED: u32 = 1;
const ENCRYPTED: u32 = 1 << 4;
const SIGNED: u32 = 1 << 5;

#[test]
fn detects_layouts_that_share_a_magic() {
    let entry = [Entry::new("t", 0, &[1], vec![0; 4])];
    assert_eq!(parse(&draft(0, &entry)).unwrap().tensors.len(), 1);
    for magic in [b"APR2", b"APR\0"] {
        assert_eq!(parse(&shipped(magic, 0, &entry)).unwrap().tensors.len(), 1);
        let mut wrapper = packed(&super::files::apr1());
        wrapper[..4].copy_from_slice(magic);
        assert_eq!(load(&open(wrapper).unwrap(), "t", None).unwrap().len(), 16);
    }
}

#[test]
fn compressed_tensors_load_whole_and_by_rows() {
    let values: Vec<u8> = (0..300_000u32).map(|at| (at / 1000) as u8).collect();
    let mut entry = Entry::new("t", 7, &[300, 1000], Vec::new());
    for block in values.chunks(65536) {
        let block = lz4_flex::block::compress(block);
        entry.stored.extend((block.len() as u32).to_le_bytes());
        entry.stored.extend(block);
    }
    entry.raw_size = values.len() as u64;
    let file = draft(COMPRESSED, &[Entry::new("before", 7, &[5], vec![1; 5]), entry.clone()]);
    let loader = open(file.clone()).unwrap();
    assert_eq!(load(&loader, "t", None).unwrap(), values);
    assert_eq!(load(&loader, "t", Some(100..200)).unwrap(), values[100_000..200_000]);
    assert_eq!(verify(file), Ok(Some(Algorithm::Crc32)));

    entry.raw_size += 1;
    let error = refused(&draft(COMPRESSED, &[entry]));
    assert!(error.what.contains("300001 bytes do not match U8 [300, 1000]"), "{error}");
}

#[test]
fn reads_the_types_of_ggml_from_the_metadata() {
    let metadata = |types: &str| format!(r#"{{"model_type":"test","weightstream.ggml_types":{types}}}"#);
    let entry = [Entry::new("k", 0xf0, &[2, 256], vec![1; 288])];
    let index = parse(&draft_with(&metadata(r#"{"k":12,"other":1}"#), 0, &entry)).unwrap();
    assert_eq!((&index.tensors.to_vec()[0].dtype, index.metadata.len()), (&Dtype::Q4_K, 1));
    for (types, kind, message) in [
        ("{}", ErrorKind::Format, "`weightstream.ggml_types` in the metadata does not state its type"),
        ("3", ErrorKind::Format, "does not state its type"),
        (r#"{"k":99}"#, ErrorKind::Unsupported, "states the type 99 for it, which is unknown"),
        (r#"{"k":"Q4_K"}"#, ErrorKind::Unsupported, "states the type \"Q4_K\" for it"),
        (r#"{"k":14}"#, ErrorKind::Format, "288 bytes do not match Q6_K [2, 256]"),
    ] {
        let error = refused(&draft_with(&metadata(types), 0, &entry));
        assert_eq!((error.kind, error.context.tensor.as_deref()), (kind, Some("k")), "{types}");
        assert!(error.what.contains(message), "{error}");
    }
}

#[test]
fn reads_scalars_and_empty_tensors() {
    let file = draft(0, &[Entry::new("s", 0, &[], vec![1, 2, 3, 4]), Entry::new("e", 0, &[0, 7], vec![])]);
    let loader = open(file).unwrap();
    assert_eq!(load(&loader, "s", None).unwrap(), [1, 2, 3, 4]);
    assert!(load(&loader, "e", None).unwrap().is_empty());
}

#[test]
fn rejects_a_truncated_file() {
    let file = draft(0, &[Entry::new("t", 0, &[1], vec![0; 4])]);
    for missing in [1, 16, 60, 100] {
        let error = open(file[..file.len() - missing].to_vec()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Truncated, "{missing} bytes missing: {error}");
    }
    let mut flipped = file.clone();
    flipped[file.len() - 30] ^= 1;
    assert_eq!(verify(flipped).unwrap_err().kind, ErrorKind::Checksum);
}

#[test]
fn rejects_encrypted_files_and_warns_about_signatures() {
    assert_eq!(refused(&draft(ENCRYPTED, &[])).kind, ErrorKind::Unsupported);
    assert_eq!(parse(&draft(SIGNED, &[])).unwrap().warnings.len(), 1);
}

#[test]
fn rejects_duplicate_names_and_overlapping_tensors() {
    let entry = Entry::new("t", 0, &[1], vec![0; 4]);
    assert!(refused(&draft(0, &[entry.clone(), entry.clone()])).what.contains("occurs twice"));
    let mut file = draft(0, &[entry.clone(), Entry { name: "u", ..entry }]);
    let second_offset = file.windows(8).position(|bytes| bytes == 64u64.to_le_bytes()).unwrap();
    file[second_offset] = 3;
    assert!(refused(&file).what.contains("overlap those of \"t\""));
}

#[test]
fn reads_sections_in_any_order() {
    let entries = [Entry::new("t", 7, &[300], vec![1; 300]), Entry::new("u", 7, &[3], vec![2; 3])];
    for order in [
        [Metadata, Index, Data],
        [Metadata, Data, Index],
        [Index, Metadata, Data],
        [Index, Data, Metadata],
        [Data, Metadata, Index],
        [Data, Index, Metadata],
    ] {
        let file = sections_in_order(None, order, &entries);
        let loader = open(file.clone()).unwrap();
        assert_eq!(load(&loader, "u", None).unwrap(), [2; 3], "{order:?}");
        assert_eq!(verify(file), Ok(Some(Algorithm::Crc32)), "{order:?}");
    }
    // The header of the tools does not state where the index ends.
    for order in [[Index, Metadata, Data], [Index, Data, Metadata], [Metadata, Data, Index], [Data, Metadata, Index]] {
        let file = sections_in_order(Some(b"APR\0"), order, &entries);
        assert_eq!(load(&open(file.clone()).unwrap(), "u", None).unwrap(), [2; 3], "{order:?}");
        assert_eq!(verify(file), Ok(Some(Algorithm::Crc32)), "{order:?}");
    }
}

#[test]
fn rejects_sections_that_overlap_and_names_them() {
    let file = sections_in_order(None, [Index, Metadata, Data], &[Entry::new("t", 7, &[3], vec![2; 3])]);
    let with = |at: usize, value: u32| {
        let mut file = file.clone();
        file[at..at + 4].copy_from_slice(&value.to_le_bytes());
        refused(&file)
    };
    let field = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (metadata, index, data) = (field(12), field(20), field(28));
    for (error, names) in [
        (with(12, index + 5), ["the metadata", "the index"]),
        (with(20, 8), ["the index", "the header"]),
        (with(12, 31), ["the metadata", "the header"]),
        (with(28, metadata), ["its bytes", "the metadata"]),
        (with(28, index), ["its bytes", "the index"]),
    ] {
        assert_eq!(error.kind, ErrorKind::Format);
        assert!(names.iter().all(|name| error.what.contains(name)), "{names:?}: {error}");
    }
    assert!(parse(&file).is_ok() && data > metadata);
}

#[test]
fn tensors_may_share_all_their_bytes_but_not_a_part() {
    let entry = Entry::new("tied", 7, &[8], (0..8).collect());
    let mut file = draft(0, &[Entry::new("t", 7, &[8], (0..8).collect()), entry]);
    let second_offset = file.windows(8).position(|bytes| bytes == 64u64.to_le_bytes()).unwrap();
    file[second_offset] = 0;
    let checked = file.len() - 16;
    let crc = crc32fast::hash(&file[..checked]);
    file[checked..checked + 4].copy_from_slice(&crc.to_le_bytes());
    let loader = open(file.clone()).unwrap();
    assert_eq!(load(&loader, "t", None).unwrap(), load(&loader, "tied", None).unwrap());
    assert_eq!(verify(file.clone()), Ok(Some(Algorithm::Crc32)));
    file[second_offset] = 4;
    assert!(refused(&file).what.contains("overlap those of \"t\""));
}
