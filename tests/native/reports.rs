//! Valid files that other tools write, and invalid ones that the reference implementations refuse.

use super::loader::{Chunks, check_with_loader};
use futures::executor::block_on;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use weightstream::Dtype;
use weightstream::ErrorKind;
use weightstream::internals::loader::{Loader, Options, TensorRequest};
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::MemorySource;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn open(name: &str) -> Reader {
    let path = fixtures().join("reports").join(name);
    let reader = Reader::open(&path).unwrap();
    reader.verify(&()).unwrap();
    let folder = path.parent().unwrap();
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|file| file.is_file() && (folder.ends_with("reports") == (*file == path) || *file == path));
    names.sort_by_key(|file| *file != path);
    let files =
        names.iter().map(|file| (file.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(file).unwrap()));
    check_with_loader(files.collect(), Chunks::new(&[1000])).unwrap();
    reader
}

fn listed(reader: &Reader) -> Vec<(String, String, Vec<u64>, u64)> {
    let row = |tensor: &weightstream::internals::index::Tensor| {
        (tensor.name.clone(), tensor.dtype.to_string(), tensor.shape.clone(), tensor.stored_length())
    };
    reader.tensors().iter().map(row).collect()
}

fn warnings(reader: &Reader) -> Vec<String> {
    reader.warnings().map(|(_, warning)| warning.to_owned()).collect()
}

#[test]
fn reads_gguf_with_five_dimensions() {
    let reader = open("five_dims.gguf");
    let expected = [
        ("patch_embedding.weight".to_owned(), "F32".to_owned(), vec![4, 3, 1, 2, 2], 192),
        ("b".to_owned(), "F32".to_owned(), vec![8], 32),
    ];
    assert_eq!(listed(&reader), expected);
    let warning = "ggml refuses 1 tensor, the first of them \"patch_embedding.weight\": it has more than 4 dimensions";
    assert_eq!(warnings(&reader), [warning]);
}

#[test]
fn reads_blocks_of_q2_0_without_the_padding() {
    let reader = open("q2_0.gguf");
    let expected = [
        ("a".to_owned(), "Q2_0".to_owned(), vec![64], 18),
        ("b".to_owned(), "Q2_0".to_owned(), vec![3, 64], 54),
        ("c".to_owned(), "F32".to_owned(), vec![8], 32),
    ];
    assert_eq!(listed(&reader), expected);
    assert_eq!(warnings(&reader), [""; 0]);
}

#[test]
fn blocks_of_q8_1_have_36_bytes() {
    let reader = open("q8_1.gguf");
    assert_eq!(listed(&reader)[0].3, 8 * 36);
    assert_eq!(warnings(&reader), [""; 0]);
}

#[test]
fn external_data_of_length_0_is_as_long_as_its_tensor() {
    let reader = open("onnx_length_zero/model.onnx");
    assert_eq!(listed(&reader).iter().map(|row| row.3).collect::<Vec<_>>(), [16, 16]);
}

#[test]
fn an_index_may_begin_with_a_byte_order_mark() {
    assert_eq!(listed(&open("index_with_bom/model.safetensors.index.json")).len(), 3);
}

#[test]
fn metadata_that_occurs_twice_is_refused() {
    let file = fs::read(fixtures().join("reports/metadata_twice.safetensors")).unwrap();
    super::bad_input::rejected(
        vec![("m.safetensors", file)],
        ErrorKind::Format,
        "the header has \"__metadata__\" twice",
    );
}

#[test]
fn q2_0_is_converted_to_floats() {
    let file = fs::read(fixtures().join("reports/q2_0.gguf")).unwrap();
    let source = MemorySource::new(vec![("q2_0.gguf".to_owned(), file.into())]).unwrap();
    let loader = Rc::new(block_on(Loader::open(source, Options::default())).unwrap());
    let request = TensorRequest::default().with_dtype(Some(Dtype::F32));
    let loaded = block_on(async { loader.load_tensor("a", request, Rc::new(())).await }).unwrap();
    assert_eq!(loaded.components[0].buffer.len(), 4 * 64);
}

/// Those of the corpus whose tensors are in other files.
const IN_SHARDS: [&str; 4] =
    ["data-shard.zt", "local-and-foreign-parts-together.zt", "shard-reference-is-a-valid-image.zt", "shards-table.zt"];

/// Valid to open; its bytes are those of `reject/f4-nonzero-odd-nibble.zt`, which is about decoding them.
const ONLY_OPENED: &str = "f4-packed-odd-count.zt";

#[test]
fn the_conformance_corpus_of_ztensor_is_judged_as_it_says() {
    let mut wrong = Vec::new();
    for (folder, is_valid) in [("valid", true), ("reject", false)] {
        for entry in fs::read_dir(fixtures().join("ztensor_conformance").join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let native = Reader::open(&path).and_then(|reader| reader.verify(&()));
            if is_valid && name == ONLY_OPENED {
                assert_eq!(listed(&Reader::open(&path).unwrap()).len(), 1);
                continue;
            }
            let files = vec![(name.clone(), fs::read(&path).unwrap())];
            let streamed = check_with_loader(files, Chunks::new(&[1000]));
            for (reader, error) in [("native", native.err()), ("loader", streamed.err())] {
                let kind = error.as_ref().map(|error| error.kind);
                let is_expected = match is_valid {
                    true if IN_SHARDS.contains(&&*name) => kind == Some(ErrorKind::Unsupported),
                    true => kind.is_none(),
                    false => kind.is_some(),
                };
                if !is_expected {
                    wrong.push(format!("{folder}/{name}, {reader}: {error:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
