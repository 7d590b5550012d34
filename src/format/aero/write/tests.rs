//! Tests of the AERO writer.

use crate::algorithm::Algorithm;
use crate::format::{aero, safetensors};
use crate::loader::{Loader, Options, TensorRequest};
use crate::native::Reader;
use crate::source::memory::MemorySource;
use crate::testing::corpus::{fixtures, root};
use crate::testing::model::{Folder, Given, content, noise, safetensors_file, varied};
use crate::write::{self, Compression, ConvertOptions, DigestAlgorithm};
use crate::{ErrorKind, Result};
use futures::executor::block_on;
use serde_json::{Map, Value, json};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

fn options() -> ConvertOptions {
    ConvertOptions { format: Some(&aero::FORMAT), ..ConvertOptions::default() }
}

/// Returns the metadata of a file without its UUID, which differs between files.
fn metadata(reader: &Reader) -> Map<String, Value> {
    let mut metadata = reader.metadata().metadata.clone();
    metadata.remove("uuid").unwrap();
    metadata
}

/// An entry of the table of contents.
struct Chunk {
    kind: String,
    flags: u32,
    name: String,
    range: Range<usize>,
    blake3: [u8; 32],
}

fn u32_at(file: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(file[at..at + 4].try_into().unwrap())
}

fn u64_at(file: &[u8], at: usize) -> usize {
    u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize
}

/// Reads the table of contents independently of the parser, from the tables in the specification.
fn chunks(file: &[u8]) -> Vec<Chunk> {
    assert_eq!(&file[..12], b"AERO\0\0\x01\0\x60\0\0\0");
    let (toc, names) = (u64_at(file, 12), u64_at(file, 28));
    assert_eq!((toc, names % 8, u64_at(file, 36) % 8, u64_at(file, 44)), (96, 0, 0, 0));
    assert_eq!(file[68..96], [0; 28]);
    let count = u32_at(file, toc) as usize;
    assert_eq!(u64_at(file, 20), 16 + 80 * count);
    let chunk = |entry: usize| {
        let (start, length) = (u64_at(file, entry + 8), u64_at(file, entry + 16));
        assert_eq!(u64_at(file, entry + 24), length);
        let name = names + u32_at(file, entry + 32) as usize;
        let name = name..name + u32_at(file, entry + 36) as usize;
        assert_eq!((file[name.end], u64_at(file, entry + 40)), (0, 0));
        Chunk {
            kind: String::from_utf8(file[entry..entry + 4].to_vec()).unwrap(),
            flags: u32_at(file, entry + 4),
            name: String::from_utf8(file[name].to_vec()).unwrap(),
            range: start..start + length,
            blake3: file[entry + 48..entry + 80].try_into().unwrap(),
        }
    };
    (0..count).map(|number| chunk(toc + 16 + 80 * number)).collect()
}

fn every_dtype() -> Vec<u8> {
    let dtypes = ["F16", "F32", "BF16", "F64", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL"];
    let element_bytes = [2, 4, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1];
    let mut tensors: Vec<Given> = Vec::new();
    for (seed, (dtype, bytes)) in dtypes.into_iter().zip(element_bytes).enumerate() {
        tensors.push((dtype, dtype, &[3, 1, 5], noise(seed as u64, 15 * bytes)));
    }
    tensors.push(("scalar", "F32", &[], noise(20, 4)));
    tensors.push(("empty", "F64", &[3, 0], Vec::new()));
    tensors.push(("größe/層 1\n\u{1f9ea}", "U8", &[1], noise(21, 1)));
    tensors.push(("", "U8", &[2], noise(22, 2)));
    safetensors_file(json!({ "format": "pt" }), &tensors)
}

#[test]
fn every_dtype_scalars_and_empty_tensors_round_trip_in_order_with_digests() {
    let folder = Folder::new();
    folder.write("m.safetensors", &every_dtype());
    for alignment in [64, 1] {
        folder.convert("m.safetensors", "m.aero", &options().alignment(Some(alignment))).unwrap();
        let (before, after) = (folder.open("m.safetensors"), folder.open("m.aero"));
        assert_eq!(content(&after), content(&before));
        let names = |reader: &Reader| reader.tensors().iter().map(|tensor| tensor.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&after), names(&before));
        for tensor in after.tensors() {
            let verified = after.read_pieces(&tensor.name, "data", &mut |_| Ok(())).unwrap();
            assert_eq!(verified, Some(Algorithm::Blake3), "{}", tensor.name);
            assert_eq!(tensor.first_byte() % alignment, 0, "{}", tensor.name);
        }
        let verified = after.verify(&()).unwrap();
        assert_eq!(
            (verified.checksums.into_iter().collect::<Vec<_>>(), verified.tensors_without_checksum),
            (vec![Algorithm::Blake3], 0)
        );
        assert_eq!(after.warnings().count(), 0);
    }
    let packed = chunks(&fs::read(folder.path("m.aero")).unwrap()).pop().unwrap(); // of alignment 1: without gaps
    assert_eq!(packed.range.len(), 15 * 47 + 4 + 1 + 2);
}

#[test]
fn writes_the_chunks_in_the_layout_of_the_specification() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    folder.convert("m.safetensors", "m.aero", &options()).unwrap();
    let file = fs::read(folder.path("m.aero")).unwrap();
    let chunks = chunks(&file);
    let listed: Vec<_> = chunks.iter().map(|chunk| (&*chunk.kind, &*chunk.name, chunk.flags)).collect();
    let expected = [
        ("IHSH", "control.integrity", 8),
        ("MJSN", "meta.json", 0),
        ("MMSG", "manifest", 0),
        ("TIDX", "tensors", 4),
        ("PHSH", "weights.shard0.phsh", 8),
        ("WTSH", "weights.shard0", 2),
    ];
    assert_eq!(listed, expected);
    for pair in chunks.windows(2) {
        assert!(pair[0].range.end <= pair[1].range.start, "{} overlaps {}", pair[0].name, pair[1].name);
    }
    for chunk in &chunks {
        assert_eq!(chunk.range.start % 16, 0);
        assert_eq!(*blake3::hash(&file[chunk.range.clone()]).as_bytes(), chunk.blake3, "{}", chunk.name);
    }
    assert_eq!(chunks[5].range.end, file.len());
    assert_eq!(&file[chunks[1].range.clone()], r#"{"format":"pt","author":"Zoë"}"#.as_bytes());

    // AIP-0001: the digest of all before the first chunk, with zeros for the digests of chunks.
    let end = chunks[0].range.start;
    let mut control = file[..end].to_vec();
    for number in 0..chunks.len() {
        control[96 + 16 + 80 * number + 48..][..32].fill(0);
    }
    let integrity = &file[chunks[0].range.clone()];
    let text = |text: &str| [&[0xa0 | text.len() as u8], text.as_bytes()].concat();
    let expected = [
        &[0x83][..],
        &text("algo"),
        &text("blake3-256"),
        &text("covered_ranges"),
        &[0x91, 0x92, 0, 0xcd],
        &(end as u16).to_be_bytes(),
        &text("digest"),
        &[0xc4, 32],
        blake3::hash(&control).as_bytes(),
    ]
    .concat();
    assert_eq!(integrity.len(), 256);
    assert!(integrity.starts_with(&expected) && integrity[expected.len()..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_changed_layout_is_detected_before_any_tensor_is_read() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    folder.convert("m.safetensors", "m.aero", &options()).unwrap();
    let sound = fs::read(folder.path("m.aero")).unwrap();
    for at in [52, 96 + 16 + 4, 96 + 16 + 80 * 5 + 8, 96 + 16 + 80 * 6 + 3] {
        let mut file = sound.clone();
        file[at] ^= 1;
        folder.write("bad.aero", &file);
        assert!(Reader::open(folder.path("bad.aero")).is_err(), "byte {at}");
    }
}

/// Reads rows of the tensor `t`: their bytes, the algorithm that verified them, and the number of bytes received.
fn rows(path: &Path, rows: Range<u64>) -> Result<(Vec<u8>, Option<Algorithm>, u64)> {
    block_on(async {
        let source = MemorySource::new(vec![("m.aero".to_owned(), fs::read(path).unwrap().into())])?;
        let loader = Rc::new(Loader::open(source, Options::default()).await?);
        let request = TensorRequest::default().with_rows(Some(rows));
        let loaded = loader.load_tensor("t", request, Rc::new(())).await?;
        Ok((loaded.components[0].buffer.clone(), loaded.verified, loader.stats().bytes_received()))
    })
}

#[test]
fn a_slice_of_a_large_tensor_is_verified_without_reading_the_rest() {
    let folder = Folder::new();
    let bytes = noise(1, 6_000_000);
    let tensors: [Given; 2] = [("first", "U8", &[100], noise(2, 100)), ("t", "F32", &[1500, 1000], bytes.clone())];
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    for digest in [DigestAlgorithm::Blake3, DigestAlgorithm::None] {
        let path = folder.path("m.aero");
        folder.convert("m.safetensors", "m.aero", &options().digest(Some(digest))).unwrap();
        let (slice, verified, received) = rows(&path, 700..710).unwrap();
        assert!(slice == bytes[2_800_000..2_840_000]);
        assert_eq!(verified, Some(Algorithm::Blake3));
        assert!(received < 2 << 20, "{received}");
        assert_eq!(folder.open("m.aero").read_pieces("t", "data", &mut |_| Ok(())).unwrap(), Some(Algorithm::Blake3));

        let mut file = fs::read(&path).unwrap();
        let shard = chunks(&file).pop().unwrap().range;
        file[shard.start + 2_900_000] ^= 1;
        folder.write("m.aero", &file);
        assert_eq!(rows(&path, 700..710).unwrap_err().kind, ErrorKind::Checksum); // the same page
        assert!(rows(&path, 0..100).is_ok());
        assert_eq!(folder.open("m.aero").verify(&()).unwrap_err().kind, ErrorKind::Checksum);
    }
}

#[test]
fn a_file_without_tensors_round_trips() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({ "a": "b" }), &[]));
    folder.convert("m.safetensors", "m.aero", &options()).unwrap();
    assert_eq!(folder.open("m.aero").tensors().len(), 0);
    assert_eq!(Value::Object(metadata(&folder.open("m.aero"))), json!({ "a": "b" }));
    folder.open("m.aero").verify(&()).unwrap();

    let empty: [Given; 1] = [("empty", "F32", &[0], Vec::new())];
    folder.write("m.safetensors", &safetensors_file(json!({}), &empty));
    folder.convert("m.safetensors", "m.aero", &options()).unwrap();
    assert_eq!(content(&folder.open("m.aero")), content(&folder.open("m.safetensors")));
    let kinds: Vec<_> = chunks(&fs::read(folder.path("m.aero")).unwrap()).into_iter().map(|chunk| chunk.kind).collect();
    assert_eq!(kinds, ["IHSH", "MJSN", "MMSG", "TIDX", "WTSH"]); // without pages
}

#[test]
fn files_of_other_aero_writers_round_trip() {
    let folder = Folder::new();
    let mut converted = 0;
    for fixture in fixtures().into_iter().filter(|fixture| fixture.folder() == "aero") {
        let path = root().join(&fixture.path);
        let Ok(before) = Reader::open(&path) else { continue }; // a set at another URL
        folder.convert(&path, "once.aero", &options()).unwrap();
        let after = folder.open("once.aero");
        assert_eq!(content(&after), content(&before), "{}", fixture.path);
        assert_eq!(metadata(&after), metadata(&before), "{}", fixture.path);
        for tensor in before.tensors() {
            assert_eq!(after.tensor(&tensor.name).unwrap().attributes, tensor.attributes, "{}", fixture.path);
        }
        after.verify(&()).unwrap();
        folder.convert("once.aero", "twice.aero", &options()).unwrap();
        let [once, twice] = ["once.aero", "twice.aero"].map(|name| fs::read(folder.path(name)).unwrap());
        assert!(once == twice, "{}", fixture.path);
        converted += 1;
    }
    assert!(converted > 15, "{converted}");
}

#[test]
fn safetensors_files_round_trip_with_their_metadata() {
    let folder = Folder::new();
    for fixture in fixtures().into_iter().filter(|fixture| fixture.folder() == "safetensors") {
        let path = root().join(&fixture.path);
        let before = Reader::open(&path).unwrap();
        let Ok(_) = folder.convert(&path, "m.aero", &options()) else { continue }; // AERO does not support every tensor
        let back = ConvertOptions { format: Some(&safetensors::FORMAT), ..options() };
        folder.convert("m.aero", "back.safetensors", &back).unwrap();
        let after = folder.open("back.safetensors");
        assert_eq!(content(&after), content(&before), "{}", fixture.path);
        // The size of the files is not that of the model.
        for (key, value) in before.metadata().metadata.iter().filter(|(key, _)| *key != "total_size") {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(after.metadata().metadata.get(key), Some(&Value::from(value)), "{}: {key}", fixture.path);
        }
    }
}

#[test]
fn gguf_blocks_become_packed_tensors_with_descriptors() {
    let folder = Folder::new();
    let path = root().join("gguf/quant.gguf");
    folder.convert(&path, "m.aero", &options()).unwrap();
    let (before, after) = (Reader::open(&path).unwrap(), folder.open("m.aero"));
    assert_eq!(content(&after), content(&before));
    let descriptors = after.metadata().metadata["quant_descriptors"].as_array().unwrap().clone();
    let mut packed = 0;
    for tensor in after.tensors().iter().filter(|tensor| tensor.dtype.block().unwrap().elements > 1) {
        let id = tensor.attributes["quant_id"].as_u64().unwrap() as usize;
        assert_eq!(descriptors[id]["id"], id);
        assert_eq!(descriptors[id]["quant_name"], tensor.dtype.name());
        assert_eq!(descriptors[id]["params"], tensor.attributes["quant_params"]);
        packed += 1;
    }
    assert!(packed > 5 && descriptors.len() <= packed, "{packed}");
}

/// Readers reverse shapes if the metadata names GGUF as the source.
#[test]
fn shapes_are_kept_if_the_metadata_names_gguf_as_the_source() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    let metadata = json!({ "source_format": "gguf" }).as_object().unwrap().clone();
    let options = options().metadata(metadata).max_shard_bytes(Some(150_000));
    folder.convert("m.safetensors", "m.aero", &options).unwrap();
    assert_eq!(content(&folder.open("m.aeroset.json")), content(&folder.open("m.safetensors")));
}

#[test]
fn different_content_has_a_different_uuid() {
    let folder = Folder::new();
    let uuid = |byte: u8, options: &ConvertOptions| {
        folder.write("m.safetensors", &safetensors_file(json!({}), &[("t", "U8", &[1], vec![byte])]));
        folder.convert("m.safetensors", "m.aero", options).unwrap();
        let uuid = folder.open("m.aero").metadata().metadata["uuid"].as_str().unwrap().to_owned();
        assert!(&uuid[12..13] == "8" && "89ab".contains(&uuid[16..17]), "{uuid}");
        uuid
    };
    let without_digests = options().digest(Some(DigestAlgorithm::None));
    assert_eq!(uuid(1, &options()), uuid(1, &options()));
    assert_ne!(uuid(1, &options()), uuid(2, &options()));
    assert_ne!(uuid(1, &without_digests), uuid(2, &without_digests));
}

fn set(folder: &Folder, out: &str) -> crate::write::Converted {
    folder.write("m.safetensors", &varied());
    folder.convert("m.safetensors", out, &options().max_shard_bytes(Some(150_000))).unwrap()
}

#[test]
fn writes_a_set_with_the_shard_numbers_of_the_tools() {
    for out in ["model.aero", "model.aeroset.json", "model"] {
        let folder = Folder::new();
        let converted = set(&folder, out);
        assert_eq!(converted.path, folder.path("model.aeroset.json"));
        let parts = ["model-00001-of-00003.aero", "model-00002-of-00003.aero", "model-00003-of-00003.aero"];
        let names = [parts.as_slice(), &["model.aeroset.json", "model.index.aero"]].concat();
        assert_eq!(folder.names(), [&["m.safetensors"], names.as_slice()].concat());

        let document: Value = serde_json::from_slice(&fs::read(&converted.path).unwrap()).unwrap();
        assert_eq!(document["format"], json!({ "name": "AEROSET", "version": [0, 1] }));
        for (number, name) in parts.into_iter().enumerate() {
            let part = &document["parts"][number];
            assert_eq!((&part["path"], &part["shards"]), (&json!(name), &json!([number])));
            assert_eq!(part["size_bytes"], fs::metadata(folder.path(name)).unwrap().len());
            // Each part is also a valid file by itself, with shards numbered from 0.
            assert!(!folder.open(name).tensors().is_empty());
            folder.open(name).verify(&()).unwrap();
        }
        assert_eq!(document["global_tidx"]["path"], "model.index.aero");
        let reader = folder.open("model.aeroset.json");
        assert_eq!(content(&reader), content(&folder.open("m.safetensors")));
        assert_eq!(reader.metadata().metadata["author"], "Zoë");
        assert!(reader.verify(&()).unwrap().checksums.contains(&Algorithm::Sha256));
        assert_eq!(reader.warnings().count(), 0);
        assert_eq!(folder.open("model.index.aero").warnings().count(), 1); // the index file alone has no tensor data
    }
}

#[test]
fn files_of_a_set_respect_the_size_limit() {
    let folder = Folder::new();
    let tensors: Vec<(String, Vec<u8>)> = (0..300).map(|at| (format!("t{at}"), noise(at, at as usize * 7))).collect();
    let shapes: Vec<[u64; 1]> = tensors.iter().map(|(_, bytes)| [bytes.len() as u64]).collect();
    let given: Vec<Given> =
        tensors.iter().zip(&shapes).map(|((name, bytes), shape)| (&**name, "U8", &shape[..], bytes.clone())).collect();
    folder.write("m.safetensors", &safetensors_file(json!({}), &given));
    for (limit, alignment) in [(20_000, 64), (20_000, 4096), (50_000, 1)] {
        let options = options().max_shard_bytes(Some(limit)).alignment(Some(alignment));
        let converted = folder.convert("m.safetensors", "model.aero", &options).unwrap();
        assert_eq!(converted.warnings, [""; 0]);
        assert!(converted.files.len() > 2);
        for (path, byte_length) in converted.files {
            assert!(byte_length <= limit, "{}: {byte_length}", path.display());
        }
        assert_eq!(content(&folder.open("model.aeroset.json")), content(&folder.open("m.safetensors")));
    }
}

#[test]
fn a_damaged_file_of_a_set_is_rejected() {
    let folder = Folder::new();
    set(&folder, "model.aero");
    let verify = || Reader::open(folder.path("model.aeroset.json")).and_then(|reader| reader.verify(&()));
    verify().unwrap();
    for name in ["model-00002-of-00003.aero", "model.index.aero"] {
        let sound = fs::read(folder.path(name)).unwrap();
        let mut damaged = sound.clone();
        *damaged.last_mut().unwrap() ^= 1;
        folder.write(name, &damaged);
        assert_eq!(verify().unwrap_err().kind, ErrorKind::Checksum, "{name}");
        folder.write(name, &sound[..sound.len() - 1]);
        assert!(verify().is_err(), "{name}");
        folder.write(name, &sound);
    }
}

#[test]
fn packed_tensors_of_a_set_have_their_descriptors() {
    let folder = Folder::new();
    let path = root().join("gguf/quant.gguf");
    folder.convert(&path, "m.aero", &options().max_shard_bytes(Some(3000))).unwrap();
    let (before, set) = (Reader::open(&path).unwrap(), folder.open("m.aeroset.json"));
    assert!(set.files().len() > 3);
    assert_eq!(content(&set), content(&before));
    let check = |reader: &Reader| {
        for tensor in reader.tensors().iter().filter(|tensor| tensor.dtype.block().unwrap().elements > 1) {
            let attributes = &tensor.attributes;
            assert_eq!(attributes["quant_descriptor"]["quant_name"], tensor.dtype.name());
            assert_eq!(attributes["quant_descriptor"]["id"], attributes["quant_id"]);
        }
    };
    check(&set);
    folder.convert("m.aeroset.json", "one.aero", &options()).unwrap();
    assert_eq!(content(&folder.open("one.aero")), content(&before));
    check(&folder.open("one.aero"));
}

#[test]
fn files_of_the_set_being_read_are_not_overwritten() {
    let folder = Folder::new();
    set(&folder, "model.aero");
    let before = folder.names();
    fs::copy(folder.path("model.index.aero"), folder.path("x.index.aero")).unwrap();
    fs::remove_file(folder.path("model.index.aero")).unwrap();
    let text = fs::read_to_string(folder.path("model.aeroset.json")).unwrap();
    folder.write("model.aeroset.json", text.replace("model.index.aero", "x.index.aero").as_bytes());
    let options = options().max_shard_bytes(Some(100_000));
    let error = folder.convert("model.aeroset.json", "x.aero", &options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("x.index.aero"), "{error}");
    assert_eq!(folder.names().len(), before.len());
}

#[test]
fn unsupported_tensors_are_rejected_by_name() {
    let folder = Folder::new();
    let long = "x".repeat(4097);
    let refused: [(Given, ErrorKind, &str); 4] = [
        (("f8", "F8_E4M3", &[2], vec![0; 2]), ErrorKind::Unsupported, "AERO has no dtype F8_E4M3"),
        (("c", "C64", &[1], vec![0; 8]), ErrorKind::Unsupported, "AERO has no dtype C64"),
        ((&long, "U8", &[1], vec![0]), ErrorKind::Limit, "its name has 4097 bytes"),
        (("deep", "U8", &[1; 33], vec![0]), ErrorKind::Limit, "it has 33 dimensions"),
    ];
    for (tensor, kind, words) in refused {
        let name = tensor.0.to_owned();
        folder.write("m.safetensors", &safetensors_file(json!({}), &[("good", "U8", &[1], vec![1]), tensor]));
        let error = folder.convert("m.safetensors", "m.aero", &options()).unwrap_err();
        assert_eq!((error.kind, error.context.tensor.as_deref()), (kind, Some(&*name)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(folder.names(), ["m.safetensors"]);
    }
    let sparse = root().join("ztensor");
    let sparse = fixtures()
        .into_iter()
        .filter(|fixture| fixture.folder() == "ztensor")
        .map(|fixture| sparse.parent().unwrap().join(&fixture.path))
        .find(|path| Reader::open(path).is_ok_and(|reader| reader.tensors().iter().any(|t| t.components.len() > 1)));
    let error = folder.convert(sparse.unwrap(), "m.aero", &options()).unwrap_err();
    assert!(error.kind == ErrorKind::Unsupported && error.context.tensor.is_some(), "{error}");
}

#[test]
fn unsupported_options_are_rejected() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    for wrong in [
        options().compression(Compression::Zstd),
        options().digest(Some(DigestAlgorithm::Crc32c)),
        options().alignment(Some(3)),
    ] {
        let error = folder.convert("m.safetensors", "m.aero", &wrong).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(folder.names(), ["m.safetensors"]);
    let named = |name: &str| write::format_of_name(name.as_ref()).map(|format| format.name);
    assert_eq!((named("a.aero"), named("b.aeroset.json")), (Some("aero"), Some("aero")));
}
