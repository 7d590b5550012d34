//! Tests of the SafeTensors writer.

use crate::ErrorKind;
use crate::format::safetensors;
use crate::testing::model::{Folder, content, noise, safetensors_file, varied};
use crate::write::{Compression, ConvertOptions, DigestAlgorithm};
use serde_json::{Value, json};
use std::fs;

fn options() -> ConvertOptions {
    ConvertOptions { format: Some(&safetensors::FORMAT), ..ConvertOptions::default() }
}

#[test]
fn tensors_keep_their_order_and_the_data_is_aligned() {
    let folder = Folder::new();
    let tensors = [
        ("z.bytes", "U8", &[3][..], noise(1, 3)),
        ("b.half", "F16", &[1][..], noise(2, 2)),
        ("z.double", "F64", &[1][..], noise(3, 8)),
        ("a.half", "F16", &[1][..], noise(4, 2)),
    ];
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    folder.convert("m.safetensors", "out.safetensors", &options().alignment(Some(64))).unwrap();
    let reader = folder.open("out.safetensors");
    let names: Vec<_> = reader.tensors().iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["z.bytes", "b.half", "z.double", "a.half"]);
    assert_eq!(reader.tensors()[0].first_byte() % 64, 0);
}

#[test]
fn without_metadata_the_header_is_compact_json_of_the_tensors() {
    let folder = Folder::new();
    let tensors = [("q\"", "U8", &[3][..], noise(1, 3)), ("scalar", "F32", &[][..], noise(2, 4))];
    folder.write("m.safetensors", &safetensors_file(json!({ "format": "pt" }), &tensors));
    folder.convert("m.safetensors", "out.safetensors", &options().omit_metadata(true)).unwrap();
    let file = fs::read(folder.path("out.safetensors")).unwrap();
    let header = r#"{"q\"":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"#.to_owned()
        + r#""scalar":{"dtype":"F32","shape":[],"data_offsets":[3,7]}}"#;
    let padded = (8 + header.len()).next_multiple_of(8) - 8;
    assert_eq!(file[..8], (padded as u64).to_le_bytes());
    assert_eq!(file[8..8 + padded], *format!("{header:padded$}").as_bytes());
    assert_eq!(file[8 + padded..], [noise(1, 3), noise(2, 4)].concat());
}

#[test]
fn dtypes_that_the_format_does_not_have_become_bytes_without_metadata() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({}), &[("odd", "X7", &[2][..], noise(1, 5))]));
    let error = folder.convert("m.safetensors", "out.safetensors", &options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    folder.convert("m.safetensors", "out.safetensors", &options().allow_loss(true)).unwrap();
    assert!(folder.open("out.safetensors").tensors().is_empty());
    folder.convert("m.safetensors", "out.safetensors", &options().omit_metadata(true)).unwrap();
    let reader = folder.open("out.safetensors");
    assert_eq!((reader.tensors()[0].dtype.name(), &*reader.tensors()[0].shape), ("U8", &[5][..]));
    let both = options().omit_metadata(true).metadata(json!({ "a": 1 }).as_object().unwrap().clone());
    let error = folder.convert("m.safetensors", "out.safetensors", &both).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
}

#[test]
fn metadata_that_is_not_text_becomes_json() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({ "format": "pt" }), &[]));
    let metadata = json!({ "n_layer": 6, "format": "np", "labels": ["a", "b"] }).as_object().unwrap().clone();
    folder.convert("m.safetensors", "out.safetensors", &options().metadata(metadata)).unwrap();
    let written = folder.open("out.safetensors").metadata().metadata.clone();
    let record = r#"{"format":"safetensors","json":["n_layer","labels"]}"#;
    let texts = json!({ "n_layer": "6", "format": "np", "labels": r#"["a","b"]"#, "weightstream.source": record });
    assert_eq!(Value::Object(written), texts);
}

#[test]
fn several_files_have_the_index_that_other_tools_expect() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    let converted =
        folder.convert("m.safetensors", "model.safetensors", &options().max_shard_bytes(Some(150_000))).unwrap();
    assert_eq!(converted.path, folder.path("model.safetensors.index.json"));
    let text = fs::read(&converted.path).unwrap();
    let index: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(index["metadata"]["total_size"], 200_000 + 120_000 + 3 + 10 + 6 + 2);
    assert_eq!(index["weight_map"]["same.everywhere"], "model-00003-of-00003.safetensors");
    let reader = folder.open("model.safetensors.index.json");
    assert_eq!(content(&reader), content(&folder.open("m.safetensors")));
    let shard = folder.open("model-00003-of-00003.safetensors");
    assert_eq!(Value::Object(shard.metadata().metadata.clone()), json!({ "format": "pt" }));
    assert_eq!(converted.warnings.len(), 1, "{:?}", converted.warnings); // a tensor of 200,000 bytes
}

#[test]
fn unsupported_options_are_rejected() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    for wrong in [
        options().compression(Compression::Lz4),
        options().digest(Some(DigestAlgorithm::Sha256)),
        options().alignment(Some(3)),
    ] {
        let error = folder.convert("m.safetensors", "out.safetensors", &wrong).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(folder.names(), ["m.safetensors"]);
}
