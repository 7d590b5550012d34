//! Weights with the updates of LoRA adapters.
//!
//! `tests/fixtures/adapters/generate.py` writes the files, and what PEFT and others merge them to.

use crate::corpus;
use futures::executor::block_on;
use futures::stream::TryStreamExt;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use weightstream::blocking::Model;
use weightstream::internals::loader::{Loader, Options, TensorRequest, TensorsRequest};
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::MemorySource;
use weightstream::internals::write::{self, ConvertOptions};
use weightstream::{Adapter, AdapterConfig, Dtype, ErrorKind, LoadRequest, OpenOptions, StreamRequest};

fn cases() -> Vec<PathBuf> {
    let folders = fs::read_dir(corpus::root().join("adapters")).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<_> = folders.filter(|path| path.is_dir()).collect();
    cases.sort();
    assert_eq!(cases.len(), 7);
    cases
}

fn first_of<const N: usize>(case: &Path, names: [&str; N]) -> PathBuf {
    names.map(|name| case.join(name)).into_iter().find(|path| path.exists()).unwrap()
}

fn model_in(case: &Path) -> PathBuf {
    first_of(case, ["model.safetensors", "model.gguf"])
}

fn adapter_in(case: &Path) -> PathBuf {
    first_of(case, ["adapter_model.safetensors", "adapter.safetensors", "adapter.gguf"])
}

fn open(case: &Path) -> Model {
    OpenOptions::new().adapter(Adapter::new(adapter_in(case))).open_blocking(model_in(case)).unwrap()
}

fn floats(model: &Model, name: &str) -> Vec<f32> {
    model.load(LoadRequest::new(name).dtype(Dtype::F32)).unwrap().as_f32().unwrap().to_vec()
}

fn assert_close(values: &[f32], expected: &[f32], place: &str) {
    assert_eq!(values.len(), expected.len(), "{place}");
    for (value, expected) in values.iter().zip(expected) {
        assert!((value - expected).abs() <= 2e-6 * expected.abs().max(1.0), "{place}: {value} instead of {expected}");
    }
}

#[test]
fn weights_are_those_that_the_packages_merge() {
    for case in cases() {
        let (model, plain, reference) = (
            open(&case),
            Model::open(model_in(&case)).unwrap(),
            Model::open(case.join("reference.safetensors")).unwrap(),
        );
        let mut adapted = 0;
        for tensor in reference.tensors() {
            let place = format!("{} {}", case.display(), tensor.name);
            assert_close(&floats(&model, &tensor.name), &floats(&reference, &tensor.name), &place);
            if model.tensor(&tensor.name).unwrap().layout.name() == "adapted" {
                adapted += 1;
                let is_replaced = tensor.name.ends_with("bias"); // by equal values
                assert!(is_replaced || floats(&model, &tensor.name) != floats(&plain, &tensor.name), "{place}");
            } else {
                assert_eq!(floats(&model, &tensor.name), floats(&plain, &tensor.name), "{place}");
            }
        }
        assert!(adapted >= 2, "{}", case.display());
        let names = |model: &Model| model.tensors().iter().map(|tensor| tensor.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&model), names(&plain));
    }
}

#[test]
fn sums_are_those_of_f32_in_the_order_of_the_rank() {
    let case = corpus::root().join("adapters/peft");
    let (model, plain) = (open(&case), Model::open(model_in(&case)).unwrap());
    let adapter = Model::open(adapter_in(&case)).unwrap();
    for (name, scale) in [("layers.0.q", 1.5_f32), ("layers.1.q", 1.5), ("layers.1.up", 1.5)] {
        let factor = |end: &str| {
            let loaded = adapter.load(format!("base_model.model.{name}.{end}.weight").as_str()).unwrap();
            (loaded.shape().to_vec(), loaded.as_f32().unwrap().to_vec())
        };
        let ((a_shape, a), (_, b)) = (factor("lora_A"), factor("lora_B"));
        let (rank, columns) = (a_shape[0] as usize, a_shape[1] as usize);
        let mut expected = floats(&plain, &format!("{name}.weight"));
        for (at, element) in expected.iter_mut().enumerate() {
            let (row, column) = (at / columns, at % columns);
            let sum = (0..rank).fold(0.0_f32, |sum, k| sum + b[row * rank + k] * a[k * columns + column]);
            *element += sum * scale;
        }
        assert_eq!(floats(&model, &format!("{name}.weight")), expected, "{name}");
    }
}

#[test]
fn rows_streams_and_remote_readers_give_the_same_bytes() {
    for case in cases() {
        let model = open(&case);
        let mut count = 0;
        for loaded in model.stream(StreamRequest::new()) {
            let loaded = loaded.unwrap();
            let alone = model.load(loaded.name()).unwrap();
            assert!(*alone.bytes().unwrap() == *loaded.bytes().unwrap(), "{}", loaded.name());
            assert_eq!(alone.dtype(), loaded.dtype());
            let Some(rows) = alone.shape().first().copied() else { continue };
            let whole = alone.bytes().unwrap().to_vec();
            let row_bytes = whole.len() / rows as usize;
            for range in [0..1, rows / 2..rows, rows - 1..rows] {
                let part = model.load(LoadRequest::new(loaded.name()).rows(range.clone())).unwrap();
                let expected = &whole[range.start as usize * row_bytes..range.end as usize * row_bytes];
                assert!(*part.bytes().unwrap() == *expected, "{} rows {range:?}", loaded.name());
            }
            count += 1;
        }
        assert_eq!(count, model.tensors().len());
        model.verify().unwrap();

        let source = |path: &Path| {
            let config = path.with_file_name("adapter_config.json");
            let files = [path.to_owned(), config].into_iter().filter(|path| path.exists());
            let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
            let files = files.map(|path| (name(&path), fs::read(&path).unwrap().into()));
            MemorySource::new(files.collect()).unwrap()
        };
        let opening = async {
            let loader = Loader::open(source(&model_in(&case)), Options::default()).await.unwrap();
            let adapter = adapter_in(&case);
            Rc::new(loader.with_adapters(vec![(source(&adapter), Adapter::new(&adapter))]).await.unwrap())
        };
        let loader = block_on(opening);
        for tensor in model.tensors() {
            let request = TensorRequest::default().with_dtype(Some(Dtype::F32));
            let loaded = block_on(loader.load_tensor(&tensor.name, request, Rc::new(()))).unwrap();
            let local = model.load(LoadRequest::new(&tensor.name).dtype(Dtype::F32)).unwrap();
            assert!(loaded.components[0].buffer == *local.bytes().unwrap(), "{}", tensor.name);
        }
        let names: Vec<_> = model.tensors().iter().map(|tensor| tensor.name.clone()).collect();
        block_on(loader.prefetch(names.clone(), Rc::new(())));
        for name in &names {
            let loaded = block_on(loader.load_tensor(name, TensorRequest::default(), Rc::new(()))).unwrap();
            let expected = model.load(name.as_str()).unwrap();
            assert!(loaded.components[0].buffer == *expected.bytes().unwrap(), "{name} after a prefetch");
        }
        let request = TensorsRequest::default().with_dtype(Some(Dtype::F16));
        let count = block_on(async {
            let tensors = loader.tensors_with(request, Rc::new(())).await.unwrap();
            tensors.try_fold(0, async |count, _| Ok(count + 1)).await.unwrap()
        });
        assert_eq!(count, model.tensors().len());
    }
}

#[test]
fn a_conversion_writes_the_merged_weights() {
    let folder = tempfile::tempdir().unwrap();
    for case in cases() {
        let model = open(&case);
        let reader = Reader::open_with(model_in(&case), None, &[Adapter::new(adapter_in(&case))]).unwrap();
        for dtype in [None, Some(Dtype::F32)] {
            let out = folder.path().join("merged.safetensors");
            let options = dtype.clone().map_or_else(ConvertOptions::default, |to| ConvertOptions::default().dtype(to));
            write::convert(&reader, &out, &options, &()).unwrap();
            let merged = Model::open(&out).unwrap();
            for tensor in merged.tensors() {
                let request = LoadRequest::new(&tensor.name).dtype(tensor.dtype.clone());
                let expected = model.load(request).unwrap();
                let place = format!("{} {} {dtype:?}", case.display(), tensor.name);
                assert!(
                    *merged.load(tensor.name.as_str()).unwrap().bytes().unwrap() == *expected.bytes().unwrap(),
                    "{place}"
                );
            }
            assert_eq!(merged.tensors().len(), model.tensors().len());
        }
    }
}

#[test]
fn conversions_of_open_models_have_the_updates() {
    let folder = tempfile::tempdir().unwrap();
    for case in cases() {
        let (model, out) = (open(&case), folder.path().join("merged.safetensors"));
        weightstream::write::convert(&model, &out, &ConvertOptions::default()).unwrap();
        let merged = Model::open(&out).unwrap();
        for tensor in merged.tensors() {
            let expected = model.load(LoadRequest::new(&tensor.name).dtype(tensor.dtype.clone())).unwrap();
            let written = merged.load(tensor.name.as_str()).unwrap();
            assert!(*written.bytes().unwrap() == *expected.bytes().unwrap(), "{}", tensor.name);
        }
    }
}

#[test]
fn what_is_not_applied_is_a_warning() {
    let model = open(&corpus::root().join("adapters/kohya"));
    let warnings: Vec<_> = model.warnings().collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let (file, warning) = warnings[0];
    assert!(file.ends_with("adapter.safetensors") && warning.contains("lora_te_"), "{file}: {warning}");
}

#[test]
fn updates_are_scaled_and_added_in_order() {
    let case = corpus::root().join("adapters/peft_rslora");
    let (plain, name) = (Model::open(model_in(&case)).unwrap(), "layers.0.q.weight");
    let with = |scales: &[f32]| {
        let adapter =
            |options: OpenOptions, scale: &f32| options.adapter(Adapter::new(adapter_in(&case)).scale(*scale));
        scales.iter().fold(OpenOptions::new(), adapter).open_blocking(model_in(&case)).unwrap()
    };
    assert_eq!(floats(&with(&[0.0]), name), floats(&plain, name));
    assert_close(&floats(&with(&[0.25, 0.75]), name), &floats(&with(&[1.0]), name), name);
    assert_close(&floats(&with(&[1.0, -1.0]), name), &floats(&plain, name), name);
    let adapted = with(&[0.5, 2.0]);
    let described = &adapted.tensor(name).unwrap().attributes["adapters"];
    assert_eq!((described[0]["rank"].as_u64(), described[1]["scale"].as_f64()), (Some(4), Some(6.0)));
}

#[test]
fn quantized_weights_take_updates() {
    let folder = tempfile::tempdir().unwrap();
    let (name, [rows, columns], rank) = ("layers.4.plain", [48_usize, 128], 2);
    let values = |count: usize, step: f32| (0..count).map(|at| (at % 13) as f32 * step - 0.3).collect::<Vec<_>>();
    let (a, b) = (values(rank * columns, 0.05), values(rows * rank, 0.04));
    let bytes = |floats: &[f32]| floats.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
    let (a_end, b_end) = (a.len() * 4, (a.len() + b.len()) * 4);
    let header = format!(
        r#"{{"{name}.lora_A.weight":{{"dtype":"F32","shape":[{rank},{columns}],"data_offsets":[0,{a_end}]}},
        "{name}.lora_B.weight":{{"dtype":"F32","shape":[{rows},{rank}],"data_offsets":[{a_end},{b_end}]}}}}"#
    );
    let path = folder.path().join("adapter_model.safetensors");
    let header = header.into_bytes();
    fs::write(&path, [&(header.len() as u64).to_le_bytes()[..], &header, &bytes(&a), &bytes(&b)].concat()).unwrap();
    let config = AdapterConfig::from_json(br#"{"lora_alpha": 4}"#).unwrap();
    let base = corpus::root().join("quantized/gptq/model.safetensors");
    let adapter = Adapter::new(&path).config(config);
    let model = OpenOptions::new().adapter(adapter).open_blocking(&base).unwrap();
    let name = format!("{name}.weight");
    let mut expected = floats(&Model::open(&base).unwrap(), &name);
    for (at, element) in expected.iter_mut().enumerate() {
        let (row, column) = (at / columns, at % columns);
        let sum = (0..rank).fold(0.0_f32, |sum, k| sum + b[row * rank + k] * a[k * columns + column]);
        *element += sum * 2.0;
    }
    assert_eq!(floats(&model, &name), expected);
    assert_eq!(model.load(name.as_str()).unwrap().dtype(), &Dtype::F16);
}

#[test]
fn what_cannot_be_applied_is_an_error_that_says_why() {
    let root = corpus::root().join("adapters");
    let folder = tempfile::tempdir().unwrap();
    let lonely = folder.path().join("adapter_model.safetensors");
    fs::copy(root.join("peft/adapter_model.safetensors"), &lonely).unwrap();
    let peft = root.join("peft/adapter_model.safetensors");
    for (model, adapter, kind, expected) in [
        ("peft/model.safetensors", lonely.clone(), ErrorKind::NotFound, "adapter_config.json"),
        ("peft_convolutions/model.safetensors", peft.clone(), ErrorKind::NotFound, "does not have"),
        ("gguf/model.gguf", root.join("kohya/adapter.safetensors"), ErrorKind::NotFound, "does not have"),
        ("peft/model.safetensors", root.join("peft/model.safetensors"), ErrorKind::Unsupported, "no tensors of a LoRA"),
    ] {
        let error = OpenOptions::new().adapter(Adapter::new(&adapter)).open_blocking(root.join(model)).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().contains(adapter.file_name().unwrap().to_str().unwrap()), "{error}");
        let error = Reader::open_with(root.join(model), None, &[Adapter::new(&adapter)]).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    }
    let twice = OpenOptions::new().adapter(Adapter::new(&peft)).adapter(Adapter::new(&peft));
    let error = twice.open_blocking(root.join("peft/model.safetensors")).unwrap_err();
    assert!(error.to_string().contains("two adapters"), "{error}");
    let scale = Adapter::new(&peft).scale(f32::NAN);
    let error = OpenOptions::new().adapter(scale).open_blocking(root.join("peft/model.safetensors")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    let url = Adapter::new("https://example.org/adapter_model.safetensors");
    let error = OpenOptions::new().adapter(url).open_blocking(root.join("peft/model.safetensors")).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::InvalidArgument | ErrorKind::NotFound), "{error}");
}
