//! New revisions of a published model.

use crate::model::{Folder, content};
use crate::published::{layers, options, publish, seven_layers};
use weightstream::internals::native::Reader;
use weightstream_publish::Published;

/// Publishes layers in certain versions after the revision that exists in the folder.
fn publish_next(folder: &Folder, versions: &[(u64, u64)]) -> Published {
    folder.write("next.safetensors", &layers(versions));
    let entry = folder.path("out").join("model.apr").to_str().unwrap().to_owned();
    let input = folder.open("next.safetensors");
    let published = publish(&input, &folder.path("out"), &options().with_previous(Some(entry.clone()))).unwrap();
    assert_eq!(content(&Reader::open(entry).unwrap()), content(&input));
    published
}

#[test]
fn inserted_and_removed_tensors_leave_the_other_files_unchanged() {
    let folder = Folder::new();
    publish(&seven_layers(&folder), &folder.path("out"), &options()).unwrap();
    // Layer 0 is new in the order, layer 3 is gone: only the file of layers 2 and 3 changes, and one is added.
    let published = publish_next(&folder, &[(10, 0), (0, 0), (1, 0), (2, 0), (4, 0), (5, 0), (6, 0)]);
    assert_eq!((published.file_count, published.sent_files), (5, 2));
}

#[test]
fn refuses_a_single_file_as_the_previous_revision() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    let single = folder.path("input.safetensors").to_str().unwrap().to_owned();
    let error = publish(&input, &folder.path("out"), &options().with_previous(Some(single))).unwrap_err();
    assert!(error.to_string().contains("`PublishOptions::previous` takes the entry"), "{error}");
}
