//! Tests of the GGUF writer.

use crate::ErrorKind;
use crate::format::{apr, gguf, safetensors};
use crate::native::Reader;
use crate::testing::corpus::root;
use crate::testing::model::{Folder, content, noise, safetensors_file};
use crate::write::{Compression, ConvertOptions};
use serde_json::{Map, Value, json};
use std::fs;

fn options() -> ConvertOptions {
    ConvertOptions { format: Some(&gguf::FORMAT), ..ConvertOptions::default() }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn llama() -> Map<String, Value> {
    object(json!({ "general.architecture": "llama" }))
}

/// A SafeTensors file of four matrices of 400 bytes.
fn source(folder: &Folder, metadata: Value) {
    let tensors = ["a", "b", "c", "d"].map(|name| (name, "F32", &[10, 10][..], noise(name.len() as u64, 400)));
    folder.write("m.safetensors", &safetensors_file(metadata, &tensors));
}

/// The bytes of a GGUF file without tensors with these pairs: key, type, value.
fn gguf_of(pairs: &[(&str, u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = [&b"GGUF"[..], &3u32.to_le_bytes(), &[0; 8], &(pairs.len() as u64).to_le_bytes()].concat();
    for (key, kind, value) in pairs {
        bytes.extend(text(key));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(value);
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

fn array(kind: u32, count: u64, items: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes(), &count.to_le_bytes()[..], items].concat()
}

/// 64 numbers with all of their digits.
fn doubles() -> Vec<u8> {
    let mantissas = noise(9, 64 * 8);
    let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap()).to_bits() >> 2 | 1 << 60;
    mantissas.chunks(8).flat_map(|bytes| number(bytes).to_le_bytes()).collect()
}

/// Values of every type, most of them not of the type that JSON suggests.
fn every_type() -> Vec<u8> {
    gguf_of(&[
        ("general.architecture", 8, text("llama")),
        ("u8", 0, vec![7]),
        ("i8", 1, vec![0x80]),
        ("u16", 2, vec![1, 0]),
        ("i16", 3, vec![1, 0]),
        ("u32", 4, vec![1, 0, 0, 0]),
        ("i32", 5, vec![1, 0, 0, 0]),
        ("f32", 6, 1e-5f32.to_le_bytes().to_vec()),
        ("whole", 6, 10000f32.to_le_bytes().to_vec()),
        ("infinite", 6, f32::NEG_INFINITY.to_le_bytes().to_vec()),
        ("bool", 7, vec![1]),
        ("text", 8, text("12")),
        ("u64", 10, 1u64.to_le_bytes().to_vec()),
        ("i64", 11, 1u64.to_le_bytes().to_vec()),
        ("f64", 12, 0.123_456_789_012_345_67f64.to_le_bytes().to_vec()),
        ("doubles", 9, array(12, 64, &doubles())),
        ("half", 12, 0.5f64.to_le_bytes().to_vec()),
        ("u8s", 9, array(0, 2, &[1, 2])),
        ("texts", 9, array(8, 2, &[text("a"), text("層")].concat())),
        ("none", 9, array(12, 0, &[])),
        ("floats", 9, array(6, 2, &[f32::INFINITY.to_le_bytes(), 0.5f32.to_le_bytes()].concat())),
        ("nested", 9, array(9, 2, &[array(0, 1, &[1]), array(3, 1, &[2, 0])].concat())),
        ("nothing nested", 9, array(9, 0, &[])),
    ])
}

#[test]
fn keeps_the_type_of_every_value() {
    let folder = Folder::new();
    folder.write("m.gguf", &every_type());
    folder.convert("m.gguf", "out.gguf", &options()).unwrap();
    assert!(fs::read(folder.path("out.gguf")).unwrap() == every_type());
}

#[test]
fn types_survive_other_formats() {
    let folder = Folder::new();
    folder.write("m.gguf", &every_type());
    for format in crate::write::formats() {
        let to = ConvertOptions { format: Some(format), allow_loss: true, ..options() };
        folder.convert("m.gguf", "other", &to.metadata(llama())).unwrap();
        folder.convert("other", "out.gguf", &options()).unwrap();
        let (before, after) = (folder.open("m.gguf"), folder.open("out.gguf"));
        for (key, value) in &before.metadata().metadata {
            assert_eq!(after.metadata().metadata.get(key), Some(value), "{key} through {}", format.name);
        }
        if format.name == apr::FORMAT.name || format.name == gguf::FORMAT.name {
            assert!(fs::read(folder.path("out.gguf")).unwrap() == every_type(), "{}", format.name);
        }
    }
}

#[test]
fn fixtures_keep_their_tensors_and_metadata() {
    let folder = Folder::new();
    for name in ["plain", "quant", "alignment", "gguf_v1", "gguf_v2", "no_tensors"] {
        let path = root().join(format!("gguf/{name}.gguf"));
        let before = Reader::open(&path).unwrap();
        let given = if before.metadata().metadata.contains_key("general.architecture") { Map::new() } else { llama() };
        for (format, file) in [(&apr::FORMAT, "m.apr"), (&gguf::FORMAT, "direct.gguf")] {
            folder.convert(&path, file, &options().format(Some(format)).metadata(given.clone())).unwrap();
            folder.convert(file, "out.gguf", &options()).unwrap();
            let after = folder.open("out.gguf");
            assert_eq!(content(&after), content(&before), "{name} {file}");
            for (key, value) in before.metadata().metadata.iter().filter(|(key, _)| *key != "general.alignment") {
                assert_eq!(after.metadata().metadata.get(key), Some(value), "{name} {file} {key}");
            }
        }
        assert!(fs::read(folder.path("out.gguf")).unwrap() == fs::read(folder.path("direct.gguf")).unwrap(), "{name}");
    }
}

#[test]
fn values_of_other_formats_get_the_types_that_readers_expect() {
    let folder = Folder::new();
    source(&folder, json!({ "format": "pt" }));
    let given = json!({
        "general.architecture": "llama",
        "llama.block_count": 32, "negative": -1, "large": 1u64 << 40, "eps": 1e-5, "wide": 1e300, "flag": true,
        "types": [1, 2], "scores": [0, -0.5], "object": { "a": null }, "null": null, "mixed": [1, "a"], "none": [],
        "weightstream.gguf_types": { "large": "i64", "types": ["u8"] },
    });
    folder.convert("m.safetensors", "out.gguf", &options().metadata(object(given))).unwrap();
    folder.convert("out.gguf", "m.apr", &options().format(Some(&apr::FORMAT))).unwrap();
    let apr = folder.open("m.apr");
    let types = json!({
        "llama.block_count": "u32", "negative": "i32", "large": "i64", "eps": "f32", "wide": "f64", "flag": "bool",
        "types": ["u8"], "scores": ["f32"], "none": ["i32"],
    });
    assert_eq!(apr.metadata().metadata["__metadata__"]["weightstream.gguf_types"], types);
    let written = folder.open("out.gguf");
    assert_eq!(written.metadata().metadata["object"], r#"{"a":null}"#);
    assert_eq!(written.metadata().metadata["mixed"], r#"[1,"a"]"#);
    assert_eq!(written.metadata().metadata["eps"], f64::from(1e-5f32));
}

#[test]
fn a_replaced_value_keeps_the_type_that_the_source_states_if_it_fits() {
    let folder = Folder::new();
    folder.write("m.gguf", &every_type());
    let given = object(json!({ "f32": 2, "u8": 300 }));
    folder.convert("m.gguf", "out.gguf", &options().metadata(given)).unwrap();
    folder.convert("out.gguf", "m.apr", &options().format(Some(&apr::FORMAT))).unwrap();
    let types = &folder.open("m.apr").metadata().metadata["__metadata__"]["weightstream.gguf_types"].clone();
    assert_eq!((&types["f32"], &types["u8"]), (&json!("f32"), &json!("u32")));
}

#[test]
fn several_files_are_those_of_llama_cpp() {
    let folder = Folder::new();
    source(&folder, json!({ "format": "pt" }));
    let to = options().metadata(llama()).max_shard_bytes(Some(1200));
    let converted = folder.convert("m.safetensors", "model.gguf", &to).unwrap();
    assert_eq!(converted.path, folder.path("model-00001-of-00002.gguf"));
    assert_eq!(folder.names(), ["m.safetensors", "model-00001-of-00002.gguf", "model-00002-of-00002.gguf"]);
    for name in ["model-00001-of-00002.gguf", "model-00002-of-00002.gguf"] {
        let model = folder.open(name);
        assert_eq!(content(&model), content(&folder.open("m.safetensors")));
        let expected = json!({
            "general.architecture": "llama", "format": "pt",
            "split.no": 0, "split.tensors.count": 4, "split.count": 2,
        });
        assert_eq!(Value::Object(model.metadata().metadata.clone()), expected);
    }
    assert!(converted.files.iter().all(|(_, byte_length)| *byte_length <= 1200), "{:?}", converted.files);
    // In one file again.
    folder.convert("model-00001-of-00002.gguf", "one.gguf", &options()).unwrap();
    folder.convert("m.safetensors", "direct.gguf", &options().metadata(llama())).unwrap();
    assert!(fs::read(folder.path("one.gguf")).unwrap() == fs::read(folder.path("direct.gguf")).unwrap());
}

#[test]
fn the_first_file_can_have_only_metadata() {
    let folder = Folder::new();
    source(&folder, json!({}));
    let to = options().metadata(llama()).max_shard_bytes(Some(1 << 20)).metadata_first(true);
    let converted = folder.convert("m.safetensors", "model.gguf", &to).unwrap();
    assert_eq!(converted.files.len(), 2);
    assert!(converted.files[0].1 < 400, "{:?}", converted.files);
    assert_eq!(content(&folder.open("model-00001-of-00002.gguf")), content(&folder.open("m.safetensors")));
}

#[test]
fn the_alignment_is_that_of_the_new_file() {
    let folder = Folder::new();
    source(&folder, json!({}));
    let to = options().metadata(llama());
    folder.convert("m.safetensors", "wide.gguf", &to.clone().alignment(Some(4096))).unwrap();
    let wide = folder.open("wide.gguf");
    assert!(wide.tensors().iter().all(|tensor| tensor.first_byte() % 4096 == 0));
    assert_eq!(wide.metadata().metadata["general.alignment"], 4096);
    folder.convert("wide.gguf", "narrow.gguf", &options()).unwrap();
    folder.convert("m.safetensors", "direct.gguf", &to).unwrap();
    assert!(fs::read(folder.path("narrow.gguf")).unwrap() == fs::read(folder.path("direct.gguf")).unwrap());
}

#[test]
fn the_architecture_is_required() {
    let folder = Folder::new();
    source(&folder, json!({ "format": "pt" }));
    let error = folder.convert("m.safetensors", "out.gguf", &options()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the metadata has no `general.architecture`, which llama.cpp and other readers require \
         (`ConvertOptions::allow_loss` leaves it out). Provide it with `ConvertOptions::metadata`: a JSON file such as \
         {\"general.architecture\": \"llama\"}."
    );
    let converted = folder.convert("m.safetensors", "out.gguf", &options().allow_loss(true)).unwrap();
    assert_eq!(converted.warnings.len(), 1, "{:?}", converted.warnings);
    folder.convert("m.safetensors", "out.gguf", &options().omit_metadata(true)).unwrap();
    assert_eq!(folder.open("out.gguf").metadata().metadata, Map::new());
}

#[test]
fn wrong_metadata_is_refused() {
    let folder = Folder::new();
    source(&folder, json!({}));
    for (metadata, kind, message) in [
        (json!({ "general.alignment": 64 }), ErrorKind::InvalidArgument, "`ConvertOptions::alignment` sets it"),
        (json!({ "split.count": 2 }), ErrorKind::InvalidArgument, "`ConvertOptions::max_shard_bytes` sets it"),
        (json!({ "weightstream.gguf_types": 1 }), ErrorKind::Unsupported, "It must be an object of keys and types"),
        (
            json!({ "a": 1, "weightstream.gguf_types": { "a": "int" } }),
            ErrorKind::Unsupported,
            "states the type \"int\"",
        ),
        (
            json!({ "a": 256, "weightstream.gguf_types": { "a": "u8" } }),
            ErrorKind::Unsupported,
            "256, which is no \"u8\"",
        ),
        (json!({ "a": [1], "weightstream.gguf_types": { "a": [] } }), ErrorKind::Unsupported, "[1], which is no []"),
    ] {
        let mut given = llama();
        given.extend(object(metadata));
        let error = folder.convert("m.safetensors", "out.gguf", &options().metadata(given)).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn tensors_that_ggml_cannot_read_are_refused() {
    let folder = Folder::new();
    let long = "n".repeat(64);
    for (name, dtype, shape, bytes, message) in [
        ("bytes", "U8", &[2][..], 2, "GGUF has no dtype U8 (`ConvertOptions::allow_loss` leaves it out)"),
        ("deep", "F32", &[1, 1, 1, 1, 1], 4, "it has 5 dimensions, and ggml allows 4"),
        (
            &long,
            "F32",
            &[1],
            4,
            "its name has 64 bytes, and ggml reads at most 63 (`ConvertOptions::allow_loss` stores it under this",
        ),
    ] {
        folder.write("m.safetensors", &safetensors_file(json!({}), &[(name, dtype, shape, noise(1, bytes))]));
        let to = options().metadata(llama());
        let error = folder.convert("m.safetensors", "out.gguf", &to).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        folder.convert("m.safetensors", "out.gguf", &to.allow_loss(true)).unwrap();
        assert_eq!(folder.open("out.gguf").tensors().len(), usize::from(name == long));
    }
}

#[test]
fn unknown_types_keep_their_bytes() {
    let folder = Folder::new();
    let mut file = [&b"GGUF"[..], &3u32.to_le_bytes(), &1u64.to_le_bytes(), &0u64.to_le_bytes()].concat();
    file.extend(text("x"));
    file.extend([&1u32.to_le_bytes()[..], &3u64.to_le_bytes(), &99u32.to_le_bytes(), &0u64.to_le_bytes()].concat());
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend(noise(1, 32));
    folder.write("m.gguf", &file);
    folder.convert("m.gguf", "out.gguf", &options().omit_metadata(true)).unwrap();
    assert!(fs::read(folder.path("out.gguf")).unwrap() == file);
}

#[test]
fn metadata_first_needs_several_files_of_gguf() {
    let folder = Folder::new();
    source(&folder, json!({}));
    let first = options().metadata(llama()).metadata_first(true);
    let error = folder.convert("m.safetensors", "out.gguf", &first).unwrap_err();
    assert!(
        error.to_string().contains("Specify the size of the files with `ConvertOptions::max_shard_bytes`."),
        "{error}"
    );
    let other = first.format(Some(&safetensors::FORMAT)).max_shard_bytes(Some(1000));
    let error = folder.convert("m.safetensors", "out.safetensors", &other).unwrap_err();
    assert!(error.to_string().contains("Leave it out, or choose one of gguf."), "{error}");
}

#[test]
fn quantized_tensors_survive_shards_of_apr_and_a_cast_needs_no_extension() {
    let folder = Folder::new();
    let before = Reader::open(root().join("gguf/quant.gguf")).unwrap();
    let apr = options().format(Some(&apr::FORMAT));
    for compression in [Compression::None, Compression::Lz4, Compression::Auto] {
        let to = apr.clone().compression(compression).max_shard_bytes(Some(3000));
        let converted = folder.convert(root().join("gguf/quant.gguf"), "m.apr", &to).unwrap();
        assert!(converted.files.len() > 2, "{:?}", converted.files);
        assert!(converted.warnings.iter().any(|warning| warning.contains("of Q4_K in this format")), "{converted:?}");
        assert_eq!(content(&folder.open("m.apr")), content(&before));
        folder.open("m.apr").verify(&()).unwrap();
        folder.convert("m.apr", "out.gguf", &options()).unwrap();
        assert_eq!(content(&folder.open("out.gguf")), content(&before));
    }
    let cast = apr.dtype(Some(crate::dtype::Dtype::F16)).allow_loss(true);
    let converted = folder.convert(root().join("gguf/quant.gguf"), "cast.apr", &cast).unwrap();
    assert!(!converted.warnings.iter().any(|warning| warning.contains("of Q4_K")), "{converted:?}");
}
