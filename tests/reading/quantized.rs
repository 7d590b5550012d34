//! Quantized tensors of several components: their values are those of the packages that wrote them, bit for bit.
//!
//! `tests/fixtures/quantized/generate.py` writes the files, and what the packages decode them to.

use crate::corpus;
use futures::executor::block_on;
use futures::stream::TryStreamExt;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::{fs, iter};
use weightstream::blocking::Model;
use weightstream::internals::codec::cast;
use weightstream::internals::loader::{Loader, Options, TensorRequest, TensorsRequest};
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::MemorySource;
use weightstream::internals::write::{self, ConvertOptions};
use weightstream::{Digest, Dtype, ErrorKind, Layout, LoadRequest, OpenOptions};

fn cases() -> Vec<PathBuf> {
    let folder = corpus::root().join("quantized");
    let folders = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut cases: Vec<_> = folders.collect();
    cases.sort();
    assert!(cases.len() >= 20, "{} cases in {}", cases.len(), folder.display());
    cases
}

/// The cases whose parts are stored in SafeTensors.
fn safetensors_cases() -> impl Iterator<Item = PathBuf> {
    cases().into_iter().filter(|case| model_in(case).ends_with("model.safetensors"))
}

fn model_in(case: &Path) -> PathBuf {
    let files = ["model.onnx", "model.json", "model.tflite", "model.safetensors"].map(|name| case.join(name));
    files.into_iter().find(|file| file.exists()).unwrap()
}

/// The files of a case, that of the model first.
fn files_for(case: &Path) -> Vec<(String, Rc<[u8]>)> {
    let model = model_in(case);
    let others = fs::read_dir(case).unwrap().map(|entry| entry.unwrap().path());
    let others = others.filter(|path| *path != model && !path.ends_with("reference.safetensors"));
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let file = |path: PathBuf| (name(&path), fs::read(&path).unwrap().into());
    iter::once(model.clone()).chain(others).map(file).collect()
}

type Reference = (String, bool, Dtype, Vec<u64>, Vec<u8>);

/// The tensors of reference.safetensors: the name, whether it is the value in F32 only, the dtype and the bytes.
fn reference(case: &Path) -> Vec<Reference> {
    let model = Model::open(case.join("reference.safetensors")).unwrap();
    let tensor = |tensor: &weightstream::Tensor| {
        let bytes = model.load(tensor.name.as_str()).unwrap().bytes().unwrap().to_vec();
        let (name, is_f32) = tensor.name.split_once('|').map_or((&*tensor.name, false), |(name, _)| (name, true));
        (name.to_owned(), is_f32, tensor.dtype.clone(), tensor.shape.clone(), bytes)
    };
    model.tensors().iter().map(tensor).collect()
}

/// The tensors of a SafeTensors file as they are stored.
fn stored(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let file = fs::read(path).unwrap();
    let data = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let header: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&file[8..data]).unwrap();
    let tensors = header.into_iter().filter(|(name, _)| name != "__metadata__");
    let bytes = |entry: &serde_json::Value| {
        let offset = |at: usize| data + entry["data_offsets"][at].as_u64().unwrap() as usize;
        file[offset(0)..offset(1)].to_vec()
    };
    tensors.map(|(name, entry)| (name, bytes(&entry))).collect()
}

fn widened(dtype: &Dtype, bytes: &[u8]) -> Vec<u8> {
    let mut cast = cast::Cast::new(dtype, &Dtype::F32).unwrap();
    let mut out = Vec::new();
    cast.push(bytes, &mut |bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    })
    .unwrap();
    out
}

#[test]
fn values_are_those_of_the_packages() {
    let mut compared = 0;
    for case in cases() {
        let model = Model::open(model_in(&case)).unwrap();
        model.verify().unwrap_or_else(|error| panic!("{}: {error}", case.display()));
        let references = reference(&case);
        let has_own_f32 = |name: &str| references.iter().any(|(other, is_f32, ..)| other == name && *is_f32);
        for (name, is_f32, dtype, shape, expected) in &references {
            let place = format!("{} {name} {dtype}", case.display());
            let listed = model.tensor(name).unwrap_or_else(|error| panic!("{place}: {error}"));
            assert_eq!((&listed.shape, listed.layout.name()), (shape, "quantized"), "{place}");
            assert!(listed.attributes["quantization"]["method"].is_string(), "{place}");
            let load = |dtype: &Dtype| {
                let loaded = model.load(LoadRequest::new(name).dtype(dtype.clone()));
                loaded.unwrap_or_else(|error| panic!("{place}: {error}")).bytes().unwrap().to_vec()
            };
            if *is_f32 {
                assert!(load(&Dtype::F32) == *expected, "{place}");
            } else {
                assert!(load(dtype) == *expected, "{place}");
                if !has_own_f32(name) {
                    assert!(load(&Dtype::F32) == widened(dtype, expected), "{place} as F32");
                }
            }
            compared += 1;
        }
    }
    println!("{compared} tensors compared");
    assert!(compared > 350);
}

#[test]
fn rows_are_those_of_the_whole_tensor() {
    for case in cases() {
        let model = Model::open(model_in(&case)).unwrap();
        for (name, ..) in reference(&case) {
            let request = || LoadRequest::new(&name).dtype(Dtype::F32);
            let whole = model.load(request()).unwrap();
            let Some(rows) = whole.shape().first().copied() else { continue };
            let whole = whole.bytes().unwrap().to_vec();
            let row_bytes = whole.len() as u64 / rows;
            for range in [0..1, rows - 1..rows, rows / 3..(rows / 3 + 2).min(rows), 0..rows, rows / 2..rows / 2] {
                let loaded = model.load(request().rows(range.clone())).unwrap();
                let (start, end) = (range.start * row_bytes, range.end * row_bytes);
                let expected = &whole[start as usize..end as usize];
                assert!(*loaded.bytes().unwrap() == *expected, "{} {name} rows {range:?}", case.display());
                assert_eq!(loaded.shape()[0], range.end - range.start);
            }
        }
    }
}

#[test]
fn without_a_conversion_the_parts_come_as_they_are() {
    for case in safetensors_cases() {
        let path = case.join("model.safetensors");
        let (model, raw) = (Model::open(&path).unwrap(), stored(&path));
        for (name, bytes) in &raw {
            let loaded = model.load(name.as_str()).unwrap();
            match model.tensor(name).map(|tensor| tensor.layout.clone()) {
                Ok(Layout::Quantized(_)) => {
                    assert!(loaded.components().any(|component| *component.bytes().unwrap() == **bytes), "{name}");
                }
                _ => assert!(*loaded.bytes().unwrap() == **bytes, "{} {name}", case.display()),
            }
        }
    }
}

#[test]
fn initializers_of_onnx_can_be_loaded_by_their_own_names() {
    let model = Model::open(corpus::root().join("quantized/onnx_dequantize/model.onnx")).unwrap();
    let names: Vec<_> = model.tensors().iter().map(|tensor| tensor.name.clone()).collect();
    assert!(
        names.iter().any(|name| name == "int4.blocks.float16.zeros")
            && !names.iter().any(|name| name.contains("_scale"))
    );
    let loaded = model.load("int4.blocks.float16.zeros").unwrap();
    let roles: Vec<_> = loaded.components().map(|component| component.role().to_owned()).collect();
    assert_eq!(roles, ["codes", "scales", "zero_points"]);
    for (component, end) in loaded.components().zip(["_quantized", "_scale", "_zero_point"]) {
        let part = model.load(format!("int4.blocks.float16.zeros{end}").as_str()).unwrap();
        assert_eq!(*part.bytes().unwrap(), *component.bytes().unwrap(), "{end}");
    }
}

#[test]
fn a_conversion_to_floats_writes_these_values_and_any_other_the_parts() {
    let folder = tempfile::tempdir().unwrap();
    for case in safetensors_cases() {
        let path = case.join("model.safetensors");
        let reader = Reader::open(&path).unwrap();
        let out = folder.path().join("floats.safetensors");
        write::convert(&reader, &out, &ConvertOptions::default().dtype(Dtype::F32), &()).unwrap();
        let (floats, model) = (Model::open(&out).unwrap(), Model::open(&path).unwrap());
        for (name, ..) in reference(&case) {
            let expected = model.load(LoadRequest::new(&name).dtype(Dtype::F32)).unwrap();
            assert_eq!(floats.tensor(&name).unwrap().layout, Layout::Dense, "{name}");
            assert!(*floats.load(name.as_str()).unwrap().bytes().unwrap() == *expected.bytes().unwrap(), "{name}");
        }
        let copy = folder.path().join("copy.safetensors");
        write::convert(&reader, &copy, &ConvertOptions::default(), &()).unwrap();
        assert_eq!(stored(&copy), stored(&path), "{}", case.display());
        reader.verify(&()).unwrap();
    }
}

#[test]
fn what_is_ambiguous_is_an_error_that_says_what_to_give() {
    for (case, name, expected) in [
        (
            "mlx_affine",
            "mbf16.b4g64.weight",
            "2 bits in groups of 128 and 4 bits in groups of 64 and 8 bits in groups of 32",
        ),
        ("gptq", "layers.4.plain.weight", "gptq_v2"),
        ("fp8_blocks", "ragged.float32.weight", "do not fit"),
    ] {
        let file = fs::read(corpus::root().join("quantized").join(case).join("model.safetensors")).unwrap();
        let source = MemorySource::new(vec![("model.safetensors".to_owned(), file.clone().into())]).unwrap();
        let load = |options: Options, source: MemorySource| {
            let loader = Rc::new(block_on(Loader::open(source, options)).unwrap());
            let request = TensorRequest::default().with_dtype(Some(Dtype::F32));
            block_on(loader.load_tensor(name, request, Rc::new(())))
        };
        let error = load(Options::default(), source.clone()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(expected) && error.to_string().contains("config.json"), "{error}");
        let json = fs::read(corpus::root().join("quantized").join(case).join("config.json")).unwrap();
        let config = weightstream::ModelConfig::from_json(&json).unwrap();
        let given = load(Options::default().with_config(Some(config)), source.clone()).unwrap();
        let beside = vec![("model.safetensors".to_owned(), file.into()), ("config.json".to_owned(), json.into())];
        let found = load(Options::default(), MemorySource::new(beside).unwrap()).unwrap();
        assert_eq!(given.components[0].buffer, found.components[0].buffer, "{case}");
    }
}

#[test]
fn parts_in_different_files_are_one_tensor() {
    let path = corpus::root().join("quantized/gptq/model.safetensors");
    let folder = tempfile::tempdir().unwrap();
    let reader = Reader::open(&path).unwrap();
    let out = folder.path().join("model.safetensors");
    let options = ConvertOptions::default().max_shard_bytes(Some(1000));
    let written = write::convert(&reader, &out, &options, &()).unwrap();
    assert!(written.files.len() > 4, "{written:?}");
    fs::copy(path.with_file_name("config.json"), folder.path().join("config.json")).unwrap();
    let manifest = folder.path().join("model.safetensors.index.json");
    let (sharded, whole) = (Model::open(&manifest).unwrap(), Model::open(&path).unwrap());
    let mapped = Reader::open(&manifest).unwrap();
    let mut spread = 0;
    for (name, ..) in reference(path.parent().unwrap()) {
        let load =
            |model: &Model| model.load(LoadRequest::new(&name).dtype(Dtype::F32)).unwrap().bytes().unwrap().to_vec();
        assert!(load(&sharded) == load(&whole), "{name}");
        let native = mapped.load_tensor(&name).unwrap().into_dense(Some(&Dtype::F32), u64::MAX).unwrap();
        assert!(native.components[0].buffer == load(&whole), "{name}");
        spread += usize::from(sharded.tensor(&name).unwrap().components.len() > 3);
    }
    assert!(spread > 0);
}

#[test]
fn tensors_whose_parts_are_far_apart_stream_in_little_memory() {
    for case in cases() {
        let files = files_for(&case);
        for max_memory_bytes in [0, 4000, 1 << 30] {
            let source = MemorySource::new(files.clone()).unwrap();
            let options = Options::default().with_max_memory_bytes(max_memory_bytes);
            let loader = Rc::new(block_on(Loader::open(source, options)).unwrap());
            let request = TensorsRequest::default().with_dtype(Some(Dtype::F32));
            let count = block_on(async {
                let tensors = loader.tensors_with(request, Rc::new(())).await.unwrap();
                tensors.try_fold(0, async |count, _| Ok(count + 1)).await.unwrap()
            });
            assert_eq!(count, block_on(loader.load_index()).unwrap().len(), "{} {max_memory_bytes}", case.display());
        }
    }
}

#[test]
fn pinned_digests_are_those_of_the_parts() {
    // In MLX, the tensor has the name of a part. With GPTQ, only parts have these names.
    for (case, tensor, part) in [
        ("mlx_affine", "mbf16.b4g64.weight", "mbf16.b4g64.weight"),
        ("mlx_affine", "mbf16.b4g64.weight", "mbf16.b4g64.scales"),
        ("gptq", "layers.4.plain.weight", "layers.4.plain.qweight"),
    ] {
        let case = corpus::root().join("quantized").join(case);
        let hex = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let digest = |bytes: &[u8]| format!("sha256:{}", hex(bytes)).parse().unwrap();
        let right: Digest = digest(&stored(&case.join("model.safetensors"))[part]);
        for (pinned, matches) in [(right, true), (digest(b"other"), false)] {
            let options = OpenOptions::new().tensor_digest(part, pinned);
            let model = options.open_blocking(case.join("model.safetensors")).unwrap();
            let load = |request: LoadRequest| model.load(request.dtype(Dtype::F32)).map(drop);
            let outcome = load(LoadRequest::new(tensor));
            assert_eq!(outcome.is_ok(), matches, "{part}: {outcome:?}");
            assert!(outcome.err().is_none_or(|error| error.kind == ErrorKind::Checksum));
            if matches {
                // The digest is not compared with a part of the bytes.
                load(LoadRequest::new(tensor).rows(1..2)).unwrap();
            }
        }
    }
}
