//! The crate `burn-store`: Burnpack of Burn 0.20 and 0.21.

use burn_core::module::ParamId;
use burn_store::{BurnpackStore, BurnpackWriter, ModuleStore, TensorSnapshot};
use burn_tensor::quantization::{QuantLevel, QuantParam, QuantScheme, QuantStore, QuantValue};
use burn_tensor::{DType, Shape, TensorData};
use exchange::{Listing, Noise, Tensor, burn};
use serde_json::json;
use std::path::Path;

fn main() {
    exchange::run(write, read);
}

fn write(noise: &mut Noise, folder: &Path) {
    let all = burn::dtypes().iter().flat_map(|(dtype, bytes)| burn::tensors(noise, dtype, *bytes)).collect();
    save(all, &folder.join("all.bpk"));
    save(quantized(noise), &folder.join("quantized.bpk"));
    save(Vec::new(), &folder.join("empty.bpk"));
}

/// Quantized tensors with every value type, with one scale or one scale for each block.
fn quantized(noise: &mut Noise) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    let values = [QuantValue::Q8F, QuantValue::Q8S, QuantValue::Q4F, QuantValue::Q4S, QuantValue::Q2F, QuantValue::Q2S];
    for value in values {
        for level in [QuantLevel::Tensor, QuantLevel::block([32])] {
            let scheme = QuantScheme { value, level, param: QuantParam::F16, ..QuantScheme::default() };
            let dtype = DType::QFloat(scheme.with_store(QuantStore::PackedU32(0)));
            let shape = vec![1 + noise.below(9), 64];
            let serialized = serde_json::to_value(dtype).unwrap();
            let name = noise.name(&format!("{value:?} {level:?}"));
            let tensor = Tensor::dense(name, &burn::weightstream_dtype(&serialized), shape, Vec::new());
            let mut tensor = Tensor { attributes: burn::attributes(&serialized, Some(noise.next())), ..tensor };
            tensor.components[0].data = noise.data(snapshot(&tensor).data_len() as u64);
            tensors.push(tensor);
        }
    }
    tensors
}

fn save(tensors: Vec<Tensor>, file: &Path) {
    let writer = BurnpackWriter::new(tensors.iter().map(snapshot).collect());
    writer.with_metadata("naïve ✓", "\"層\"\n").write_to_file(file).unwrap();
    let metadata = json!({ "naïve ✓": "\"層\"\n" }).as_object().cloned();
    Listing { tensors, metadata, ..Listing::default() }.expect(file);
}

fn snapshot(tensor: &Tensor) -> TensorSnapshot {
    let dtype: DType = serde_json::from_value(burn::burn_dtype(tensor)).unwrap();
    let shape: Shape = tensor.shape.iter().map(|size| *size as usize).collect::<Vec<_>>().into();
    let data = TensorData::from_bytes_vec(tensor.data().to_vec(), shape, dtype);
    let id = burn::param_id(tensor).map(ParamId::from);
    let mut snapshot = TensorSnapshot::from_data(data, vec![tensor.name.clone()], Vec::new(), ParamId::from(0));
    snapshot.tensor_id = id;
    snapshot
}

/// Reads a file. The crate gives no access to its metadata.
fn read(file: &Path) -> Listing {
    let convert = |snapshot: &TensorSnapshot| {
        let dtype = serde_json::to_value(snapshot.dtype).unwrap();
        let shape = snapshot.shape.iter().map(|size| *size as u64).collect();
        let data = snapshot.to_data().unwrap().bytes.to_vec();
        let tensor = Tensor::dense(snapshot.full_path(), &burn::weightstream_dtype(&dtype), shape, data);
        Tensor { attributes: burn::attributes(&dtype, snapshot.tensor_id.map(|id| id.val())), ..tensor }
    };
    let mut store = BurnpackStore::from_file(file);
    let tensors = store.get_all_snapshots().unwrap().values().map(convert).collect();
    Listing { tensors, metadata: None, ..Listing::default() }
}
