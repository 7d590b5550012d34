//! IHSH (AIP-0001): a digest of the header, the table of contents and the names, with the digests of chunks as zeros.

use super::super::msgpack;
use super::toc::{ENTRY_BYTES, Toc};
use super::value::Bytes;
use crate::codec::digest;
use crate::error::malformed;
use crate::index::Digest;
use crate::window::{Stop, Window};
use serde::Deserialize;

/// Where an entry has the digest of its chunk.
const DIGEST_OFFSET: u64 = 48;

#[derive(Deserialize)]
struct ControlIntegrity {
    algo: String,
    covered_ranges: Vec<(u64, u64)>,
    digest: Bytes<32>,
}

/// Compares the digest with what it covers, in files that have one.
pub(super) fn check(window: &Window, toc: &Toc, warnings: &mut Vec<String>) -> Result<(), Stop> {
    let Some(chunk) = toc.first(*b"IHSH") else { return Ok(()) };
    let content = toc.content(window, chunk, warnings)?;
    let stated: ControlIntegrity = msgpack::parse(&content, chunk.range.start, "the control integrity")?;
    let first_chunk = toc.chunks.iter().map(|chunk| chunk.range.start).filter(|start| *start > 0).min();
    let &[(0, end)] = stated.covered_ranges.as_slice() else {
        return Err(malformed("the control integrity does not cover one range from the file's start")
            .at(chunk.range.clone())
            .into());
    };
    let is_all = toc.control_end <= end && first_chunk.is_none_or(|first| end <= first);
    if stated.algo != "blake3-256" || !is_all {
        let what = format!(
            "the control integrity covers {end} bytes by {}, not all before the chunks by blake3-256",
            stated.algo
        );
        return Err(malformed(what).at(chunk.range.clone()).into());
    }
    let mut control = window.get(0..end)?.to_vec();
    for entry in (toc.entries.start..toc.entries.end).step_by(ENTRY_BYTES as usize) {
        let start = (entry + DIGEST_OFFSET) as usize;
        control.get_mut(start..start + 32).unwrap_or_default().fill(0);
    }
    let stated = Digest::Blake3(stated.digest.0);
    digest::compare(digest::digest_of(&control, stated), stated).map(|_| ()).map_err(|mut error| {
        error.what = format!("the header, the table of contents or the names were changed: {}", error.what);
        error.at(0..end).into()
    })
}
