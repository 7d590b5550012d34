//! Loads on a stand-in for a phone: a slow thread of the page, and a connection of 50 Mb/s. Checks and decoders must
//! add almost nothing to the time of the connection, and must not block the page.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use weightstream::internals::index::Tensor;
use weightstream::internals::native::Reader;

use crate::cases::{Case, Goals, TIME_VS_STORED, ratio, tensors};
use crate::content::TENSOR_BYTES;

/// How much slower the page's thread is than this machine.
const CPU_SLOWDOWNS: [u32; 2] = [4, 6];

/// As many tensors are loaded as are stored in this many bytes, which takes three seconds.
const STORED_BYTES: u64 = 16 << 20;

/// The connection limits the time, so that it varies little.
const ROUNDS: usize = 3;

/// By default, a worker digests. Its thread is not slowed down, so that its time is not that of a phone.
const BY_DEFAULT: (&str, &str, &str) = ("sha256-default", "raw, SHA-256 by a worker", "sha256.zt");

const ON_THE_PAGE: [(&str, &str, &str); 6] = [
    ("raw", "raw, unverified", "raw.safetensors"),
    ("crc32", "raw, CRC-32", "raw.apr"),
    ("blake3", "raw, BLAKE3", "blake3.aero"),
    ("sha256", "raw, SHA-256", "sha256.zt"),
    ("lz4", "LZ4 + CRC-32, 8-bit quanta", "q8.apr"),
    ("zstd", "Zstandard, 8-bit quanta", "q8.zt"),
];

/// All cases. `line` is the origin of the server behind the connection.
pub(super) fn cases(models: &Path, line: &str) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for cpu_slowdown in CPU_SLOWDOWNS {
        let on_the_page = ON_THE_PAGE.map(|file| (file, json!({ "workers": 0 })));
        for ((name, title, file), options) in on_the_page.into_iter().chain([(BY_DEFAULT, json!({}))]) {
            let url = format!("{line}/models/{file}");
            cases.push(case(&models.join(file), &url, name, title, options, cpu_slowdown)?);
        }
    }
    Ok(cases)
}

/// A load of the first tensors in the file, against a request for their stored bytes.
fn case(path: &Path, url: &str, name: &str, title: &str, options: Value, cpu_slowdown: u32) -> Result<Case> {
    let reader = Reader::open(path)?;
    let mut stored: Vec<_> = reader.tensors().iter().collect();
    stored.sort_by_key(|tensor| tensor.components.first().map(|component| component.range.start));
    let mut stored_bytes = 0;
    let mut is_wanted = |tensor: &Tensor| {
        let wanted = stored_bytes < STORED_BYTES;
        stored_bytes +=
            tensor.components.iter().map(|component| component.range.end - component.range.start).sum::<u64>();
        wanted
    };
    stored.retain(|tensor| is_wanted(tensor));
    let names: Vec<_> = stored.iter().map(|tensor| &tensor.name).collect();
    let ranges = || stored.iter().flat_map(|tensor| &tensor.components).map(|component| &component.range);
    let start = ranges().map(|range| range.start).min().context("the model has no tensors")?;
    let end = ranges().map(|range| range.end).max().context("the model has no tensors")?;
    Ok(Case {
        against: ("plain", json!({ "url": url, "range": [start, end] })),
        quantity: TIME_VS_STORED,
        count: (stored.len() * TENSOR_BYTES) as u64,
        max_rounds: ROUNDS,
        cpu_slowdown,
        ..tensors(
            &format!("phone-{name}-{cpu_slowdown}"),
            &format!("{title}, CPU {cpu_slowdown} times slower, 50 Mb/s and 40 ms"),
            json!({ "url": url, "names": names, "options": options }),
            Goals { longest_wait_ms: Some(50.0), ..ratio(1.05) },
        )
    })
}
