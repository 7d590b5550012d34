//! The benchmark cases and their goals.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::content::TENSOR_BYTES;
use crate::layouts::{self, LAYOUTS};
use crate::models::{FIRST_TENSOR, LONG_INDEX, MANY, PAYLOAD_BYTES, TOKENS, VOCABULARY, header_end};
use crate::quantized::{Q4_K, Q8_0, Quantized};

/// A benchmark case: a load with weightstream and the baseline that it is compared with.
pub(super) struct Case {
    /// The name of the case on the command line.
    pub(super) name: String,
    pub(super) title: String,
    pub(super) run: PageFunction,
    pub(super) against: PageFunction,
    /// A description of the time ratio.
    pub(super) quantity: &'static str,
    /// The expected result: a number of bytes or of list entries.
    pub(super) count: u64,
    /// The maximum number of rounds, for slow cases with little variation.
    pub(super) max_rounds: usize,
    /// How much slower the page's thread is than this machine.
    pub(super) cpu_slowdown: u32,
    pub(super) goals: Goals,
}

/// The name of a function of the page, and its parameters.
pub(super) type PageFunction = (&'static str, Value);

#[derive(Clone, Default)]
pub(super) struct Goals {
    /// The ratio of the time to that of the baseline.
    pub(super) ratio: Option<f64>,
    /// The ratio of the renderer's peak memory to the payload.
    pub(super) peak: Option<f64>,
    /// The difference between this ratio and that of the baseline.
    pub(super) peak_above: Option<f64>,
    pub(super) longest_wait_ms: Option<f64>,
    /// The WebAssembly memory, if it may be more than [`WASM_MEMORY_BYTES`].
    pub(super) wasm_memory_bytes: Option<u64>,
}

/// The baseline loads the tensors of the whole model, uncompressed.
pub(super) const TIME: &str = "time against fetch().arrayBuffer()";
pub(super) const TIME_VS_FETCH: &str = "time against plain fetch()";
pub(super) const TIME_VS_FLOOR: &str = "time against bare BYOB reads";
const TIME_VS_PARSE: &str = "time against fetch() and JSON.parse() of its header";
pub(super) const TIME_VS_STORED: &str = "time against fetch() of the stored bytes";
pub(super) const TIME_VS_RAW: &str = "time against a raw load of as many bytes";
const TIME_VS_OPFS: &str = "time against a bare read of the same bytes";

/// The goal for WebAssembly memory in most cases.
pub(super) const WASM_MEMORY_BYTES: u64 = 8 << 20;

/// All cases except those of the scaling test. `line` is the origin of the same server behind a throttled connection.
pub(super) fn all(models: &Path, line: &str) -> Result<Vec<Case>> {
    let mut cases = uncached();
    cases.extend(by_default());
    cases.extend(against_the_floor());
    cases.extend(converted());
    cases.extend(with_workers());
    cases.extend(cached());
    cases.extend(throttled(line));
    cases.extend(metadata(models)?);
    Ok(cases)
}

/// The common part of cases that load all tensors of a model.
pub(super) fn tensors(name: &str, title: &str, parameters: Value, goals: Goals) -> Case {
    Case {
        name: name.to_owned(),
        title: title.to_owned(),
        run: ("tensors", parameters),
        against: ("plain", json!({ "url": "/models/raw.safetensors" })),
        quantity: TIME,
        count: PAYLOAD_BYTES,
        max_rounds: usize::MAX,
        cpu_slowdown: 1,
        goals,
    }
}

pub(super) fn ratio(ratio: f64) -> Goals {
    Goals { ratio: Some(ratio), ..Goals::default() }
}

/// Loads each tensor once over loopback, without a cache.
fn uncached() -> Vec<Case> {
    let on_the_page = |goals| Goals { longest_wait_ms: Some(50.0), ..goals };
    let tensors = |name, title, file, goals| {
        let parameters = json!({ "url": format!("/models/{file}"), "options": { "workers": 0 } });
        tensors(name, title, parameters, on_the_page(goals))
    };
    let floor = tensors("byob", "lower bound: BYOB reads only", "", Goals::default());
    vec![
        Case { run: floor_reads(), goals: Goals::default(), ..floor },
        tensors("raw", "raw, unverified", "raw.safetensors", Goals::default()),
        tensors("crc32", "raw, CRC-32 of the file (APR)", "raw.apr", Goals::default()),
        tensors("crc32c", "raw, CRC-32C of each tensor (zTensor)", "crc32c.zt", Goals::default()),
        tensors("blake3", "raw, BLAKE3 of each tensor (AERO), 1 thread", "blake3.aero", Goals::default()),
        tensors("sha256", "raw, SHA-256 of each tensor (zTensor), 1 thread", "sha256.zt", Goals::default()),
        tensors("lz4-bf16", "LZ4 + CRC-32, planes of BF16, 1 thread", "bf16.apr", ratio(1.0)),
        tensors("lz4-q8", "LZ4 + CRC-32, 8-bit quanta, 1 thread", "q8.apr", Goals::default()),
        tensors("lz4-sparse", "LZ4 + CRC-32, highly compressible, 1 thread", "sparse.apr", ratio(0.45)),
    ]
}

/// Loads with the options that users get by default, but without a cache: on two cores, one worker.
fn by_default() -> Vec<Case> {
    let case = |name, title, file, goals| tensors(name, title, json!({ "url": format!("/models/{file}") }), goals);
    vec![
        case("blake3-default", "raw, BLAKE3 of each tensor, default workers", "blake3.aero", ratio(1.05)),
        case("sha256-default", "raw, SHA-256 of each tensor, default workers", "sha256.zt", ratio(1.2)),
        case("lz4-q8-default", "LZ4 + CRC-32, 8-bit quanta, default workers", "q8.apr", ratio(0.85)),
        case("zstd-default", "Zstandard, 8-bit quanta, default workers", "q8.zt", Goals::default()),
    ]
}

/// Loads that do little more than read, against bare reads.
fn against_the_floor() -> Vec<Case> {
    let case = |name, title, file, in_worker: bool, goals| {
        let options = if in_worker { json!({ "inWorker": true }) } else { json!({ "workers": 0 }) };
        let parameters = json!({ "url": format!("/models/{file}"), "options": options });
        Case { against: floor_reads(), quantity: TIME_VS_FLOOR, ..tensors(name, title, parameters, goals) }
    };
    let raw = Goals { peak_above: Some(0.05), ..ratio(1.03) };
    vec![
        case("raw-floor", "raw, unverified", "raw.safetensors", false, raw),
        case("crc32-floor", "raw, CRC-32 of the file (APR)", "raw.apr", false, ratio(1.05)),
        case("raw-in-worker-floor", "raw, unverified, in a worker", "raw.safetensors", true, ratio(1.05)),
    ]
}

fn floor_reads() -> PageFunction {
    ("byob", json!({ "url": "/models/raw.safetensors", "byteLength": TENSOR_BYTES }))
}

/// Converts quantized tensors to as many floats as the raw model has, without a cache and workers. The baseline loads
/// the raw model in the same way.
fn converted() -> Vec<Case> {
    let options = json!({ "workers": 0 });
    let raw = json!({ "url": "/models/raw.safetensors", "options": options });
    let case = |name, title, Quantized { file, .. }: Quantized| Case {
        against: ("tensors", raw.clone()),
        quantity: TIME_VS_RAW,
        ..tensors(name, title, json!({ "url": format!("/models/{file}"), "options": options, "as": "F32" }), ratio(1.3))
    };
    let layouts = LAYOUTS.into_iter().map(|layout| {
        let parameters =
            json!({ "url": format!("/models/{}", layout.file()), "options": layout.options(), "as": "F32" });
        Case {
            against: ("tensors", raw.clone()),
            quantity: TIME_VS_RAW,
            ..tensors(layout.name, &format!("{}, 1 thread", layout.title), parameters, ratio(0.9))
        }
    });
    let adapter = json!({ "source": format!("/models/{}", layouts::ADAPTER), "config": layouts::adapter_config() });
    let parameters = json!({ "url": "/models/raw.safetensors", "options": { "workers": 0, "adapters": [adapter] } });
    let adapted = Case {
        against: ("tensors", raw.clone()),
        quantity: TIME_VS_RAW,
        ..tensors("lora", "F32 with an adapter of rank 16, 1 thread", parameters, Goals::default())
    };
    let blocks = [case("q8_0", "Q8_0 as F32, 1 thread", Q8_0), case("q4_k", "Q4_K as F32, 1 thread", Q4_K)];
    blocks.into_iter().chain(layouts).chain([adapted]).collect()
}

/// Loads with loaders in workers, which use as many additional workers as the default on a machine with enough
/// cores.
fn with_workers() -> Vec<Case> {
    let tensors = |name, title, file, goals| {
        let parameters = json!({ "url": format!("/models/{file}"), "options": { "workers": 4, "inWorker": true } });
        tensors(name, title, parameters, Goals { longest_wait_ms: Some(8.0), ..goals })
    };
    let peak = |goals| Goals { peak: Some(1.15), ..goals };
    vec![
        tensors("raw-in-worker", "raw, unverified, in a worker", "raw.safetensors", Goals::default()),
        tensors("crc32-in-worker", "raw, CRC-32 of the file (APR), in a worker", "raw.apr", Goals::default()),
        tensors("blake3-workers", "raw, BLAKE3 of each tensor, 4 workers", "blake3.aero", ratio(0.80)),
        tensors("sha256-workers", "raw, SHA-256 of each tensor, 4 workers", "sha256.zt", ratio(1.1)),
        tensors("lz4-bf16-workers", "LZ4 + CRC-32, planes of BF16, 4 workers", "bf16.apr", peak(ratio(0.85))),
        tensors("lz4-q8-workers", "LZ4 + CRC-32, 8-bit quanta, 4 workers", "q8.apr", peak(ratio(0.62))),
        tensors("lz4-sparse-workers", "LZ4 + CRC-32, highly compressible, 4 workers", "sparse.apr", peak(ratio(0.25))),
    ]
}

/// Writes to the cache in the origin private file system, and reads from it.
fn cached() -> Vec<Case> {
    let parameters = |before, is_written| {
        let options = json!({ "cache": "auto" });
        json!({ "url": "/models/raw.safetensors", "options": options, "before": before, "isWritten": is_written })
    };
    let bare = json!({ "url": "/models/raw.safetensors", "byteLength": TENSOR_BYTES, "before": "keep" });
    let warm = parameters("keep", false);
    let cold = Goals { peak: Some(1.1), ..ratio(1.05) };
    let against_bare = tensors("warm-opfs", "from the cache, against OPFS into new buffers", warm.clone(), ratio(1.1));
    vec![
        tensors("cold", "raw, unverified, fills the cache", parameters("forget", false), cold),
        tensors("cold-written", "the same, until everything is on disk", parameters("forget", true), Goals::default()),
        tensors("warm", "from the cache", warm, ratio(0.38)),
        Case { against: ("opfs", bare), quantity: TIME_VS_OPFS, ..against_bare },
    ]
}

/// On a slow connection, decoding must add almost no time.
fn throttled(line: &str) -> Vec<Case> {
    let case = |name, title, file| {
        let url = format!("{line}/models/{file}");
        let case = tensors(name, title, json!({ "url": url }), ratio(1.03));
        // A run takes 1.4 to 16 s, limited by the connection and not by the machine.
        Case { against: ("plain", json!({ "url": url })), quantity: TIME_VS_STORED, max_rounds: 3, ..case }
    };
    vec![
        case("line-q8", "LZ4, 8-bit quanta, 100 Mb/s and 40 ms", "q8.apr"),
        case("line-sparse", "LZ4, highly compressible, 100 Mb/s and 40 ms", "sparse.apr"),
    ]
}

/// Cases that load metadata, the index or only the first tensor.
fn metadata(models: &Path) -> Result<Vec<Case>> {
    let raw = json!({ "url": "/models/raw.safetensors", "name": FIRST_TENSOR });
    let index = json!({ "url": format!("/models/{LONG_INDEX}") });
    let index_bytes = [0, header_end(&models.join(LONG_INDEX))?];
    let header = ("parsed", json!({ "url": index.get("url"), "range": index_bytes }));
    let vocabulary = json!({ "url": format!("/models/{VOCABULARY}") });
    let head = |name, title, run, against, count, goals| Case {
        run,
        against: ("plain", against),
        quantity: TIME_VS_FETCH,
        count,
        ..tensors(name, title, Value::Null, goals)
    };
    let first = "first tensor of 4 MiB usable, against fetching all";
    let listed = Goals { wasm_memory_bytes: Some(16 << 20), ..ratio(0.8) };
    let none = Goals::default(); // the goal is relative to another reader, see `--peers`
    Ok(vec![
        head("first", first, ("firstTensor", raw.clone()), raw, 4 << 20, ratio(0.03)),
        Case {
            run: ("list", index),
            against: header,
            quantity: TIME_VS_PARSE,
            count: MANY as u64,
            ..tensors("index", "index of 100,000 tensors, open to listed", Value::Null, listed)
        },
        head(
            "vocabulary",
            "GGUF header with 150,000 tokens",
            ("metadata", vocabulary.clone()),
            vocabulary,
            TOKENS.into(),
            none,
        ),
    ])
}
