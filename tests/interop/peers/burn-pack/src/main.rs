//! The crate `burn-pack`: Burnpack since Burn 0.22.

use burn_pack::{Bytes, DType, Reader, Scalar, Writer};
use burn_std::quantization::{QuantScheme, QuantStore, QuantValue, ScaleDtype};
use exchange::{Listing, Noise, Tensor, burn};
use serde_json::{Value, json};
use std::path::Path;

fn main() {
    exchange::run(write, read);
}

fn write(noise: &mut Noise, folder: &Path) {
    let all = burn::dtypes().iter().flat_map(|(dtype, bytes)| burn::tensors(noise, dtype, *bytes)).collect();
    let metadata = json!({
        "naïve ✓": "\"層\"\n", "": "",
        "scalars": {
            "epoch": { "UInt": u64::MAX }, "層": { "Int": -3 }, "rate": { "Float": 0.1 }, "done": { "Bool": true },
        },
    });
    save(all, &metadata, &folder.join("all.bpk"));
    save(quantized(noise), &json!({ "format": "burnpack" }), &folder.join("quantized.bpk"));
    save(Vec::new(), &json!({}), &folder.join("empty.bpk"));
}

/// Quantized tensors with every value type, with one scale or one scale for each block.
fn quantized(noise: &mut Noise) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    let values = [QuantValue::Q8F, QuantValue::Q8S, QuantValue::Q4F, QuantValue::Q4S, QuantValue::Q2F, QuantValue::Q2S];
    for value in values {
        for blocks in [false, true] {
            let packed = QuantScheme::default().with_value(value).with_store(QuantStore::PackedU32(0));
            let scheme = match blocks {
                false => packed.per_tensor(ScaleDtype::F32),
                true => packed.per_block([32], ScaleDtype::F16),
            };
            let (rows, columns) = (1 + noise.below(9), 64);
            let scale_bytes = if blocks { rows * columns / 32 * 2 } else { 4 };
            let length = rows * columns * scheme.size_bits_value() as u64 / 8 + scale_bytes;
            let dtype = serde_json::to_value(DType::QFloat(scheme)).unwrap();
            let (name, data) = (noise.name(&format!("{value:?} {blocks}")), noise.data(length));
            let tensor = Tensor::dense(name, &burn::weightstream_dtype(&dtype), vec![rows, columns], data);
            tensors.push(Tensor { attributes: burn::attributes(&dtype, Some(noise.next())), ..tensor });
        }
    }
    tensors
}

fn save(tensors: Vec<Tensor>, metadata: &Value, file: &Path) {
    let convert = |tensor: &Tensor| {
        let dtype: DType = serde_json::from_value(burn::burn_dtype(tensor)).unwrap();
        let shape: Vec<_> = tensor.shape.iter().map(|size| *size as usize).collect();
        let bytes = Bytes::from_bytes_vec(tensor.data().to_vec());
        burn_pack::Tensor::new(tensor.name.clone(), dtype, shape, burn::param_id(tensor), bytes)
    };
    let mut writer = Writer::new(tensors.iter().map(convert).collect());
    for (key, value) in metadata.as_object().unwrap() {
        if let Some(text) = value.as_str() {
            writer = writer.with_metadata(key, text);
        }
    }
    for (key, value) in metadata["scalars"].as_object().into_iter().flatten() {
        writer = writer.with_scalar(key, serde_json::from_value::<Scalar>(value.clone()).unwrap());
    }
    writer.write_to_file(file).unwrap();
    Listing { tensors, metadata: metadata.as_object().cloned(), ..Listing::default() }.expect(file);
}

fn read(file: &Path) -> Listing {
    let reader = Reader::from_file_exact(file).unwrap();
    let mut metadata = json!(reader.metadata());
    if !reader.scalars().is_empty() {
        metadata["scalars"] = json!(reader.scalars());
    }
    let convert = |tensor: burn_pack::Tensor| {
        let (name, dtype, shape, param_id, bytes) = tensor.into_parts().unwrap();
        let dtype = serde_json::to_value(dtype).unwrap();
        let shape = shape.to_vec().iter().map(|size| *size as u64).collect();
        let tensor = Tensor::dense(name, &burn::weightstream_dtype(&dtype), shape, bytes.to_vec());
        Tensor { attributes: burn::attributes(&dtype, param_id), ..tensor }
    };
    let tensors = reader.into_tensors().unwrap().into_iter().map(convert).collect();
    Listing { tensors, metadata: metadata.as_object().cloned(), ..Listing::default() }
}
