//! Damaged and forged files: whatever their bytes say, nothing panics and memory stays near the file's own size.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod corpus;

use corpus::Fixture;
use futures::TryStreamExt;
use futures::executor::block_on;
use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;
use std::rc::Rc;
use weightstream::error::{ErrorKind, Result};
use weightstream::loader::{Loader, Options};
use weightstream::source::memory::MemorySource;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// What reading an index may take beside the file's own size: scratch buffers, decoders, the parsed index itself.
const INDEX_ALLOWANCE_BYTES: usize = 2 << 20;

/// What reading all tensors may take beside it: those in flight, and what decompresses to more than it is.
const LOAD_ALLOWANCE_BYTES: usize = 32 << 20;

/// One way to damage a file. Places are drawn from the head, where the structure is, as often as from the whole.
#[derive(Debug, Clone)]
enum Damage {
    Flip { at: Place, mask: u8 },
    Truncate { at: Place },
    Splice { from: Place, to: Place, length: usize },
    ForgeU32 { at: Place, value: u32 },
    ForgeU64 { at: Place, value: u64 },
}

#[derive(Debug, Clone)]
enum Place {
    Head(usize),
    Tail(usize),
    Anywhere(Index),
}

// The only test of this binary: the allocator counts for all threads.
#[test]
fn no_damage_makes_the_loader_panic_or_allocate_beyond_the_file() {
    let fixtures = corpus::fixtures();
    let strategy = (any::<Index>(), any::<Index>(), proptest::collection::vec(damage(), 1..4));
    let config = ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&strategy, |(fixture, file, damages)| {
        let fixture = fixture.get(&fixtures);
        let files = damaged(fixture, file, &damages);
        let length: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        let source = MemorySource::new(files).unwrap();
        let loader = within(length + INDEX_ALLOWANCE_BYTES, "the index", || open(source))?;
        if let Ok(loader) = loader {
            let loaded = within(length + LOAD_ALLOWANCE_BYTES, "the tensors", || load(&loader))?;
            prop_assert!(!matches!(&loaded, Err(e) if e.kind == ErrorKind::Internal), "{}: {loaded:?}", fixture.path);
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

fn open(source: MemorySource) -> Result<Rc<Loader<MemorySource>>> {
    block_on(async {
        let loader = Rc::new(Loader::open(source, Options::default()).await?);
        loader.load_metadata().await?;
        loader.load_index().await?;
        Ok(loader)
    })
}

fn load(loader: &Rc<Loader<MemorySource>>) -> Result<()> {
    block_on(async {
        let mut loads = Box::pin(loader.tensors(None, Rc::new(())).await?);
        while loads.try_next().await?.is_some() {}
        Ok(())
    })
}

/// Does `work`, and fails where it had more than `limit` bytes allocated at once.
fn within<T>(limit: usize, what: &str, work: impl FnOnce() -> T) -> Result<T, TestCaseError> {
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    let done = work();
    let allocated = ALLOCATED.peak_usage().saturating_sub(before);
    prop_assert!(allocated <= limit, "{what} took {allocated} bytes; {limit} are allowed");
    Ok(done)
}

fn damage() -> impl Strategy<Value = Damage> {
    // Values that overflow sums, sign bits or 32-bit sizes, and small ones that stay plausible.
    let u32s =
        prop_oneof![select(vec![0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX - 7, u32::MAX]), any::<u32>(), 0..300u32];
    let u64s = prop_oneof![
        select(vec![0, 1, 1 << 31, 1 << 32, 1 << 40, 1 << 53, i64::MAX as u64, 1 << 63, u64::MAX - 63, u64::MAX]),
        any::<u64>(),
        0..5000u64
    ];
    prop_oneof![
        4 => (place(), 1u8..=255).prop_map(|(at, mask)| Damage::Flip { at, mask }),
        1 => place().prop_map(|at| Damage::Truncate { at }),
        2 => (place(), place(), 1usize..64).prop_map(|(from, to, length)| Damage::Splice { from, to, length }),
        3 => (place(), u32s).prop_map(|(at, value)| Damage::ForgeU32 { at, value }),
        3 => (place(), u64s).prop_map(|(at, value)| Damage::ForgeU64 { at, value }),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        3 => (0usize..128).prop_map(Place::Head),
        1 => (1usize..64).prop_map(Place::Tail),
        3 => any::<Index>().prop_map(Place::Anywhere),
    ]
}

fn damaged(fixture: &Fixture, file: Index, damages: &[Damage]) -> Vec<(String, Rc<[u8]>)> {
    let mut files = fixture.files.clone();
    // The file that is opened is as often damaged as all those beside it.
    let at = if file.index(2) == 0 { 0 } else { file.index(files.len()) };
    let mut bytes = files[at].1.to_vec();
    for damage in damages {
        damage.apply(&mut bytes);
    }
    files[at].1 = bytes.into();
    files
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let end = bytes.len();
        if end == 0 {
            return;
        }
        match self {
            Damage::Flip { at, mask } => bytes[at.of(end)] ^= mask,
            Damage::Truncate { at } => bytes.truncate(at.of(end)),
            Damage::Splice { from, to, length } => {
                let piece = bytes[from.of(end)..end.min(from.of(end) + length)].to_vec();
                bytes.splice(to.of(end)..to.of(end), piece);
            }
            Damage::ForgeU32 { at, value } => overwrite(bytes, at.of(end), &value.to_le_bytes()),
            Damage::ForgeU64 { at, value } => overwrite(bytes, at.of(end), &value.to_le_bytes()),
        }
    }
}

fn overwrite(bytes: &mut [u8], at: usize, value: &[u8]) {
    let end = bytes.len().min(at + value.len());
    bytes[at..end].copy_from_slice(&value[..end - at]);
}

impl Place {
    fn of(&self, length: usize) -> usize {
        match self {
            Place::Head(at) => *at % length,
            Place::Tail(back) => length - 1 - back % length,
            Place::Anywhere(index) => index.index(length),
        }
    }
}
