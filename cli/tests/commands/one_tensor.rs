//! Tests of commands that read one tensor: `inspect --tensor` and `extract`.

use super::bytes::safetensors;
use super::command::{fail, run, succeed};
use super::{Folder, corpus};
use serde_json::{Value, json};
use std::fs;

/// A model with the numbers 0 to 5 as F32 and as BF16.
fn numbers(folder: &Folder) {
    let single = (0..6u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
    let brain = (0..6u8).flat_map(|number| f32::from(number).to_le_bytes()[2..].to_vec()).collect();
    let tensors = [
        ("single", "F32", &[6][..], single),
        ("brain", "BF16", &[6][..], brain),
        ("eight", "F8_E4M3", &[3][..], vec![1, 2, 3]),
    ];
    folder.write("m.safetensors", &safetensors(None, &tensors));
}

fn fixture(folder: &Folder, path: &str) {
    fs::copy(corpus::root().join(path), folder.path(path.rsplit('/').next().unwrap())).unwrap();
}

#[test]
fn extract_writes_the_file_that_numpy_writes() {
    let folder = Folder::new();
    numbers(&folder);
    let numpy = include_bytes!("array.npy"); // numpy 2.4.6: `np.save("array.npy", np.arange(6, dtype="<f4"))`
    for (tensor, out) in [("single", "single.npy"), ("brain", "brain.npy")] {
        assert_eq!(succeed(&folder, &["extract", "m.safetensors", tensor, out]), format!("{out}: F32 [6], 152 B\n"));
        assert!(fs::read(folder.path(out)).unwrap() == numpy, "{tensor}");
    }
}

#[test]
fn extract_writes_components_and_bytes() {
    let folder = Folder::new();
    numbers(&folder);
    fixture(&folder, "rules/sparse_valid.zt");
    let printed = succeed(&folder, &["extract", "sparse_valid.zt", "rows", "p.npy", "--component", "indptr"]);
    assert_eq!(printed, "p.npy: U64 [4], 160 B\n");
    let data = [0u64, 2, 2, 4].map(u64::to_le_bytes).concat();
    assert!(fs::read(folder.path("p.npy")).unwrap().ends_with(&data));
    let printed = succeed(&folder, &["extract", "m.safetensors", "eight", "e.npy", "--bytes"]);
    assert_eq!(printed, "e.npy: U8 [3], 131 B\n");
}

#[test]
fn extract_refuses_what_it_cannot_write() {
    let folder = Folder::new();
    numbers(&folder);
    fixture(&folder, "rules/sparse_valid.zt");
    fixture(&folder, "bad/ztensor_sha_flip.zt");
    for (arguments, text) in [
        (
            &["m.safetensors", "eight", "o.npy"][..],
            "error[UNSUPPORTED]: tensor \"eight\": NumPy has no dtype for F8_E4M3",
        ),
        (
            &["m.safetensors", "none", "o.npy"],
            "error[NOT_FOUND]: tensor \"none\": the model has no tensor of this name",
        ),
        (&["m.safetensors", "single", "o.bin"], "error[INVALID_ARGUMENT]: o.bin: the name of the output does not end"),
        (&["sparse_valid.zt", "rows", "o.npy"], "several components (values, indices, indptr)"),
        (&["sparse_valid.zt", "rows", "o.npy", "--component", "x"], "it has no component \"x\", only: "),
    ] {
        let error = fail(&folder, &[&["extract"], arguments].concat());
        assert!(error.contains(text), "{error}");
    }
    succeed(&folder, &["extract", "m.safetensors", "single", "o.npy"]);
    let error = fail(&folder, &["extract", "m.safetensors", "brain", "o.npy"]);
    assert!(error.contains("error[INVALID_ARGUMENT]: o.npy: this file already exists"), "{error}");
    succeed(&folder, &["extract", "m.safetensors", "brain", "o.npy", "--force"]);
}

#[test]
fn a_damaged_tensor_is_not_extracted() {
    let folder = Folder::new();
    fixture(&folder, "bad/ztensor_sha_flip.zt");
    let printed = run(&folder, &["inspect", "--json", "ztensor_sha_flip.zt"]);
    let model: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let names: Vec<_> = model["tensors"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    let outputs = names.iter().map(|name| run(&folder, &["extract", "ztensor_sha_flip.zt", name, "o.npy", "--force"]));
    let damaged = outputs.filter(|output| String::from_utf8_lossy(&output.stderr).contains("error[CHECKSUM]")).count();
    assert_eq!(damaged, 1);
    let left = fs::read_dir(folder.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("partial")));
}

#[test]
fn inspect_prints_the_statistics_of_one_tensor() {
    let folder = Folder::new();
    numbers(&folder);
    let printed = succeed(&folder, &["inspect", "m.safetensors", "--tensor", "brain", "--json"]);
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed["values"], json!([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
    let statistics = &printed["statistics"];
    let found = ["count", "min", "max", "mean", "zeros", "nan", "infinite"].map(|key| statistics[key].clone());
    assert_eq!(json!(found), json!([6, 0.0, 5.0, 2.5, 1, 0, 0]));
    // sqrt(35 / 12)
    assert!((statistics["standardDeviation"].as_f64().unwrap() - 1.707_825).abs() < 1e-5);
    assert_eq!((&printed["dtype"], &printed["encoding"]), (&json!("BF16"), &json!("raw")));

    let text = succeed(&folder, &["inspect", "m.safetensors", "--tensor", "single"]);
    assert!(text.contains("\nvalues            [0.0,1.0,2.0,3.0,4.0,5.0]\n"), "{text}");
    let text = succeed(&folder, &["inspect", "m.safetensors", "--tensor", "eight"]);
    assert!(text.contains("F8_E4M3") && !text.contains("statistics"), "{text}");
    let error = fail(&folder, &["inspect", "m.safetensors", "--tensor", "none"]);
    assert!(error.contains("error[NOT_FOUND]: m.safetensors: tensor \"none\""), "{error}");
}

#[test]
fn inspect_prints_digests_components_and_warnings() {
    let folder = Folder::new();
    fixture(&folder, "rules/sparse_valid.zt");
    fixture(&folder, "rules/reserved.weights");
    let printed = succeed(&folder, &["inspect", "--json", "sparse_valid.zt"]);
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let rows = &printed["tensors"][0];
    assert_eq!((&rows["layout"], &rows["storedByteLength"]), (&json!("sparse_csr"), &json!(80)));
    let roles: Vec<_> = rows["components"].as_array().unwrap().iter().map(|part| part["role"].clone()).collect();
    assert_eq!(json!(roles), json!(["values", "indices", "indptr"]));
    let digest = &rows["components"][0]["digest"];
    // SHA-256 of four times 1.0 as F32, as any tool prints it.
    let value = "f6bb1294da2f78cd935b01c7656280df5eaa0439e9d97bc03775825a41a508e4";
    assert_eq!(digest, &json!({ "algorithm": "sha256", "value": value, "of": "stored" }));

    let printed = run(&folder, &["inspect", "--json", "reserved.weights"]);
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let message = "the reserved flags 0x30 are set; version 1.0 requires 0";
    assert_eq!(printed["warnings"][0], json!({ "file": "reserved.weights", "message": message }));
    assert_eq!(printed["files"], json!([{ "name": "reserved.weights", "byteLength": 124 }]));
}
