//! Small parts of tensors that lie behind all others in the file.

use super::bytes::{noise, safetensors};
use super::server::{Server, answer};
use super::{open, run};
use futures::TryStreamExt;
use std::rc::Rc;
use weightstream::Dtype;
use weightstream::internals::loader::TensorsRequest;

/// A load of all tensors, with checks, that must not hold all codes until the scales at the end arrive.
#[test]
fn scales_behind_all_codes_are_read_first() {
    const ELEMENTS: usize = 2 << 20;
    let codes: Vec<_> = (0..6).map(|at| (format!("{at}.weight"), noise(at, ELEMENTS))).collect();
    let scales: Vec<_> = (0..6).map(|at| format!("{at}.scale_weight")).collect();
    let shape = [ELEMENTS as u64 / 1024, 1024];
    let mut tensors: Vec<_> =
        codes.iter().map(|(name, bytes)| (name.as_str(), "F8_E4M3", &shape[..], bytes.clone())).collect();
    tensors.extend(scales.iter().map(|name| (name.as_str(), "F32", &[1][..], 1f32.to_le_bytes().to_vec())));
    let file = safetensors(None, &tensors);
    let length = file.len() as u64;
    let server = Server::new(move |request| answer(&file, request));
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        let request = TensorsRequest::default().with_dtype(Some(Dtype::F32));
        let mut stream = Box::pin(loader.tensors_with(request, Rc::new(())).await.unwrap());
        let mut arrived = Vec::new();
        while let Some(tensor) = stream.try_next().await.unwrap() {
            assert_eq!(tensor.components[0].buffer.len(), 4 * ELEMENTS);
            arrived.push((tensor.tensor.name.clone(), loader.stats().bytes_received()));
        }
        let names: Vec<_> = arrived.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, codes.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>());
        assert!(arrived[0].1 < length / 2, "{} of {length} bytes came before the first tensor", arrived[0].1);
    });
}
