//! Weights from a server, natively.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../../http_server.rs"]
mod http_server;

use burn_core::tensor::Device;
use burn_nn::{Linear, LinearConfig};
use burn_store::{BurnpackStore, ModuleSnapshot};
use std::path::PathBuf;
use weightstream::Model;
use weightstream_burn::WeightStore;

#[test]
fn applies_weights_over_http_as_burn_applies_the_file() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/burnpack/bs021_module_linear.bpk");
    let url = http_server::start(std::fs::read(&path).unwrap());
    let mut store = futures::executor::block_on(async {
        let model = Model::open(format!("{url}/linear.bpk")).await.unwrap();
        WeightStore::load(&model).await.unwrap()
    });

    let [mut loaded, mut expected] = [(); 2].map(|()| LinearConfig::new(5, 7).init(&Device::default()));
    loaded.load_from(&mut store).unwrap();
    expected.load_from(&mut BurnpackStore::from_file(path)).unwrap();
    assert_eq!(values(&loaded), values(&expected));
}

fn values(layer: &Linear) -> [Vec<f32>; 2] {
    let bias = layer.bias.as_ref().unwrap().val();
    [layer.weight.val().to_data(), bias.to_data()].map(|data| data.try_to_vec().unwrap())
}
