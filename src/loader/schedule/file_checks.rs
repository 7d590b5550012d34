//! Checks the checksums of whole files in calls that read all bytes of the model.

use crate::codec::digest::{self, Hasher};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{self, Stated, StretchChecksum};
use crate::index::padding::PaddingCheck;
use crate::index::{Digest, Part, Tensors};
use crate::loader::digests::{Digests, HOST, PINNED, unknown_length};
use crate::loader::shard::Shard;
use crate::loader::transfer::file::ModelFile;
use crate::source::Source;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The checksums of all files of the model, for one call that reads all bytes.
///
/// The state belongs to the call and not to the files: several calls may read the same file at the same time, and each
/// of them may be paused or dropped.
#[derive(Debug, Default)]
pub(crate) struct WholeChecks {
    /// By file, while the call reads.
    sums: RefCell<Vec<Sums>>,
    /// By file, the check of its padding.
    padding: RefCell<Vec<PaddingCheck>>,
    /// The warnings about padding, with the numbers of the files, once the call has read all bytes.
    warnings: RefCell<Vec<(usize, String)>>,
    /// By file, what verified its tensors one by one.
    by_tensors: RefCell<Vec<ByTensors>>,
    /// The verified algorithms by file, once the call has compared all checksums.
    checked_by: RefCell<Vec<Vec<&'static str>>>,
    verified_by: Cell<Option<&'static str>>,
}

/// What verified the tensors of a file, by digests of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum ByTensors {
    /// No tensor has been read that has any bytes.
    #[default]
    Nothing,
    /// One algorithm verified all of them.
    All(&'static str),
    /// A tensor has no digest, or they have different algorithms.
    Partly,
}

impl WholeChecks {
    /// Prepares the checksums in the files, in the manifest, those that the caller pinned, and those of a hub. With
    /// `relies_on_tensors`, strong digests that a file states over tensors are not computed if all its tensors have
    /// strong digests, which the call compares, too: digesting the bytes twice would take twice the time.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a pinned digest of a file of unknown length.
    pub(crate) fn begin<S: Source>(
        &self,
        shards: &[Shard<S>],
        pinned: &Digests,
        relies_on_tensors: bool,
    ) -> Result<()> {
        let begin = |shard: &Shard<S>| {
            let digest = pinned.of_file(&shard.file.source, shard.part.as_ref()).map(|(_, digest)| digest);
            let mut in_file = checksums_in_file(&shard.file)?;
            if relies_on_tensors && let Some(open) = shard.opened.try_lock().and_then(|open| open.clone()) {
                remove_redundant(&mut in_file, &open.index.tensors);
            }
            begin_file(&shard.file, in_file, shard.part.as_ref(), shard.file.signed_digest().or(digest))
        };
        *self.sums.borrow_mut() = shards.iter().map(begin).collect::<Result<_>>()?;
        *self.padding.borrow_mut() = shards.iter().map(begin_padding).collect::<Result<_>>()?;
        *self.by_tensors.borrow_mut() = vec![ByTensors::Nothing; shards.len()];
        Ok(())
    }

    /// Adds the bytes of a file at the offset `start`. Every byte must be added once, and in order unless
    /// [`WholeChecks::take_any_order`].
    pub(crate) fn update(&self, shard: usize, start: u64, bytes: &[u8]) {
        if let Some(sums) = self.sums.borrow_mut().get_mut(shard) {
            sums.update(start, bytes);
        }
        if let Some(padding) = self.padding.borrow_mut().get_mut(shard) {
            padding.update(start, bytes);
        }
    }

    /// Whether a checksum covers bytes of the range, or padding is among them.
    pub(crate) fn include(&self, shard: usize, range: &Range<u64>) -> bool {
        let overlaps = |other: &Range<u64>| other.start < range.end && range.start < other.end;
        self.sums.borrow().get(shard).is_some_and(|sums| sums.0.iter().any(|sum| overlaps(&sum.checksum.over)))
            || self.padding.borrow().get(shard).is_some_and(|padding| padding.includes(range))
    }

    /// Adds the algorithm that verified a component of the file.
    pub(crate) fn add_component(&self, shard: usize, verified: Option<&'static str>) {
        if let Some(by_tensors) = self.by_tensors.borrow_mut().get_mut(shard) {
            *by_tensors = match (*by_tensors, verified) {
                (ByTensors::Nothing, Some(algorithm)) => ByTensors::All(algorithm),
                (ByTensors::All(known), Some(algorithm)) if known == algorithm => *by_tensors,
                _ => ByTensors::Partly,
            };
        }
    }

    /// Whether the bytes of a file may be added in any order.
    pub(crate) fn take_any_order(&self, shard: usize) -> bool {
        self.sums.borrow().get(shard).is_none_or(Sums::take_any_order)
    }

    /// The end of the bytes to read: the length of the file. For a file of unknown length, the end of the bytes that
    /// its checksums cover, which the header of an EMBD file states.
    pub(crate) fn known_end<S: Source>(&self, shard: usize, file: &ModelFile<S>) -> Option<u64> {
        let sums = self.sums.borrow();
        let summed_end = || sums.get(shard)?.0.iter().map(|sum| sum.checksum.over.end).max();
        file.length().or_else(summed_end)
    }

    /// Compares the checksums after all bytes have been added.
    ///
    /// # Errors
    /// `CHECKSUM` if one does not match; `TRUNCATED` if a file does not end where its format says.
    pub(crate) async fn finish<S: Source>(&self, shards: &[Shard<S>]) -> Result<()> {
        let mut checked_by = Vec::new();
        for (shard, sums) in shards.iter().zip(self.sums.take()) {
            let mut of_file = finish_file(&shard.file, sums).await?;
            if of_file.is_empty() {
                of_file.extend(shard.file.signed_by()); // piece by piece
            }
            checked_by.push(of_file);
        }
        let warning = |(shard, padding): (usize, PaddingCheck)| Some((shard, padding.warning()?));
        *self.warnings.borrow_mut() = self.padding.take().into_iter().enumerate().filter_map(warning).collect();
        let by_tensors = self.by_tensors.take();
        let covering = checked_by.iter().zip(by_tensors).map(|(of_file, by_tensors)| match of_file.last() {
            Some(algorithm) => ByTensors::All(algorithm),
            None => by_tensors,
        });
        // Files without tensors, such as an empty shard, leave nothing unverified.
        let mut covering = covering.filter(|covered| *covered != ByTensors::Nothing);
        let first = covering.next();
        self.verified_by.set(match first {
            Some(ByTensors::All(algorithm)) if covering.all(|covered| Some(covered) == first) => Some(algorithm),
            _ => None,
        });
        *self.checked_by.borrow_mut() = checked_by;
        Ok(())
    }

    /// The warnings that only reading all bytes shows, with the numbers of their files.
    pub(crate) fn take_warnings(&self) -> Vec<(usize, String)> {
        self.warnings.take()
    }

    /// The algorithms of the verified checksums, by file.
    pub(crate) fn checked_by(&self) -> Vec<Vec<&'static str>> {
        self.checked_by.borrow().clone()
    }

    /// The algorithm that verified every file, as a whole or tensor by tensor; `None` if a tensor has no checksum, or
    /// if there are several algorithms.
    pub(crate) fn verified_by(&self) -> Option<&'static str> {
        self.verified_by.get()
    }
}

/// Digests of ranges of a file, computed while the file is read: in order, or in parts whose digests can be combined.
#[derive(Debug, Default)]
struct Sums(Vec<Sum>);

#[derive(Debug)]
struct Sum {
    checksum: StretchChecksum,
    like: Digest,
    /// The contiguous ranges that were added, with their digests.
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

    fn update(&mut self, start: u64, bytes: &[u8]) {
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

    fn take_any_order(&self) -> bool {
        self.0.iter().all(|sum| Hasher::can_append(sum.like))
    }
}

impl Sum {
    /// Returns the digest of the contiguous bytes from the start of the range, and their end.
    fn finish(mut self) -> (StretchChecksum, Digest, u64) {
        let mut position = self.checksum.over.start;
        let mut whole: Option<Hasher> = None;
        // There are only as many parts as connections. Sorting them would take 20 KB of the module.
        while let Some(next) = self.parts.iter().position(|(part, _)| part.start == position) {
            let (part, hasher) = self.parts.swap_remove(next);
            match &mut whole {
                None => whole = Some(hasher),
                Some(whole) => {
                    if !whole.append(hasher, part.end - part.start) {
                        break;
                    }
                }
            }
            position = part.end;
        }
        let whole = whole.unwrap_or_else(|| Hasher::new(self.like));
        (self.checksum, whole.finish(), position)
    }
}

fn begin_file<S: Source>(
    file: &ModelFile<S>,
    mut checksums: Vec<StretchChecksum>,
    part: Option<&Part>,
    pinned: Option<Digest>,
) -> Result<Sums> {
    if let (Some(digest), Some(length)) = (part.and_then(|part| part.digest), file.length()) {
        checksums.push(StretchChecksum { over: 0..length, stated: Stated::Digest(digest), by: MANIFEST.to_owned() });
    }
    if let Some(digest) = pinned {
        let length = file.stored_length().ok_or_else(|| unknown_length().in_file(file.source.name()))?;
        checksums.push(StretchChecksum { over: 0..length, stated: Stated::Digest(digest), by: PINNED.to_owned() });
    } else if let Some((digest, length)) = file.source.stated_digest().zip(file.stored_length()) {
        checksums.push(StretchChecksum { over: 0..length, stated: Stated::Digest(digest), by: HOST.to_owned() });
    }
    Ok(Sums::new(checksums))
}

fn begin_padding<S: Source>(shard: &Shard<S>) -> Result<PaddingCheck> {
    let open = shard.opened.try_lock().and_then(|open| open.clone());
    let Some(open) = open.filter(|_| !shard.file.is_raw) else { return Ok(PaddingCheck::default()) };
    let tensors = || open.index.tensors.iter().chain(open.shadowed.iter().cloned().map(Arc::new));
    let check = shard.file.try_parse(|window| format::padding_check(window, tensors()))?;
    Ok(check.flatten().unwrap_or_default())
}

/// Compares the checksums of one file and returns their algorithms. The last one is that of the checksum over the whole
/// file, if there is one.
async fn finish_file<S: Source>(file: &Rc<ModelFile<S>>, sums: Sums) -> Result<Vec<&'static str>> {
    if !file.is_raw {
        file.parse_with(format::check_tail).await?;
    }
    let footer_crc32s = footer_crc32s(file, &sums).await?;
    let mut algorithms = Vec::new();
    for sum in sums.0 {
        let (StretchChecksum { over, stated, by }, computed, position) = sum.finish();
        if position != over.end {
            let error = Error::new(ErrorKind::Internal, "a file was not read completely, or not in order");
            return Err(error.at(position..over.end).in_file(file.source.name()));
        }
        let stated = match stated {
            Stated::Digest(digest) => digest,
            Stated::Crc32At(at) => Digest::Crc32(crc32_at(file, at).await?),
        };
        // APR's specification does not say whether the checksum in a manifest covers the whole file or the same bytes
        // as that in its footer.
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

fn checksums_in_file<S: Source>(file: &ModelFile<S>) -> Result<Vec<StretchChecksum>> {
    match file.is_raw {
        true => Ok(Vec::new()),
        false => Ok(file.try_parse(format::checksums)?.unwrap_or_default()),
    }
}

/// Removes strong digests over tensors, if all tensors have strong digests or are in pages with digests.
fn remove_redundant(checksums: &mut Vec<StretchChecksum>, tensors: &Tensors) {
    let is_strong =
        |checksum: &StretchChecksum| matches!(checksum.stated, Stated::Digest(digest) if digest.is_strong());
    if !checksums.iter().any(is_strong) {
        return;
    }
    let mut starts = Vec::new();
    for tensor in tensors.iter() {
        for component in tensor.components.iter().filter(|component| !component.range.is_empty()) {
            let has_strong_digest = component.digest.is_some_and(|own| own.digest.is_strong());
            if !has_strong_digest && component.checking_pages(true).is_none() {
                return;
            }
            starts.push(component.range.start);
        }
    }
    starts.sort_unstable();
    checksums.retain(|checksum| {
        let first = starts.partition_point(|start| *start < checksum.over.start);
        !is_strong(checksum) || starts.get(first).is_none_or(|start| *start >= checksum.over.end)
    });
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
    file.parse_with(|window| {
        let bytes = window.get(range.clone())?;
        Ok(bytes.try_into().map(u32::from_le_bytes).unwrap_or_default())
    })
    .await
}
