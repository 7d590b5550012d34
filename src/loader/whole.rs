//! The checksums of whole files, told once all of a file was read.

use super::digests::{PINNED, unknown_length};
use super::file::ModelFile;
use super::operation::Purpose;
use crate::codec::digest::{self, Hasher};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{self, Stated, StretchChecksum};
use crate::index::{Digest, Part};
use crate::plan::Wanted;
use crate::source::Source;
use std::ops::Range;
use std::rc::Rc;

/// Digests of stretches of a file, computed while the file is read: from its start to its end, or in parts whose digests
/// can be put together.
#[derive(Debug, Default)]
pub(crate) struct Sums(Vec<Sum>);

#[derive(Debug)]
struct Sum {
    checksum: StretchChecksum,
    like: Digest,
    /// What was taken without a gap, and its digest.
    parts: Vec<(Range<u64>, Hasher)>,
}

impl Sums {
    fn new(checksums: Vec<StretchChecksum>) -> Self {
        let begin = |checksum: StretchChecksum| {
            let like = match checksum.stated {
                Stated::Digest(digest) => digest,
                Stated::Crc32At(_) => Digest::Crc32(0),
            };
            Sum { checksum, like, parts: Vec::new() }
        };
        Sums(checksums.into_iter().map(begin).collect())
    }

    /// Takes bytes that begin at `start`, each byte of the file once, and in order unless [`Sums::take_any_order`].
    pub(crate) fn update(&mut self, start: u64, bytes: &[u8]) {
        let end = start + bytes.len() as u64;
        for Sum { checksum: StretchChecksum { over, .. }, like, parts } in &mut self.0 {
            let (from, to) = (start.max(over.start), end.min(over.end));
            if from >= to {
                continue;
            }
            let bytes = bytes.get((from - start) as usize..(to - start) as usize).unwrap_or_default();
            match parts.iter_mut().find(|(part, _)| part.end == from) {
                Some((part, hasher)) => {
                    hasher.update(bytes);
                    part.end = to;
                }
                None => {
                    let mut hasher = Hasher::new(*like);
                    hasher.update(bytes);
                    parts.push((from..to, hasher));
                }
            }
        }
    }

    /// Whether the parts of a file may come in any order.
    pub(crate) fn take_any_order(&self) -> bool {
        self.0.iter().all(|sum| Hasher::can_append(sum.like))
    }
}

impl Sum {
    /// The digest of all that was taken from the stretch's start on, and where that ends.
    fn finish(mut self) -> (StretchChecksum, Digest, u64) {
        self.parts.sort_by_key(|(part, _)| part.start);
        let mut position = self.checksum.over.start;
        let mut whole: Option<Hasher> = None;
        for (part, hasher) in self.parts {
            let follows = part.start == position
                && match &mut whole {
                    None => {
                        whole = Some(hasher);
                        true
                    }
                    Some(whole) => whole.append(hasher, part.end - part.start),
                };
            if !follows {
                break;
            }
            position = part.end;
        }
        let whole = whole.unwrap_or_else(|| Hasher::new(self.like));
        (self.checksum, whole.finish(), position)
    }
}

/// Up to where a file is read whole: its end, or where nobody knows that, the end of what its checksums are over, as the head of
/// an EMBD file says.
pub(crate) fn known_end<S: Source>(file: &ModelFile<S>) -> Option<u64> {
    let summed_end = || file.sums.borrow().0.iter().map(|sum| sum.checksum.over.end).max();
    file.length().or_else(summed_end)
}

/// Adds what lies between and around the wanted ranges, so that every byte of every file is read, in order.
/// Files of which no end is known ([`known_end`]) are left as they are.
pub(crate) fn add_gaps(wanted: &mut Vec<Wanted<Purpose>>, ends: impl Iterator<Item = Option<u64>>) {
    for (shard, end) in ends.enumerate() {
        let Some(length) = end else { continue };
        let mut ranges: Vec<_> = wanted.iter().filter(|w| w.shard == shard).map(|w| w.range.clone()).collect();
        ranges.sort_by_key(|range| range.start);
        ranges.push(length..length);
        let mut end = 0;
        for range in ranges {
            if end < range.start {
                let gap = end..range.start;
                wanted.push(Wanted { shard, cover: gap.clone(), range: gap, purpose: Purpose::Gap });
            }
            end = end.max(range.end);
        }
    }
}

/// Makes ready to sum up the file.
pub(crate) fn begin<S: Source>(file: &ModelFile<S>, part: Option<&Part>, pinned: Option<Digest>) -> Result<()> {
    let mut checksums = stated_checksums(file, part)?;
    if let Some(digest) = pinned {
        let length = file.stored_length().ok_or_else(|| unknown_length().in_file(file.source.name()))?;
        checksums.push(StretchChecksum { over: 0..length, stated: Stated::Digest(digest), by: PINNED.to_owned() });
    }
    *file.sums.borrow_mut() = Sums::new(checksums);
    Ok(())
}

/// Checks what [`begin`] made ready, after all bytes were read, and gives the algorithms of the checksums; last, if there
/// is one, that of the checksum that covers the file.
///
/// # Errors
/// `CHECKSUM` where one does not match, `TRUNCATED` where the file's end is not the end.
pub(crate) async fn finish<S: Source>(file: &Rc<ModelFile<S>>) -> Result<Vec<&'static str>> {
    file.look(format::check_tail).await?;
    let sums = std::mem::take(&mut *file.sums.borrow_mut());
    let footer_crc32s = footer_crc32s(file, &sums).await?;
    let mut algorithms = Vec::new();
    for sum in sums.0 {
        let (StretchChecksum { over, stated, by }, computed, position) = sum.finish();
        if position != over.end {
            let error = Error::new(ErrorKind::Internal, "a file was not read whole, or not in order");
            return Err(error.at(position..over.end).in_file(file.source.name()));
        }
        let stated = match stated {
            Stated::Digest(digest) => digest,
            Stated::Crc32At(at) => Digest::Crc32(crc32_at(file, at).await?),
        };
        // APR's specification does not say whether a manifest means the file or what its footer covers.
        if by == MANIFEST && footer_crc32s.contains(&stated) {
            continue;
        }
        let compared = digest::compare(computed, stated);
        let compared = compared.map_err(|mut error| {
            error.what = format!("{}, says {by}", error.what);
            file.blame(error.at(over.clone()))
        });
        algorithms.push(compared?);
        if over == (0..file.stored_length().unwrap_or(0)) {
            file.confirm_whole(&stated);
        }
    }
    Ok(algorithms)
}

const MANIFEST: &str = "the manifest";

fn stated_checksums<S: Source>(file: &ModelFile<S>, part: Option<&Part>) -> Result<Vec<StretchChecksum>> {
    let mut checksums = file.glance(format::checksums)?.unwrap_or_default();
    if let (Some(digest), Some(length)) = (part.and_then(|part| part.digest), file.length()) {
        checksums.push(StretchChecksum { over: 0..length, stated: Stated::Digest(digest), by: MANIFEST.to_owned() });
    }
    Ok(checksums)
}

async fn footer_crc32s<S: Source>(file: &Rc<ModelFile<S>>, sums: &Sums) -> Result<Vec<Digest>> {
    let mut crc32s = Vec::new();
    for sum in &sums.0 {
        if let Stated::Crc32At(at) = sum.checksum.stated {
            crc32s.push(Digest::Crc32(crc32_at(file, at).await?));
        }
    }
    Ok(crc32s)
}

async fn crc32_at<S: Source>(file: &Rc<ModelFile<S>>, at: u64) -> Result<u32> {
    let range: Range<u64> = at..at.saturating_add(4);
    file.look(|window| {
        let bytes = window.get(range.clone())?;
        Ok(bytes.try_into().map(u32::from_le_bytes).unwrap_or_default())
    })
    .await
}
