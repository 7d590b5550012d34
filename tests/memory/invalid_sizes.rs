//! Invalid counts and lengths in a file do not cause large allocations.

use super::bytes::{Apr, Entry, noise, varied};
use super::{KIB, alone, peak_of};
use futures::executor::block_on;
use serde_json::json;
use std::rc::Rc;
use weightstream::internals::loader::{Loader, Options};
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::MemorySource;

/// More than the parser, its error and the scratch buffers of the loader need, and far less than the claimed sizes.
const ALLOWANCE_BYTES: usize = 800 * KIB;

#[track_caller]
fn assert_rejected_in_little_memory(what: &str, bytes: Vec<u8>) {
    let length = bytes.len();
    let shared: Rc<[u8]> = bytes.as_slice().into();
    let (outcome, peak) = peak_of(|| Reader::from_bytes(vec![("m".to_owned(), bytes)])?.verify(&()));
    assert!(outcome.is_err(), "{what}: {outcome:?}");
    assert!(peak < length + ALLOWANCE_BYTES, "{what}: the reader took {peak} bytes");
    let (outcome, peak) = peak_of(|| {
        block_on(async {
            let source = MemorySource::new(vec![("m".to_owned(), shared)])?;
            let loader = Rc::new(Loader::open(source, Options::default()).await?);
            loader.verify(Rc::new(())).await
        })
    });
    assert!(outcome.is_err(), "{what}: {outcome:?}");
    assert!(peak < length + ALLOWANCE_BYTES, "{what}: the loader took {peak} bytes");
}

#[test]
fn invalid_counts_and_lengths_allocate_little_memory() {
    let _alone = alone();
    let entry = |change: &dyn Fn(&mut Entry)| {
        let mut entry = Entry::raw("t", 7, &[1000], noise(1, 1000));
        change(&mut entry);
        Apr::new(vec![entry]).build()
    };
    let header = |at: usize, value: u32| {
        let mut file = varied().build();
        file[at..at + 4].copy_from_slice(&value.to_le_bytes());
        file
    };
    let safetensors = |length: u64, header: &str| [&length.to_le_bytes(), header.as_bytes()].concat();
    let claims = r#"{"t":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}}"#;
    let files = [
        ("tensor_count", Apr { stated_count: Some(u32::MAX), ..varied() }.build()),
        ("metadata_size", header(16, u32::MAX)),
        ("index_size", header(24, u32::MAX)),
        ("data_offset", header(28, u32::MAX)),
        ("name_len", header(32 + varied().metadata.to_string().len() + 8, u32::MAX)),
        ("size", entry(&|e| (e.stated_size, e.dims) = (Some(1 << 40), vec![1 << 40]))),
        ("raw_size", entry(&|e| (e.raw_size, e.dims) = (1 << 40, vec![1 << 40]))),
        ("a raw_size that LZ4 could just reach", entry(&|e| (e.raw_size, e.dims) = (190_000, vec![190_000]))),
        ("dims", entry(&|e| e.dims = vec![u64::MAX])),
        ("a header's length", safetensors(99_999_999, "{}")),
        ("a tensor's length", safetensors(claims.len() as u64, claims)),
        ("shard_count", json!({ "shard_count": u32::MAX, "shards": [] }).to_string().into_bytes()),
    ];
    for (what, bytes) in files {
        assert_rejected_in_little_memory(what, bytes);
    }
}
