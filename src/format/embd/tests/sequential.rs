//! Tests of the layout that the tools write.

use super::*;
use serde_json::json;

/// Builds a file as the tools write it.
pub(super) fn sequential_file(tensors: &[(&str, &[u32])], tokens: &[&str]) -> Vec<u8> {
    let mut file = b"EMBD\x01\0\0\0".to_vec();
    file.extend((tensors.len() as u32).to_le_bytes());
    for (number, (name, shape)) in tensors.iter().enumerate() {
        file.extend((name.len() as u32).to_le_bytes());
        file.extend(name.as_bytes());
        file.extend((shape.len() as u32).to_le_bytes());
        shape.iter().for_each(|dim| file.extend(dim.to_le_bytes()));
        (0..shape.iter().product::<u32>()).for_each(|_| file.extend((number as f32).to_le_bytes()));
    }
    file.extend((tokens.len() as u32).to_le_bytes());
    for token in tokens {
        file.extend((token.len() as u32).to_le_bytes());
        file.extend(token.as_bytes());
    }
    file
}

#[test]
fn rejects_invalid_records() {
    let file = sequential_file(&[("first", &[2]), ("second", &[2, 3])], &["a", "b"]);
    let refused = |at: usize, value: u32, kind: ErrorKind, what: &str| {
        let mut file = file.clone();
        file[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let error = parsed(&file).unwrap_err();
        assert!(error.kind == kind && error.what.contains(what), "{error}");
    };
    use ErrorKind::{Checksum, Format, Limit, Truncated, Unsupported};
    refused(4, 2, Unsupported, "version 2.0");
    refused(8, u32::MAX, Truncated, "need");
    refused(12, 2 << 20, Checksum, "no tensor follows");
    refused(16, 0x0001_0203, Checksum, "no tensor follows");
    refused(21, 5, Format, "5 dimensions");
    refused(25, 0, Format, "no empty tensors");
    refused(25, 1 << 30, Truncated, "its data ends at");
    refused(37, u32::MAX, Format, "a tensor's name claims");
    let vocabulary = file.len() - 14;
    refused(vocabulary, u32::MAX, Limit, "tokens");
    refused(vocabulary, 1000, Truncated, "vocabulary");
}

#[test]
fn ignores_bytes_after_the_vocabulary() {
    let mut file = sequential_file(&[("first", &[2])], &["a", "b"]);
    file.extend([1; 100]);
    assert_eq!(parsed(&file).unwrap().metadata["vocabulary"], json!({ "tokens": ["a", "b"] }));
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn reading_the_index_takes_one_request_per_large_tensor() {
    let mut tensors = Vec::new();
    for _ in 0..20 {
        tensors.push(("layer.large.weight", &[200u32, 200][..]));
        tensors.extend([("layer.small.bias", &[200u32][..]); 3]);
    }
    let names: Vec<String> = (0..80).map(|number| format!("{number}.{}", tensors[number].0)).collect();
    let tensors: Vec<_> = names.iter().zip(&tensors).map(|(name, (_, shape))| (name.as_str(), *shape)).collect();
    for token_count in [10, 30_000] {
        let tokens: Vec<String> = (0..token_count).map(|number| format!("token{number}")).collect();
        let file = sequential_file(&tensors, &tokens.iter().map(String::as_str).collect::<Vec<_>>());
        let loader = loader(&file);
        assert_eq!(block_on(loader.load_index()).unwrap().len(), 80);
        let metadata = block_on(loader.load_metadata()).unwrap().metadata;
        assert_eq!(metadata["vocabulary"]["tokens"], json!(tokens));
        let (requests, received) = (loader.stats().requests(), loader.stats().bytes_received());
        assert!(requests <= 22, "{requests} requests");
        assert!(received < 22 * (64 << 10) + 500_000, "{received} bytes of {}", file.len());
    }
}

#[test]
fn a_stopped_parse_continues_with_the_next_tensor() {
    let reads = |count: usize| {
        let names: Vec<String> = (0..count).map(|at| format!("t{at}")).collect();
        let tensors: Vec<(&str, &[u32])> = names.iter().map(|name| (&**name, &[300][..])).collect();
        let file = sequential_file(&tensors, &["a", "b"]);
        let mut window = Window::new(Some(file.len() as u64));
        loop {
            match parse(&window) {
                Ok(Parsed::File(index)) => {
                    assert_eq!(
                        (index.tensors.len(), &index.metadata["vocabulary"]["tokens"]),
                        (count, &json!(["a", "b"]))
                    );
                    break window.reads.get();
                }
                Err(Stop::Need(range)) => {
                    let end = range.end.min(file.len() as u64);
                    window.insert(range.start, &file[range.start as usize..end as usize]);
                }
                other => panic!("{other:?}"),
            }
        }
    };
    let (few, many) = (reads(50), reads(500));
    assert!(many < 11 * few, "{few} reads of 50 tensors, {many} of 500");
}
