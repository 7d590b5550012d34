//! Models that several machines publish.

use crate::model::Folder;
use crate::published::{files, options, publish, seven_layers, with_conversion};
use weightstream::dtype::Dtype;
use weightstream::error::ErrorKind;
use weightstream::publish::{PublishOptions, Share};

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
    let merge = with_conversion(|convert| convert.with_alignment(Some(32))).with_share(Share::Merge);
    let error = publish(&input, &out, &merge).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
    let merge = with_conversion(|convert| convert.with_dtype(Some(Dtype::F16))).with_share(Share::Merge);
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
