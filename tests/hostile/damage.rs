//! Valid files with bytes that are flipped, overwritten, duplicated or truncated. No file causes a panic, memory stays
//! near the file size, and the loader and the native reader accept the same files.

use super::corpus::{self, Fixture};
use super::{alone, is_internal, load, open, with_limit};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;
use std::rc::Rc;
use weightstream::ErrorKind;
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::MemorySource;

/// The memory for reading an index, in addition to the file size: scratch buffers, decoders and the parsed index.
const INDEX_ALLOWANCE_BYTES: usize = 2 << 20;

/// The memory for reading all tensors, in addition to the file size: tensors in flight and decompressed data.
const LOAD_ALLOWANCE_BYTES: usize = 32 << 20;

/// One way to damage a file. Positions in the head, which has the structure, are as frequent as in the whole file.
#[derive(Debug, Clone)]
enum Damage {
    Flip { at: Position, mask: u8 },
    Truncate { at: Position },
    Splice { from: Position, to: Position, length: usize },
    ForgeU32 { at: Position, value: u32 },
    ForgeU64 { at: Position, value: u64 },
}

#[derive(Debug, Clone)]
enum Position {
    Head(usize),
    Tail(usize),
    Anywhere(Index),
}

#[test]
fn invalid_values_in_safetensors_headers_are_not_stored_as_json() {
    let _alone = alone();
    let numbers = "0,".repeat(4 << 20);
    let headers = [
        format!(r#"{{"t":[{numbers}0]}}"#),
        format!(r#"{{"t":{{"shape":"{numbers}"}}}}"#),
        format!(r#"{{"__metadata__":[{numbers}0]}}"#),
        format!(r#"{{"__metadata__":{{"key":[{numbers}0]}}}}"#),
    ];
    for header in headers {
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
        // Allows for the growth of the window, and for a value that is quoted in the error message. Stored as JSON
        // values, the header would take 36 times its size.
        let limit = 8 * file.len() + INDEX_ALLOWANCE_BYTES;
        let source = MemorySource::new(vec![("m.safetensors".to_owned(), file.into())]).unwrap();
        let error = with_limit(limit, "the header", || open(source)).unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Format);
        assert!(error.what.len() < 1000, "the message quotes the whole value");
    }
}

#[test]
fn damaged_files_cause_no_panic_and_no_excessive_allocation() {
    let _alone = alone();
    let fixtures = corpus::fixtures();
    let strategy = (any::<Index>(), any::<Index>(), proptest::collection::vec(damage(), 1..4));
    let config = ProptestConfig { cases: 2500, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&strategy, |(fixture, file, damages)| {
        let fixture = fixture.get(&fixtures);
        let files = damaged(fixture, file, &damages);
        let length: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        let mapped = files.iter().map(|(name, bytes)| (name.clone(), bytes.to_vec())).collect();
        let source = MemorySource::new(files).unwrap();
        let loader = with_limit(length + INDEX_ALLOWANCE_BYTES, "the index", || open(source))?;
        let streamed = match loader {
            Ok(loader) => with_limit(length + LOAD_ALLOWANCE_BYTES, "the tensors", || load(&loader))?,
            Err(error) => Err(error),
        };
        let read = || Reader::from_bytes(mapped)?.verify(&()).map(|_| ());
        let mapped = with_limit(length + LOAD_ALLOWANCE_BYTES, "the native reader", read)?;
        prop_assert!(!is_internal(&streamed) && !is_internal(&mapped), "{}: {streamed:?} {mapped:?}", fixture.path);
        prop_assert_eq!(streamed.is_ok(), mapped.is_ok(), "{}: {:?} {:?}", fixture.path, streamed, mapped);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    // Values that overflow sums, sign bits or 32-bit sizes, and small values that stay plausible.
    let u32s =
        prop_oneof![select(vec![0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX - 7, u32::MAX]), any::<u32>(), 0..300u32];
    let u64s = prop_oneof![
        select(vec![0, 1, 1 << 31, 1 << 32, 1 << 40, 1 << 53, i64::MAX as u64, 1 << 63, u64::MAX - 63, u64::MAX]),
        any::<u64>(),
        0..5000u64
    ];
    prop_oneof![
        4 => (position(), 1u8..=255).prop_map(|(at, mask)| Damage::Flip { at, mask }),
        1 => position().prop_map(|at| Damage::Truncate { at }),
        2 => (position(), position(), 1usize..64).prop_map(|(from, to, length)| Damage::Splice { from, to, length }),
        3 => (position(), u32s).prop_map(|(at, value)| Damage::ForgeU32 { at, value }),
        3 => (position(), u64s).prop_map(|(at, value)| Damage::ForgeU64 { at, value }),
    ]
}

fn position() -> impl Strategy<Value = Position> {
    prop_oneof![
        3 => (0usize..128).prop_map(Position::Head),
        1 => (1usize..64).prop_map(Position::Tail),
        3 => any::<Index>().prop_map(Position::Anywhere),
    ]
}

fn damaged(fixture: &Fixture, file: Index, damages: &[Damage]) -> Vec<(String, Rc<[u8]>)> {
    let mut files = fixture.files.clone();
    // The first file, which is opened, is damaged in at least half of the cases.
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
            Damage::Flip { at, mask } => bytes[at.resolve(end)] ^= mask,
            Damage::Truncate { at } => bytes.truncate(at.resolve(end)),
            Damage::Splice { from, to, length } => {
                let copy = bytes[from.resolve(end)..end.min(from.resolve(end) + length)].to_vec();
                bytes.splice(to.resolve(end)..to.resolve(end), copy);
            }
            Damage::ForgeU32 { at, value } => overwrite(bytes, at.resolve(end), &value.to_le_bytes()),
            Damage::ForgeU64 { at, value } => overwrite(bytes, at.resolve(end), &value.to_le_bytes()),
        }
    }
}

fn overwrite(bytes: &mut [u8], at: usize, value: &[u8]) {
    let end = bytes.len().min(at + value.len());
    bytes[at..end].copy_from_slice(&value[..end - at]);
}

impl Position {
    fn resolve(&self, length: usize) -> usize {
        match self {
            Position::Head(at) => *at % length,
            Position::Tail(distance) => length - 1 - distance % length,
            Position::Anywhere(index) => index.index(length),
        }
    }
}
