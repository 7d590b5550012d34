//! What holds for every format that is written.

use super::corpus::{fixtures, root};
use super::model::{Folder, content, varied};
use std::collections::BTreeMap;
use std::fs;
use weightstream::ErrorKind;
use weightstream::format::{Format, safetensors};
use weightstream::native::Reader;
use weightstream::write::{self, ConvertOptions};

fn to(format: &'static Format) -> ConvertOptions {
    ConvertOptions::default().with_format(Some(format))
}

#[test]
fn names_shapes_dtypes_and_bytes_come_back_from_every_format() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    let before = content(&folder.open("m.safetensors"));
    for format in write::formats() {
        folder.convert("m.safetensors", "there", &to(format)).unwrap();
        let there = folder.open("there");
        assert_eq!(there.metadata().format, format.name);
        assert_eq!(content(&there), before, "{format:?}");
        there.verify(&()).unwrap();
        folder.convert("there", "back.safetensors", &to(&safetensors::FORMAT).with_allow_loss(true)).unwrap();
        let back = folder.open("back.safetensors");
        assert_eq!(content(&back), before, "{format:?}");
        for (key, value) in [("format", "pt"), ("author", "Zoë")] {
            assert_eq!(back.metadata().metadata[key], value, "{format:?}");
        }
    }
}

/// Every file of every tool, to every format: the same tensors, or a refusal that names what does not fit.
#[test]
fn every_fixture_arrives_in_every_format_or_is_refused_by_name() {
    let folder = Folder::new();
    let mut arrived: BTreeMap<&str, usize> = BTreeMap::new();
    for fixture in fixtures() {
        let path = root().join(&fixture.path);
        let Ok(reader) = Reader::open(&path) else { continue }; // sets whose other files lie elsewhere
        let before = content(&reader);
        for format in write::formats() {
            let what = format!("{} to {}", fixture.path, format.name);
            match folder.convert(&path, "out", &to(format)) {
                Ok(_) => {
                    let after = folder.open("out");
                    assert_eq!(content(&after), before, "{what}");
                    after.verify(&()).unwrap_or_else(|error| panic!("{what}: {error}"));
                    *arrived.entry(format.name).or_default() += 1;
                }
                Err(error) => {
                    assert!(matches!(error.kind, ErrorKind::Unsupported | ErrorKind::Limit), "{what}: {error}");
                    let names_it = error.place.tensor.is_some() || error.what.contains("metadata");
                    assert!(names_it, "{what}: {error}");
                }
            }
        }
    }
    for format in write::formats() {
        // Most fixtures have ordinary tensors: a format that refuses more than half of them refuses too much.
        assert!(arrived[format.name] > 40, "{arrived:?}");
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    for format in write::formats() {
        for name in ["a", "b"] {
            folder.convert("m.safetensors", name, &to(format)).unwrap();
        }
        assert!(fs::read(folder.path("a")).unwrap() == fs::read(folder.path("b")).unwrap(), "{format:?}");
    }
}

/// A format that was written is left as it is by another conversion to itself.
#[test]
fn a_conversion_to_the_same_format_changes_no_byte() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    for format in write::formats() {
        folder.convert("m.safetensors", "once", &to(format)).unwrap();
        folder.convert("once", "twice", &to(format)).unwrap();
        assert!(fs::read(folder.path("once")).unwrap() == fs::read(folder.path("twice")).unwrap(), "{format:?}");
    }
}
