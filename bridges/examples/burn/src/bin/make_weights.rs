//! Writes a model with random weights to a folder, in the formats of burn and as SafeTensors, and prints the outputs of
//! burn for the input 0, 0.1, 0.2 …

use burn_core::tensor::Device;
use burn_example::{Mlp, SIZES};
use burn_store::{BurnpackStore, ModuleSnapshot, SafetensorsStore};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: make_weights FOLDER")?);
    let device = Device::default();
    let model = Mlp::random(&device);
    model.save_into(&mut BurnpackStore::from_file(folder.join("mlp.bpk")))?;
    model.save_into(&mut SafetensorsStore::from_file(folder.join("mlp.safetensors")))?;
    let input: Vec<f32> = (0..SIZES[0]).map(|at| at as f32 / 10.0).collect();
    println!("{:?}", model.compute(&input, &device)?);
    Ok(())
}
