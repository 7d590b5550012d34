//! Reads the linear layer of a Burnpack file with weightstream, with candle and with burn, and prints the bits of its
//! values, a line for each.

use burn_nn::LinearConfig;
use burn_store::ModuleSnapshot;
use candle_core::{DType, Device};
use weightstream::blocking::Model;
use weightstream_burn::WeightStore;
use weightstream_candle::{Request, blocking};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("the file is missing")?;
    let model = Model::open(&file)?;

    let mut values = Vec::new();
    for name in ["weight", "bias"] {
        values.extend_from_slice(&model.load(name)?.as_f32()?);
    }
    print_bits("weightstream", values.into_iter());

    let tensors = blocking::tensors(&model, &Request::new(&Device::Cpu).with_dtype(DType::F32))?;
    let weight = tensors["weight"].flatten_all()?.to_vec1::<f32>()?;
    print_bits("candle", weight.into_iter().chain(tensors["bias"].to_vec1::<f32>()?));

    let shape = model.tensor("weight")?.shape.clone();
    let mut layer = LinearConfig::new(shape[0] as usize, shape[1] as usize).init(&burn_core::tensor::Device::default());
    layer.load_from(&mut WeightStore::read(&model)?)?;
    let weight: Vec<f32> = layer.weight.val().to_data().try_to_vec()?;
    let bias: Vec<f32> = layer.bias.ok_or("the layer has no bias")?.val().to_data().try_to_vec()?;
    print_bits("burn", weight.into_iter().chain(bias));
    Ok(())
}

fn print_bits(library: &str, values: impl Iterator<Item = f32>) {
    let bits: Vec<_> = values.map(|value| format!("{:08x}", value.to_bits())).collect();
    println!("{library}: {}", bits.join(" "));
}
