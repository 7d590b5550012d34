use super::parse::is_manifest;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::format;
use crate::index::{DataFile, Index, Parsed};
use crate::native::Reader;
use crate::window::{Stop, Window};
use serde_json::{Value, json};

fn parsed(document: &Value) -> Result<(Index, Vec<DataFile>)> {
    match format::parse(&Window::whole(document.to_string().as_bytes())) {
        Ok(Parsed::WithData(index, data)) => Ok((index, data)),
        Ok(other) => panic!("{other:?}"),
        Err(Stop::Failed(error)) => Err(error),
        Err(stop) => panic!("a whole file needs more: {stop:?}"),
    }
}

fn group(paths: &[&str], weights: Value) -> Value {
    json!({ "paths": paths, "weights": weights })
}

fn weight(name: &str, shape: &[u64], dtype: &str) -> Value {
    json!({ "name": name, "shape": shape, "dtype": dtype })
}

fn one(weight: Value) -> Value {
    json!({ "weightsManifest": [group(&["a.bin"], json!([weight]))] })
}

fn refused(document: &Value) -> Error {
    parsed(document).unwrap_err()
}

#[test]
fn weights_follow_each_other_in_the_files_of_their_group() {
    let document = json!({ "weightsManifest": [
        group(
            &["a", "b"],
            json!([weight("x", &[3], "int32"), weight("y", &[], "bool"), weight("z", &[2], "complex64")]),
        ),
        group(&["c"], json!([weight("w", &[2, 0], "float32"), weight("v", &[1], "float32")])),
    ] });
    let (_, data) = parsed(&document).unwrap();
    let ranges = |file: &DataFile| file.tensors.iter().map(|t| t.components[0].range.clone()).collect::<Vec<_>>();
    assert_eq!(ranges(&data[0]), [0..12, 12..13, 13..29]);
    assert_eq!(ranges(&data[1]), [0..0, 0..4]);
    assert_eq!(data[0].parts.len(), 2);
}

#[test]
fn a_weight_in_several_files_is_read_as_one() {
    let document = one(weight("x", &[10], "int32"));
    let document = document.to_string().replace(r#"["a.bin"]"#, r#"["a", "b", "empty", "c"]"#);
    let bytes: Vec<u8> = (0..40).collect();
    let files = |cut: [usize; 2]| {
        let part = |name: &str, range: std::ops::Range<usize>| (name.to_owned(), bytes[range].to_vec());
        let document = ("model.json".to_owned(), document.clone().into_bytes());
        vec![document, part("a", 0..cut[0]), part("b", cut[0]..cut[1]), part("empty", 0..0), part("c", cut[1]..40)]
    };
    for cut in [[1, 2], [13, 29], [0, 40], [39, 39]] {
        let reader = Reader::from_bytes(files(cut)).unwrap();
        assert_eq!(reader.load_tensor("x").unwrap().components[0].buffer, bytes, "{cut:?}");
        assert_eq!(reader.tensor_slice("x").unwrap(), bytes, "{cut:?}");
        reader.verify(&()).unwrap();
    }
    let mut short = files([1, 2]);
    short[4].1.pop();
    assert_eq!(Reader::from_bytes(short).unwrap_err().kind, ErrorKind::Truncated);
}

#[test]
fn quantized_weights_have_their_stored_dtype_and_the_parameters() {
    let quantized = |dtype: &str, quantization: Value| {
        let document = one(json!({ "name": "w", "shape": [4], "dtype": dtype, "quantization": quantization }));
        parsed(&document).map(|(_, data)| {
            let tensor = &data[0].tensors[0];
            (tensor.dtype.clone(), tensor.attributes.get("quantization").cloned())
        })
    };
    let (dtype, stated) = quantized("float32", json!({ "dtype": "uint8", "scale": 0.1, "min": -1 })).unwrap();
    let expected = json!({ "method": "tfjs", "dtype": "uint8", "scale": 0.1, "min": -1, "to": "float32" });
    assert_eq!((dtype, stated), (Dtype::U8, Some(expected)));
    assert_eq!(quantized("float32", json!({ "dtype": "float16" })).unwrap(), (Dtype::F16, None));
    let identity = json!({ "dtype": "uint16", "scale": 1, "min": 0.0 });
    assert_eq!(quantized("int32", identity).unwrap(), (Dtype::U16, None));
    for (dtype, quantization, kind) in [
        ("float32", json!({ "dtype": "uint8", "scale": 0.1 }), ErrorKind::Format),
        ("float32", json!({ "dtype": "uint8", "scale": "1", "min": 0 }), ErrorKind::Format),
        ("int32", json!({ "dtype": "float16" }), ErrorKind::Unsupported),
        ("bool", json!({ "dtype": "uint8", "scale": 1, "min": 0 }), ErrorKind::Unsupported),
        ("float32", json!({ "dtype": "uint4", "scale": 1, "min": 0 }), ErrorKind::Unsupported),
        ("float32", json!(3), ErrorKind::Unsupported),
    ] {
        assert_eq!(quantized(dtype, quantization.clone()).unwrap_err().kind, kind, "{dtype} {quantization}");
    }
}

#[test]
fn texts_and_the_weights_behind_them_are_a_warning() {
    let weights = json!([weight("a", &[1], "int32"), weight("t", &[2], "string"), weight("b", &[1], "int32")]);
    let (index, data) = parsed(&json!({ "weightsManifest": [group(&["x"], weights)] })).unwrap();
    assert_eq!(data[0].tensors.len(), 1);
    assert!(index.warnings[0].starts_with("not listed: 2 weights") && index.warnings[0].ends_with("\"t\""));
}

#[test]
fn other_keys_are_the_metadata() {
    let document = json!({ "format": "graph-model", "modelTopology": { "node": [] }, "weightsManifest": [] });
    let (index, data) = parsed(&document).unwrap();
    assert_eq!(Value::from(index.metadata), json!({ "format": "graph-model", "modelTopology": { "node": [] } }));
    assert!(data.is_empty() && index.tensors.is_empty());
    assert!(!is_manifest(json!({ "modelTopology": {} }).as_object().unwrap()));
}

#[test]
fn refuses_invalid_documents() {
    let kind = |document: Value| refused(&document).kind;
    for weights in [json!({}), json!(null), json!("x"), json!([{}]), json!([3]), json!([{ "paths": ["a"] }])] {
        assert_eq!(kind(json!({ "weightsManifest": weights })), ErrorKind::Format, "{weights}");
    }
    assert_eq!(kind(one(weight("w", &[1], "float64"))), ErrorKind::Unsupported);
    for shape in [json!([-1]), json!([1.5]), json!(3), json!([u64::MAX, 2]), json!([1u64 << 62])] {
        let document = one(json!({ "name": "w", "shape": shape, "dtype": "float32" }));
        assert_eq!(kind(document), ErrorKind::Format, "{shape}");
    }
    let huge = json!([weight("a", &[1 << 60], "complex64"), weight("b", &[1 << 60], "complex64")]);
    assert_eq!(kind(json!({ "weightsManifest": [group(&["x"], huge)] })), ErrorKind::Format);
    assert_eq!(kind(one(json!({ "shape": [1], "dtype": "bool" }))), ErrorKind::Format);
    assert_eq!(kind(one(json!({ "name": "w", "shape": vec![1; 65], "dtype": "bool" }))), ErrorKind::Format);
}

#[test]
fn refuses_files_outside_the_folder_twice_or_too_many() {
    let with =
        |paths: &[&str]| refused(&json!({ "weightsManifest": [group(paths, json!([weight("w", &[9], "bool")]))] }));
    for path in ["../a", "/a", "https://h/a", "a\\b", "a/../../b"] {
        assert_eq!(with(&[path]).kind, ErrorKind::Format, "{path}");
    }
    assert!(with(&["a", "./a"]).what.contains("twice"));
    assert!(with(&[]).what.contains("no files"));
    let names: Vec<_> = (0..1025).map(|number| number.to_string()).collect();
    assert_eq!(with(&names.iter().map(String::as_str).collect::<Vec<_>>()).kind, ErrorKind::Limit);
}

#[test]
fn refuses_a_name_in_two_groups() {
    let document = json!({ "weightsManifest": [
        group(&["a"], json!([weight("w", &[1], "bool")])), group(&["b"], json!([weight("w", &[1], "bool")])),
    ] });
    let files = [("model.json", document.to_string().into_bytes()), ("a", vec![1]), ("b", vec![0])];
    let files = files.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec();
    assert!(Reader::from_bytes(files).unwrap_err().what.contains("two files"));
}

#[test]
fn many_weights_stay_within_the_budget_of_memory() {
    let list = format!("[{}]", vec![r#"{"name":"","shape":[],"dtype":"bool"}"#; 500_000].join(","));
    let document = format!(r#"{{"weightsManifest":[{{"paths":["a"],"weights":{list}}}]}}"#);
    let outcome = format::parse(&Window::whole(document.as_bytes()));
    assert!(matches!(outcome, Err(Stop::Failed(error)) if error.kind == ErrorKind::Limit));
}

#[test]
fn weights_of_the_optimizer_stay_so_when_written() {
    let weights = json!([
        { "name": "kernel", "shape": [2], "dtype": "float32", "group": "model" },
        { "name": "iter", "shape": [], "dtype": "int32", "group": "optimizer" },
    ]);
    let document = json!({ "weightsManifest": [group(&["a.bin"], weights)] });
    let files = vec![("model.json".to_owned(), document.to_string().into_bytes()), ("a.bin".to_owned(), vec![7; 12])];
    let reader = Reader::from_bytes(files).unwrap();
    let groups = |reader: &Reader| {
        let group = |name: &str| reader.tensor(name).unwrap().attributes.get("group").cloned();
        ["kernel", "iter"].map(group)
    };
    assert_eq!(groups(&reader), [None, Some(json!("optimizer"))]);
    let folder = tempfile::tempdir().unwrap();
    let mut options = crate::write::ConvertOptions::default();
    for name in ["model.zt", "model.json"] {
        let out = folder.path().join(name);
        crate::write::convert_with(&reader, &out, &options, &()).unwrap();
        assert_eq!(groups(&Reader::open(&out).unwrap()), groups(&reader), "{name}");
        options = crate::write::ConvertOptions::default().format(&super::FORMAT);
    }
}
