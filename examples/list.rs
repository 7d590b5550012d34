//! Lists the tensors of a model at a path or a URL:
//! `cargo run --example list --features http -- model.safetensors`.

use std::env;
use std::error::Error;
use weightstream::blocking::Model;

fn main() -> Result<(), Box<dyn Error>> {
    let location = env::args().nth(1).ok_or("usage: list <path or URL of a model>")?;
    let model = Model::open(location)?;
    for tensor in model.tensors() {
        let length = tensor.byte_length().map_or("?".to_owned(), |length| length.to_string());
        println!("{:<12} {:>12} bytes  {:?}  {}", tensor.dtype.to_string(), length, tensor.shape, tensor.name);
    }
    Ok(())
}
