//! What can be checked beside the digests of chunks. IHSH (AIP-0001): a digest of the header, the table of contents and
//! the names, with the digests of chunks as zeros. PHSH (AIP-0002): digests of the pages of a shard.

use super::super::msgpack;
use super::toc::{Chunk, ENTRY_BYTES, Toc};
use super::value::Bytes;
use crate::codec::digest;
use crate::codec::pages::Pages;
use crate::error::malformed;
use crate::index::{Digest, PageTable};
use crate::window::{Stop, Window};
use serde::Deserialize;

#[derive(Deserialize)]
struct PageHashes {
    shard_name: String,
    page_size: u64,
    digests: Vec<Bytes<32>>,
}

/// Where an entry has the digest of its chunk.
const DIGEST_OFFSET: u64 = 48;

#[derive(Deserialize)]
struct ControlIntegrity {
    algo: String,
    covered_ranges: Vec<(u64, u64)>,
    digest: Bytes<32>,
}

/// Compares the digest with what it covers, in files that have one.
pub(super) fn check_control(window: &Window, toc: &Toc, warnings: &mut Vec<String>) -> Result<(), Stop> {
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

/// Where the digests of a shard's pages are, if it has some.
pub(super) fn page_table(toc: &Toc, shard: &Chunk) -> Option<PageTable> {
    let name = format!("{}.phsh", shard.name);
    let table = toc.all(*b"PHSH").find(|chunk| chunk.name == name)?;
    Some(PageTable { over: shard.range.clone(), at: table.range.clone() })
}

/// Reads them.
pub(super) fn page_digests(window: &Window, table: &PageTable) -> Result<Pages, Stop> {
    let toc = Toc::read(window)?;
    let gone = || malformed("the digests of its pages are not in the table of contents").at(table.at.clone());
    let chunk = toc.all(*b"PHSH").find(|chunk| chunk.range == table.at).ok_or_else(gone)?;
    let shard = toc.all(*b"WTSH").find(|chunk| chunk.range == table.over).ok_or_else(gone)?;
    let content = toc.content(window, chunk, &mut Vec::new())?;
    let stated: PageHashes = msgpack::parse(&content, chunk.range.start, "the digests of its pages")?;
    if stated.shard_name != shard.name {
        let what = format!("`{}` has the digests of pages of `{}`", chunk.name, stated.shard_name);
        return Err(malformed(what).at(table.at.clone()).into());
    }
    let digests = stated.digests.into_iter().map(|Bytes(digest)| digest).collect();
    Ok(Pages::new(table.over.clone(), stated.page_size, digests).map_err(|e| e.at(table.at.clone()))?)
}
