use crate::format::tfjs::FORMAT;
use crate::native::Reader;
use crate::write::{ConvertOptions, convert_with as convert};
use serde_json::{Value, json};
use std::fs;

/// A SafeTensors file with these tensors: name, dtype, shape, length.
fn model(tensors: &[(&str, &str, &[u64], usize)]) -> Reader {
    let mut end = 0;
    let mut header = serde_json::Map::from_iter([("__metadata__".to_owned(), json!({ "weightsManifest": "mine" }))]);
    for (name, dtype, shape, length) in tensors {
        header
            .insert((*name).to_owned(), json!({ "dtype": dtype, "shape": shape, "data_offsets": [end, end + length] }));
        end += length;
    }
    let header = Value::from(header).to_string();
    let data = (0..end).map(|at| at as u8);
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat().into_iter().chain(data).collect();
    Reader::from_bytes(vec![("m.safetensors".to_owned(), bytes)]).unwrap()
}

#[test]
fn files_have_at_most_4_mib_unless_one_weight_is_larger() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("model.json");
    let mib = 1 << 20;
    let input = model(&[
        ("a", "F32", &[1 << 19], 2 * mib),
        ("b", "F32", &[1 << 19], 2 * mib),
        ("c", "U8", &[5 << 20], 5 * mib),
    ]);
    let options = ConvertOptions::default().format(&FORMAT).allow_loss(true);
    convert(&input, &out, &options, &()).unwrap();
    let length = |name: &str| fs::metadata(folder.path().join(name)).unwrap().len();
    assert_eq!((length("model-00001-of-00002.bin"), length("model-00002-of-00002.bin")), (4 << 20, 5 << 20));
    let written = Reader::open(&out).unwrap();
    for tensor in input.tensors() {
        assert!(input.tensor_slice(&tensor.name).unwrap() == written.tensor_slice(&tensor.name).unwrap());
    }
}

#[test]
fn weights_are_described_as_tensorflow_js_decodes_them() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("model.json");
    let input = model(&[("f16", "F16", &[2], 4), ("u8", "U8", &[3], 3), ("bool", "BOOL", &[0], 0)]);
    let refused = convert(&input, &out, &ConvertOptions::default().format(&FORMAT), &()).unwrap_err();
    assert!(refused.what.contains("`weightsManifest`"), "{refused}");
    let options = ConvertOptions::default().format(&FORMAT).allow_loss(true);
    convert(&input, &out, &options, &()).unwrap();
    let document: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    let weights = document["weightsManifest"][0]["weights"].as_array().unwrap();
    let described = |name: &str| weights.iter().find(|weight| weight["name"] == name).unwrap().clone();
    assert_eq!(
        described("f16"),
        json!({ "name": "f16", "shape": [2], "dtype": "float32",
            "quantization": { "dtype": "float16", "original_dtype": "float32" } })
    );
    assert_eq!(
        described("u8"),
        json!({ "name": "u8", "shape": [3], "dtype": "int32",
            "quantization": { "dtype": "uint8", "scale": 1, "min": 0, "original_dtype": "int32" } })
    );
    assert_eq!(described("bool"), json!({ "name": "bool", "shape": [0], "dtype": "bool" }));
}
