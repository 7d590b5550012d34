//! Conversions to every format.

use super::corpus::{fixtures, root};
use super::model::{Folder, content, to, varied_for};
use std::collections::BTreeMap;
use std::fs;
use weightstream::ErrorKind;
use weightstream::internals::format::safetensors;
use weightstream::internals::native::Reader;
use weightstream::internals::write;

#[test]
fn every_format_preserves_names_shapes_dtypes_and_bytes() {
    let folder = Folder::new();
    for format in write::formats() {
        folder.write("m.safetensors", &varied_for(&[format]));
        let before = content(&folder.open("m.safetensors"));
        folder.convert("m.safetensors", "converted", &to(format)).unwrap();
        let converted = folder.open("converted");
        assert_eq!(converted.metadata().format, format.name);
        assert_eq!(content(&converted), before, "{format:?}");
        converted.verify(&()).unwrap();
        folder.convert("converted", "restored.safetensors", &to(&safetensors::FORMAT).allow_loss(true)).unwrap();
        let restored = folder.open("restored.safetensors");
        assert_eq!(content(&restored), before, "{format:?}");
        for (key, value) in [("format", "pt"), ("author", "Zoë")] {
            assert_eq!(restored.metadata().metadata[key], value, "{format:?}");
        }
    }
}

/// Converts every fixture to every format. The result has the same tensors, or the error names what the format does not
/// support.
#[test]
fn every_fixture_is_converted_to_every_format_or_rejected_with_a_reason() {
    let folder = Folder::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for fixture in fixtures() {
        let path = root().join(&fixture.path);
        let Ok(reader) = Reader::open(&path) else { continue }; // models whose other files are missing
        let before = content(&reader);
        for format in write::formats() {
            let what = format!("{} to {}", fixture.path, format.name);
            match folder.convert(&path, "out", &to(format)) {
                Ok(_) => {
                    let after = folder.open("out");
                    assert_eq!(content(&after), before, "{what}");
                    after.verify(&()).unwrap_or_else(|error| panic!("{what}: {error}"));
                    *counts.entry(format.name).or_default() += 1;
                }
                Err(error) => {
                    assert!(matches!(error.kind, ErrorKind::Unsupported | ErrorKind::Limit), "{what}: {error}");
                    let has_reason = error.context.tensor.is_some() || error.what.contains("metadata");
                    assert!(has_reason, "{what}: {error}");
                }
            }
        }
    }
    for format in write::formats() {
        // Most fixtures have common dtypes and shapes, so every format must accept at least this many.
        assert!(counts[format.name] > 40, "{counts:?}");
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let folder = Folder::new();
    for name in ["a", "b"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    for format in write::formats() {
        folder.write("m.safetensors", &varied_for(&[format]));
        for name in ["a/m", "b/m"] {
            folder.convert("m.safetensors", name, &to(format)).unwrap();
        }
        assert!(fs::read(folder.path("a/m")).unwrap() == fs::read(folder.path("b/m")).unwrap(), "{format:?}");
    }
}

/// Converting a written file to its own format again does not change it.
#[test]
fn converting_to_the_same_format_changes_no_byte() {
    let folder = Folder::new();
    for name in ["once", "twice"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    for format in write::formats() {
        folder.write("m.safetensors", &varied_for(&[format]));
        folder.convert("m.safetensors", "once/m", &to(format)).unwrap();
        folder.convert("once/m", "twice/m", &to(format)).unwrap();
        assert!(fs::read(folder.path("once/m")).unwrap() == fs::read(folder.path("twice/m")).unwrap(), "{format:?}");
    }
}
