//! Models with large headers, whose metadata and index are passed to JavaScript in several batches.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Map, json};

/// Enough for more than two batches.
const TOKENS: u32 = 10_000;
const TENSORS: u32 = 3000;

/// Writes the models to a folder.
pub fn write(folder: &Path) -> Result<()> {
    fs::write(folder.join("vocabulary.gguf"), vocabulary())?;
    Ok(fs::write(folder.join("many.safetensors"), many_tensors()?)?)
}

/// A GGUF file with an array of each type that is passed as an array.
fn vocabulary() -> Vec<u8> {
    let mut file = b"GGUF".to_vec();
    file.extend(3_u32.to_le_bytes());
    file.extend([0_u64, 5].map(u64::to_le_bytes).as_flattened()); // tensors, keys
    array(&mut file, "tokens", 8, |token| string(&words(token)));
    array(&mut file, "scores", 6, |token| (token as f32 / -4.0).to_le_bytes().to_vec());
    array(&mut file, "types", 5, |token| (token as i32 - 7).to_le_bytes().to_vec());
    array(&mut file, "__proto__", 4, |token| (u32::MAX - token).to_le_bytes().to_vec());
    array(&mut file, "not all finite", 6, |token| {
        if token == 9000 { f32::INFINITY } else { token as f32 }.to_le_bytes().to_vec()
    });
    file
}

/// Strings with characters of one to four bytes, empty ones, some that start with a byte order mark, and invalid UTF-8.
fn words(token: u32) -> Vec<u8> {
    match token % 7 {
        0 => format!("\u{feff}{token}").into(),
        1 => Vec::new(),
        2 => format!("▁naïve {token}").into(),
        3 => format!("𝄞{token}\0").into(),
        4 => vec![0xe2, 0x96, b'a'],
        _ => format!("token {token} of the vocabulary").into(),
    }
}

fn array(file: &mut Vec<u8>, key: &str, kind: u32, item: impl Fn(u32) -> Vec<u8>) {
    file.extend(string(key.as_bytes()));
    file.extend([9, kind].map(u32::to_le_bytes).as_flattened());
    file.extend(u64::from(TOKENS).to_le_bytes());
    (0..TOKENS).for_each(|token| file.extend(item(token)));
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes(), bytes].concat()
}

/// A SafeTensors file with tensors of several ranks, and with more dtypes than a batch deduplicates.
fn many_tensors() -> Result<Vec<u8>> {
    let entry = |tensor: u32| {
        let (dtype, shape) = match tensor % 4 {
            0 => ("U8".to_owned(), json!([])),
            1 => ("I8".to_owned(), json!([1, 1, 1, 1, 1])),
            _ => (format!("X{}", tensor % 100), json!([tensor % 5, 9_007_199_254_740_993_u64])),
        };
        let name = format!("layer.{tensor}.𝄞▁{}", tensor % 10);
        (name, json!({ "dtype": dtype, "shape": shape, "data_offsets": [tensor, tensor + 1] }))
    };
    let header = serde_json::to_vec(&(0..TENSORS).map(entry).collect::<Map<_, _>>())?;
    Ok([&(header.len() as u64).to_le_bytes()[..], &header, &vec![7; TENSORS as usize]].concat())
}
