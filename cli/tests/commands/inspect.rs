//! `inspect`: the selection of tensors, and folders.

use super::Folder;
use super::bytes::{noise, safetensors};
use super::command::{fail, run, succeed};
use serde_json::{Value, json};
use std::fs;

fn folder() -> Folder {
    let folder = Folder::new();
    let tensors = [
        ("h/0/weight", "F32", &[2, 2][..], noise(1, 16)),
        ("h/0/bias", "F16", &[2], noise(2, 4)),
        ("h/1/weight", "F32", &[8], noise(3, 32)),
        ("embed", "BF16", &[4], noise(4, 8)),
    ];
    folder.write("m.safetensors", &safetensors(Some(json!({ "format": "pt" })), &tensors));
    folder
}

/// The names of the tensors in the JSON and in the table, which must be the same.
#[track_caller]
fn names(folder: &Folder, options: &[&str]) -> Vec<String> {
    let printed = succeed(folder, &[&["inspect", "m.safetensors", "--json"], options].concat());
    let json: Value = serde_json::from_str(&printed).unwrap();
    let names = json["tensors"].as_array().unwrap().iter().map(|tensor| tensor["name"].as_str().unwrap().to_owned());
    let names: Vec<_> = names.collect();
    let text = succeed(folder, &[&["inspect", "m.safetensors"], options].concat());
    let rows = text.lines().skip_while(|line| !line.starts_with("TENSOR")).skip(1);
    assert!(rows.map(|row| row.split(' ').next().unwrap()).eq(names.iter()), "{text}");
    names
}

#[test]
fn filters_match_whole_names() {
    let folder = folder();
    assert_eq!(names(&folder, &["--filter", "*weight"]), ["h/0/weight", "h/1/weight"]);
    assert_eq!(names(&folder, &["--filter", "h/[0]/*"]), ["h/0/weight", "h/0/bias"]);
    assert_eq!(names(&folder, &["--filter", "embed", "--filter", "*{bias,none}"]), ["h/0/bias", "embed"]);
    let text = succeed(&folder, &["inspect", "m.safetensors", "--filter", "*weight"]);
    assert!(text.contains("4 tensors, 18 elements, 60 B\n2 tensors match, 12 elements, 48 B\n"), "{text}");
    let error = fail(&folder, &["inspect", "m.safetensors", "--filter", "bias", "--json"]);
    assert!(error.contains("error[NOT_FOUND]: m.safetensors: no tensor has a name that matches `bias`."), "{error}");
    let output = run(&folder, &["inspect", "m.safetensors", "--filter", "[a"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn tensors_are_sorted_with_file_order_as_the_default() {
    let folder = folder();
    let in_file = ["h/0/weight", "h/0/bias", "h/1/weight", "embed"];
    assert_eq!(names(&folder, &[]), in_file);
    assert_eq!(names(&folder, &["--sort", "file"]), in_file);
    assert_eq!(names(&folder, &["--sort", "name"]), ["embed", "h/0/bias", "h/0/weight", "h/1/weight"]);
    assert_eq!(names(&folder, &["--sort", "size"]), ["h/1/weight", "h/0/weight", "embed", "h/0/bias"]);
    assert_eq!(names(&folder, &["--sort", "dtype"]), ["embed", "h/0/bias", "h/0/weight", "h/1/weight"]);
}

#[test]
fn digests_belong_to_their_tensors_in_any_order() {
    let folder = folder();
    let digests = |options: &[&str]| {
        let printed = succeed(&folder, &[&["inspect", "m.safetensors", "--json", "--sha256"], options].concat());
        let json: Value = serde_json::from_str(&printed).unwrap();
        let entry = |tensor: &Value| (tensor["name"].to_string(), tensor["sha256"].to_string());
        let mut digests: Vec<_> = json["tensors"].as_array().unwrap().iter().map(entry).collect();
        digests.sort();
        digests
    };
    assert_eq!(digests(&[]).len(), 4);
    assert_eq!(digests(&["--sort", "size"]), digests(&[]));
}

#[test]
fn the_summary_is_printed_without_tensors() {
    let folder = folder();
    let expected = "m.safetensors: safetensors 1\n1 file, 4 tensors, 18 elements, 60 B\n\nformat: \"pt\"\n";
    assert_eq!(succeed(&folder, &["inspect", "m.safetensors", "--no-tensors"]), expected);
    let printed = succeed(&folder, &["inspect", "m.safetensors", "--no-tensors", "--json"]);
    let json: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(json["metadata"], json!({ "format": "pt" }));
    assert!(json.get("tensors").is_none() && json["files"].is_array(), "{json}");
    let output = run(&folder, &["inspect", "m.safetensors", "--no-tensors", "--sha256"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_folder_is_inspected_as_the_model_in_it() {
    let folder = folder();
    fs::create_dir(folder.path("hub")).unwrap();
    let error = |expected: &str| {
        let error = fail(&folder, &["inspect", "hub"]);
        assert!(error.starts_with("weightstream: error[INVALID_ARGUMENT]: hub: "), "{error}");
        assert!(error.contains(expected), "{error}");
    };
    error("no model is in this folder, which is empty. Specify a model file");
    fs::create_dir(folder.path("hub/onnx")).unwrap();
    error("no model is in this folder, which contains onnx/. Specify a model file");
    folder.write("hub/training_args.bin", b"x");
    error("which contains training_args.bin, onnx/. training_args.bin may be a PyTorch checkpoint: specify this file");
    folder.write("hub/model-00001-of-00002.safetensors", b"x");
    error("model-00001-of-00002.safetensors is a part of a model: also download the others, and the manifest");
    // As in a repository of Hugging Face: several formats, of which SafeTensors is the usual one.
    folder.write("hub/config.json", b"{}");
    folder.write("hub/other.gguf", b"x");
    fs::copy(folder.path("m.safetensors"), folder.path("hub/model.safetensors")).unwrap();
    let printed = succeed(&folder, &["inspect", "hub"]);
    assert!(printed.starts_with("hub: safetensors 1\n1 file, 4 tensors"), "{printed}");
}

#[test]
fn a_folder_with_a_manifest_is_inspected_as_the_whole_model() {
    let folder = folder();
    fs::create_dir(folder.path("hub")).unwrap();
    let out = "hub/model.safetensors";
    succeed(&folder, &["convert", "m.safetensors", out, "--shard-size", "250B"]);
    let printed = succeed(&folder, &["inspect", "hub/"]);
    assert!(printed.starts_with("hub/: safetensors 1\n") && printed.contains(" files, 4 tensors"), "{printed}");
}
