//! Weights from the fixtures of weightstream: the same tensors through the asynchronous and the blocking model.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use candle_core::{DType, Device, Tensor};
use futures::executor::block_on;
use std::collections::HashMap;
use std::path::PathBuf;
use weightstream::ErrorKind;
use weightstream::blocking::Model;
use weightstream_candle::{Request, blocking, qtensors, tensors};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

async fn open(name: &str) -> weightstream::Model {
    weightstream::Model::open(fixture(name)).await.unwrap()
}

fn bytes_of(tensor: &Tensor) -> Vec<u8> {
    let flat = tensor.flatten_all().unwrap().to_dtype(DType::F64).unwrap();
    flat.to_vec1::<f64>().unwrap().into_iter().flat_map(f64::to_le_bytes).collect()
}

fn same(a: &HashMap<String, Tensor>, b: &HashMap<String, Tensor>) {
    assert!(!a.is_empty());
    assert_eq!(a.len(), b.len());
    for (name, tensor) in a {
        let other = &b[name];
        assert_eq!((tensor.dtype(), tensor.dims()), (other.dtype(), other.dims()), "{name}");
        assert_eq!(bytes_of(tensor), bytes_of(other), "{name}");
    }
}

#[test]
fn loads_the_same_tensors_as_candles_own_reader() {
    for name in ["safetensors/basic.safetensors", "safetensors/big.safetensors", "safetensors/shapes.safetensors"] {
        let expected = candle_core::safetensors::load(fixture(name), &Device::Cpu).unwrap();
        let request = Request::new(&Device::Cpu);
        let read = blocking::tensors(&Model::open(fixture(name)).unwrap(), &request).unwrap();
        same(&expected, &read);
        let loaded = block_on(async { tensors(&open(name).await, &request).await.unwrap() });
        same(&expected, &loaded);
    }
}

#[test]
fn converts_floats_to_the_requested_dtype() {
    let name = "safetensors/basic.safetensors";
    let model = Model::open(fixture(name)).unwrap();
    let request = Request::new(&Device::Cpu).with_dtype(DType::F16);
    let read = blocking::tensors(&model, &request).unwrap();
    let loaded = block_on(async { tensors(&open(name).await, &request).await.unwrap() });
    same(&read, &loaded);
    for (name, tensor) in candle_core::safetensors::load(fixture(name), &Device::Cpu).unwrap() {
        let is_float = tensor.dtype().is_float();
        let expected = if is_float { tensor.to_dtype(DType::F16).unwrap() } else { tensor };
        assert_eq!(bytes_of(&read[&name]), bytes_of(&expected), "{name}");
    }
}

/// The quantized types that candle has; its own reader refuses the whole file because of the others.
const QUANTIZED: [&str; 12] =
    ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "BF16", "F16", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"];

#[test]
fn loads_quantized_tensors_in_the_blocks_of_the_file() {
    let name = "gguf/quant.gguf";
    let model = Model::open(fixture(name)).unwrap();
    let wanted = |name: &str| QUANTIZED.contains(&model.tensor(name).unwrap().dtype.name()).then(|| name.to_owned());
    let request = Request::new(&Device::Cpu).with_names(wanted);
    let read = blocking::qtensors(&model, &request).unwrap();
    let loaded = block_on(async { qtensors(&open(name).await, &request).await.unwrap() });
    assert_eq!((read.len(), loaded.len()), (QUANTIZED.len(), QUANTIZED.len()));
    for (name, tensor) in &read {
        let bytes = model.tensor_slice(name).unwrap();
        assert_eq!(tensor.data().unwrap(), bytes, "{name}");
        assert_eq!(loaded[name].data().unwrap(), bytes, "{name}");
    }
}

#[test]
fn candle_decodes_quantized_tensors_to_the_values_of_weightstream() {
    let model = Model::open(fixture("gguf/quant.gguf")).unwrap();
    let wanted = |name: &str| QUANTIZED.contains(&model.tensor(name).unwrap().dtype.name()).then(|| name.to_owned());
    let request = Request::new(&Device::Cpu).with_names(wanted);
    let as_floats = Request::new(&Device::Cpu).with_names(wanted).with_dtype(DType::F32);
    let floats = blocking::tensors(&model, &as_floats).unwrap();
    for (name, tensor) in blocking::qtensors(&model, &request).unwrap() {
        let decoded = tensor.dequantize(&Device::Cpu).unwrap();
        assert_eq!(decoded.dims(), floats[&name].dims(), "{name}");
        let values = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        for (a, b) in values(&decoded).into_iter().zip(values(&floats[&name])) {
            assert!((a - b).abs() <= 1e-6 * a.abs().max(1.0), "{name}: {a} and {b}");
        }
    }
}

#[test]
fn refuses_a_dtype_that_candle_does_not_have() {
    let model = Model::open(fixture("safetensors/alltypes.safetensors")).unwrap();
    let error = blocking::tensors(&model, &Request::new(&Device::Cpu)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.to_string().contains("candle has no tensors"), "{error}");
}

#[test]
fn renames_tensors_and_leaves_others_out() {
    let model = Model::open(fixture("safetensors/alltypes.safetensors")).unwrap();
    let names = |name: &str| name.strip_prefix("types.f").map(|width| format!("float.{width}"));
    let read = blocking::tensors(&model, &Request::new(&Device::Cpu).with_names(names)).unwrap();
    let mut names: Vec<_> = read.into_keys().collect();
    names.sort();
    assert_eq!(names, ["float.16", "float.32", "float.64"]);
}

#[test]
fn refuses_to_convert_to_integers() {
    let model = Model::open(fixture("safetensors/basic.safetensors")).unwrap();
    let error = blocking::var_builder(&model, DType::I64, &Request::new(&Device::Cpu)).err().unwrap();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
}

#[test]
fn refuses_two_tensors_of_one_name() {
    let model = Model::open(fixture("safetensors/basic.safetensors")).unwrap();
    let request = Request::new(&Device::Cpu).with_names(|_| Some("weight".to_owned()));
    let error = blocking::tensors(&model, &request).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
}

#[test]
fn refuses_to_convert_quantized_tensors() {
    let model = Model::open(fixture("gguf/quant.gguf")).unwrap();
    let error = blocking::qtensors(&model, &Request::new(&Device::Cpu).with_dtype(DType::F32)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
}
