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
fn tensors_are_aligned_to_their_elements_and_otherwise_keep_their_order() {
    let folder = Folder::new();
    let tensors = [
        ("z.bytes", "U8", &[3][..], noise(1, 3)),
        ("b.half", "F16", &[1][..], noise(2, 2)),
        ("z.double", "F64", &[1][..], noise(3, 8)),
        ("a.half", "F16", &[1][..], noise(4, 2)),
    ];
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    folder.convert("m.safetensors", "out.safetensors", &options().with_alignment(Some(64))).unwrap();
    let reader = folder.open("out.safetensors");
    let names: Vec<_> = reader.tensors().iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["z.double", "b.half", "a.half", "z.bytes"]);
    for tensor in reader.tensors() {
        assert_eq!(tensor.first_byte() % tensor.dtype.array_kind().element_bytes() as u64, 0, "{}", tensor.name);
    }
    assert_eq!(reader.tensors()[0].first_byte() % 64, 0);
}

#[test]
fn metadata_that_is_not_text_becomes_json() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({ "format": "pt" }), &[]));
    let metadata = json!({ "n_layer": 6, "format": "np", "labels": ["a", "b"] }).as_object().unwrap().clone();
    folder.convert("m.safetensors", "out.safetensors", &options().with_metadata(metadata)).unwrap();
    let written = folder.open("out.safetensors").metadata().metadata.clone();
    assert_eq!(Value::Object(written), json!({ "n_layer": "6", "format": "np", "labels": r#"["a","b"]"# }));
}

#[test]
fn several_files_have_the_index_that_other_tools_expect() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    let converted =
        folder.convert("m.safetensors", "model.safetensors", &options().with_max_shard_bytes(Some(150_000))).unwrap();
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
        options().with_compression(Compression::Lz4),
        options().with_digest(Some(DigestAlgorithm::Sha256)),
        options().with_alignment(Some(3)),
    ] {
        let error = folder.convert("m.safetensors", "out.safetensors", &wrong).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(folder.names(), ["m.safetensors"]);
}
