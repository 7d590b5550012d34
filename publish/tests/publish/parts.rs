//! Models that several machines publish.

use crate::model::{Folder, safetensors_file};
use crate::published::{files, layers, options, publish, seven_layers, with_conversion};
use serde_json::json;
use weightstream::Dtype;
use weightstream::ErrorKind;
use weightstream::internals::native::Reader;
use weightstream::internals::write::ConvertOptions;
use weightstream_publish::{PublishOptions, Share};

fn part(number: usize, count: usize) -> PublishOptions {
    options().with_share(Share::part(number, count).unwrap())
}

#[test]
fn parts_in_any_order_have_the_same_bytes_as_one_machine() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    publish(&input, &folder.path("one"), &options()).unwrap();
    let expected = files(&folder.path("one"));
    for order in [&[1][..], &[2, 1], &[3, 1, 2], &[7, 1, 5, 3, 2, 6, 4, 1]] {
        let count = *order.iter().max().unwrap();
        let out = folder.path(&format!("in-{count}"));
        for number in order {
            assert_eq!(publish(&input, &out, &part(*number, count)).unwrap().entry, None);
            assert!(!out.join("model.apr").exists(), "only the merge writes the entry");
        }
        let merged = publish(&input, &out, &options().with_share(Share::Merge)).unwrap();
        assert_eq!((merged.file_count, merged.sent_files), (4, 0));
        assert_eq!(files(&out), expected, "{count} parts");
    }
}

#[test]
fn a_merge_names_the_missing_files() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    let out = folder.path("out");
    publish(&input, &out, &part(1, 2)).unwrap();
    let error = publish(&input, &out, &options().with_share(Share::Merge)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.to_string().contains("2 of the 4 files") && error.to_string().contains("number 3"), "{error}");
    assert!(!out.join("model.apr").exists());
}

#[test]
fn a_merge_refuses_parts_with_other_options() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    let out = folder.path("out");
    publish(&input, &out, &part(1, 1)).unwrap();
    let merge = with_conversion(|convert| convert.alignment(Some(32))).with_share(Share::Merge);
    let error = publish(&input, &out, &merge).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
    let merge = with_conversion(|convert| convert.dtype(Some(Dtype::F16))).with_share(Share::Merge);
    publish(&input, &out, &merge).unwrap_err();
    assert!(!out.join("model.apr").exists());
}

#[test]
fn a_repeated_part_sends_nothing() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    let out = folder.path("out");
    assert_eq!(publish(&input, &out, &part(2, 2)).unwrap().sent_files, 2);
    assert_eq!(publish(&input, &out, &part(2, 2)).unwrap().sent_files, 0);
}

/// An input in memory has no version: neither a date nor an ETag.
fn in_memory(bytes: Vec<u8>) -> Reader {
    Reader::from_bytes(vec![("input.safetensors".to_owned(), bytes)]).unwrap()
}

#[test]
fn a_merge_refuses_parts_of_two_inputs_without_a_version() {
    let folder = Folder::new();
    let versions = |last: u64| layers(&[(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, last)]);
    let (one, other) = (in_memory(versions(0)), in_memory(versions(1)));
    let merge = options().with_share(Share::Merge);
    let out = folder.path("same");
    publish(&one, &out, &part(1, 2)).unwrap();
    publish(&one, &out, &part(2, 2)).unwrap();
    assert_eq!(publish(&one, &out, &merge).unwrap().file_count, 4);

    let out = folder.path("mixed");
    publish(&one, &out, &part(1, 2)).unwrap();
    publish(&other, &out, &part(2, 2)).unwrap();
    let error = publish(&one, &out, &merge).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
    assert!(error.what.contains("other bytes"), "{error}");
    assert!(!out.join("model.apr").exists());
    // The first part has the same bytes in both versions.
    assert_eq!(publish(&other, &out, &merge).unwrap().file_count, 4);
}

#[test]
fn a_merge_refuses_parts_of_inputs_with_other_metadata() {
    let folder = Folder::new();
    let tensors = [("a", "U8", &[2][..], vec![1, 2])];
    let with = |author: &str| in_memory(safetensors_file(json!({ "author": author }), &tensors));
    publish(&with("one"), &folder.path("out"), &part(1, 1)).unwrap();
    let merged = publish(&with("two"), &folder.path("out"), &options().with_share(Share::Merge));
    assert_eq!(merged.unwrap_err().kind, ErrorKind::InvalidArgument);
}

#[test]
fn a_damaged_input_is_not_published() {
    let folder = Folder::new();
    seven_layers(&folder);
    folder.convert("input.safetensors", "input.apr", &ConvertOptions::default()).unwrap();
    let mut bytes = std::fs::read(folder.path("input.apr")).unwrap();
    let at = folder.open("input.apr").tensor("layers.5.weight").unwrap().first_byte() as usize;
    bytes[at] ^= 1;
    folder.write("input.apr", &bytes);
    let input = folder.open("input.apr");
    for (number, options) in [options(), part(1, 2), part(2, 2)].iter().enumerate() {
        let out = folder.path(&format!("out-{number}"));
        assert_eq!(publish(&input, &out, options).unwrap_err().kind, ErrorKind::Checksum);
        assert!(!out.exists(), "what was sent is deleted, and the folder that had it");
    }
}
