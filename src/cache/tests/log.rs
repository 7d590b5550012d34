//! `Log` over a disk that loses and tears writes, and flips bits.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use crate::cache::content_index::{ContentIndex, Location};
use crate::cache::log::{Description, Found, Log};
use crate::cache::storage::Storage;
use crate::identity::Identity;
use crate::{Error, ErrorKind, Result};
use proptest::prelude::*;
use std::ops::Range;

/// A disk with flushed bytes, and with unflushed writes that a crash may lose.
#[derive(Debug, Clone, Default)]
struct Disk {
    bytes: Vec<u8>,
    flushed: Vec<u8>,
    unflushed: Vec<Change>,
    capacity: Option<usize>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Truncate(byte_length) => bytes.truncate(*byte_length),
            Change::Write(at, new) => {
                bytes.resize(bytes.len().max(at + new.len()), 0);
                bytes[*at..at + new.len()].copy_from_slice(new);
            }
        }
    }
}

impl Disk {
    /// The disk after a power failure: each unflushed write is kept, lost, or truncated, independently of the others.
    fn crash(&self, kept: &[u8]) -> Disk {
        let mut bytes = self.flushed.clone();
        for (change, kept) in self.unflushed.iter().zip(kept.iter().cycle()) {
            match (change, kept) {
                (_, 0..64) => {}
                (Change::Write(at, new), 64..128) => {
                    Change::Write(*at, new[..new.len() * usize::from(kept - 64) / 64].to_vec()).apply(&mut bytes);
                }
                (change, _) => change.apply(&mut bytes),
            }
        }
        Disk { flushed: bytes.clone(), bytes, ..Disk::default() }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.bytes);
        self.unflushed.push(change);
    }
}

impl Storage for Disk {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<usize> {
        let there = self.bytes.get(at as usize..).unwrap_or_default();
        let count = there.len().min(into.len());
        into[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let end = at as usize + bytes.len();
        if self.capacity.is_some_and(|capacity| end > capacity) {
            let fits = self.capacity.unwrap_or(0).saturating_sub(at as usize);
            self.change(Change::Write(at as usize, bytes[..fits].to_vec()));
            return Err(Error::new(ErrorKind::Limit, "the disk is full"));
        }
        self.change(Change::Write(at as usize, bytes.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        (self.flushed, self.unflushed) = (self.bytes.clone(), Vec::new());
        Ok(())
    }

    fn byte_length(&mut self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn truncate(&mut self, byte_length: u64) -> Result<()> {
        self.change(Change::Truncate(byte_length as usize));
        Ok(())
    }
}

const FILE_BYTES: u64 = 400;

/// The bytes of a version of the file. Versions differ in nearly every byte.
fn content(version: u8, range: Range<u64>) -> Vec<u8> {
    range.map(|at| (at as u8).wrapping_mul(31) ^ version.wrapping_mul(97)).collect()
}

fn description(version: u8) -> Description {
    let identity = Identity { length: Some(FILE_BYTES), etag: Some(format!("\"{version}\"")), last_modified: None };
    Description { url: "https://models.test/model.apr".to_owned(), identity }
}

fn version(log: &Log<Disk>) -> Option<u8> {
    (0..=u8::MAX).find(|version| log.description() == Some(&description(*version)))
}

/// Reads all cached bytes and verifies them. Returns their number.
fn check(log: &mut Log<Disk>) -> u64 {
    let Some(version) = version(log) else { return 0 };
    let (mut position, mut count) = (0, 0);
    while position < FILE_BYTES {
        position = match log.read(position..FILE_BYTES, 1).unwrap() {
            Found::Bytes(bytes) => {
                let end = position + bytes.len() as u64;
                assert_eq!(bytes, content(version, position..end), "wrong bytes at {position}");
                count += bytes.len() as u64;
                end
            }
            Found::Missing(missing) => {
                assert_eq!(missing.start, position);
                missing.end
            }
        };
    }
    count
}

fn new_log(disk: Disk) -> Log<Disk> {
    let mut log = Log::open(disk).unwrap();
    log.begin(description(1), 1, 0).unwrap();
    log
}

#[test]
fn pieces_survive_reopening() {
    let mut log = new_log(Disk::default());
    log.append(10, &content(1, 10..50)).unwrap();
    log.append(200, &content(1, 200..201)).unwrap();
    let mut log = Log::open(log.into_storage()).unwrap();
    assert_eq!(log.description(), Some(&description(1)));
    assert_eq!((log.byte_length(), check(&mut log)), (41, 41));
    assert_eq!(log.read(0..300, 1).unwrap(), Found::Missing(0..10));
    assert_eq!(log.read(20..300, 1).unwrap(), Found::Bytes(&content(1, 20..50)));
}

#[test]
fn cached_ranges_are_not_written_again() {
    let mut log = new_log(Disk::default());
    log.append(0, &content(1, 0..100)).unwrap();
    let before = log.into_storage();
    let mut log = Log::open(before.clone()).unwrap();
    log.append(20, &content(1, 20..80)).unwrap();
    assert_eq!(log.into_storage().bytes.len(), before.bytes.len());
}

#[test]
fn begin_discards_the_old_version() {
    let mut log = new_log(Disk::default());
    log.append(0, &content(1, 0..400)).unwrap();
    log.begin(description(2), 2, 0).unwrap();
    log.append(100, &content(2, 100..150)).unwrap();
    let mut log = Log::open(log.into_storage()).unwrap();
    assert_eq!((version(&log), check(&mut log)), (Some(2), 50));
}

#[test]
fn a_full_disk_keeps_earlier_pieces() {
    let mut log = new_log(Disk { capacity: Some(300), ..Disk::default() });
    log.append(0, &content(1, 0..50)).unwrap();
    assert_eq!(log.append(50, &content(1, 50..400)).unwrap_err().kind, ErrorKind::Limit);
    assert_eq!(check(&mut log), 50);
    let mut log = Log::open(log.into_storage()).unwrap();
    assert_eq!(check(&mut log), 50);
    log.append(50, &content(1, 50..60)).unwrap();
    assert_eq!(check(&mut log), 60);
}

#[test]
fn an_invalid_log_is_empty() {
    for bytes in [vec![], vec![0; 1000], b"WSCACHE1".to_vec(), vec![0xff; 36]] {
        let mut log = Log::open(Disk { bytes, ..Disk::default() }).unwrap();
        assert_eq!(log.description(), None);
        assert_eq!(log.read(0..10, 1).unwrap(), Found::Missing(0..10));
        log.begin(description(3), 3, 0).unwrap();
        assert_eq!(version(&log), Some(3));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Begin(u8),
    Append(u64, u64),
    Touch(u64),
    Flush,
    Reopen,
    Crash(Vec<u8>),
    Flip(prop::sample::Index, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (1u8..5).prop_map(Step::Begin),
        8 => (0..FILE_BYTES, 0u64..60).prop_map(|(start, length)| Step::Append(start, length)),
        1 => any::<u64>().prop_map(Step::Touch),
        2 => Just(Step::Flush),
        1 => Just(Step::Reopen),
        2 => prop::collection::vec(any::<u8>(), 1..20).prop_map(Step::Crash),
        1 => (any::<prop::sample::Index>(), 1..=u8::MAX).prop_map(|(at, bits)| Step::Flip(at, bits)),
    ]
}

proptest! {
    #[test]
    fn reads_from_a_damaged_disk_are_correct_or_missing(steps in prop::collection::vec(step(), 1..40)) {
        let mut log = Log::open(Disk::default()).unwrap();
        for (generation, step) in steps.into_iter().enumerate() {
            match step {
                Step::Begin(version) => log.begin(description(version), generation as u64, 0).unwrap(),
                Step::Append(start, length) => {
                    let range = start..(start + length).min(FILE_BYTES);
                    if let Some(version) = version(&log) {
                        log.append(start, &content(version, range.clone())).unwrap();
                        prop_assert!(range.is_empty() || log.read(range.clone(), 1).unwrap() != Found::Missing(range));
                    }
                }
                Step::Touch(now_ms) => log.touch(now_ms).unwrap(),
                Step::Flush => log.flush().unwrap(),
                Step::Reopen => log = Log::open(log.into_storage()).unwrap(),
                Step::Crash(kept) => log = Log::open(log.into_storage().crash(&kept)).unwrap(),
                Step::Flip(at, bits) => {
                    let mut disk = log.into_storage();
                    if !disk.bytes.is_empty() {
                        let at = at.index(disk.bytes.len());
                        disk.bytes[at] ^= bits;
                    }
                    log = Log::open(disk).unwrap();
                }
            }
            check(&mut log);
        }
    }

    #[test]
    fn a_crash_loses_only_unflushed_pieces(
        appends in prop::collection::vec((0..FILE_BYTES, 1u64..60), 1..10),
        kept in prop::collection::vec(any::<u8>(), 1..20),
    ) {
        let mut log = new_log(Disk::default());
        let (before, after) = appends.split_at(appends.len() / 2);
        let append = |log: &mut Log<Disk>, (start, length): &(u64, u64)| {
            log.append(*start, &content(1, *start..(start + length).min(FILE_BYTES))).unwrap();
        };
        before.iter().for_each(|piece| append(&mut log, piece));
        log.flush().unwrap();
        let flushed = log.byte_length();
        after.iter().for_each(|piece| append(&mut log, piece));
        let mut log = Log::open(log.into_storage().crash(&kept)).unwrap();
        prop_assert!(check(&mut log) >= flushed);
    }
}

proptest! {
    #[test]
    fn a_crash_never_corrupts_the_content_index(
        added in prop::collection::vec((0u8..5, any::<u64>()), 0..20),
        kept in prop::collection::vec(any::<u8>(), 1..20),
        flip in any::<prop::sample::Index>(),
    ) {
        let location = |start| Location { log: [7; 32], generation: start, start, byte_length: 9 };
        let mut list = ContentIndex::open(Disk::default()).unwrap();
        for &(content, start) in &added {
            list.add([content; 32], location(start)).unwrap();
            prop_assert_eq!(list.find(&[content; 32]), Some(&location(start)));
        }
        let disk = list.into_storage();
        let mut damaged = disk.crash(&kept);
        if !damaged.bytes.is_empty() {
            let at = flip.index(damaged.bytes.len());
            damaged.bytes[at] ^= 1;
        }
        let list = ContentIndex::open(disk).unwrap();
        for (content, _) in &added {
            let last = added.iter().rfind(|(other, _)| other == content).unwrap().1;
            prop_assert_eq!(list.find(&[*content; 32]), Some(&location(last)));
        }
        let list = ContentIndex::open(damaged).unwrap();
        for content in 0..5 {
            let found = list.find(&[content; 32]);
            prop_assert!(
                found.is_none_or(|found| added.contains(&(content, found.start)) && *found == location(found.start))
            );
        }
    }
}
