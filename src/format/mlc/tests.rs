use crate::dtype::Dtype;
use crate::error::{ErrorKind, Result};
use crate::format;
use crate::index::{DataFile, Parsed};
use crate::window::{Stop, Window};
use serde_json::{Value, json};

fn parsed(document: &Value) -> Result<Vec<DataFile>> {
    match format::parse(&Window::whole(document.to_string().as_bytes())) {
        Ok(Parsed::WithData(_, data)) => Ok(data),
        Ok(other) => panic!("{other:?}"),
        Err(Stop::Failed(error)) => Err(error),
        Err(stop) => panic!("a whole file needs more: {stop:?}"),
    }
}

fn parameter(dtype: &str, format: &str, shape: &[u64], start: u64, byte_length: u64) -> Value {
    json!({ "name": "w", "shape": shape, "dtype": dtype, "format": format, "byteOffset": start, "nbytes": byte_length })
}

fn file(path: &str, byte_length: u64, records: Value) -> Value {
    json!({ "records": [{ "dataPath": path, "format": "raw-shard", "nbytes": byte_length, "records": records }] })
}

#[test]
fn floats_that_are_stored_as_bf16_are_bf16() {
    let dtype = |parameter| parsed(&file("a", 100, json!([parameter]))).map(|data| data[0].tensors[0].dtype.clone());
    assert_eq!(dtype(parameter("float32", "f32-to-bf16", &[3], 4, 6)).unwrap(), Dtype::BF16);
    assert_eq!(dtype(parameter("float32", "raw", &[3], 4, 12)).unwrap(), Dtype::F32);
    assert_eq!(dtype(parameter("float16", "f32-to-bf16", &[3], 4, 6)).unwrap(), Dtype::F16);
    assert_eq!(dtype(parameter("int4x8", "raw", &[3], 4, 7)).unwrap(), Dtype::Other("int4x8".into()));
    assert_eq!(dtype(parameter("float32", "f32-to-bf16", &[3], 4, 12)).unwrap_err().kind, ErrorKind::Format);
    assert_eq!(dtype(parameter("float32", "zip", &[3], 4, 12)).unwrap_err().kind, ErrorKind::Unsupported);
}

#[test]
fn refuses_parameters_outside_their_file() {
    let kind = |start: u64| parsed(&file("a", 12, json!([parameter("float32", "raw", &[3], start, 12)])));
    assert!(kind(0).is_ok());
    for start in [1, 12, u64::MAX] {
        assert_eq!(kind(start).unwrap_err().kind, ErrorKind::Format, "{start}");
    }
}

#[test]
fn refuses_invalid_documents() {
    let good = parameter("bool", "raw", &[1], 0, 1);
    for (path, records) in [
        ("../a", json!([good])),
        ("https://h/a", json!([])),
        ("a", json!({})),
        ("a", json!([{}])),
        ("a", json!([3])),
        ("a", json!([{ "name": "w", "dtype": "bool", "shape": [u64::MAX, 9], "byteOffset": 0, "nbytes": 1 }])),
        ("a", json!([{ "name": "w", "dtype": "bool", "shape": vec![1; 65], "byteOffset": 0, "nbytes": 1 }])),
    ] {
        assert_eq!(parsed(&file(path, 9, records.clone())).unwrap_err().kind, ErrorKind::Format, "{path} {records}");
    }
    let shard = |path: &str| json!({ "dataPath": path, "nbytes": 0, "records": [] });
    assert!(parsed(&json!({ "records": [shard("a"), shard("./a")] })).unwrap_err().what.contains("twice"));
    let many: Vec<_> = (0..1025).map(|number| shard(&number.to_string())).collect();
    assert_eq!(parsed(&json!({ "records": many })).unwrap_err().kind, ErrorKind::Limit);
    assert_eq!(parsed(&json!({ "records": [{ "dataPath": "a" }] })).unwrap_err().kind, ErrorKind::Format);
    let zipped = json!({ "dataPath": "a", "format": "zip", "nbytes": 0, "records": [] });
    assert_eq!(parsed(&json!({ "records": [zipped] })).unwrap_err().kind, ErrorKind::Unsupported);
}
