//! Tensors that are streamed in pieces, for example to a GPU, are requested in parts: browsers receive the rest of a
//! response ahead of a slow reader, and keep it in memory.

use super::bytes::{noise, safetensors};
use super::server::{Request, Server, answer};
use super::{HttpLoader, open, run};
use std::collections::HashMap;

const MAX_REQUEST_BYTES: usize = 16 << 20;

/// Three tensors in 50 MB.
fn model() -> (HashMap<&'static str, Vec<u8>>, Vec<u8>) {
    let tensors = [("a", 20_000_000), ("b", 1_000_001), ("c", 29_000_000)];
    let data = tensors.map(|(name, length)| (name, noise(length as u64, length)));
    let shapes = tensors.map(|(_, length)| [length as u64]);
    let entries = [0, 1, 2].map(|at| (data[at].0, "U8", &shapes[at][..], data[at].1.clone()));
    let file = safetensors(None, &entries);
    (HashMap::from(data), file)
}

/// Streams all tensors in pieces of 2 MiB, and compares their bytes. Waits after each piece.
async fn stream(loader: &HttpLoader, expected: &HashMap<&str, Vec<u8>>) {
    let mut reader = loader.read_tensors(None, None).await.unwrap();
    let mut count = 0;
    while let Some(begun) = reader.next().await.unwrap() {
        let (mut bytes, mut piece) = (Vec::new(), vec![0; 2 << 20]);
        while bytes.len() < begun.byte_length as usize {
            let length = reader.fill(&mut piece, 0..2 << 20).await.unwrap() as usize;
            bytes.extend_from_slice(&piece[..length]);
        }
        assert!(bytes == expected[&*begun.tensor.name], "{}", begun.tensor.name);
        count += 1;
    }
    assert_eq!(count, expected.len());
}

#[test]
fn streamed_tensors_are_requested_in_parts_without_gaps_and_overlaps() {
    let (expected, file) = model();
    let length = file.len();
    let server = Server::new(move |request| answer(&file, request));
    run(async { stream(&open(&server.url("/m.safetensors")).await.unwrap(), &expected).await });
    let mut ranges = server.ranges();
    ranges.retain(|range| range.start > 0);
    assert!(ranges.iter().all(|range| range.len() <= MAX_REQUEST_BYTES), "{ranges:?}");
    assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start), "{ranges:?}");
    assert_eq!(ranges.last().unwrap().end, length);
    assert_eq!(ranges.len(), length.div_ceil(MAX_REQUEST_BYTES), "{ranges:?}");
}

#[test]
fn the_next_part_is_requested_before_the_last_one_has_arrived() {
    let (expected, file) = model();
    // A second connection is open at the same time only if the next part is requested early.
    let server = Server::new(move |request| answer(&file, request).slowly(1));
    run(async { stream(&open(&server.url("/m.safetensors")).await.unwrap(), &expected).await });
    assert_eq!(server.max_concurrent(), 2);
}

#[test]
fn a_part_that_breaks_is_resumed() {
    let (expected, file) = model();
    let server = Server::new(move |request| {
        let reply = answer(&file, request);
        if request.number.is_multiple_of(2) { reply.cut_after(3_000_000) } else { reply }
    });
    run(async { stream(&open(&server.url("/m.safetensors")).await.unwrap(), &expected).await });
}

#[test]
fn parts_of_a_file_without_etag_overlap() {
    let (expected, file) = model();
    let server = Server::new(move |request: &Request| answer(&file, request).without("ETag").without("Last-Modified"));
    run(async { stream(&open(&server.url("/m.safetensors")).await.unwrap(), &expected).await });
    let mut ranges = server.ranges();
    ranges.retain(|range| range.start > 0);
    assert!(ranges.iter().all(|range| range.len() <= MAX_REQUEST_BYTES + (64 << 10)), "{ranges:?}");
    assert!(ranges.windows(2).all(|pair| pair[1].start < pair[0].end), "{ranges:?}");
}
