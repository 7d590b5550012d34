//! Converts a model to APR with compressed tensors:
//! `cargo run --example convert --features write -- model.safetensors model.apr`.

use std::env;
use std::error::Error;
use weightstream::blocking::Model;
use weightstream::format;
use weightstream::write::{Compression, ConvertOptions, convert};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(input), Some(output)) = (arguments.next(), arguments.next()) else {
        return Err("usage: convert <input> <output.apr>".into());
    };
    let options =
        ConvertOptions::new().format(format::named("apr")?).compression(Compression::Auto).keep_existing(true);
    let converted = convert(&Model::open(input)?, output, &options)?;
    for warning in &converted.warnings {
        eprintln!("warning: {warning}");
    }
    let stored: u64 = converted.files.iter().map(|(_, length)| length).sum();
    println!("{} tensors, {} bytes decoded, {stored} bytes stored", converted.tensors, converted.decoded_bytes);
    Ok(())
}
