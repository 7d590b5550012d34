//! Lists the tensors of a model: `cargo run --example list -- model.safetensors`, or the URL of a model.

use std::env;
use std::error::Error;
use weightstream::index::Tensor;
use weightstream::loader::Options;
use weightstream::native::{Reader, RemoteReader};

fn main() -> Result<(), Box<dyn Error>> {
    let model = env::args().nth(1).ok_or("usage: list <path or URL of a model>")?;
    if model.starts_with("https://") || model.starts_with("http://") {
        list(RemoteReader::open(&model, &[], Options::default())?.tensors());
    } else {
        list(Reader::open(&model)?.tensors());
    }
    Ok(())
}

fn list(tensors: &[Tensor]) {
    for tensor in tensors {
        let length = tensor.byte_length().map_or("?".to_owned(), |length| length.to_string());
        println!("{:<12} {:>12} bytes  {:?}  {}", tensor.dtype.to_string(), length, tensor.shape, tensor.name);
    }
}
