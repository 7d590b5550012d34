//! The number of requests that reading the header of a file needs, for different sizes.

use super::bytes::safetensors;
use super::server::{Server, answer};
use super::{load, open, run};
use serde_json::json;

const KIB: usize = 1 << 10;

/// A GGUF file with a vocabulary of `tokens` tokens and one tensor. The length of its header is unknown until the
/// header is read.
fn gguf(tokens: u64, tensor: &[u8]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut file = [b"GGUF".as_slice(), &3u32.to_le_bytes(), &1u64.to_le_bytes(), &1u64.to_le_bytes()].concat();
    file.extend([text("tokenizer.ggml.tokens"), [9u32, 8].map(u32::to_le_bytes).concat()].concat());
    file.extend(tokens.to_le_bytes());
    file.extend((0..tokens).flat_map(|token| text(&format!("token {token:026}"))));
    file.extend([text("tensor"), 1u32.to_le_bytes().to_vec(), (tensor.len() as u64).to_le_bytes().to_vec()].concat());
    file.extend([24u32.to_le_bytes().as_slice(), &0u64.to_le_bytes()].concat()); // 24: I8
    file.resize(file.len().next_multiple_of(32), 0);
    [&file, tensor].concat()
}

/// Opens the file and loads its tensor. Returns the number of requests before the tensor was loaded, and the number of
/// body bytes that were sent for each request.
fn requests_for_header(file: Vec<u8>, tensor: &[u8]) -> (usize, Vec<usize>) {
    let served = file.clone();
    let server = Server::new(move |request| answer(&served, request));
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        assert_eq!(loader.load_index().await.unwrap().len(), 1);
        let requests = server.requests().len();
        assert!(load(&loader, "tensor").await.unwrap() == tensor);
        assert!(loader.stats().bytes_received() <= (file.len() + 2 * tensor.len()) as u64);
        (requests, server.requests().iter().map(|request| request.sent).collect())
    })
}

#[test]
fn a_header_of_unknown_length_needs_three_requests() {
    let tensor = vec![7; 64 * KIB];
    for (tokens, max) in [(100, 1), (10_000, 2), (100_000, 3), (400_000, 3)] {
        let (requests, sent) = requests_for_header(gguf(tokens, &tensor), &tensor);
        assert!(requests <= max, "{requests} requests for {tokens} tokens: {sent:?}");
    }
}

#[test]
fn a_speculative_header_request_is_not_read_to_its_end() {
    let tensor = vec![7; 64 << 20];
    let (requests, sent) = requests_for_header(gguf(100_000, &tensor), &tensor);
    assert_eq!(requests, 3);
    assert!(sent[2] < 32 << 20, "{sent:?}");
}

#[test]
fn a_header_of_known_length_needs_two_requests() {
    let tensor = vec![7; 64 * KIB];
    let metadata = json!({ "long": "x".repeat(4 << 20) });
    let file = safetensors(Some(metadata), &[("tensor", "U8", &[tensor.len() as u64], tensor.clone())]);
    let (requests, sent) = requests_for_header(file, &tensor);
    assert_eq!(requests, 2, "{sent:?}");
}
