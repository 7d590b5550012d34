//! Peak memory while weights are loaded. A test binary of its own, because the counter is that of the process.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use candle_core::{DType, Device};
use futures::executor::block_on;
use peak_alloc::PeakAlloc;
use std::io::Write;
use weightstream::{OpenOptions, blocking::Model};
use weightstream_candle::{Request, blocking, var_builder};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const TENSORS: usize = 16;
const TENSOR_BYTES: usize = 4 << 20;
/// Headers, buffers of the reader, and allocations that the tensor's size does not determine.
const SLACK: usize = 2 << 20;

#[test]
fn holds_the_model_and_one_more_tensor() {
    let mut header = String::from("{");
    for tensor in 0..TENSORS {
        let (start, end) = (tensor * TENSOR_BYTES, (tensor + 1) * TENSOR_BYTES);
        let entry =
            format!(r#""t{tensor}":{{"dtype":"F32","shape":[{}],"data_offsets":[{start},{end}]}}"#, TENSOR_BYTES / 4);
        header.push_str(if tensor == 0 { "" } else { "," });
        header.push_str(&entry);
    }
    header.push('}');
    let mut file = tempfile::Builder::new().suffix(".safetensors").tempfile().unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    for tensor in 0..TENSORS {
        file.write_all(&vec![tensor as u8; TENSOR_BYTES]).unwrap();
    }
    let limit = (TENSORS + 1) * TENSOR_BYTES + SLACK;

    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let model = Model::open(file.path()).unwrap();
    let weights = blocking::var_builder(&model, DType::F32, &Request::new(&Device::Cpu)).unwrap();
    let peak = MEMORY.peak_usage() - before;
    assert!(weights.contains_tensor("t0"));
    assert!(peak >= TENSORS * TENSOR_BYTES && peak <= limit, "reading used {peak} bytes, more than {limit}");
    drop((model, weights));

    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let weights = block_on(async {
        let model = OpenOptions::new().concurrency(1).open(file.path()).await.unwrap();
        var_builder(&model, DType::F32, &Request::new(&Device::Cpu)).await.unwrap()
    });
    let peak = MEMORY.peak_usage() - before;
    assert!(weights.contains_tensor("t0"));
    assert!(peak >= TENSORS * TENSOR_BYTES && peak <= limit, "loading used {peak} bytes, more than {limit}");
}
