//! Sound files with bytes flipped, forged, spliced and cut off: nothing panics, memory stays near the file's own size,
//! and the loader and the native reader accept and refuse the same.

use super::corpus::{self, Fixture};
use super::{alone, is_internal, load, open, within};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;
use std::rc::Rc;
use weightstream::error::ErrorKind;
use weightstream::native::Reader;
use weightstream::source::memory::MemorySource;

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

#[test]
fn a_safetensors_header_of_other_json_is_not_kept_as_json() {
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
        // The file grows in the window, and a value may be quoted in a message; as JSON values it would be 36 times.
        let limit = 8 * file.len() + INDEX_ALLOWANCE_BYTES;
        let source = MemorySource::new(vec![("m.safetensors".to_owned(), file.into())]).unwrap();
        let error = within(limit, "the header", || open(source)).unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Format);
        assert!(error.what.len() < 1000, "it quotes all of the value");
    }
}

#[test]
fn no_damage_makes_a_reader_panic_or_allocate_beyond_the_file() {
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
        let loader = within(length + INDEX_ALLOWANCE_BYTES, "the index", || open(source))?;
        let streamed = match loader {
            Ok(loader) => within(length + LOAD_ALLOWANCE_BYTES, "the tensors", || load(&loader))?,
            Err(error) => Err(error),
        };
        let read = || Reader::from_bytes(mapped)?.verify(&()).map(|_| ());
        let mapped = within(length + LOAD_ALLOWANCE_BYTES, "the native reader", read)?;
        prop_assert!(!is_internal(&streamed) && !is_internal(&mapped), "{}: {streamed:?} {mapped:?}", fixture.path);
        prop_assert_eq!(streamed.is_ok(), mapped.is_ok(), "{}: {:?} {:?}", fixture.path, streamed, mapped);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
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
