//! A linear layer with weights from Burnpack, and from SafeTensors as PyTorch lays them out.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use burn_core::tensor::Device;
use burn_nn::{Linear, LinearConfig};
use burn_store::{BurnpackStore, KeyRemapper, ModuleSnapshot, PathFilter, PyTorchToBurnAdapter};
use futures::executor::block_on;
use std::path::PathBuf;
use weightstream::ErrorKind;
use weightstream::blocking::Model;
use weightstream_burn::WeightStore;

const INPUTS: usize = 5;
const OUTPUTS: usize = 7;

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/burnpack/bs021_module_linear.bpk")
}

fn layer() -> Linear {
    LinearConfig::new(INPUTS, OUTPUTS).init(&Device::default())
}

/// The weight, then the bias.
fn values(layer: &Linear) -> (Vec<f32>, Vec<f32>) {
    let bias = layer.bias.as_ref().unwrap().val();
    (layer.weight.val().to_data().try_to_vec().unwrap(), bias.to_data().try_to_vec().unwrap())
}

/// What the store of burn itself applies.
fn expected() -> (Vec<f32>, Vec<f32>) {
    let mut layer = layer();
    layer.load_from(&mut BurnpackStore::from_file(fixture())).unwrap();
    values(&layer)
}

fn loaded(name: &str, bytes: Vec<u8>) -> WeightStore {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    block_on(async {
        let model = weightstream::Model::open(path).await.unwrap();
        WeightStore::load(&model).await.unwrap()
    })
}

/// The layer as PyTorch saves it: the weight is transposed, and its name has a prefix.
fn safetensors() -> Vec<u8> {
    let (weight, bias) = expected();
    let transposed = (0..OUTPUTS).flat_map(|row| (0..INPUTS).map(move |column| (row, column)));
    let transposed = transposed.map(|(row, column)| weight[column * OUTPUTS + row]);
    let data: Vec<u8> = transposed.chain(bias).flat_map(f32::to_le_bytes).collect();
    let header = r#"{"fc.weight":{"dtype":"F32","shape":[7,5],"data_offsets":[0,140]},
                     "fc.bias":{"dtype":"F32","shape":[7],"data_offsets":[140,168]}}"#;
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

fn without_prefix() -> KeyRemapper {
    KeyRemapper::new().add_pattern(r"^fc\.", "").unwrap()
}

#[test]
fn applies_burnpack_as_burn_does() {
    let model = Model::open(fixture()).unwrap();
    let stores = [WeightStore::read(&model).unwrap(), loaded("linear.bpk", std::fs::read(fixture()).unwrap())];
    for mut store in stores {
        let mut layer = layer();
        let result = layer.load_from(&mut store).unwrap();
        assert_eq!((result.applied.len(), result.missing.len(), result.unused.len()), (2, 0, 0));
        assert_eq!(values(&layer), expected());
    }
}

#[test]
fn applies_safetensors_of_pytorch_with_the_remapping_and_adapter_of_burn() {
    let model = Model::from_bytes([("model.safetensors", safetensors())]).unwrap();
    for store in [WeightStore::read(&model).unwrap(), loaded("model.safetensors", safetensors())] {
        let mut store = store.with_remapping(&without_prefix()).unwrap().with_adapter(PyTorchToBurnAdapter);
        let mut layer = layer();
        layer.load_from(&mut store).unwrap();
        assert_eq!(values(&layer), expected());
    }
}

#[test]
fn reports_missing_and_unused_tensors() {
    let mut store = loaded("model.safetensors", safetensors());
    let mut layer = layer();
    let error = layer.load_from(&mut store).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.to_string().contains("weight"), "{error}");

    let result = layer.load_from(&mut store.with_partial(true)).unwrap();
    assert_eq!((result.applied.len(), result.missing.len(), result.unused.len()), (0, 2, 2));
}

#[test]
fn applies_only_what_passes_the_filter() {
    let bytes = std::fs::read(fixture()).unwrap();
    let mut store = loaded("linear.bpk", bytes).with_filter(PathFilter::new().with_full_path("bias"));
    let mut layer = layer();
    let weight = values(&layer).0;
    let result = layer.load_from(&mut store).unwrap();
    assert_eq!(result.applied, ["bias"]);
    assert_eq!(values(&layer), (weight, expected().1));
}

#[test]
fn refuses_two_tensors_of_one_name() {
    let same = KeyRemapper::new().add_pattern("^.*$", "weight").unwrap();
    let error = loaded("model.safetensors", safetensors()).with_remapping(&same).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
}

#[test]
fn refuses_to_save() {
    let mut store = loaded("model.safetensors", safetensors());
    assert_eq!(layer().save_into(&mut store).unwrap_err().kind, ErrorKind::Unsupported);
}
