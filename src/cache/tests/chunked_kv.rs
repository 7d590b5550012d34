//! `ChunkedKv` over a store that fails, and that loses, truncates, corrupts and swaps values.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use crate::cache::chunked_kv::{ChunkedKv, KvStore};
use crate::cache::key;
use crate::cache::log::Found;
use crate::{Error, ErrorKind, Result};
use futures::executor::block_on;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// A store that several tabs share.
#[derive(Debug, Clone, Default)]
struct MemoryStore {
    all: Rc<RefCell<BTreeMap<String, Vec<u8>>>>,
    /// Number of values that can still be stored; `None` means no limit.
    capacity: Rc<Cell<Option<usize>>>,
    /// The keys of values that were not those that were stored.
    wrong: Rc<RefCell<Vec<String>>>,
}

impl KvStore for MemoryStore {
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.all.borrow().get(key).cloned())
    }

    async fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        assert!(key.len() <= 128 && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.'));
        match self.capacity.get() {
            Some(0) => return Err(Error::new(ErrorKind::Limit, "the store is full")),
            capacity => self.capacity.set(capacity.map(|capacity| capacity - 1)),
        }
        self.all.borrow_mut().insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    async fn delete(&self, keys: Vec<String>) -> Result<()> {
        self.all.borrow_mut().retain(|key, _| !keys.contains(key));
        Ok(())
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self.all.borrow().keys().filter(|key| key.starts_with(prefix)).cloned().collect())
    }

    fn note_wrong_value(&self, key: &str) {
        self.wrong.borrow_mut().push(key.to_owned());
    }
}

const URL: &str = "https://models.test/model.apr";

const FILE_BYTES: u64 = 400;

/// The bytes of a version of the file. Versions differ in nearly every byte.
fn content(version: u8, range: Range<u64>) -> Vec<u8> {
    range.map(|at| (at as u8).wrapping_mul(31) ^ version.wrapping_mul(97)).collect()
}

/// The encoded version: length, ETag, Last-Modified.
fn name(version: u8) -> String {
    format!("{FILE_BYTES}\n\"{version}\"\n")
}

thread_local! {
    static NOW_MS: Cell<u64> = const { Cell::new(0) };
}

/// Advances the clock, so that every write checks the head of the file.
fn next_ms() -> u64 {
    NOW_MS.replace(NOW_MS.get() + 10_000)
}

async fn write(files: &mut ChunkedKv<MemoryStore>, version: u8, range: Range<u64>) -> Result<()> {
    let generation = u64::from(version) << 32 | range.start;
    files.write(URL, &name(version), range.start, &content(version, range), generation, next_ms()).await
}

/// Reads all cached bytes and verifies them. Returns their number.
async fn check(files: &mut ChunkedKv<MemoryStore>) -> u64 {
    let Some(cached) = files.version(URL, 1).await.unwrap() else { return 0 };
    let version = (0..=u8::MAX).find(|version| name(*version) == cached).unwrap();
    let (mut position, mut count) = (0, 0);
    while position < FILE_BYTES {
        position = match files.read(URL, &cached, position..FILE_BYTES, 1).await.unwrap() {
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

#[test]
fn tabs_share_cached_bytes() {
    block_on(async {
        let store = MemoryStore::default();
        let (mut one, mut other) = (ChunkedKv::new(store.clone()), ChunkedKv::new(store));
        write(&mut one, 1, 0..50).await.unwrap();
        assert_eq!(check(&mut other).await, 50);
        write(&mut one, 1, 100..150).await.unwrap();
        assert_eq!(other.read(URL, &name(1), 100..400, 1).await.unwrap(), Found::Bytes(&content(1, 100..150)));
        assert_eq!(other.read(URL, &name(1), 60..400, 1).await.unwrap(), Found::Missing(60..100));
    });
}

#[test]
fn writes_do_not_extend_a_file_that_another_tab_deleted_or_replaced() {
    block_on(async {
        let store = MemoryStore::default();
        let (mut one, mut other) = (ChunkedKv::new(store.clone()), ChunkedKv::new(store.clone()));
        write(&mut one, 1, 0..50).await.unwrap();
        other.clear().await.unwrap();
        write(&mut one, 1, 50..100).await.unwrap();
        assert_eq!(check(&mut other).await, 50);
        write(&mut other, 2, 0..10).await.unwrap();
        assert_eq!(one.read(URL, &name(1), 50..100, 1).await.unwrap(), Found::Missing(50..100));
        assert_eq!(check(&mut one).await, 10);
        one.delete(URL, Some(&name(1))).await.unwrap();
        assert_eq!(check(&mut one).await, 10, "only the given version is deleted");
        one.delete(URL, None).await.unwrap();
        assert!(store.all.borrow().is_empty());
    });
}

#[test]
fn the_least_recently_used_file_is_evicted() {
    block_on(async {
        let mut files = ChunkedKv::new(MemoryStore::default());
        for (url, used_ms) in [("a", 30), ("b", 10), ("c", 20)] {
            files.write(url, &name(1), 0, &content(1, 0..50), used_ms, 5).await.unwrap();
            files.version(url, used_ms).await.unwrap();
        }
        let listed: u64 = files.list().await.unwrap().iter().map(|file| file.byte_length).sum();
        assert_eq!((listed, files.byte_length().await.unwrap()), (150, 150));
        assert!(files.remove_oldest("b", 25).await.unwrap());
        assert!(!files.remove_oldest("b", 25).await.unwrap(), "the remaining files are excluded or were used later");
        let left: Vec<_> = files.list().await.unwrap().into_iter().map(|file| file.description.url).collect();
        assert!(left.contains(&"a".to_owned()) && left.contains(&"b".to_owned()) && left.len() == 2);
    });
}

#[test]
fn a_content_is_found_until_its_file_changes() {
    block_on(async {
        let mut files = ChunkedKv::new(MemoryStore::default());
        write(&mut files, 1, 0..50).await.unwrap();
        files.note(&[7; 32], URL, &name(1), 10..40).await.unwrap();
        files.note(&[8; 32], URL, &name(1), 10..60).await.unwrap();
        let found = files.locate(&[Some([7; 32]), Some([8; 32]), Some([9; 32]), None]).await.unwrap();
        let [Some(seven), Some(eight), None, None] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&*seven.url, &*seven.version, seven.range.clone()), (URL, &*name(1), 10..40));
        assert!(seven.is_whole && !eight.is_whole);
        files.note(&[7; 32], URL, &name(1), 0..0).await.unwrap();
        assert!(files.locate(&[Some([7; 32])]).await.unwrap()[0].is_none(), "an empty range removes the record");
        write(&mut files, 2, 0..50).await.unwrap();
        assert!(files.locate(&[Some([8; 32])]).await.unwrap()[0].is_none());
    });
}

#[test]
fn a_damaged_piece_can_be_written_again() {
    block_on(async {
        let store = MemoryStore::default();
        let mut files = ChunkedKv::new(store.clone());
        write(&mut files, 1, 0..50).await.unwrap();
        let piece = store.all.borrow().keys().find(|key| key.contains(".0.")).cloned().unwrap();
        store.all.borrow_mut().get_mut(&piece).unwrap()[7] ^= 1;
        write(&mut files, 1, 0..50).await.unwrap();
        let damaged = files.read(URL, &name(1), 0..50, 1).await.unwrap();
        assert_eq!(damaged, Found::Missing(0..50), "a read detects the damage");
        write(&mut files, 1, 0..50).await.unwrap();
        assert_eq!(files.read(URL, &name(1), 0..50, 1).await.unwrap(), Found::Bytes(&content(1, 0..50)));
    });
}

#[test]
fn wrong_values_are_reported_and_missing_ones_are_not() {
    block_on(async {
        let store = MemoryStore::default();
        let mut files = ChunkedKv::new(store.clone());
        write(&mut files, 1, 0..50).await.unwrap();
        let keys: Vec<_> = store.all.borrow().keys().cloned().collect();
        let [head, piece] = [".head", ".0."].map(|part| keys.iter().find(|key| key.contains(part)).unwrap());
        assert!(matches!(files.read(URL, &name(1), 0..50, 1).await.unwrap(), Found::Bytes(_)));
        assert!(store.wrong.borrow().is_empty());
        for key in [piece, head] {
            let right = store.all.borrow()[key].clone();
            store.all.borrow_mut().insert(key.clone(), b"other bytes".to_vec());
            let mut files = ChunkedKv::new(store.clone());
            assert!(matches!(files.read(URL, &name(1), 0..50, 1).await.unwrap(), Found::Missing(_)));
            let wrong = store.wrong.take();
            assert!(!wrong.is_empty() && wrong.iter().all(|it| it == key), "{wrong:?}");
            store.all.borrow_mut().insert(key.clone(), right);
        }
        store.all.borrow_mut().remove(piece);
        let mut files = ChunkedKv::new(store.clone());
        assert!(matches!(files.read(URL, &name(1), 0..50, 1).await.unwrap(), Found::Missing(_)));
        assert!(store.wrong.borrow().is_empty());
    });
}

#[test]
fn files_are_separated_by_credentials() {
    block_on(async {
        let mut files = ChunkedKv::new(MemoryStore::default());
        let token = |token: &str| key::partition(&[("Authorization".to_owned(), token.to_owned())], false);
        let [one, two] = ["one", "two"].map(|name| key::join(token(name).as_deref(), URL));
        files.write(&one, &name(1), 0, &content(1, 0..50), 7, 0).await.unwrap();
        for other in [two.as_str(), URL] {
            assert_eq!(files.version(other, 1).await.unwrap(), None);
            assert_eq!(files.read(other, &name(1), 0..50, 1).await.unwrap(), Found::Missing(0..50));
        }
        assert_eq!(files.version(&one, 1).await.unwrap(), Some(name(1)));
        let listed = files.list().await.unwrap();
        let names: Vec<_> = listed.iter().map(|file| key::name_in(&file.description.url)).collect();
        assert_eq!(names, [URL]);
    });
}

/// Version 1 did not separate responses to requests with credentials.
#[test]
fn files_of_an_older_format_version_are_ignored() {
    block_on(async {
        let store = MemoryStore::default();
        write(&mut ChunkedKv::new(store.clone()), 1, 0..50).await.unwrap();
        let head = store.all.borrow().keys().find(|key| key.ends_with(".head")).cloned().unwrap();
        let replaced = std::mem::replace(&mut store.all.borrow_mut().get_mut(&head).unwrap()[7], b'1');
        assert_eq!(replaced, b'2');
        let mut files = ChunkedKv::new(store.clone());
        assert_eq!(check(&mut files).await, 0);
        write(&mut files, 1, 100..150).await.unwrap();
        assert_eq!(check(&mut files).await, 50);
        assert_eq!(store.all.borrow().len(), 3, "pieces of the older version remain");
    });
}

#[derive(Debug, Clone)]
enum Step {
    Write(u8, u64, u64),
    OtherTab,
    Delete,
    Full(usize),
    Forget(prop::sample::Index),
    Tear(prop::sample::Index, prop::sample::Index),
    Flip(prop::sample::Index, prop::sample::Index, u8),
    Swap(prop::sample::Index, prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        8 => (1u8..3, 0..FILE_BYTES, 0u64..60).prop_map(|(version, start, length)| Step::Write(version, start, length)),
        2 => Just(Step::OtherTab),
        1 => Just(Step::Delete),
        1 => (0usize..3).prop_map(Step::Full),
        1 => index().prop_map(Step::Forget),
        1 => (index(), index()).prop_map(|(value, at)| Step::Tear(value, at)),
        1 => (index(), index(), 1..=u8::MAX).prop_map(|(value, at, bits)| Step::Flip(value, at, bits)),
        1 => (index(), index()).prop_map(|(one, other)| Step::Swap(one, other)),
    ]
}

proptest! {
    #[test]
    fn reads_from_a_damaged_store_are_correct_or_missing(steps in prop::collection::vec(step(), 1..40)) {
        let store = MemoryStore::default();
        let mut tabs = [ChunkedKv::new(store.clone()), ChunkedKv::new(store.clone())];
        let mut is_damaged = false;
        for step in steps {
            is_damaged |= matches!(step, Step::Tear(..) | Step::Flip(..) | Step::Swap(..));
            let [files, _] = &mut tabs;
            store.capacity.set(None);
            let keys: Vec<String> = store.all.borrow().keys().cloned().collect();
            let change = |value: prop::sample::Index, change: &dyn Fn(&mut Vec<u8>)| {
                if !keys.is_empty() {
                    change(store.all.borrow_mut().get_mut(value.get(&keys)).unwrap());
                }
            };
            match step {
                Step::Write(version, start, length) => {
                    let range = start..(start + length).min(FILE_BYTES);
                    let mut stores = || {
                        block_on(write(files, version, range.clone())).unwrap();
                        let found = block_on(files.read(URL, &name(version), range.clone(), 1)).unwrap();
                        range.is_empty() || found != Found::Missing(range.clone())
                    };
                    // The tab detects damage to a piece that it knows only when it reads the piece again.
                    prop_assert!(stores() || (is_damaged && stores()));
                }
                Step::OtherTab => tabs.swap(0, 1),
                Step::Delete => block_on(files.delete(URL, None)).unwrap(),
                Step::Full(capacity) => {
                    store.capacity.set(Some(capacity));
                    block_on(write(files, 1, 0..FILE_BYTES)).ok();
                    store.capacity.set(None);
                }
                Step::Forget(value) if !keys.is_empty() => drop(store.all.borrow_mut().remove(value.get(&keys))),
                Step::Forget(_) => {}
                Step::Tear(value, at) => change(value, &|bytes| bytes.truncate(at.index(bytes.len() + 1))),
                Step::Flip(value, at, bits) => change(value, &|bytes| {
                    if !bytes.is_empty() {
                        let at = at.index(bytes.len());
                        bytes[at] ^= bits;
                    }
                }),
                Step::Swap(one, other) if !keys.is_empty() => {
                    let (one, other) = (one.get(&keys), other.get(&keys));
                    let mut all = store.all.borrow_mut();
                    let (first, second) = (all[one].clone(), all[other].clone());
                    all.insert(one.clone(), second);
                    all.insert(other.clone(), first);
                }
                Step::Swap(..) => {}
            }
            for files in &mut tabs {
                block_on(check(files));
            }
        }
    }
}
