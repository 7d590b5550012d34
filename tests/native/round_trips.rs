//! Conversions preserve tensors and metadata.

use super::bytes::{Apr, Entry, crc32, noise, ramp, safetensors, varied};
use super::{Folder, content, content_of};
use serde_json::json;
use std::fs;
use std::path::Path;
use weightstream::ErrorKind;
use weightstream::internals::index::{Encoding, Metadata};
use weightstream::internals::write::{Compression, ConvertOptions};

fn auto() -> ConvertOptions {
    ConvertOptions::default().compression(Compression::Auto)
}

fn lz4() -> ConvertOptions {
    ConvertOptions::default().compression(Compression::Lz4)
}

#[test]
fn every_dtype_shape_and_name_round_trips() {
    let folder = Folder::new();
    folder.write("m.apr", &varied().build());
    let before = content_of(&folder.path("m.apr"));
    for (options, name) in [(ConvertOptions::default(), "raw.apr"), (lz4(), "lz4.apr")] {
        folder.convert("m.apr", name, &options).unwrap();
        let reader = folder.open(name);
        assert_eq!(content(&reader), before, "{name}");
        assert!(reader.verify(&()).is_ok(), "{name}");
        assert_eq!(reader.metadata(), folder.open("m.apr").metadata(), "{name}");
    }
}

#[test]
fn a_model_without_tensors_round_trips() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors(None, &[]));
    folder.convert("m.safetensors", "m.apr", &lz4()).unwrap();
    assert_eq!(content_of(&folder.path("m.apr")), []);
    assert!(folder.open("m.apr").verify(&()).is_ok());
}

#[test]
fn safetensors_keep_order_and_metadata() {
    let folder = Folder::new();
    let tensors =
        [("z", "F32", &[2, 3][..], noise(1, 24)), ("a", "I64", &[][..], noise(2, 8)), ("m", "U8", &[0][..], vec![])];
    folder.write("m.safetensors", &safetensors(Some(json!({ "format": "pt" })), &tensors));
    let given: Metadata = serde_json::from_str(r#"{"n_layer": 6, "model_type": "bert", "vocab": ["a"]}"#).unwrap();
    let options = ConvertOptions::default().metadata(given);
    let converted = folder.convert("m.safetensors", "m.apr", &options).unwrap();
    assert_eq!((converted.tensors, converted.decoded_bytes), (3, 32));
    assert_eq!(converted.files, [(folder.path("m.apr"), fs::metadata(folder.path("m.apr")).unwrap().len())]);
    assert_eq!(content_of(&folder.path("m.apr")), content_of(&folder.path("m.safetensors")));
    let metadata = serde_json::to_string(&folder.open("m.apr").metadata().metadata).unwrap();
    let expected = concat!(
        r#"{"apr_version":"2.0.0","model_type":"bert","architecture":{"n_layer":6},"#,
        r#""n_layer":6,"vocab":["a"],"__metadata__":{"format":"pt"},"#,
        r#""weightstream.source":"{\"format\":\"safetensors\"}"}"#,
    );
    assert_eq!(metadata, expected);
}

/// What the caller gave for an APR file stays at its top level, although the file was converted from the format through
/// which it goes.
#[test]
fn given_metadata_return_through_the_format_of_the_source() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for source in ["safetensors/floats.safetensors", "gguf/plain.gguf", "aero/basic.aero", "ztensor/zt212_basic.zt"] {
        let folder = Folder::new();
        let (_, extension) = source.rsplit_once('.').unwrap();
        let (first, between) = (format!("first.{extension}"), format!("between.{extension}"));
        fs::copy(fixtures.join(source), folder.path(&first)).unwrap();
        let given = json!({ "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 384 });
        let given = ConvertOptions::default().metadata(given.as_object().cloned().unwrap());
        folder.convert(&first, "a.apr", &given).unwrap();
        folder.convert("a.apr", &between, &ConvertOptions::default()).unwrap();
        folder.convert(&between, "b.apr", &ConvertOptions::default()).unwrap();
        let [before, after] = ["a.apr", "b.apr"].map(|name| folder.open(name).metadata().metadata.clone());
        assert_eq!(before["hidden_size"], 384, "{source}");
        assert_eq!(after, before, "{source}");
    }
}

/// Reads the file by the offsets of the specification, without the library's parser.
#[test]
fn written_files_have_the_layout_of_the_specification() {
    let folder = Folder::new();
    let tensors = [
        ("noise", "U8", &[70_001][..], noise(1, 70_001)),
        ("ramp", "F32", &[50, 1000][..], ramp(200_000)),
        ("q", "F32", &[][..], noise(2, 4)),
    ];
    folder.write("m.safetensors", &safetensors(None, &tensors));
    for (aligned_flag, multiple) in [(2, 64), (4, 32)] {
        folder.convert("m.safetensors", "m.apr", &auto().alignment(Some(multiple))).unwrap();
        let file = fs::read(folder.path("m.apr")).unwrap();
        let u16_at = |at: usize| u64::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
        let u32_at = |at: usize| u64::from(u32::from_le_bytes(file[at..at + 4].try_into().unwrap()));
        let u64_at = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());

        assert_eq!(&file[..4], b"APR2");
        assert_eq!((u16_at(4), u16_at(6)), (2, 0));
        assert_eq!(u32_at(8), 1 | aligned_flag); // COMPRESSED
        assert_eq!(u32_at(12), 32);
        let (metadata_end, index, data) = (32 + u32_at(16), u32_at(20), u32_at(28));
        assert_eq!(metadata_end, index);
        assert!(index + u32_at(24) <= data && data % multiple == 0);
        assert!(file[32..index as usize].starts_with(br#"{"apr_version":"2.0.0","#));

        assert_eq!(u64_at(index as usize), 3);
        let mut at = index as usize + 8;
        for (name, _, shape, bytes) in &tensors {
            assert_eq!(u16_at(at), name.len() as u64);
            at += 2;
            assert_eq!(&file[at..at + name.len()], name.as_bytes());
            at += name.len();
            assert_eq!(file[at + 1], shape.len() as u8);
            at += 2;
            for dim in *shape {
                assert_eq!(u64_at(at), *dim);
                at += 8;
            }
            let (offset, size, raw_size, flags) = (u64_at(at), u64_at(at + 8), u64_at(at + 16), u32_at(at + 24));
            at += 28;
            assert_eq!(offset % multiple, 0);
            let stored = &file[(data + offset) as usize..][..size as usize];
            if *name == "ramp" {
                assert_eq!((raw_size, flags), (bytes.len() as u64, 1));
                assert_eq!(decode_lz4(stored), *bytes);
            } else {
                assert_eq!((raw_size, flags), (0, 0)); // LZ4 would not make it smaller
                assert_eq!(stored, bytes);
            }
        }
        assert_eq!(at as u64, index + u32_at(24));

        let footer = file.len() - 16;
        assert_eq!(u32_at(footer), u64::from(crc32(&file[..footer])));
        assert_eq!(&file[footer + 4..footer + 8], b"2RPA");
        assert_eq!(u64_at(footer + 8), file.len() as u64);
    }
}

fn decode_lz4(mut stored: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    while let Some((length, rest)) = stored.split_first_chunk() {
        assert_eq!(decoded.len() % 65_536, 0, "only the last block may be short");
        let (block, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        decoded.extend(lz4_flex::block::decompress(block, 65_536).unwrap());
        stored = rest;
    }
    decoded
}

#[test]
fn header_flags_match_the_contents() {
    let folder = Folder::new();
    let flags = |name: &str| u32::from_le_bytes(fs::read(folder.path(name)).unwrap()[8..12].try_into().unwrap());
    folder.write("noise.safetensors", &safetensors(None, &[("a", "U8", &[1000], noise(1, 1000))]));
    folder.convert("noise.safetensors", "noise.apr", &auto()).unwrap();
    assert_eq!(flags("noise.apr"), 2); // nothing was compressed
    folder.write("q.apr", &Apr::new(vec![Entry::raw("q", 16, &[32], noise(1, 34))]).build());
    folder.convert("q.apr", "q2.apr", &ConvertOptions::default()).unwrap();
    assert_eq!(flags("q2.apr"), 2 | 64); // QUANTIZED
}

#[test]
fn incompressible_tensors_are_stored_raw() {
    let folder = Folder::new();
    let tensors = [
        ("before", "U8", &[100_000][..], vec![1; 100_000]),
        ("noise", "U8", &[200_000][..], noise(1, 200_000)),
        ("after", "U8", &[100_000][..], vec![2; 100_000]),
    ];
    folder.write("m.safetensors", &safetensors(None, &tensors));
    for options in [auto(), lz4()] {
        folder.convert("m.safetensors", "m.apr", &options).unwrap();
        let reader = folder.open("m.apr");
        let encodings: Vec<_> = reader.tensors().iter().map(|tensor| tensor.components[0].encoding).collect();
        assert_eq!(encodings, [Encoding::Lz4Blocks, Encoding::Raw, Encoding::Lz4Blocks]);
        assert_eq!(content(&reader), content_of(&folder.path("m.safetensors")));
        assert!(reader.verify(&()).is_ok());
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let folder = Folder::new();
    folder.write("m.apr", &varied().build());
    let options = lz4().max_shard_bytes(Some(20_000));
    folder.convert("m.apr", "a.apr", &options).unwrap();
    let first: Vec<_> =
        folder.names().iter().map(|name| (name.clone(), fs::read(folder.path(name)).unwrap())).collect();
    folder.convert("m.apr", "a.apr", &options).unwrap(); // overwrites the files
    for (name, bytes) in first {
        assert_eq!(fs::read(folder.path(&name)).unwrap(), bytes, "{name}");
    }
}

#[test]
fn tensors_that_apr_cannot_store_are_rejected_before_writing() {
    let folder = Folder::new();
    let long = "x".repeat(65_536);
    let rejected = [
        ("u16", "U16", &[2][..], 4, ErrorKind::Unsupported, "APR has no dtype U16"),
        ("f8", "F8_E4M3", &[1], 1, ErrorKind::Unsupported, "with `ConvertOptions::dtype`"),
        (long.as_str(), "U8", &[1], 1, ErrorKind::Limit, "its name has 65536 bytes"),
        ("deep", "U8", &[1; 9], 1, ErrorKind::Limit, "it has 9 dimensions, and APR allows 8"),
    ];
    for (name, dtype, shape, length, kind, text) in rejected {
        let good = ("good", "U8", &[1][..], vec![1]);
        folder.write("m.safetensors", &safetensors(None, &[good, (name, dtype, shape, noise(1, length))]));
        let error = folder.convert("m.safetensors", "out.apr", &ConvertOptions::default()).unwrap_err();
        assert_eq!(error.kind, kind);
        assert_eq!(error.context.tensor.as_deref(), Some(name));
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(folder.names(), ["m.safetensors"]);
    }
}

#[test]
fn the_longest_name_and_the_maximum_number_of_dimensions_are_written() {
    let folder = Folder::new();
    let long = "x".repeat(65_535);
    folder.write("m.safetensors", &safetensors(None, &[(long.as_str(), "U8", &[1; 8], vec![1])]));
    folder.convert("m.safetensors", "m.apr", &ConvertOptions::default()).unwrap();
    assert_eq!(content_of(&folder.path("m.apr")), content_of(&folder.path("m.safetensors")));
}
