use super::parse::parse;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Index, Parsed};
use crate::window::{Stop, Window};
use proptest::prelude::*;
use serde_json::json;
use std::path::Path;

const FIXTURES: [&str; 6] =
    ["weights.tflite", "quantized.tflite", "subgraphs.tflite", "behind.tflite", "model.litertlm", "model.task"];

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tflite").join(name)).unwrap()
}

/// Reads a file in a window that has only the bytes that the parser asked for, and counts the requests.
fn in_pieces(file: &[u8], step: u64) -> (Result<Index>, usize) {
    let length = file.len() as u64;
    let mut window = Window::new(Some(length));
    for requests in 0.. {
        let range = match parse(&window) {
            Ok(Parsed::File(index)) => return (Ok(index), requests),
            Err(Stop::Failed(error)) => return (Err(error), requests),
            Err(Stop::Need(range)) => range,
            other => panic!("{other:?}"),
        };
        assert!(range.end <= length && window.get(range.clone()).is_err());
        let end = range.end.max(range.start + step).min(length);
        window.insert(range.start, &file[range.start as usize..end as usize]);
    }
    unreachable!()
}

fn parsed(file: &[u8]) -> Result<Index> {
    match parse(&Window::whole(file)) {
        Ok(Parsed::File(index)) => Ok(index),
        Err(Stop::Failed(error)) => Err(error),
        other => panic!("a whole file needs more: {other:?}"),
    }
}

#[test]
fn files_are_read_alike_in_any_pieces() {
    for name in FIXTURES {
        let file = fixture(name);
        let whole = parsed(&file).unwrap();
        for step in [1, 100, 1 << 16] {
            assert_eq!(in_pieces(&file, step).0.unwrap(), whole, "{name}");
        }
    }
}

#[test]
fn files_cut_anywhere_are_refused_or_lack_nothing() {
    for name in FIXTURES {
        let file = fixture(name);
        let whole = parsed(&file).unwrap();
        for end in (0..file.len()).step_by(if file.len() > 10_000 { 97 } else { 1 }) {
            match parsed(&file[..end]) {
                Ok(index) => assert_eq!(index, whole, "{name} {end}"),
                Err(error) => {
                    let kinds = [ErrorKind::Truncated, ErrorKind::Format];
                    assert!(kinds.contains(&error.kind), "{name} {end}: {error}");
                }
            }
        }
    }
}

#[test]
fn quantized_tensors_have_their_parameters() {
    let index = parsed(&fixture("quantized.tflite")).unwrap();
    let of = |name: &str| {
        let tensor = index.tensors.iter().find(|tensor| tensor.name == name).unwrap();
        tensor.attributes["quantization"].clone()
    };
    let channels = [0.1f32, 0.25, 1.5e-5, 3.0].map(f64::from);
    let expected = json!({ "method": "tflite", "scale": channels, "zero_point": [0], "quantized_dimension": 0 });
    assert_eq!(of("channels"), expected);
    let expected = json!({ "method": "tflite", "scale": [0.0625], "zero_point": [127], "quantized_dimension": 0 });
    assert_eq!(of("tensor"), expected);
    let blocks = json!({ "scales_tensor": 5, "zero_points_tensor": -1, "block_size": 32 });
    assert_eq!(of("blocks"), json!({ "method": "tflite", "blockwise": blocks, "quantized_dimension": 0 }));
}

#[test]
fn texts_and_tensors_without_bytes_are_not_listed() {
    let index = parsed(&fixture("weights.tflite")).unwrap();
    assert!(["input", "output", "texts"].iter().all(|name| index.tensors.names().all(|listed| listed != *name)));
    assert_eq!(index.warnings, ["not listed: 1 tensors of texts"]);
}

#[test]
fn sections_of_a_litertlm_are_described() {
    let index = parsed(&fixture("model.litertlm")).unwrap();
    assert_eq!(index.metadata["sections"][1]["model_type"], "tf_lite_embedder");
    assert!(index.metadata["litertlm_version"].as_str().unwrap().starts_with("1."));
}

/// Objects of a FlatBuffer at chosen offsets.
struct Bytes(Vec<u8>);

impl Bytes {
    fn new() -> Self {
        let mut bytes = Bytes(Vec::new());
        bytes.put(4, b"TFL3");
        bytes
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0.resize(self.0.len().max(at + bytes.len()), 0);
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// An offset to another object.
    fn link(&mut self, at: usize, to: usize) {
        self.put(at, &((to - at) as u32).to_le_bytes());
    }

    /// A table at `at`, whose fields of 4 bytes follow it, and its vtable 64 bytes before it.
    fn table(&mut self, at: usize, fields: &[u16]) {
        self.put(at, &64i32.to_le_bytes());
        let count = fields.iter().max().map_or(0, |last| last + 1);
        self.put(at - 64, &(4 + 2 * count).to_le_bytes());
        for (number, field) in fields.iter().enumerate() {
            self.put(at - 64 + 4 + 2 * usize::from(*field), &(4 + 4 * number as u16).to_le_bytes());
        }
    }

    fn vector(&mut self, at: usize, count: u32, links: impl Iterator<Item = usize>) {
        self.put(at, &count.to_le_bytes());
        links.enumerate().for_each(|(number, to)| self.link(at + 4 + 4 * number, to));
    }
}

/// A model whose vector of subgraphs has one of them `subgraphs` times, and whose vector of tensors one `tensors`
/// times.
fn repeated(subgraphs: usize, tensors: usize, buffer: u32) -> Vec<u8> {
    let mut bytes = Bytes::new();
    let (model, buffers, table, data, list) = (200, 300, 400, 500, 600);
    bytes.link(0, model);
    bytes.table(model, &[2, 4]);
    bytes.link(model + 4, list);
    bytes.link(model + 8, buffers);
    bytes.vector(buffers, 2, std::iter::repeat_n(table, 2));
    bytes.table(table, &[0]);
    bytes.link(table + 4, data);
    bytes.put(data, &[4, 0, 0, 0, 1, 2, 3, 4]);
    let subgraph = list + 4 + 4 * subgraphs + 100;
    bytes.vector(list, subgraphs as u32, std::iter::repeat_n(subgraph, subgraphs));
    bytes.table(subgraph, &[0]);
    let list = subgraph + 100;
    bytes.link(subgraph + 4, list);
    let tensor = list + 4 + 4 * tensors + 100;
    bytes.vector(list, tensors as u32, std::iter::repeat_n(tensor, tensors));
    bytes.table(tensor, &[2, 3]);
    bytes.put(tensor + 4, &buffer.to_le_bytes());
    bytes.link(tensor + 8, tensor + 100);
    bytes.put(tensor + 100, &[1, 0, 0, 0, b'w']);
    bytes.0
}

#[test]
fn equal_names_are_distinguished() {
    let index = parsed(&repeated(2, 2, 1)).unwrap();
    let mut names: Vec<_> = index.tensors.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["subgraph_0/w", "subgraph_1/w", "subgraph_1/w#1", "w"]);
}

#[test]
fn subgraphs_that_are_all_the_same_one_are_refused() {
    let kind = |file: &[u8]| parsed(file).unwrap_err().kind;
    assert_eq!(kind(&repeated(5000, 1, 0)), ErrorKind::Limit);
    assert_eq!(kind(&repeated(4000, 4000, 0)), ErrorKind::Limit);
    assert_eq!(kind(&repeated(4000, 4000, 1)), ErrorKind::Limit);
}

#[test]
fn refuses_a_buffer_that_the_model_does_not_have() {
    let error = parsed(&repeated(1, 1, 9)).unwrap_err();
    assert!(error.what.contains("buffer 9, but the model has 2"), "{error}");
}

#[test]
fn refuses_invalid_sections() {
    let file = fixture("model.litertlm");
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = file.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        parsed(&changed).map(|_| ())
    };
    let kind = |outcome: Result<()>| outcome.map_err(|error: Error| error.kind);
    assert_eq!(kind(with(8, &[2])), Err(ErrorKind::Unsupported));
    assert_eq!(kind(with(24, &[31, 0])), Err(ErrorKind::Format));
    assert_eq!(kind(with(24, &[0, 0, 255])), Err(ErrorKind::Format));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_are_read_alike_in_any_pieces(
        which in 0..FIXTURES.len(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        step in 1u64..500,
    ) {
        let mut file = fixture(FIXTURES[which]);
        for (at, byte) in &changes {
            let at = at.index(file.len().min(1100));
            file[at] = *byte;
        }
        let whole = parsed(&file);
        let (pieces, _) = in_pieces(&file, step);
        prop_assert_eq!(whole.map_err(|e| e.kind), pieces.map_err(|e| e.kind));
    }
}
