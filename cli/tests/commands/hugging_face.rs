//! `convert` of a folder of Hugging Face.

use super::Folder;
use super::bytes::{noise, safetensors};
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Output};

fn run(folder: &Folder, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
    command.args(arguments).current_dir(folder.0.path()).output().unwrap()
}

fn inspect(folder: &Folder, file: &str) -> Value {
    serde_json::from_slice(&run(folder, &["inspect", "--json", file]).stdout).unwrap()
}

#[test]
fn a_folder_of_hugging_face_becomes_a_model_with_its_configuration() {
    let folder = Folder::new();
    fs::create_dir(folder.0.path().join("tiny")).unwrap();
    let tensors = [("w", "F32", &[2, 4][..], noise(1, 32))];
    folder.write("tiny/model.safetensors", &safetensors(None, &tensors));
    let config = json!({
        "model_type": "bert", "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 2,
        "intermediate_size": 8, "max_position_embeddings": 16,
    });
    folder.write("tiny/config.json", config.to_string().as_bytes());
    folder.write("tiny/vocab.txt", b"[PAD]\nword\n");
    folder.write("version.json", br#"{ "model_version": "7" }"#);

    for out in ["m.weights", "m.apr", "m.gguf", "m.safetensors"] {
        let output = run(&folder, &["convert", "tiny", out, "--metadata", "version.json"]);
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
        let written = inspect(&folder, out);
        assert_eq!(
            (&written["metadata"]["model_version"], &written["metadata"]["model_name"]),
            (&json!("7"), &json!("tiny"))
        );
        assert_eq!(written["tensors"].as_array().unwrap().len(), 1);
    }
    let written = inspect(&folder, "m.weights");
    assert_eq!(written["metadata"]["vocabulary"]["tokens"], json!(["[PAD]", "word"]));
    assert_eq!(inspect(&folder, "tiny")["format"], "safetensors");

    let output = run(&folder, &["convert", "tiny", "bare.safetensors", "--no-metadata"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(inspect(&folder, "bare.safetensors")["metadata"], json!({}));
}

#[test]
fn a_gguf_file_that_llama_cpp_does_not_run_is_announced() {
    let folder = Folder::new();
    let named = |name: &str| safetensors(None, &[(name, "F32", &[2, 2][..], noise(1, 16))]);
    folder.write("m/model.safetensors", &named("model.layers.0.mlp.up_proj.weight"));
    folder.write("m/config.json", br#"{"model_type":"llama"}"#);
    folder.write("own/model.safetensors", &named("blk.0.ffn_up.weight"));
    folder.write("own/config.json", br#"{"model_type":"llama"}"#);
    let output = run(&folder, &["convert", "m", "m.gguf"]);
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && warning.starts_with("weightstream: warning: llama.cpp does not run"),
        "{warning}"
    );
    assert!(warning.contains("model.layers.0.mlp") && warning.contains("convert_hf_to_gguf.py"), "{warning}");
    for arguments in [["convert", "own", "own.gguf"], ["convert", "m", "m.apr"]] {
        assert_eq!(run(&folder, &arguments).stderr, b"", "{arguments:?}");
    }
}
