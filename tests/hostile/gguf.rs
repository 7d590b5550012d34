//! GGUF: arrays of all kinds, key-value pairs and tensors.

use super::alone;
use super::ceiling::{assert_accepted, assert_rejected, read};
use weightstream::ErrorKind;

const ARRAY: u32 = 9;

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

fn array(kind: u32, count: usize, item: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(count as u64).to_le_bytes(), &item.repeat(count)].concat()
}

fn file(pairs: &[(String, u32, Vec<u8>)], tensors: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend([tensors.len() as u64, pairs.len() as u64].map(u64::to_le_bytes).concat());
    for (key, kind, value) in pairs {
        file.extend([&text(key)[..], &kind.to_le_bytes(), value].concat());
    }
    tensors.iter().for_each(|tensor| file.extend(tensor));
    file.resize(file.len().next_multiple_of(32), 0);
    file
}

fn one_array(kind: u32, count: usize, item: &[u8]) -> Vec<u8> {
    file(&[("a".to_owned(), ARRAY, array(kind, count, item))], &[])
}

#[test]
fn arrays_use_memory_in_proportion_to_the_metadata_size() {
    let _alone = alone();
    let nested = array(0, 1, b"\0");
    let cases = [
        ("bytes", one_array(0, 10 << 20, b"\0")),
        ("fewer bytes", one_array(0, 600_000, b"\0")),
        ("bools", one_array(7, 4 << 20, b"\x01")),
        ("numbers", one_array(4, 1 << 20, &[0; 4])),
        ("more numbers", one_array(4, 4 << 20, &[0; 4])),
        ("infinities", one_array(6, 1 << 20, &f32::INFINITY.to_le_bytes())),
        ("empty strings", one_array(8, 1 << 20, &text(""))),
        ("strings", one_array(8, 700_000, &text("a"))),
        ("empty arrays", one_array(ARRAY, 700_000, &array(0, 0, b""))),
        ("arrays", one_array(ARRAY, 700_000, &nested)),
        ("arrays of arrays", one_array(ARRAY, 300_000, &array(ARRAY, 1, &nested))),
    ];
    for (what, file) in cases {
        _ = read(what, file);
    }
    assert_rejected("bytes", ErrorKind::Limit, one_array(0, 10 << 20, b"\0"));
    let mut nested = Vec::new();
    (0..1 << 20).for_each(|_| nested.extend([&ARRAY.to_le_bytes()[..], &1u64.to_le_bytes()].concat()));
    assert_rejected("deeply nested arrays", ErrorKind::Format, file(&[("a".to_owned(), ARRAY, nested)], &[]));
}

#[test]
fn pairs_and_tensors_use_memory_in_proportion_to_the_metadata_size() {
    let _alone = alone();
    let pairs: Vec<_> = (0..500_000).map(|at| (format!("{at:x}"), 0, vec![0])).collect();
    _ = read("500,000 pairs", file(&pairs, &[]));
    let tensor = |at: usize| {
        [&text(&format!("{at:x}"))[..], &0u32.to_le_bytes(), &0u32.to_le_bytes(), &0u64.to_le_bytes()].concat()
    };
    let tensors: Vec<_> = (0..500_000).map(tensor).collect();
    _ = read("500,000 tensors", file(&[], &tensors));
}

#[test]
fn error_messages_quote_only_the_beginning_of_values() {
    let _alone = alone();
    for key in ["general.alignment", "split.count"] {
        assert_rejected(key, ErrorKind::Format, file(&[(key.to_owned(), ARRAY, array(0, 100_000, b"\x07"))], &[]));
    }
}

#[test]
fn realistic_vocabularies_are_accepted() {
    let _alone = alone();
    let tokens: Vec<u8> = (0..260_000).flat_map(|at| text(&format!("▁token{at}"))).collect();
    let list = |kind: u32, count: u64, items: &[u8]| [&kind.to_le_bytes()[..], &count.to_le_bytes(), items].concat();
    let merges: Vec<u8> = (0..280_000).flat_map(|at| text(&format!("▁to ken{at}"))).collect();
    let pairs = [
        ("tokenizer.ggml.tokens".to_owned(), ARRAY, list(8, 260_000, &tokens)),
        ("tokenizer.ggml.scores".to_owned(), ARRAY, array(6, 260_000, &[0; 4])),
        ("tokenizer.ggml.token_type".to_owned(), ARRAY, array(5, 260_000, &[1, 0, 0, 0])),
        ("tokenizer.ggml.merges".to_owned(), ARRAY, list(8, 280_000, &merges)),
        ("tokenizer.ggml.precompiled_charsmap".to_owned(), ARRAY, array(0, 242_000, b"\x01")),
    ];
    assert_accepted("a vocabulary", file(&pairs, &[]));
}
