//! Tests of the EMBD writer.

use crate::ErrorKind;
use crate::format::embd;
use crate::index::Metadata;
use crate::native::Reader;
use crate::testing::corpus::{fixtures, root};
use crate::testing::model::{
    Folder, Given, content, noise, required_by_embd, safetensors_file, to, varied, varied_for,
};
use crate::write::{self, Compression, ConvertOptions, DigestAlgorithm};
use serde_json::{Value, json};
use std::fs;

fn options() -> ConvertOptions {
    to(&embd::FORMAT)
}

/// Options with these keys after the required ones.
fn with(metadata: &Value) -> ConvertOptions {
    options().metadata(and_required(metadata))
}

fn and_required(metadata: &Value) -> Metadata {
    let mut all = required_by_embd();
    all.extend(metadata.as_object().unwrap().clone());
    all
}

fn vocabulary() -> Value {
    json!({
        "tokens": ["[PAD]", "##né", "", "日本"],
        "special_tokens": { "pad_id": 0, "unk_id": 1, "cls_id": 2, "sep_id": 3, "mask_id": 4_294_967_295u32 },
    })
}

fn metadata_of(folder: &Folder, name: &str) -> Metadata {
    folder.open(name).metadata().metadata.clone()
}

/// Computes CRC-32/IEEE bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// Reads the file with the specification's offsets, not with the library's parser.
#[test]
fn writes_the_layout_of_the_specification() {
    let folder = Folder::new();
    let tensors = [
        ("foobar", "BF16", &[3, 5][..], noise(1, 30)),
        ("", "U8", &[0, 7][..], Vec::new()),
        ("größe", "F32", &[2, 1, 3, 1][..], noise(2, 24)),
    ];
    folder.write("m.safetensors", &safetensors_file(json!({ "model_name": "tiny" }), &tensors));
    let metadata = json!({ "num_layers": 6, "vocabulary": vocabulary() });
    folder.convert("m.safetensors", "m.weights", &with(&metadata)).unwrap();
    let file = fs::read(folder.path("m.weights")).unwrap();
    let u16_at = |at: usize| u16::from_le_bytes(file[at..at + 2].try_into().unwrap());
    let u32_at = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let offset_at = |at: usize| u32_at(at) as usize;

    assert_eq!(&file[..4], b"EMBD");
    assert_eq!((u16_at(4), u16_at(6), u32_at(8)), (1, 0, 0b111));
    assert_eq!((u32_at(56), u32_at(60)), (crc32(&file[..56]), 0));
    assert_eq!(u64_at(48), file.len() as u64);

    let (metadata, metadata_size) = (offset_at(12), offset_at(16));
    let entries = offset_at(metadata + 4);
    assert_eq!((metadata, u32_at(metadata), metadata_size), (64, 11, 8 + entries));
    let entries = &file[metadata + 8..metadata + metadata_size];
    // The tenth is the record of the value that became text.
    for entry in [&b"\x0a\0\x01\0num_layers6"[..], b"\x0a\0\x04\0model_nametiny"] {
        assert!(entries.windows(entry.len()).any(|window| window == entry));
    }

    let (vocabulary, vocabulary_size) = (offset_at(20), offset_at(24));
    let tokens = b"\x05\0[PAD]\x05\0##n\xc3\xa9\0\0\x06\0\xe6\x97\xa5\xe6\x9c\xac";
    assert_eq!(vocabulary, metadata + metadata_size);
    assert_eq!((u32_at(vocabulary), offset_at(vocabulary + 4)), (4, tokens.len()));
    assert_eq!(&file[vocabulary + 12..vocabulary + 12 + tokens.len()], tokens);
    let special = offset_at(vocabulary + 8);
    assert_eq!(special, vocabulary + 12 + tokens.len());
    assert_eq!([0, 4, 8, 12, 16].map(|at| u32_at(special + at)), [0, 1, 2, 3, u32::MAX]);
    assert_eq!(vocabulary + vocabulary_size, special + 20);

    let (index, data) = (offset_at(28), offset_at(36));
    assert_eq!((index, u32_at(32), data % 64), (vocabulary + vocabulary_size, 3, 0));
    let codes = [2, 8, 0];
    let offsets = [0, 64, 64];
    let hashes = [Some(0xbf9c_f968), Some(0x811c_9dc5), None]; // the test vectors of FNV for "foobar" and ""
    let mut name_at = index + 3 * 32;
    for (at, (name, _, shape, bytes)) in tensors.iter().enumerate() {
        let descriptor = index + 32 * at;
        assert!(hashes[at].is_none_or(|hash: u32| hash == u32_at(descriptor)), "{name}");
        assert_eq!((file[descriptor + 4], usize::from(file[descriptor + 5])), (codes[at], shape.len()));
        for dim in 0..4 {
            let expected = shape.get(dim).copied().unwrap_or(0);
            assert_eq!(u64::from(u32_at(descriptor + 8 + 4 * dim)), expected);
        }
        assert_eq!(usize::from(u16_at(descriptor + 6)), name.len());
        assert_eq!(&file[name_at..name_at + name.len()], name.as_bytes());
        name_at += name.len();
        assert_eq!(u64_at(descriptor + 24), offsets[at]);
        assert_eq!(&file[data + offsets[at] as usize..][..bytes.len()], bytes);
    }
    assert_eq!(u64_at(40), 64 + 24); // to the last tensor's end

    let footer = file.len() - 16;
    assert_eq!(footer, data + 64 + 24);
    assert_eq!((u32_at(footer), u32_at(footer + 4)), (crc32(&file[data..footer]), crc32(&file[..footer])));
    assert_eq!(&file[footer + 8..], b"DBME\0\0\0\0");
}

#[test]
fn every_dtype_of_the_specification_round_trips() {
    let dtypes =
        [("F32", 4), ("F16", 2), ("BF16", 2), ("I32", 4), ("I16", 2), ("I8", 1), ("U32", 4), ("U16", 2), ("U8", 1)];
    let names: Vec<[String; 2]> =
        dtypes.iter().map(|(dtype, _)| ["重み \u{1f9e0}\n", "empty"].map(|kind| format!("{kind}.{dtype}"))).collect();
    let mut tensors: Vec<Given> = Vec::new();
    for ((dtype, bytes), [matrix, empty]) in dtypes.into_iter().zip(&names) {
        tensors.push((empty, dtype, &[4, 0, 2], Vec::new()));
        tensors.push((matrix, dtype, &[3, 5, 1, 2], noise(7, 30 * bytes)));
    }
    let long = "x".repeat(65_535);
    tensors.push((&long, "U8", &[1], vec![1]));
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    folder.convert("m.safetensors", "m.weights", &options()).unwrap();
    let written = folder.open("m.weights");
    assert_eq!(content(&written), content(&folder.open("m.safetensors")));
    written.verify(&()).unwrap();
}

#[test]
fn files_of_the_formats_own_tools_keep_tensors_and_vocabulary() {
    let folder = Folder::new();
    let mut tokens = 0;
    for fixture in fixtures().into_iter().filter(|fixture| fixture.folder() == "embd") {
        let before = Reader::open(root().join(&fixture.path)).unwrap();
        folder.convert(root().join(&fixture.path), "out.weights", &options()).unwrap();
        let after = folder.open("out.weights");
        assert_eq!(content(&after), content(&before), "{}", fixture.path);
        let expected = and_required(&Value::Object(before.metadata().metadata.clone()));
        assert_eq!(after.metadata().metadata, expected, "{}", fixture.path);
        after.verify(&()).unwrap();
        let vocabulary = after.metadata().metadata.get("vocabulary"); // one file has none
        tokens += vocabulary.map_or(0, |vocabulary| vocabulary["tokens"].as_array().unwrap().len());
    }
    assert!(tokens > 20, "{tokens}");
}

#[test]
fn a_vocabulary_round_trips_through_every_format() {
    let folder = Folder::new();
    for format in write::formats() {
        folder.write("m.safetensors", &varied_for(&[format]));
        folder.convert("m.safetensors", "m.weights", &with(&json!({ "vocabulary": vocabulary() }))).unwrap();
        assert_eq!(metadata_of(&folder, "m.weights")["vocabulary"], vocabulary());
        folder.convert("m.weights", "written", &to(format)).unwrap();
        folder.convert("written", "back.weights", &options()).unwrap();
        assert_eq!(metadata_of(&folder, "back.weights")["vocabulary"], vocabulary(), "{format:?}");
    }
}

#[test]
fn invalid_vocabularies_are_written_as_text() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({}), &[]));
    let mut too_few = vocabulary();
    too_few["special_tokens"].as_object_mut().unwrap().remove("unk_id");
    let mut more = vocabulary();
    more["kind"] = json!("wordpiece");
    for value in [json!("a.txt"), json!(["a"]), json!({ "tokens": [1] }), too_few, more] {
        folder.convert("m.safetensors", "m.weights", &with(&json!({ "vocabulary": value }))).unwrap();
        let text = value.as_str().map_or(value.to_string(), str::to_owned);
        assert_eq!(metadata_of(&folder, "m.weights")["vocabulary"], text);
    }
}

#[test]
fn scalars_are_rejected_or_stored_with_one_dimension() {
    let folder = Folder::new();
    let tensors = [("s", "F32", &[][..], noise(1, 4)), ("t", "U8", &[2][..], noise(2, 2))];
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    let error = folder.convert("m.safetensors", "m.weights", &options()).unwrap_err();
    assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Unsupported, Some("s")));
    let what =
        "it is a scalar, and every tensor of EMBD has a dimension (`ConvertOptions::allow_loss` stores it as [1])";
    assert_eq!(error.what, what);
    assert_eq!(folder.names(), ["m.safetensors"]);

    let lossy = options().allow_loss(true);
    let converted = folder.convert("m.safetensors", "m.weights", &lossy).unwrap();
    let warning = r#"stored as [1]: tensor "s": it is a scalar, and every tensor of EMBD has a dimension"#;
    assert_eq!((converted.tensors, converted.warnings), (2, vec![warning.to_owned()]));
    let mut expected = content(&folder.open("m.safetensors"));
    expected[0].2 = vec![1];
    assert_eq!(content(&folder.open("m.weights")), expected);
}

#[test]
fn unsupported_tensors_are_rejected_by_name() {
    let folder = Folder::new();
    let long = "x".repeat(65_536);
    let refused = [
        (
            "double",
            "F64",
            &[1][..],
            8,
            ErrorKind::Unsupported,
            "Cast it with `ConvertOptions::dtype` to one of F32, F16, BF16, I32",
        ),
        ("deep", "U8", &[1; 5], 1, ErrorKind::Limit, "it has 5 dimensions, and EMBD allows 4"),
        ("wide", "U8", &[1 << 32, 0], 0, ErrorKind::Limit, "it has a dimension of 4294967296"),
        (&long, "U8", &[1], 1, ErrorKind::Limit, "its name has 65536 bytes, and EMBD allows 65535"),
    ];
    for (name, dtype, shape, length, kind, words) in refused {
        let tensors = [("good", "U8", &[1][..], vec![1]), (name, dtype, shape, noise(1, length))];
        folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
        let error = folder.convert("m.safetensors", "out.weights", &options()).unwrap_err();
        assert_eq!((error.kind, error.context.tensor.as_deref()), (kind, Some(name)));
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(folder.names(), ["m.safetensors"]);
    }
}

#[test]
fn metadata_that_is_too_long_is_rejected_by_key() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({ "author": "Zoë" }), &[]));
    let long = "é".repeat(32_768);
    let refused = [
        (json!({ "merges": long }), "the value of `merges` in the metadata has 65536 bytes, and EMBD allows 65535"),
        (json!({ &long: "" }), "the key `éééééééééééééééééééééééééééééééééééééééé…` of the metadata has 65536 bytes"),
        (
            json!({ "vocabulary": { "tokens": ["a", long] } }),
            "token 1 of the vocabulary in the metadata has 65536 bytes",
        ),
    ];
    for (metadata, words) in refused {
        let error = folder.convert("m.safetensors", "out.weights", &with(&metadata)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Limit);
        assert!(error.what.contains(words), "{error}");
        assert_eq!(folder.names(), ["m.safetensors"]);

        let lossy = with(&metadata).allow_loss(true);
        let converted = folder.convert("m.safetensors", "out.weights", &lossy).unwrap();
        assert!(converted.warnings[0].starts_with("left out: ") && converted.warnings[0].contains(words));
        assert_eq!(metadata_of(&folder, "out.weights"), and_required(&json!({ "author": "Zoë" })));
        fs::remove_file(folder.path("out.weights")).unwrap();
    }
    let tokens = with(&json!({ "vocabulary": { "tokens": vec![""; (1 << 20) + 1] } }));
    let error = folder.convert("m.safetensors", "out.weights", &tokens).unwrap_err();
    assert!(error.what.contains("has 1048577 tokens; weightstream reads at most 1048576"), "{error}");

    let shorter = with(&json!({ "author": "Z" })); // replaces the value of the source, as the error advises
    folder.convert("m.safetensors", "out.weights", &shorter).unwrap();
    assert_eq!(metadata_of(&folder, "out.weights"), and_required(&json!({ "author": "Z" })));
}

#[test]
fn heads_beyond_the_readers_limit_are_rejected() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({}), &[]));
    let metadata = (0..1025).map(|at| (at.to_string(), "x".repeat(65_535).into())).collect();
    let error = folder.convert("m.safetensors", "out.weights", &with(&Value::Object(metadata))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Limit);
    assert!(error.what.contains("weightstream reads at most 67108864"), "{error}");
    assert_eq!(folder.names(), ["m.safetensors"]);
}

#[test]
fn changed_bytes_are_detected() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    folder.convert("m.safetensors", "m.weights", &with(&json!({ "vocabulary": vocabulary() }))).unwrap();
    let sound = fs::read(folder.path("m.weights")).unwrap();
    for at in [9, 50, 70, 130, 600, 1_000, sound.len() / 2, sound.len() - 20, sound.len() - 16, sound.len() - 5] {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x10;
        let path = folder.write("damaged.weights", &damaged);
        assert!(Reader::open(path).and_then(|reader| reader.verify(&())).is_err(), "{at}");
    }
}

#[test]
fn unsupported_options_are_rejected() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({}), &[]));
    for wrong in [
        options().compression(Compression::Lz4),
        options().digest(Some(DigestAlgorithm::Crc32c)),
        options().alignment(Some(256)),
        options().max_shard_bytes(Some(1000)),
    ] {
        let error = folder.convert("m.safetensors", "out.weights", &wrong).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(folder.names(), ["m.safetensors"]);
}
