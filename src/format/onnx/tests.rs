use super::detect::recognises;
use super::parse::parse;
use super::paths::MAX_DEPTH;
use crate::error::{ErrorKind, Result};
use crate::index::{Index, Parsed};
use crate::native::Reader;
use crate::window::{Stop, Window};
use proptest::prelude::*;
use prost::encoding::{WireType, encode_key, encode_varint};

/// A Protobuf message under construction.
#[derive(Default, Clone)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    pub(super) fn varint(mut self, number: u32, value: u64) -> Self {
        encode_key(number, WireType::Varint, &mut self.0);
        encode_varint(value, &mut self.0);
        self
    }

    pub(super) fn bytes(mut self, number: u32, bytes: impl AsRef<[u8]>) -> Self {
        encode_key(number, WireType::LengthDelimited, &mut self.0);
        encode_varint(bytes.as_ref().len() as u64, &mut self.0);
        self.0.extend(bytes.as_ref());
        self
    }

    pub(super) fn message(self, number: u32, message: Message) -> Self {
        self.bytes(number, message.0)
    }
}

pub(super) fn message() -> Message {
    Message::default()
}

pub(super) fn model(graph: Message) -> Vec<u8> {
    message().varint(1, 10).bytes(2, "tests").message(8, message().varint(2, 21)).message(7, graph).0
}

pub(super) fn tensor(name: &str, data_type: u64, dims: &[u64]) -> Message {
    let dims = dims.iter().fold(message(), |message, dim| message.varint(1, *dim));
    dims.varint(2, data_type).bytes(8, name)
}

fn external(name: &str, location: &str, offset: &str, length: &str) -> Message {
    let entries = [("location", location), ("offset", offset), ("length", length)];
    let entry =
        |tensor: Message, (key, value): &(&str, &str)| tensor.message(13, message().bytes(1, key).bytes(2, value));
    entries.iter().filter(|(_, value)| !value.is_empty()).fold(tensor(name, 2, &[4]), entry).varint(14, 1)
}

fn parsed(file: &[u8]) -> Result<Parsed> {
    match parse(&Window::whole(file)) {
        Ok(parsed) => Ok(parsed),
        Err(Stop::Failed(error)) => Err(error),
        Err(stop) => panic!("a whole file needs more: {stop:?}"),
    }
}

fn index(file: &[u8]) -> Result<Index> {
    parsed(file).map(|parsed| match parsed {
        Parsed::File(index) => index,
        other => panic!("{other:?}"),
    })
}

fn names(index: &Index) -> Vec<&str> {
    index.tensors.names().collect()
}

/// An `If` node whose branch is a graph with one initializer.
fn branching(output: &str, then: Message) -> Message {
    let attribute = message().bytes(1, "then_branch").message(6, then);
    message().bytes(2, output).bytes(4, "If").message(5, attribute)
}

#[test]
fn lists_initializers_of_subgraphs_functions_and_training_under_their_paths() {
    let weight = |name: &str| tensor(name, 2, &[1]).bytes(9, [7]);
    let inner = message().message(5, weight("w"));
    let outer = message().message(1, branching("z", inner.clone())).message(5, weight("w"));
    let graphs = message().bytes(1, "graphs").message(11, inner.clone()).message(11, inner.clone());
    let node = message().message(5, graphs).bytes(2, "y");
    let graph = message().message(1, branching("x", outer)).message(1, node).message(5, weight("w"));
    let function = message().bytes(1, "f").message(7, branching("u", inner.clone())).bytes(10, "d");
    let training = message().message(2, inner);
    let file = message().varint(1, 10).message(7, graph).message(20, training).message(25, function).0;
    let expected = [
        "x/then_branch/z/then_branch/w",
        "x/then_branch/w",
        "y/graphs.0/w",
        "y/graphs.1/w",
        "w",
        "training_info.0.algorithm/w",
        "d.f/u/then_branch/w",
    ];
    assert_eq!(names(&index(&file).unwrap()), expected);
}

#[test]
fn reads_metadata_and_reports_what_is_not_listed() {
    let sparse = message().message(1, tensor("s", 1, &[1]).bytes(9, [0; 4])).varint(3, 5);
    let constant = message().bytes(1, "value").message(5, external("", "a", "", ""));
    let node = message().bytes(2, "c").message(5, constant);
    let graph = message().message(1, node).message(5, tensor("t", 8, &[1]).bytes(6, "a")).message(15, sparse);
    let mut file = model(graph);
    file.extend(message().varint(5, u64::MAX).message(14, message().bytes(1, "k").bytes(2, "v")).0);
    let index = index(&file).unwrap();
    assert_eq!(index.version, "10");
    let expected = serde_json::json!({
        "producer_name": "tests", "opset_import": { "": 21 }, "model_version": -1, "metadata_props": { "k": "v" },
    });
    assert_eq!(serde_json::Value::Object(index.metadata), expected);
    let [texts, sparse, attributes] = index.warnings.as_slice() else { panic!("{:?}", index.warnings) };
    assert!(texts.contains("\"t\"") && sparse.contains("\"s\"") && attributes.contains("\"c/value\""));
}

#[test]
fn reads_external_data_and_refuses_paths_outside_the_folder() {
    let graph = message().message(5, external("a", "./w.bin", "4", "4")).message(5, external("b", "w.bin", "", ""));
    let graph = graph.message(5, external("c", "v.bin", "0", "4")).message(5, external("tied", "w.bin", "4", ""));
    let file = model(graph);
    let files = |w: &[u8]| {
        vec![("m.onnx".to_owned(), file.clone()), ("w.bin".into(), w.to_vec()), ("v.bin".into(), vec![9; 4])]
    };
    let reader = Reader::from_bytes(files(b"01234567")).unwrap();
    let bytes = |name: &str| reader.tensor_slice(name).unwrap();
    assert_eq!([bytes("a"), bytes("b"), bytes("c"), bytes("tied")], [b"4567", b"0123", &[9; 4], b"4567"]);
    assert!(reader.verify(&()).is_ok());
    assert_eq!(Reader::from_bytes(files(b"0123456")).unwrap_err().kind, ErrorKind::Truncated);
    assert_eq!(Reader::from_bytes(files(b"")[..1].to_vec()).unwrap_err().kind, ErrorKind::NotFound);
    for location in ["../w.bin", "/w.bin", "https://h/w.bin", ""] {
        let file = model(message().message(5, external("a", location, "", "")));
        assert_eq!(parsed(&file).unwrap_err().kind, ErrorKind::Format, "{location}");
    }
    for (offset, length) in [("x", "4"), ("-1", "4"), ("0", "3"), ("18446744073709551615", "4")] {
        let file = model(message().message(5, external("a", "w.bin", offset, length)));
        assert_eq!(parsed(&file).unwrap_err().kind, ErrorKind::Format, "{offset} {length}");
    }
}

#[test]
fn refuses_elements_that_do_not_match_type_and_shape() {
    let refused = |kind: ErrorKind, tensor: Message| {
        let error = index(&model(message().message(5, tensor))).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    };
    use ErrorKind::{Format, Limit, Unsupported};
    refused(Format, tensor("a", 1, &[2]).bytes(9, [0; 7]));
    refused(Format, tensor("a", 1, &[2]).bytes(4, [0; 4]));
    refused(Format, tensor("a", 1, &[2]).bytes(5, [0; 2]));
    refused(Format, tensor("a", 6, &[2]).bytes(5, [0; 1]));
    refused(Format, tensor("a", 6, &[2]));
    refused(Format, tensor("a", 1, &[u64::MAX]).bytes(9, [0; 4]));
    refused(Format, tensor("a", 1, &[1 << 62, 1 << 62]).bytes(9, [0; 4]));
    refused(Limit, tensor("a", 1, &[1; 65]).bytes(9, [0; 4]));
    refused(Limit, tensor(&"a".repeat(1 << 17), 1, &[]).bytes(9, [0; 4]));
    refused(Unsupported, tensor("a", 6, &[2]).varint(5, 1).varint(5, 2));
    refused(Unsupported, tensor("a", 1, &[1]).bytes(9, [0; 4]).message(3, message()));
    let twice = message().message(5, tensor("a", 2, &[0])).message(5, tensor("a", 2, &[0]));
    assert_eq!(index(&model(twice)).unwrap_err().kind, Format);
}

#[test]
fn subgraphs_are_nested_to_a_limited_depth() {
    let nested = |depth: usize| {
        let inner = message().message(5, tensor("w", 2, &[1]).bytes(9, [7]));
        index(&model((0..depth).fold(inner, |graph, _| message().message(1, branching("x", graph)))))
    };
    assert_eq!(nested(MAX_DEPTH).unwrap().tensors.len(), 1);
    assert_eq!(nested(MAX_DEPTH + 1).unwrap_err().kind, ErrorKind::Limit);
    assert_eq!(nested(1000).unwrap_err().kind, ErrorKind::Limit);
}

#[test]
fn steps_over_the_weights() {
    let weights = (0..20).fold(message(), |graph, at| {
        graph.message(5, tensor(&format!("w{at}"), 2, &[1 << 20]).bytes(9, vec![1; 1 << 20]))
    });
    let file = model(weights);
    let mut window = Window::new(Some(file.len() as u64));
    let mut read = 0;
    let index = loop {
        match parse(&window) {
            Ok(Parsed::File(index)) => break index,
            Err(Stop::Need(range)) => {
                read += range.end - range.start;
                window.insert(range.start, &file[range.start as usize..range.end as usize]);
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(index.tensors.len(), 20);
    assert!(read < 20 * 200, "{read} bytes were read");
}

fn head(file: &[u8]) -> &[u8] {
    &file[..file.len().min(16)]
}

#[test]
fn detects_models_and_nothing_else() {
    let graph = || message().message(5, tensor("a", 2, &[0]));
    assert!(recognises(head(&model(graph()))));
    assert!(recognises(head(&message().varint(1, 3).message(7, graph()).0)));
    assert!(recognises(&message().varint(1, 13).message(8, message().bytes(1, "ai.onnx")).0));
    assert!(recognises(head(&message().varint(1, 7).bytes(2, "").bytes(3, "").varint(5, 1).message(7, graph()).0)));
    for other in [&b""[..], b"\x08", b"\x08\x07", b"{\"a\":1}", b"\x08\x07\x12\x00\x00\x00\x00\x00{\"a\":{\"d"] {
        assert!(!recognises(other), "{other:?}");
    }
    for length in 8u64..1 << 17 {
        let head = [&length.to_le_bytes(), &b"{\"a\": {}"[..]].concat();
        assert!(!recognises(&head), "a SafeTensors header of {length} bytes");
    }
}

proptest! {
    #[test]
    fn random_bytes_are_not_detected_or_refused(tail in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parsed(&[&[8, 7, 0x12, 3], &tail[..]].concat());
        prop_assert!(!recognises(&[&[0], &tail[..]].concat()));
    }
}

/// A model with many initializers between which weights lie.
fn with_initializers(count: usize) -> Vec<u8> {
    let names: Vec<String> = (0..count).map(|at| format!("t{at}")).collect();
    let add = |graph: Message, name: &String| graph.message(5, tensor(name, 2, &[500]).bytes(9, [7; 500]));
    model(names.iter().fold(message(), add))
}

/// Parses the file with no more bytes than the parser needs. Returns the number of reads.
fn reads(file: &[u8]) -> u64 {
    let mut window = Window::new(Some(file.len() as u64));
    loop {
        match parse(&window) {
            Ok(_) => return window.reads.get(),
            Err(Stop::Need(range)) => window.insert(range.start, &file[range.start as usize..range.end as usize]),
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

#[test]
fn a_stopped_parse_continues_with_the_next_initializer() {
    let (few, many) = (reads(&with_initializers(50)), reads(&with_initializers(500)));
    assert!(many < 11 * few, "{few} reads of 50 tensors, {many} of 500");
}

#[test]
fn a_parse_that_stops_everywhere_has_the_same_result() {
    let sparse = message().message(1, tensor("s", 1, &[1]).bytes(9, [0; 4])).varint(3, 5);
    let inner = message().message(5, tensor("w", 2, &[1]).bytes(9, [7]));
    let graphs = message().bytes(1, "graphs").message(11, inner.clone()).message(11, inner.clone());
    let node = message().message(5, graphs).bytes(2, "y");
    let graph = message().message(1, branching("x", inner)).message(1, node).message(15, sparse);
    let mut file = model(graph.message(5, tensor("t", 8, &[1]).bytes(6, "a")));
    file.extend(message().varint(5, 3).message(14, message().bytes(1, "k").bytes(2, "v")).0);
    let mut window = Window::new(Some(file.len() as u64));
    let stopped = loop {
        match parse(&window) {
            Ok(parsed) => break parsed,
            Err(Stop::Need(range)) => {
                let missing = window.missing(&range);
                window.insert(missing.start, &file[missing.start as usize..=missing.start as usize]);
            }
            Err(stop) => panic!("{stop:?}"),
        }
    };
    assert_eq!(format!("{stopped:?}"), format!("{:?}", parsed(&file).unwrap()));
}

#[test]
fn external_data_of_length_0_has_the_length_of_its_tensor() {
    let file = model(message().message(5, external("a", "d", "8", "0")));
    let Parsed::WithData(_, data) = parsed(&file).unwrap() else { panic!("external data") };
    assert_eq!(data[0].tensors[0].components[0].range, 8..12);
}

#[test]
fn detects_models_that_do_not_begin_with_the_version() {
    let graph = message().bytes(2, "g").message(5, tensor("a", 2, &[1]).bytes(9, [7]));
    let producer = |name: &str| message().bytes(2, name);
    for file in [
        message().message(7, graph.clone()).varint(1, 10),
        message().message(8, message().varint(2, 21)).varint(1, 10).message(7, graph.clone()),
        producer("pytorch").varint(1, 10).message(7, graph.clone()),
        producer("a producer with a long name").varint(1, 10).message(7, graph.clone()),
        message().varint(1, 10).bytes(2, "a\u{1}b\u{1b}[0m").message(7, graph.clone()),
        message().varint(1, 10).bytes(2, "\u{1}").message(7, graph.clone()),
        message().varint(1, 10).bytes(2, "a name with \0 and \u{7f}, longer than what is seen").message(7, graph),
    ] {
        assert!(recognises(&file.0[..16.min(file.0.len())]), "{:?}", &file.0[..16]);
    }
}

#[test]
fn other_files_are_not_models() {
    let core_ml = message().varint(1, 4).message(2, message().message(1, message().bytes(1, "input").bytes(3, [8, 1])));
    let saved_model = message().varint(1, 1).message(2, message().message(1, message().bytes(1, "serve")));
    for file in [
        &core_ml.0[..12],
        &saved_model.0[..],
        b"BZh91AY&SY\x93\x9b\x01\x02\x03\x04",
        b"\"a text in JSON\"",
        b"2026-11-26 07:00",
        b"rows: 1, columns",
        b"\x12\x20\0\0\0\0\0\0{\"a\":{\"d",
        b":begin a record\n",
        b"(a list of words",
    ] {
        assert!(!recognises(file), "{:?}", file.escape_ascii().to_string());
    }
}
