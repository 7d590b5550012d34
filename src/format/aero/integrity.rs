//! Integrity checks in addition to the digests of chunks. IHSH (AIP-0001): a digest of the header, the table of
//! contents and the names, computed with the digests of chunks set to zero. PHSH (AIP-0002): digests of the pages of a
//! shard.

use super::toc::{Chunk, ENTRY_BYTES, Toc};
use crate::codec::digest::{self, Hasher};
use crate::codec::pages::Pages;
use crate::digest::from_hex;
use crate::error::malformed;
use crate::index::{Digest, PageTable};
use crate::values::budget::Budget;
use crate::values::msgpack::MessagePack;
use crate::window::{Stop, Window};
use serde_json::Value;
use std::collections::HashMap;

/// The offset of the chunk's digest in an entry of the table of contents.
const DIGEST_OFFSET: u64 = 48;

/// The maximum length of another shard's name in an error message.
const MAX_NAME_CHARS: usize = 100;

/// Verifies the digest of the control data, if the file has one.
pub(super) fn check_control(
    window: &Window,
    toc: &Toc,
    warnings: &mut Vec<String>,
    budget: &mut Budget,
) -> Result<(), Stop> {
    let Some(chunk) = toc.first(*b"IHSH") else { return Ok(()) };
    let stated = toc.read_chunk(window, chunk, (warnings, budget), |input, budget| {
        MessagePack::new(input, chunk.range.clone(), "the control integrity", budget).value()
    })?;
    let covered = stated.get("covered_ranges").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let covered: Vec<_> = covered.iter().map(|range| (bound(range, 0), bound(range, 1))).collect();
    let first_chunk = toc.chunks.iter().map(|chunk| chunk.range.start).filter(|start| *start > 0).min();
    let &[(Some(0), Some(end))] = covered.as_slice() else {
        return Err(malformed("the control integrity does not cover one range from the file's start")
            .at(chunk.range.clone())
            .into());
    };
    let is_all = toc.control_end <= end && first_chunk.is_none_or(|first| end <= first);
    let algorithm = stated.get("algo").and_then(Value::as_str).unwrap_or("an unnamed algorithm");
    if algorithm != "blake3-256" || !is_all {
        let what =
            format!("the control integrity covers {end} bytes with {algorithm}, not all control data with blake3-256");
        return Err(malformed(what).at(chunk.range.clone()).into());
    }
    let digest = stated.get("digest").and_then(Value::as_str).and_then(from_hex);
    let digest = digest.ok_or_else(|| malformed("the control integrity has no digest of 32 bytes"));
    let stated = Digest::blake3(digest.map_err(|e| e.at(chunk.range.clone()))?);
    let (control, mut hasher, mut at) = (window.get(0..end)?, Hasher::new(stated), 0);
    for entry in (toc.entries.start..toc.entries.end).step_by(ENTRY_BYTES as usize) {
        let start = (entry + DIGEST_OFFSET) as usize;
        hasher.update(control.get(at..start).unwrap_or_default());
        hasher.update(&[0; 32]);
        at = start + 32;
    }
    hasher.update(control.get(at..).unwrap_or_default());
    digest::compare(hasher.finish(), stated).map(|_| ()).map_err(|mut error| {
        error.what = format!("the header, the table of contents or the names were changed: {}", error.what);
        error.at(0..end).into()
    })
}

/// Returns the start (`at` 0) or the end (`at` 1) of a range, which is an array of two numbers.
fn bound(range: &Value, at: usize) -> Option<u64> {
    range.get(at)?.as_u64()
}

/// Maps the name of each shard to the chunk that holds its page digests.
pub(super) fn page_tables<'t>(toc: &'t Toc) -> HashMap<&'t str, &'t Chunk<'t>> {
    let tables = toc.all(*b"PHSH").filter_map(|chunk| Some((chunk.name.strip_suffix(".phsh")?, chunk)));
    let mut by_shard = HashMap::new();
    tables.for_each(|(shard, chunk)| _ = by_shard.entry(shard).or_insert(chunk));
    by_shard
}

/// Returns the location of a shard's page digests, if it has any.
pub(super) fn page_table(tables: &HashMap<&str, &Chunk>, shard: &Chunk) -> Option<PageTable> {
    let table = tables.get(shard.name)?;
    Some(PageTable { over: shard.range.clone(), at: table.range.clone() })
}

/// Reads the page digests of a shard.
pub(super) fn page_digests(window: &Window, table: &PageTable) -> Result<Pages, Stop> {
    let toc = Toc::read(window)?;
    let missing = || malformed("the table of contents does not list its page digests").at(table.at.clone());
    let chunk = toc.all(*b"PHSH").find(|chunk| chunk.range == table.at).ok_or_else(missing)?;
    let shard = toc.all(*b"WTSH").find(|chunk| chunk.range == table.over).ok_or_else(missing)?;
    let (mut shard_name, mut page_bytes, mut digests) = (None, None, Vec::new());
    let mut budget = Budget::of(window, table.at.end - table.at.start);
    toc.read_chunk(window, chunk, (&mut Vec::new(), &mut budget), |input, budget| {
        let mut pages = MessagePack::new(input, chunk.range.clone(), "the page digests", budget);
        pages.entries(|key, stated| match key {
            "shard_name" => stated.text().map(|name| shard_name = Some(name)),
            "page_size" => stated.value().map(|size| page_bytes = size.as_u64()),
            "digests" => stated.items(|stated| {
                stated.budget.bytes(2 * size_of::<[u8; 32]>() as u64, 0)?;
                stated.array().map(|digest| digests.push(digest))
            }),
            _ => stated.skip(),
        })
    })?;
    if shard_name.as_deref() != Some(shard.name) {
        let owner: String = shard_name.unwrap_or_default().chars().take(MAX_NAME_CHARS).collect();
        let what = format!("`{}` has the page digests of `{owner}`, not `{}`", chunk.name, shard.name);
        return Err(malformed(what).at(table.at.clone()).into());
    }
    let pages = Pages::new(table.over.clone(), page_bytes.unwrap_or(0), digests);
    Ok(pages.map_err(|e| e.at(table.at.clone()))?)
}
