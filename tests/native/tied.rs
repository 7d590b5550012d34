//! Tied weights: tensors that share all their bytes in the file.

use super::{Folder, content, content_of};
use futures::TryStreamExt;
use futures::executor::block_on;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use weightstream::Dtype;
use weightstream::ErrorKind;
use weightstream::internals::loader::{Loader, Options};
use weightstream::internals::source::memory::MemorySource;
use weightstream::internals::write::{Compression, ConvertOptions};

const FIXTURES: [&str; 3] = ["apr/spec_tied.apr", "aero/tied.aero", "ztensor/tied.zt"];

/// The bytes of the two different contents: 24 and 6 numbers.
const DISTINCT_BYTES: u64 = (24 + 6) * 4;

fn fixture(path: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(path)).unwrap()
}

fn open(path: &str) -> Rc<Loader<MemorySource>> {
    let source = MemorySource::new(vec![(path.replace('/', "_"), fixture(path).into())]).unwrap();
    Rc::new(block_on(Loader::open(source, Options::default().with_verify(false))).unwrap())
}

#[test]
fn a_load_of_all_tensors_decodes_tied_tensors_from_bytes_that_are_read_once() {
    for path in FIXTURES {
        let loader = open(path);
        block_on(loader.load_index()).unwrap();
        let before = loader.stats().bytes_received();
        let loaded =
            block_on(async { loader.tensors(None, Rc::new(())).await?.try_collect::<Vec<_>>().await }).unwrap();
        let received = loader.stats().bytes_received() - before;
        assert!(received < DISTINCT_BYTES + 64, "{path}: {received} bytes"); // with padding
        let contents: BTreeMap<_, _> = loaded
            .iter()
            .map(|tensor| (&*tensor.tensor.name, (&tensor.shape, &*tensor.components[0].buffer)))
            .collect();
        assert_eq!(contents.len(), 4, "{path}");
        assert_eq!(contents["head.weight"], contents["embed.weight"], "{path}");
        assert_eq!(contents["view"].1, contents["embed.weight"].1, "{path}");
        assert_eq!(contents["view"].0, &[24], "{path}");
        assert_ne!(contents["bias"].1, contents["embed.weight"].1, "{path}");
    }
}

#[test]
fn conversions_keep_tied_tensors_where_the_format_can_express_them() {
    for path in FIXTURES {
        let folder = Folder::new();
        let input = path.replace('/', "_");
        folder.write(&input, &fixture(path));
        let before = content_of(&folder.path(&input));
        for (target, is_shared) in
            [("m.apr", true), ("m.zt", true), ("m.aero", true), ("m.safetensors", false), ("m.bpk", false)]
        {
            folder.convert(&input, target, &ConvertOptions::default()).unwrap();
            let reader = folder.open(target);
            assert_eq!(sorted(content(&reader)), sorted(before.clone()), "{path} to {target}");
            assert!(reader.verify(&()).is_ok(), "{path} to {target}");
            let mut ranges: Vec<_> = reader.tensors().iter().map(|tensor| tensor.components[0].range.clone()).collect();
            ranges.sort_by_key(|range| range.start);
            ranges.dedup();
            assert_eq!(ranges.len(), if is_shared { 2 } else { 4 }, "{path} to {target}");
        }
    }
}

#[test]
fn compressed_and_cast_tied_tensors_stay_tied() {
    let folder = Folder::new();
    folder.write("in.apr", &fixture("apr/spec_tied.apr"));
    let compressed = ConvertOptions::default().compression(Compression::Lz4);
    let cast = ConvertOptions::default().dtype(Dtype::F16);
    for (options, name, is_cast) in [(compressed, "lz4.apr", false), (cast, "f16.apr", true)] {
        let sizes = folder.convert("in.apr", name, &options).unwrap().sizes;
        let reader = folder.open(name);
        let stored: BTreeMap<_, _> = reader.tensors().iter().map(|tensor| (tensor.first_byte(), tensor)).collect();
        let decoded_bytes: u64 = stored.values().filter_map(|tensor| tensor.byte_length()).sum();
        let stored_bytes: u64 = stored.values().map(|tensor| tensor.stored_length()).sum();
        assert!(stored.len() < reader.tensors().len());
        assert_eq!(sizes.cast, decoded_bytes, "shared bytes count once");
        assert_eq!(sizes.source > sizes.cast, is_cast);
        assert!((stored_bytes..stored_bytes + 64 * stored.len() as u64).contains(&sizes.stored), "with padding");
        let bytes = |name: &str| content(&reader).into_iter().find(|tensor| tensor.0 == name).unwrap();
        let range = |name: &str| {
            let tensor = reader.tensors().iter().find(|tensor| tensor.name == name).unwrap();
            tensor.components[0].range.clone()
        };
        assert_eq!(range("head.weight"), range("embed.weight"), "{name}");
        assert_eq!(bytes("head.weight").3, bytes("embed.weight").3, "{name}");
        assert!(reader.verify(&()).is_ok(), "{name}");
    }
}

#[test]
fn shards_hold_tied_tensors_of_their_own() {
    let folder = Folder::new();
    folder.write("in.apr", &fixture("apr/spec_tied.apr"));
    let before = content_of(&folder.path("in.apr"));
    for target in ["m.apr", "m.aeroset.json"] {
        folder.convert("in.apr", target, &ConvertOptions::default().max_shard_bytes(700)).unwrap();
        let reader = folder.open(target);
        assert_eq!(sorted(content(&reader)), sorted(before.clone()), "{target}");
        assert!(reader.verify(&()).is_ok(), "{target}");
    }
}

#[test]
fn a_cast_of_views_with_other_dtypes_is_refused() {
    let folder = Folder::new();
    let mut file = fixture("apr/spec_tied.apr");
    let name = file.windows(4).position(|bytes| bytes == b"view").unwrap();
    file[name + 4] = 5; // I32
    let footer = file.len() - 16;
    let crc = crc32fast::hash(&file[..footer]);
    file[footer..footer + 4].copy_from_slice(&crc.to_le_bytes());
    folder.write("in.apr", &file);
    folder.convert("in.apr", "raw.apr", &ConvertOptions::default()).unwrap();
    let error = folder.convert("in.apr", "f16.apr", &ConvertOptions::default().dtype(Dtype::F16)).unwrap_err();
    assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Unsupported, Some("view")), "{error}");
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort();
    items
}
