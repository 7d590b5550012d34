//! Valid files with changed bytes or truncated ends: they cause no panic, use little memory, and the reader and the
//! loader agree whether they can be loaded.

use super::bytes::{Apr, Entry, apr_manifest, noise, ramp, safetensors, seal, varied};
use super::{MIB, alone, peak_of};
use futures::executor::block_on;
use futures::stream::TryStreamExt;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use std::rc::Rc;
use weightstream::internals::loader::{Loader, Options};
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::MemorySource;
use weightstream::{ErrorKind, Result};

/// The memory for the parsed index and an error with its message, in addition to the files.
const OPEN_ALLOWANCE_BYTES: usize = MIB;
/// The memory for a block, or for the scratch buffers of the loader, in addition to the files.
const READ_ALLOWANCE_BYTES: usize = 2 * MIB;

type Files = Vec<(String, Vec<u8>)>;

fn models() -> Vec<Files> {
    let small = Apr::new(vec![
        Entry::raw("raw", 1, &[7, 5], noise(1, 70)),
        Entry::lz4("packed", 0, &[3, 100], &ramp(1200)),
        Entry::lz4("run", 16, &[32 * 64], &[5; 34 * 64]),
    ]);
    let shards = [small.build(), Apr::new(vec![Entry::raw("last", 7, &[100], noise(2, 100))]).build()];
    let manifest = apr_manifest(&[("0.apr", &shards[0]), ("1.apr", &shards[1])], Value::Null);
    let [first, second] = shards;
    let tensors = [("a", "F32", &[2, 3][..], noise(3, 24)), ("b", "U8", &[], vec![1])];
    let name = |name: &str, bytes| (name.to_owned(), bytes);
    vec![
        vec![name("m", small.build())],
        vec![name("m", varied().build())],
        vec![name("m", safetensors(Some(json!({ "format": "pt" })), &tensors))],
        vec![name("m", manifest), name("0.apr", first), name("1.apr", second)],
    ]
}

#[derive(Debug, Clone)]
struct Corruption {
    file: Index,
    flips: Vec<(Index, bool, u8)>,
    truncate_at: Option<Index>,
    /// Whether the footer is recomputed, so that its checksum does not detect the corruption.
    sealed: bool,
}

fn corruption() -> impl Strategy<Value = Corruption> {
    let flips = proptest::collection::vec((any::<Index>(), any::<bool>(), 1u8..), 0..4);
    let truncate_at = proptest::option::weighted(0.3, any::<Index>());
    let parts = (any::<Index>(), flips, truncate_at, any::<bool>());
    parts.prop_map(|(file, flips, truncate_at, sealed)| Corruption { file, flips, truncate_at, sealed })
}

impl Corruption {
    fn apply(&self, files: &mut Files) {
        let at = self.file.index(files.len());
        let bytes = &mut files[at].1;
        for (place, in_header, mask) in &self.flips {
            let length = if *in_header { bytes.len().min(400) } else { bytes.len() };
            bytes[place.index(length)] ^= mask;
        }
        if let Some(at) = self.truncate_at {
            bytes.truncate(at.index(bytes.len()));
        }
        if self.sealed && bytes.starts_with(b"APR2") && bytes.len() > 16 {
            bytes.truncate(bytes.len() - 16);
            *bytes = seal(std::mem::take(bytes));
        }
    }
}

fn read(reader: &mut Reader) -> Result<()> {
    let tensors = reader.tensors().to_vec();
    for tensor in &tensors {
        for component in &tensor.components {
            reader.read_pieces(&tensor.name, &component.role, &mut |_| Ok(()))?;
        }
    }
    reader.verify(&()).map(drop)
}

fn load(loader: &Rc<Loader<MemorySource>>) -> Result<()> {
    block_on(async {
        let mut tensors = Box::pin(loader.tensors(None, Rc::new(())).await?);
        while tensors.try_next().await?.is_some() {}
        Ok(())
    })
}

#[test]
fn corrupted_files_cause_no_panic_and_use_little_memory() {
    let _alone = alone();
    let models = models();
    let config = ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&(any::<Index>(), corruption()), |(model, corruption)| {
        let mut files = model.get(&models).clone();
        corruption.apply(&mut files);
        let length: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        let shared = files.iter().map(|(name, bytes)| (name.clone(), Rc::from(bytes.as_slice()))).collect();

        let (reader, peak) = peak_of(|| Reader::from_bytes(files));
        prop_assert!(peak < length + OPEN_ALLOWANCE_BYTES, "the reader took {peak} bytes to open {length}");
        let natively = reader.and_then(|mut reader| {
            let (outcome, peak) = peak_of(|| read(&mut reader));
            assert!(peak < length + READ_ALLOWANCE_BYTES, "the reader took {peak} bytes to read {length}");
            let claimed: u64 = reader.tensors().iter().filter_map(|tensor| tensor.byte_length()).sum();
            assert!(claimed <= 255 * length as u64, "{claimed} bytes out of {length}");
            outcome
        });

        let (over_source, peak) = peak_of(|| {
            let loader = block_on(Loader::open(MemorySource::new(shared)?, Options::default()))?;
            load(&Rc::new(loader))
        });
        prop_assert!(peak < length + 255 * length + READ_ALLOWANCE_BYTES, "the loader took {peak} bytes");
        prop_assert_eq!(natively.is_ok(), over_source.is_ok(), "{:?} but {:?}", natively, over_source);
        for outcome in [natively, over_source] {
            prop_assert!(!matches!(&outcome, Err(error) if error.kind == ErrorKind::Internal), "{outcome:?}");
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
