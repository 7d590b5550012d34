//! Files of other kinds are rejected with an error that names the kind and says what to do.

use super::bad_input::rejected;
use std::fs;
use std::path::Path;
use weightstream::ErrorKind::{Truncated, Unsupported};

/// The file, what the error calls it, and a part of the advice.
const FILES: [(&str, &str, &str); 11] = [
    ("git_lfs.safetensors", "a Git LFS pointer", "git lfs pull"),
    ("pickle.pkl", "a Python pickle", "safetensors.torch"),
    ("model.zip", "a ZIP archive", "Extract"),
    ("model.tar", "a tar archive", "Extract"),
    ("model.apr.gz", "compressed with gzip", "Decompress"),
    ("model.apr.bz2", "compressed with bzip2", "Decompress"),
    ("model.apr.xz", "compressed with xz", "Decompress"),
    ("ggml.bin", "a GGML file", "llama.cpp"),
    ("page.html", "a web page", "Check the URL"),
    ("config.json", "this JSON file is not the manifest of a model", "model.safetensors.index.json"),
    ("short.safetensors", "the file is only `\\x10\\x00\\x00`; every model is longer", "replace it"),
];

#[test]
fn errors_name_the_kind_of_a_file_and_what_to_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/foreign");
    for (name, kind, advice) in FILES {
        let code = if name.starts_with("short") { Truncated } else { Unsupported };
        let error = rejected(vec![(name, fs::read(folder.join(name)).unwrap())], code, kind);
        assert!(error.to_string().contains(advice), "{name}: {error}");
        println!("{error}");
    }
    let in_folder = fs::read_dir(folder).unwrap().count();
    assert_eq!(in_folder, FILES.len() + 1, "every file is tested, except generate.py");
}

#[test]
fn a_file_of_many_zeros_is_no_archive() {
    rejected(vec![("m.apr", vec![0; 4096])], Unsupported, r"no known model format begins with `\x00\x00");
}

/// A file of raw bytes has no magic: what a server sent in its place must not be taken for weights.
#[test]
fn a_page_or_a_pointer_in_place_of_raw_data_is_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/foreign_data");
    let [graph, pointer] = ["model.onnx", "model.onnx.data"].map(|name| fs::read(folder.join(name)).unwrap());
    let page = "\n<html><head><title>Sign in – Wi-Fi</title></head></html>".repeat(20).into_bytes();
    let error = br#"{"error": "Access to this model is restricted.", "status": 403}"#.repeat(20);
    let marked = |text: &[u8]| [b"\xef\xbb\xbf", text].concat();
    let wide: Vec<u8> = "\u{feff}<!DOCTYPE html><html>".repeat(20).encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cases = [
        (marked(&pointer), "a Git LFS pointer"),
        (pointer, "a Git LFS pointer"),
        (marked(&page), "a web page"),
        (page, "a web page"),
        (wide, "a web page"),
        (marked(&error), "a JSON document"),
        (error, "a JSON document"),
    ];
    for (data, kind) in cases {
        let files = vec![("model.onnx", graph.clone()), ("model.onnx.data", data)];
        let error = rejected(files, Unsupported, &format!("this file is {kind}"));
        assert!(error.to_string().contains("not the data of the model's tensors"), "{error}");
    }
}
