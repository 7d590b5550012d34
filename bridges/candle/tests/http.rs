//! Weights from a server, natively.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../../http_server.rs"]
mod http_server;

use candle_core::{DType, Device, Tensor};
use std::path::PathBuf;
use weightstream::Model;
use weightstream_candle::{Request, var_builder};

#[test]
fn loads_the_same_tensors_over_http_as_candles_own_reader() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/safetensors/big.safetensors");
    let url = http_server::start(std::fs::read(&path).unwrap());
    let weights = futures::executor::block_on(async {
        let model = Model::open(format!("{url}/big.safetensors")).await.unwrap();
        var_builder(&model, DType::F32, &Request::new(&Device::Cpu)).await.unwrap()
    });

    let expected = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
    assert!(!expected.is_empty());
    for (name, tensor) in expected {
        let loaded = weights.get_unchecked(&name).unwrap();
        let tensor = tensor.to_dtype(DType::F32).unwrap();
        assert_eq!(loaded.dims(), tensor.dims(), "{name}");
        assert!(bits_of(&loaded) == bits_of(&tensor), "{name} has other values");
    }
}

fn bits_of(tensor: &Tensor) -> Vec<u32> {
    tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}
