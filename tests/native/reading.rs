//! The reader over a memory map, over bytes in memory, and as a `StreamingLoader`.

use super::bytes::{Apr, Entry, apr_manifest, noise, ramp, safetensors, shard_map, varied};
use super::{Folder, content};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use weightstream::ErrorKind;
use weightstream::StreamingLoader;
use weightstream::blocking::Model;
use weightstream::internals::format::aero;
use weightstream::internals::index::Algorithm;
use weightstream::internals::native::{Reader, Verified};
use weightstream::internals::write::{ConvertOptions, convert};

#[test]
fn reads_every_dtype_raw_and_compressed() {
    let (folder, apr) = (Folder::new(), varied());
    folder.write("m.apr", &apr.build());
    let reader = folder.open("m.apr");
    assert_eq!(reader.tensors().len(), apr.entries.len());
    for entry in &apr.entries {
        let slice = reader.tensor_slice(&entry.name).unwrap();
        match entry.raw_size {
            0 => assert_eq!(slice, entry.stored, "{}", entry.name),
            size => assert_eq!(slice.len() as u64, size, "{}", entry.name),
        }
    }
    assert_eq!(reader.tensor_slice("lz4.F32").unwrap(), ramp(1200));
    assert_eq!(reader.tensor_slice("blocks").unwrap(), [ramp(100_000), vec![3; 100_000]].concat());
    assert!(reader.tensor("scalar").unwrap().shape.is_empty());
    assert_eq!(reader.tensor("empty").unwrap().shape, [3, 0, 5]);
}

#[test]
fn a_raw_tensor_is_not_copied_and_a_compressed_one_is_decoded_once() {
    let folder = Folder::new();
    let path = folder.write("m.apr", &varied().build());
    let reader = unsafe { Reader::open_mapped(path) }.unwrap();
    for name in ["raw.F32", "lz4.F32"] {
        let (first, second) = (reader.tensor_slice(name).unwrap(), reader.tensor_slice(name).unwrap());
        assert!(std::ptr::eq(first, second), "{name}");
    }
    // Raw tensors of one file are in the same map, at the same distance as in the file.
    let address = |name| reader.tensor_slice(name).unwrap().as_ptr() as u64;
    let offset = |name| reader.tensor(name).unwrap().first_byte();
    assert_eq!(address("raw.I64") - address("raw.F32"), offset("raw.I64") - offset("raw.F32"));
}

#[test]
fn file_map_and_memory_give_the_same_contents() {
    let (folder, bytes) = (Folder::new(), varied().build());
    let path = folder.write("m.apr", &bytes);
    let in_memory = Reader::from_bytes(vec![("m.apr".to_owned(), bytes)]).unwrap();
    assert_eq!(content(&folder.open("m.apr")), content(&in_memory));
    assert_eq!(content(&unsafe { Reader::open_mapped(path) }.unwrap()), content(&in_memory));
}

#[test]
fn truncating_an_open_file_is_detected() {
    let folder = Folder::new();
    let path = folder.write("m.safetensors", &safetensors(None, &[("t", "U8", &[3 << 20], noise(1, 3 << 20))]));
    let reader = folder.open("m.safetensors");
    File::options().write(true).open(&path).unwrap().set_len(2 << 20).unwrap();
    let outcomes = [
        reader.tensor_slice("t").map(drop),
        reader.read_pieces("t", "data", &mut |_| Ok(())).map(drop),
        reader.load_tensor("t").map(drop),
    ];
    for error in outcomes.map(Result::unwrap_err) {
        assert_eq!(error.kind, ErrorKind::Truncated, "{error}");
        assert!(error.to_string().contains("m.safetensors"), "{error}");
    }
}

#[test]
fn replacing_a_shard_is_detected_if_not_all_files_stay_open() {
    let folder = Folder::new();
    let names: Vec<_> = (0..40).map(|at| format!("t{at}")).collect();
    let tensors: Vec<_> = names.iter().map(|name| (name.as_str(), "U8", &[100][..], noise(1, 100))).collect();
    folder.write("m.safetensors", &safetensors(None, &tensors));
    let options = ConvertOptions::new().max_shard_bytes(400);
    folder.convert("m.safetensors", "s.apr", &options).unwrap();
    let reader = folder.open("s.apr");
    let files: Vec<PathBuf> = reader.paths().map(Path::to_owned).collect();
    assert_eq!(files.len(), 41);
    for file in &files {
        let copy = folder.path("copy");
        std::fs::copy(file, &copy).unwrap();
        std::fs::rename(copy, file).unwrap();
    }
    let outcomes: Vec<_> = names.iter().map(|name| reader.tensor_slice(name).map(<[u8]>::to_vec)).collect();
    assert!(outcomes.iter().flatten().all(|bytes| *bytes == noise(1, 100)));
    let errors: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(!errors.is_empty() && errors.iter().all(|error| error.kind == ErrorKind::Changed), "{errors:?}");
}

#[test]
fn the_methods_of_streaming_loader_work() {
    let folder = Folder::new();
    folder.write("m.apr", &varied().build());
    let mut loader: Box<dyn StreamingLoader> = Box::new(Model::open(folder.path("m.apr")).unwrap());
    let metadata = loader.load_metadata().unwrap();
    assert_eq!((metadata.format, metadata.version.as_str()), ("apr", "2.0"));
    assert_eq!(metadata.metadata["model_type"], "test");
    let index = loader.load_index().unwrap();
    assert_eq!(index.len(), varied().entries.len());
    loader.prefetch(&["lz4.F32", "blocks", "no such tensor"]);
    let loaded = loader.load_tensor("lz4.F32").unwrap();
    let components: Vec<_> = loaded.components().map(|component| component.role()).collect();
    assert_eq!(components, ["data"]);
    assert_eq!(*loaded.bytes().unwrap(), ramp(1200));
    assert_eq!(loaded.tensor(), &index[1]);
    assert_eq!(loaded.verified(), None); // APR has no checksums of tensors
    assert_eq!(loader.load_tensor("no such tensor").unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn safetensors_open_with_and_without_an_index() {
    let folder = Folder::new();
    let tensors = |from: u64| [("a", "F64", &[2, 2][..], noise(from, 32)), ("b", "BOOL", &[3][..], vec![0, 1, 0])];
    let [a, b] = tensors(1);
    folder.write("one.safetensors", &safetensors(Some(json!({ "format": "pt" })), &[a.clone(), b.clone()]));
    folder.write("w/x.safetensors", &safetensors(None, &[a]));
    folder.write("w/y.safetensors", &safetensors(None, &[b]));
    let index =
        json!({ "metadata": { "total_size": 1 }, "weight_map": { "a": "w/x.safetensors", "b": "w/y.safetensors" } });
    folder.write("model.safetensors.index.json", index.to_string().as_bytes());
    let (one, several) = (folder.open("one.safetensors"), folder.open("model.safetensors.index.json"));
    assert_eq!(content(&one), content(&several));
    assert_eq!(one.metadata().metadata["format"], "pt");
    assert_eq!(several.tensors().iter().map(|tensor| tensor.shard).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(several.files().len(), 2);
}

#[test]
fn verify_reports_what_was_checked() {
    let folder = Folder::new();
    let shards = [varied(), Apr::new(vec![Entry::raw("last", 7, &[70_000], noise(5, 70_000))])];
    let map = shard_map(&[&shards[0], &shards[1]]);
    let shards = shards.map(|shard| shard.build());
    folder.write("0.apr", &shards[0]);
    folder.write("1.apr", &shards[1]);
    let manifest = apr_manifest(&[("0.apr", &shards[0]), ("1.apr", &shards[1])], map);
    folder.write("m.apr", &manifest);
    let tensors = varied().entries.len() + 1;
    let verified = folder.open("m.apr").verify(&()).unwrap();
    assert_eq!(counts(&verified), (2, tensors, 0));
    assert_eq!(verified.checksums, BTreeSet::from([Algorithm::Crc32]));

    folder.write("m.safetensors", &safetensors(None, &[("a", "U8", &[1], vec![1])]));
    let verified = folder.open("m.safetensors").verify(&()).unwrap();
    assert_eq!(counts(&verified), (1, 1, 1));
    assert_eq!(verified.checksums, BTreeSet::new());
}

#[test]
fn verify_reports_the_number_of_tensors_without_a_checksum() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ztensor/zt123_sparse_quant.zt");
    let verified = Reader::open(&file).unwrap().verify(&()).unwrap();
    assert_eq!(counts(&verified), (1, 5, 2));
    assert_eq!(verified.checksums, BTreeSet::from([Algorithm::Crc32c, Algorithm::Sha256]));
}

/// BLAKE3 of more than 16 MiB is computed in parts on all processors.
#[test]
fn verify_finds_a_changed_byte_anywhere_in_a_long_range_with_one_digest() {
    let folder = Folder::new();
    const LENGTH: usize = (33 << 20) + 5;
    folder.write("m.safetensors", &safetensors(None, &[("a", "U8", &[LENGTH as u64], ramp(LENGTH))]));
    let options = ConvertOptions::default().format(&aero::FORMAT);
    convert(&folder.open("m.safetensors"), &folder.path("m.aero"), &options, &()).unwrap();
    let verified = folder.open("m.aero").verify(&()).unwrap();
    assert_eq!(verified.checksums, BTreeSet::from([Algorithm::Blake3]));

    let bytes = std::fs::read(folder.path("m.aero")).unwrap();
    let start = folder.open("m.aero").tensor("a").unwrap().components[0].range.start as usize;
    for at in [0, (16 << 20) - 1, 16 << 20, (32 << 20) + 1, LENGTH - 1] {
        let mut changed = bytes.clone();
        changed[start + at] ^= 1;
        let reader = Reader::from_bytes(vec![("m.aero".to_owned(), changed)]).unwrap();
        assert_eq!(reader.verify(&()).unwrap_err().kind, ErrorKind::Checksum, "byte {at}");
    }
}

/// The numbers of files, of tensors, and of tensors without a checksum.
fn counts(verified: &Verified) -> (usize, usize, usize) {
    (verified.files, verified.tensors, verified.tensors_without_checksum)
}

#[test]
fn a_manifest_may_state_the_crc_of_the_footer() {
    let folder = Folder::new();
    let shard = varied().build();
    folder.write("0.apr", &shard);
    let footer = u32::from_le_bytes(shard[shard.len() - 16..][..4].try_into().unwrap());
    for stated in [json!(format!("0x{footer:08X}")), json!(footer)] {
        let manifest = json!({ "shards": [{ "file": "0.apr", "crc32": stated }] });
        folder.write("m.apr", manifest.to_string().as_bytes());
        assert_eq!(folder.open("m.apr").verify(&()).unwrap().tensors_without_checksum, 0);
    }
}

#[test]
fn the_checksum_of_a_large_file_is_computed_in_parts() {
    let folder = Folder::new();
    let length = (16 << 20) * 2 + 12_345; // more than one task of `verify`
    let mut bytes = Apr::new(vec![Entry::raw("large", 7, &[length as u64], noise(1, length))]).build();
    folder.write("m.apr", &bytes);
    assert!(folder.open("m.apr").verify(&()).is_ok());
    let at = bytes.len() - 5_000_000;
    bytes[at] ^= 1;
    folder.write("bad.apr", &bytes);
    let error = folder.open("bad.apr").verify(&()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Checksum);
}
