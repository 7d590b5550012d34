//! Malicious files in a real browser. The WebAssembly memory, which never shrinks, stays below 64 MiB after all tests.
//! `tests/hostile` tests more files in the native build.

#![cfg(target_arch = "wasm32")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "hostile/generated.rs"]
mod generated;

use futures::StreamExt;
use generated::{BLOCK_BYTES, Chunk, NAMES, aero, apr1, frame, sparse, wrapper};
use js_sys::{Array, ArrayBuffer, JsString, Uint8Array, WebAssembly};
use std::rc::Rc;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_test::*;
use weightstream::internals::loader::{Loader, Options};
use weightstream::internals::source::web::WebSource;
use weightstream::{ErrorKind, Result};

wasm_bindgen_test_configure!(run_in_browser);

const MAX_WASM_BYTES: u32 = 64 << 20;

async fn load(source: &JsValue) -> Result<()> {
    let loader = Rc::new(Loader::open(WebSource::new(source, Rc::default())?, Options::default()).await?);
    loader.load_metadata().await?;
    loader.load_index().await?;
    let mut tensors = Box::pin(loader.tensors(None, Rc::new(())).await?);
    while let Some(loaded) = tensors.next().await {
        loaded?;
    }
    Ok(())
}

async fn assert_rejected(what: &str, kind: ErrorKind, source: &JsValue) {
    let error = load(source).await.unwrap_err();
    assert_eq!(error.kind, kind, "{what}: {error}");
    let memory: WebAssembly::Memory = wasm_bindgen::memory().unchecked_into();
    let bytes = memory.buffer().unchecked_into::<ArrayBuffer>().byte_length();
    console_log!("{what}: {error}; the WebAssembly memory has {} MiB", bytes >> 20);
    assert!(bytes < MAX_WASM_BYTES, "{what}: the WebAssembly memory has {bytes} bytes");
}

fn buffer(file: &[u8]) -> JsValue {
    Uint8Array::from(file).buffer().into()
}

/// A Blob of a string with a repeated middle part. The WebAssembly memory never contains the whole string.
fn blob(before: &str, repeated: &str, count: i32, after: &str) -> JsValue {
    let parts = Array::of3(&before.into(), &JsString::from(repeated).repeat(count).into(), &after.into());
    web_sys::Blob::new_with_str_sequence(&parts).unwrap().into()
}

#[wasm_bindgen_test]
async fn small_files_with_a_large_decoded_size_use_little_memory() {
    let count = ((128 * BLOCK_BYTES) as u32).to_be_bytes();
    let zeros = frame(&[b"\x81\xa1a\xdd", &count[..]].concat(), 0, 128, b"");
    let metadata = Chunk::compressed(b"MMSG", zeros, 8 + 128 * BLOCK_BYTES);
    let index = Chunk::raw(b"TIDX", b"\x81\xa7tensors\x90".to_vec());
    assert_rejected("zeros in AERO", ErrorKind::Limit, &buffer(&aero(NAMES, &[metadata, index]))).await;

    let length = 8 + 8000 * BLOCK_BYTES;
    let payload = frame(&apr1(length - 8), b' ', 8000, b"");
    assert_rejected("a zstd wrapper", ErrorKind::Limit, &buffer(&wrapper(2, length, &payload))).await;
    let length = 8 + 60 * BLOCK_BYTES;
    let payload = frame(&apr1(length - 8), b' ', 60, b"");
    assert_rejected("a wrapper of white space", ErrorKind::Truncated, &buffer(&wrapper(2, length, &payload))).await;

    let csr = ["values", "indices", "indptr"];
    assert_rejected("CSR of [3, 4]", ErrorKind::Limit, &buffer(&sparse("sparse_csr", &[3, 4], &csr, 8000))).await;
}

#[wasm_bindgen_test]
async fn entries_that_share_a_name_use_little_memory() {
    let chunks: Vec<_> = (0..6000).map(|_| Chunk { name: (0, 512 << 10), ..Chunk::raw(b"XTRA", Vec::new()) }).collect();
    assert_rejected("6,000 names", ErrorKind::Limit, &buffer(&aero(&vec![b'x'; 512 << 10], &chunks))).await;
}

#[wasm_bindgen_test]
async fn manifests_with_many_values_use_little_memory() {
    for (what, repeated, last) in [("zeros", "0,", "0"), ("empty arrays", "[],", "[]"), ("strings", "\"a\",", "\"\"")] {
        let count = (10 << 20) / repeated.len() as i32;
        let manifest = blob(r#"{"shards":[],"a":["#, repeated, count, &format!("{last}]}}"));
        assert_rejected(&format!("a manifest of {what}"), ErrorKind::Limit, &manifest).await;
    }
}
