//! Runs that are interrupted or repeated.

use crate::model::Folder;
use crate::published::{TENSOR_BYTES, files, layers, options, publish, seven_layers, tensor_files};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use weightstream::ErrorKind;
use weightstream::internals::progress::Progress;

/// Cancels the operation after this many bytes.
struct Cancel {
    after: u64,
    advanced: AtomicU64,
}

impl Progress for Cancel {
    fn advanced(&self, bytes: u64) {
        self.advanced.fetch_add(bytes, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.advanced.load(Ordering::Relaxed) > self.after
    }
}

#[test]
fn an_interrupted_run_writes_no_entry_and_is_continued() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    let (out, whole) = (folder.path("out"), folder.path("whole"));
    publish(&input, &whole, &options()).unwrap();

    let cancel = Cancel { after: 5 * TENSOR_BYTES, advanced: AtomicU64::new(0) };
    weightstream_publish::publish_with(&input, out.to_str().unwrap(), &options(), &cancel).unwrap_err();
    assert!(!out.join("model.apr").exists());
    let arrived = tensor_files(&out).len();

    let published = publish(&input, &out, &options()).unwrap();
    assert_eq!(published.sent_files, 4 - arrived);
    assert_eq!(files(&out), files(&whole), "no record is left, and all bytes are the same");
}

#[test]
fn a_second_run_sends_nothing() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    publish(&input, &folder.path("out"), &options()).unwrap();
    let before = files(&folder.path("out"));
    let published = publish(&input, &folder.path("out"), &options()).unwrap();
    assert_eq!((published.sent_files, published.sent_bytes), (0, 0));
    assert_eq!(files(&folder.path("out")), before);
}

#[test]
fn a_changed_tensor_sends_one_file() {
    let folder = Folder::new();
    publish(&seven_layers(&folder), &folder.path("out"), &options()).unwrap();
    folder.write("input.safetensors", &layers(&[(0, 0), (1, 0), (2, 1), (3, 0), (4, 0), (5, 0), (6, 0)]));
    let published = publish(&folder.open("input.safetensors"), &folder.path("out"), &options()).unwrap();
    assert_eq!((published.file_count, published.sent_files), (4, 1));
}

#[test]
fn records_of_an_earlier_input_are_not_used() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    let out = folder.path("out");
    let part = options().with_share(weightstream_publish::Share::part(1, 1).unwrap());
    publish(&input, &out, &part).unwrap();
    // The same size and structure, but other bytes.
    folder.write("input.safetensors", &layers(&[(0, 9), (1, 9), (2, 9), (3, 9), (4, 9), (5, 9), (6, 9)]));
    let input = folder.open("input.safetensors");
    let published = publish(&input, &out, &options()).unwrap();
    assert_eq!(published.sent_files, 4);
    let reader = weightstream::internals::native::Reader::open(published.entry.unwrap()).unwrap();
    assert_eq!(crate::model::content(&reader), crate::model::content(&input));
}

#[test]
fn a_file_with_other_bytes_is_an_error_and_sent_again_by_the_next_run() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    let out = folder.path("out");
    publish(&input, &out, &options()).unwrap();
    let damaged = out.join(&tensor_files(&out)[1]);
    let mut bytes = fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&damaged, bytes).unwrap();

    let error = publish(&input, &out, &options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Checksum, "{error}");
    assert!(error.to_string().contains(damaged.file_name().unwrap().to_str().unwrap()), "{error}");
    assert_eq!(publish(&input, &out, &options()).unwrap().sent_files, 1);
}
