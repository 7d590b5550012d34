//! What is measured, and how good it should be.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::made_up::TENSOR_BYTES;
use super::models::{FIRST_TENSOR, LONG_INDEX, MANY, PAYLOAD_BYTES, VOCABULARY, header_end};

/// One way to load something, beside what a web developer would otherwise write.
pub(super) struct Case {
    /// The word by which it is asked for.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// A function of the page, and what it takes.
    pub(super) run: (&'static str, Value),
    /// What of `plain` it is compared with.
    pub(super) against: Value,
    /// What comes out of it: bytes, or entries of a list.
    pub(super) count: u64,
    pub(super) goals: Goals,
}

#[derive(Default)]
pub(super) struct Goals {
    /// The time against that of `plain`.
    pub(super) ratio: Option<f64>,
    /// What may come on top of that.
    pub(super) allowance_ms: f64,
    /// The renderer's memory at its peak against the payload.
    pub(super) peak: Option<f64>,
    pub(super) longest_task_ms: Option<f64>,
}

/// WebAssembly memory, in any case.
pub(super) const MAX_WASM_MEMORY_BYTES: u64 = 8 << 20;

pub(super) fn all(models: &Path) -> Result<Vec<Case>> {
    let raw = json!({ "url": "/models/raw.safetensors" });
    let ratio = |ratio| Goals { ratio: Some(ratio), ..Goals::default() };
    let tensors = |name, title, file: &str, goals| Case {
        name,
        title,
        run: ("tensors", json!({ "url": format!("/models/{file}") })),
        against: raw.clone(),
        count: PAYLOAD_BYTES,
        goals,
    };
    let on_the_page = |goals| Goals { longest_task_ms: Some(50.0), ..goals };
    let index = json!({ "url": format!("/models/{LONG_INDEX}") });
    let index_bytes = [0, header_end(&models.join(LONG_INDEX))?];
    let vocabulary = json!({ "url": format!("/models/{VOCABULARY}") });
    Ok(vec![
        Case {
            name: "byob",
            title: "the floor: BYOB reads and nothing else",
            run: ("byob", json!({ "url": "/models/raw.safetensors", "byteLength": TENSOR_BYTES })),
            against: raw.clone(),
            count: PAYLOAD_BYTES,
            goals: Goals::default(),
        },
        tensors("raw", "raw, unverified", "raw.safetensors", on_the_page(Goals { peak: Some(1.05), ..ratio(0.65) })),
        tensors("crc32", "raw, CRC-32 of the file (APR)", "raw.apr", on_the_page(ratio(0.72))),
        tensors("crc32c", "raw, CRC-32C of each tensor (zTensor)", "crc32c.zt", on_the_page(Goals::default())),
        tensors("blake3", "raw, BLAKE3 of each tensor (AERO)", "blake3.aero", on_the_page(ratio(0.80))),
        tensors("sha256", "raw, SHA-256 of each tensor (zTensor)", "sha256.zt", on_the_page(ratio(1.1))),
        tensors("lz4-bf16", "LZ4 + CRC-32, planes of BF16, 1 thread", "bf16.apr", on_the_page(ratio(1.0))),
        tensors("lz4-q8", "LZ4 + CRC-32, 8-bit quanta, 1 thread", "q8.apr", on_the_page(ratio(1.0))),
        tensors("lz4-sparse", "LZ4 + CRC-32, highly compressible, 1 thread", "sparse.apr", on_the_page(ratio(0.45))),
        Case {
            name: "first",
            title: "first tensor of 4 MiB usable, against fetching all",
            run: ("firstTensor", json!({ "url": "/models/raw.safetensors", "name": FIRST_TENSOR })),
            against: raw.clone(),
            count: 4 << 20,
            goals: ratio(0.05),
        },
        Case {
            name: "index",
            title: "index of 100,000 tensors, open to listed",
            run: ("list", index.clone()),
            against: json!({ "url": index.get("url"), "range": index_bytes }),
            count: MANY as u64,
            goals: Goals { allowance_ms: 200.0, ..ratio(2.0) },
        },
        Case {
            name: "vocabulary",
            title: "GGUF header with 150,000 tokens",
            run: ("metadata", vocabulary.clone()),
            against: vocabulary,
            count: 0,
            goals: Goals::default(), // stated against another reader, not against `plain`
        },
    ])
}
