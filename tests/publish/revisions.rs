//! New revisions of a published model.

use crate::model::{Folder, content};
use crate::published::{layers, options, publish, seven_layers, stated, tensor_files};
use serde_json::Value;
use weightstream::native::Reader;
use weightstream::publish::Published;

/// Publishes layers in certain versions after the revision that exists in the folder.
fn publish_next(folder: &Folder, versions: &[(u64, u64)]) -> Published {
    folder.write("next.safetensors", &layers(versions));
    let entry = folder.path("out").join("model.apr").to_str().unwrap().to_owned();
    let input = folder.open("next.safetensors");
    let published = publish(&input, &folder.path("out"), &options().with_previous(Some(entry.clone()))).unwrap();
    assert_eq!(content(&Reader::open(entry).unwrap()), content(&input));
    published
}

fn previous(folder: &Folder) -> Vec<Value> {
    stated(&folder.path("out").join("model.apr"))["previous"].as_array().cloned().unwrap_or_default()
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
fn the_entry_lists_files_of_earlier_revisions_that_it_does_not_have() {
    let folder = Folder::new();
    publish(&seven_layers(&folder), &folder.path("out"), &options()).unwrap();
    let first_chunks = stated(&folder.path("out").join("model.apr"))["chunks"].clone();
    let first_files = tensor_files(&folder.path("out"));
    publish_next(&folder, &[(0, 0), (1, 0), (2, 1), (3, 0), (4, 0), (5, 0), (6, 0)]);
    let revisions = previous(&folder);
    assert_eq!(revisions.len(), 1);
    assert_eq!(revisions[0]["chunks"], first_chunks);
    let files = revisions[0]["files"].as_array().unwrap();
    assert_eq!(files.len(), 1, "the other files are the same");
    assert!(first_files.contains(&files[0].as_str().unwrap().to_owned()));
}

#[test]
fn the_entry_lists_at_most_eight_revisions_newest_first() {
    let folder = Folder::new();
    publish(&seven_layers(&folder), &folder.path("out"), &options()).unwrap();
    let mut newest = Value::Null;
    for version in 1..=10 {
        newest = stated(&folder.path("out").join("model.apr"))["chunks"].clone();
        publish_next(&folder, &[(0, version), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)]);
    }
    let revisions = previous(&folder);
    assert_eq!(revisions.len(), 8);
    assert_eq!(revisions[0]["chunks"], newest);
}

#[test]
fn a_revision_in_another_folder_keeps_only_the_division() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    publish(&input, &folder.path("elsewhere"), &options()).unwrap();
    let entry = folder.path("elsewhere").join("model.apr").to_str().unwrap().to_owned();
    let published = publish(&input, &folder.path("out"), &options().with_previous(Some(entry))).unwrap();
    assert!(published.warnings.iter().any(|warning| warning.contains("another folder")), "{:?}", published.warnings);
    assert_eq!(previous(&folder), [] as [Value; 0]);
}

#[test]
fn refuses_a_single_file_as_the_previous_revision() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    let single = folder.path("input.safetensors").to_str().unwrap().to_owned();
    let error = publish(&input, &folder.path("out"), &options().with_previous(Some(single))).unwrap_err();
    assert!(error.to_string().contains("`--from` takes the entry"), "{error}");
}
