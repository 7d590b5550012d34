//! Reads the linear layer of a Burnpack file with weightstream, with candle and with burn, and prints the bits of its
//! values, a line for each.

use burn_nn::LinearConfig;
use burn_store::ModuleSnapshot;
use candle_core::{DType, Device};
use std::sync::Arc;
use weightstream::internals::native::Reader;
use weightstream_burn::WeightStore;
use weightstream_candle::{Request, read_tensors};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("the file is missing")?;
    let reader = Arc::new(Reader::open(&file)?);

    let mut bytes = Vec::new();
    for name in ["weight", "bias"] {
        reader.read_pieces(name, "data", &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
    }
    let values = bytes.chunks_exact(4).map(|value| f32::from_le_bytes([value[0], value[1], value[2], value[3]]));
    print_bits("weightstream", values);

    let tensors = read_tensors(&reader, Some(DType::F32), &Request::new(&Device::Cpu), &())?;
    let weight = tensors["weight"].flatten_all()?.to_vec1::<f32>()?;
    print_bits("candle", weight.into_iter().chain(tensors["bias"].to_vec1::<f32>()?));

    let shape = reader.tensor("weight")?.shape.clone();
    let mut layer = LinearConfig::new(shape[0] as usize, shape[1] as usize).init(&burn_core::tensor::Device::default());
    layer.load_from(&mut WeightStore::read(&reader, None)?)?;
    let weight: Vec<f32> = layer.weight.val().to_data().try_to_vec()?;
    let bias: Vec<f32> = layer.bias.ok_or("the layer has no bias")?.val().to_data().try_to_vec()?;
    print_bits("burn", weight.into_iter().chain(bias));
    Ok(())
}

fn print_bits(library: &str, values: impl Iterator<Item = f32>) {
    let bits: Vec<_> = values.map(|value| format!("{:08x}", value.to_bits())).collect();
    println!("{library}: {}", bits.join(" "));
}
