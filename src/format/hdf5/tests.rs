use super::parse::parse;
use crate::error::{ErrorKind, Result};
use crate::index::{Index, Parsed};
use crate::window::{Stop, Window};
use proptest::prelude::*;
use serde_json::json;
use std::path::Path;

const FIXTURES: [&str; 10] = [
    "keras.keras",
    "keras.weights.h5",
    "keras.h5",
    "types.h5",
    "many.h5",
    "compact.h5",
    "latest.h5",
    "heap.h5",
    "v108.h5",
    "v110.h5",
];

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hdf5").join(name)).unwrap()
}

fn parsed(file: &[u8]) -> Result<Index> {
    match parse(&Window::whole(file)) {
        Ok(Parsed::File(index)) => Ok(index),
        Err(Stop::Failed(error)) => Err(error),
        other => panic!("a whole file needs more: {other:?}"),
    }
}

/// Reads a file in a window that has only the bytes that the parser asked for.
fn in_pieces(file: &[u8], step: u64) -> Result<Index> {
    let length = file.len() as u64;
    let mut window = Window::new(Some(length));
    loop {
        let range = match parse(&window) {
            Ok(Parsed::File(index)) => return Ok(index),
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Need(range)) => range,
            other => panic!("{other:?}"),
        };
        assert!(range.end <= length && window.get(range.clone()).is_err());
        let end = range.end.max(range.start + step).min(length);
        window.insert(range.start, &file[range.start as usize..end as usize]);
    }
}

#[test]
fn files_are_read_alike_in_any_pieces() {
    for name in FIXTURES {
        let file = fixture(name);
        let whole = parsed(&file).unwrap();
        for step in [1, 1000, 1 << 16] {
            assert_eq!(in_pieces(&file, step).unwrap(), whole, "{name}");
        }
    }
}

#[test]
fn files_cut_anywhere_are_refused() {
    for name in FIXTURES {
        let file = fixture(name);
        for end in (0..file.len()).step_by(file.len() / 300 + 1) {
            let error = parsed(&file[..end]).unwrap_err();
            assert!([ErrorKind::Truncated, ErrorKind::Format].contains(&error.kind), "{name} {end}: {error}");
        }
    }
}

#[test]
fn attributes_are_the_metadata() {
    let metadata = parsed(&fixture("types.h5")).unwrap().metadata;
    assert_eq!(metadata["text"], "naïve ✓");
    assert_eq!(metadata["numbers"], json!([0, 1, 2]));
    assert_eq!(metadata["float"], 0.5);
    assert_eq!(metadata["fixed"], json!(["ab", "c"]));
    assert_eq!(metadata["groups"]["types"]["layer_names"], json!(["a", "b"]));
    let metadata = parsed(&fixture("keras.h5")).unwrap().metadata;
    assert!(metadata["model_config"].as_str().unwrap().starts_with(r#"{"class_name": "Sequential""#));
    assert_eq!(metadata["groups"]["model_weights"]["layer_names"][0], "first");
    let metadata = parsed(&fixture("keras.keras")).unwrap().metadata;
    assert_eq!(metadata["config"]["class_name"], "Sequential");
    assert_eq!(metadata["metadata"]["keras_version"], "3.15.1");
    assert_eq!(metadata["groups"]["layers/dense/vars"]["name"], "first");
}

#[test]
fn warnings_name_what_is_not_read_and_others_still_load() {
    let index = parsed(&fixture("types.h5")).unwrap();
    let warnings = index.warnings.join("\n");
    for expected in [
        "datasets (is compressed): chunked, compressed",
        "datasets (is chunked): only chunked",
        "datasets (has texts): texts",
        "datasets (structures): structure",
        "soft and external links: soft, links/external",
    ] {
        assert!(warnings.contains(expected), "{expected}: {warnings}");
    }
    assert!(index.tensors.names().any(|name| name == "tied") && index.tensors.names().any(|name| name == "scalar"));
}

/// Replaces all occurrences of some bytes.
fn replaced(file: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut changed = file.to_vec();
    for at in 0..=file.len() - from.len() {
        if file[at..].starts_with(from) {
            changed[at..at + to.len()].copy_from_slice(to);
        }
    }
    changed
}

#[test]
fn a_group_that_contains_itself_is_listed_once() {
    // In `v110.h5`, the links to `b` and `x` are changed to lead to the root group.
    let file = fixture("v110.h5");
    let root = &file[36..44];
    let at = file.windows(2).position(|pair| pair == b"\x01b").unwrap() + 2;
    let cyclic = replaced(&file, &file[at..at + 8], root);
    let index = parsed(&cyclic).unwrap();
    assert!(index.warnings.iter().any(|warning| warning.contains("groups that other links have listed")));
    assert!(index.tensors.names().all(|name| !name.contains('/')));
}

#[test]
fn a_tree_that_contains_itself_is_refused() {
    let file = fixture("many.h5");
    let trees: Vec<_> = (0..file.len() - 4).filter(|at| file[*at..].starts_with(b"TREE\0\x01")).collect();
    let mut cyclic = file.clone();
    for at in &trees {
        // The first child of a node of level 1 is the node itself.
        cyclic[at + 32..at + 40].copy_from_slice(&(*at as u64).to_le_bytes());
    }
    assert!(!trees.is_empty());
    assert_eq!(parsed(&cyclic).unwrap_err().kind, ErrorKind::Format);
}

#[test]
fn overlapping_structures_do_not_take_long() {
    // All links of a group of 300 lead to one object, and all names are the same long text.
    let file = fixture("many.h5");
    let symbols: Vec<_> = (0..file.len() - 4).filter(|at| file[*at..].starts_with(b"SNOD")).collect();
    let layers = symbols.iter().find(|at| file[**at + 6] > 1).unwrap();
    let first = file[layers + 8..layers + 24].to_vec();
    let mut same = file.clone();
    for at in symbols.into_iter().filter(|at| file[*at + 6] > 1) {
        let count = usize::from(u16::from_le_bytes([file[at + 6], file[at + 7]]));
        for number in 0..count {
            same[at + 8 + 40 * number..at + 24 + 40 * number].copy_from_slice(&first);
        }
    }
    let error = parsed(&same).unwrap_err();
    assert!(error.what.contains("occurs twice"), "{error}");
}

#[test]
fn groups_in_fractal_heaps_are_a_warning() {
    let index = parsed(&fixture("heap.h5")).unwrap();
    assert_eq!(index.warnings, ["not listed: the links of groups in fractal heaps: layers"]);
    assert_eq!(index.tensors.names().collect::<Vec<_>>(), ["layer/x"]);
}

#[test]
fn a_file_with_only_chunked_datasets_is_refused() {
    let mut file = fixture("compact.h5");
    for at in 0..file.len() - 10 {
        // A message of a layout, of version 3 and for data in the header.
        if file[at..].starts_with(&[8, 0]) && file[at + 5..].starts_with(&[0, 0, 0, 3, 0]) {
            file[at + 9] = 2;
        }
    }
    let error = parsed(&file).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    assert!(error.what.contains("is chunked"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_are_read_alike_in_any_pieces(
        which in 0..FIXTURES.len(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        step in 1u64..5000,
    ) {
        let mut file = fixture(FIXTURES[which]);
        for (at, byte) in &changes {
            let at = at.index(file.len());
            file[at] = *byte;
        }
        let (whole, pieces) = (parsed(&file), in_pieces(&file, step));
        prop_assert_eq!(whole.map_err(|e| e.kind), pieces.map_err(|e| e.kind));
    }
}
