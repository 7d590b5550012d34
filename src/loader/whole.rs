//! The checksum of a whole file, told once all of it was read.

use super::file::ModelFile;
use super::operation::Purpose;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{self, StretchChecksum};
use crate::index::Part;
use crate::plan::Wanted;
use crate::source::Source;
use std::ops::Range;

/// Adds what lies between and around the wanted ranges, so that every byte of every file is read.
/// Files of unknown length are left as they are: their end cannot be asked for.
pub(crate) fn add_gaps(wanted: &mut Vec<Wanted<Purpose>>, lengths: impl Iterator<Item = Option<u64>>) {
    for (shard, length) in lengths.enumerate() {
        let Some(length) = length else { continue };
        let mut ranges: Vec<_> = wanted.iter().filter(|w| w.shard == shard).map(|w| w.range.clone()).collect();
        ranges.sort_by_key(|range| range.start);
        ranges.push(length..length);
        let mut end = 0;
        for range in ranges {
            if end < range.start {
                wanted.push(Wanted { shard, range: end..range.start, purpose: Purpose::Gap });
            }
            end = end.max(range.end);
        }
    }
}

/// Whether the file can be checked by a checksum of the whole: its own, or its manifest's.
pub(crate) async fn has_checksum<S: Source>(file: &ModelFile<S>, part: Option<&Part>) -> Result<bool> {
    Ok(part.is_some_and(|part| part.crc32.is_some()) || !own_checksums(file).await?.is_empty())
}

/// Checks the checksums that the file and its manifest have, over bytes that were all read.
///
/// # Errors
/// `CHECKSUM` where one does not match.
pub(crate) async fn check<S: Source>(file: &ModelFile<S>, part: Option<&Part>) -> Result<()> {
    let Some(length) = file.length() else { return Ok(()) };
    let own = own_checksums(file).await?;
    for StretchChecksum { over, crc32 } in &own {
        match file.crc32_over(over) {
            Some(computed) if computed == *crc32 => {}
            computed => return Err(mismatch(file, over, *crc32, computed, "the file's footer")),
        }
    }
    if let Some(stated) = part.and_then(|part| part.crc32) {
        // The specification does not say whether a manifest means the file or what its footer covers.
        let computed = file.crc32_over(&(0..length));
        let matches_footer = own.iter().any(|checksum| checksum.crc32 == stated);
        if computed != Some(stated) && !matches_footer {
            return Err(mismatch(file, &(0..length), stated, computed, "the manifest"));
        }
    }
    Ok(())
}

async fn own_checksums<S: Source>(file: &ModelFile<S>) -> Result<Vec<StretchChecksum>> {
    match file.length() {
        Some(_) => file.look(format::checksums).await,
        None => Ok(Vec::new()),
    }
}

fn mismatch<S: Source>(file: &ModelFile<S>, over: &Range<u64>, stated: u32, computed: Option<u32>, who: &str) -> Error {
    let what = match computed {
        Some(computed) => format!("the bytes have the CRC32 {computed:08x}, but {who} says {stated:08x}"),
        None => return Error::new(ErrorKind::Internal, "the file was not read whole").in_file(file.source.name()),
    };
    Error::new(ErrorKind::Checksum, what).at(over.clone()).in_file(file.source.name())
}
