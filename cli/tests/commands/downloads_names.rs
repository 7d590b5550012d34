//! The names of the files that `download` writes: those of models, and none that other tools run or obey.

use super::Folder;
use super::bytes::{noise, safetensors};
use super::command::{fail, run};
use super::hub_server::{Api, MockHub, hex};
use super::server::{Server, answer};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

/// Files that tools run or obey when they find them in a folder.
const HOSTILE: [&str; 6] =
    ["package.json", "requirements.txt", "CMakeLists.txt", "tsconfig.json", "composer.json", "conanfile.txt"];

#[test]
fn a_manifest_names_no_files_that_tools_run() {
    for name in HOSTILE.iter().chain(&["tokenizer_config.json", "x/config.json", "x/package.json"]) {
        let manifest = json!({ "apr_version": "2.0", "shards": [{ "file": name }] }).to_string();
        let manifests = [
            ("/m.json", manifest),
            ("/m.aeroset", json!({ "format": { "name": "AEROSET" }, "parts": [{ "path": name }] }).to_string()),
            ("/m.safetensors.index.json", json!({ "weight_map": { "a": name } }).to_string()),
        ];
        for (path, manifest) in manifests {
            let server = Server::new(move |request| match request.path == path {
                true => answer(manifest.as_bytes(), request),
                false => answer(b"{\"scripts\":{\"preinstall\":\"x\"}}", request),
            });
            let folder = Folder::new();
            let message = fail(&folder, &["download", &server.url(path), "copy"]);
            assert!(message.contains("by its name, this is not a file of a model"), "{message}");
            assert!(!folder.path("copy").exists(), "{path} of {name}");
        }
    }
}

#[test]
fn only_files_of_configurations_beside_a_model_are_downloaded() {
    let model = safetensors(None, &[("a", "U8", &[90][..], noise(1, 90))]);
    let wanted =
        ["config.json", "generation_config.json", "tokenizer.json", "merges.txt", "vocab.txt", "x/config.json"];
    let mut served: Vec<(&str, &[u8])> = vec![("model.safetensors", &model)];
    served.extend(HOSTILE.iter().chain(&wanted).map(|name| (*name, &b"{}"[..])));
    let (mock, folder) = (MockHub::new(Api::Full, &served), Folder::new());
    let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
    command.env("HF_ENDPOINT", mock.hub.url("")).args(["download", "hf:owner/name", "copy"]);
    let output = command.current_dir(folder.0.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for name in wanted {
        assert!(folder.path("copy").join(name).exists(), "{name}");
    }
    for name in HOSTILE {
        assert!(!folder.path("copy").join(name).exists(), "{name}");
    }
}

#[test]
fn the_digest_of_the_hub_is_preferred_to_a_crc() {
    // What the hub states of the model, but not of the manifest, is wrong.
    let stated = |bytes: &[u8]| if bytes.starts_with(b"{") { hex(bytes) } else { "ab".repeat(32) };
    let source = Folder::new();
    fs::create_dir(source.path("out")).unwrap();
    let tensors =
        [("a", "F32", &[64, 64][..], noise(1, 64 * 64 * 4)), ("b", "F32", &[64, 64][..], noise(2, 64 * 64 * 4))];
    source.write("m.safetensors", &safetensors(None, &tensors));
    let output = run(&source, &["convert", "m.safetensors", "out/m.apr", "--shard-size", "20kB"]);
    assert!(output.status.success(), "{output:?}");
    let (mut names, mut files, mut entry) = (Vec::new(), Vec::new(), String::new());
    for file in fs::read_dir(source.path("out")).unwrap() {
        let (name, mut bytes) = (file.as_ref().unwrap().file_name(), fs::read(file.unwrap().path()).unwrap());
        let name = name.into_string().unwrap();
        if let Ok(mut manifest) = serde_json::from_slice::<Value>(&bytes) {
            for shard in manifest["shards"].as_array_mut().unwrap() {
                let file = fs::read(source.path("out").join(shard["file"].as_str().unwrap())).unwrap();
                shard["crc32"] = json!(format!("{:08x}", crc32(&file)));
                shard["sha256"] = Value::Null;
            }
            (entry, bytes) = (name.clone(), manifest.to_string().into_bytes());
        }
        names.push(name);
        files.push(bytes);
    }
    let served: Vec<(&str, &[u8])> = names.iter().zip(&files).map(|(name, bytes)| (&**name, &bytes[..])).collect();
    let (mock, folder) = (MockHub::stating(Api::Full, &served, stated), Folder::new());
    fs::create_dir(folder.path("copy")).unwrap();
    for (name, bytes) in served.iter().filter(|(name, _)| *name != entry) {
        fs::write(folder.path("copy").join(name), bytes).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
    command.env("HF_ENDPOINT", mock.hub.url("")).args(["download", &format!("hf:owner/name/{entry}"), "copy"]);
    let output = command.current_dir(folder.0.path()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("already exists"), "the CRC alone does not confirm a file: {output:?}");
}

/// The CRC-32/IEEE of a file.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
