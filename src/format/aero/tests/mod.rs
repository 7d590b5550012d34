//! Tests with files that the available tools do not write. Files written by tools are in `tests/fixtures/`.

#[cfg(not(miri))]
mod set;

use super::MAGIC;
use super::parse::parse;
use crate::error::{ErrorKind, Result};
use crate::index::{Algorithm, Index, Parsed};
use crate::loader::{Loader, Options, TensorRequest};
use crate::source::memory::MemorySource;
use crate::window::{Stop, Window};
use futures::TryStreamExt;
use futures::executor::block_on;
use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};
use std::ops::Range;
use std::rc::Rc;

const PAGE_BYTES: usize = 16 << 10;

/// Builds a file from chunks, each given as kind, name and content.
fn file(chunks: &[(&[u8; 4], &str, Vec<u8>)]) -> Vec<u8> {
    let names: String = chunks.iter().map(|(_, name, _)| format!("{name}\0")).collect();
    let toc_bytes = 16 + 80 * chunks.len() as u64;
    let (mut offset, mut name_offset) = ((96 + toc_bytes + names.len() as u64).next_multiple_of(16), 0);
    let mut toc = [&(chunks.len() as u32).to_le_bytes()[..], &[0; 12]].concat();
    let mut payloads = Vec::new();
    for (kind, name, content) in chunks {
        let length = content.len() as u64;
        toc.extend([&kind[..], &0u32.to_le_bytes(), &offset.to_le_bytes()].concat());
        toc.extend([length.to_le_bytes(), length.to_le_bytes()].concat());
        toc.extend([name_offset, name.len() as u32].map(u32::to_le_bytes).concat());
        toc.extend([&[0; 8][..], blake3::hash(content).as_bytes()].concat());
        name_offset += name.len() as u32 + 1;
        payloads.extend(content);
        offset = (offset + length).next_multiple_of(16);
        payloads.resize(payloads.len().next_multiple_of(16), 0);
    }
    let mut file = [&MAGIC[..], &[0, 0, 1, 0, 96, 0, 0, 0]].concat();
    file.extend([96, toc_bytes, 96 + toc_bytes, names.len() as u64, 0].map(u64::to_le_bytes).concat());
    file.resize(96 - 28, 7); // the UUID
    file.resize(96, 0);
    file.extend([toc, names.into_bytes()].concat());
    file.resize(file.len().next_multiple_of(16), 0);
    file.extend(payloads);
    file
}

fn index(tensors: Value) -> (&'static [u8; 4], &'static str, Vec<u8>) {
    (b"TIDX", "tensors", rmp_serde::to_vec_named(&json!({ "tensors": tensors })).unwrap())
}

fn entry(name: &str, shape: Value, data_off: usize, data_len: usize) -> Value {
    json!({
        "name": name,
        "dtype": 1,
        "shape": shape,
        "shard_id": 0,
        "data_off": data_off,
        "data_len": data_len,
        "flags": 0,
    })
}

/// Bytes that serialize as the MessagePack type bin; serde serializes an array of `u8` as an array of numbers.
struct Bin([u8; 32]);

impl Serialize for Bin {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

#[derive(Serialize)]
struct PageHashes {
    shard_name: &'static str,
    page_size: usize,
    digests: Vec<Bin>,
}

fn page_hashes(shard: &[u8]) -> (&'static [u8; 4], &'static str, Vec<u8>) {
    let digests = shard.chunks(PAGE_BYTES).map(|page| Bin(blake3::hash(page).into())).collect();
    let hashes = PageHashes { shard_name: "weights.shard0", page_size: PAGE_BYTES, digests };
    (b"PHSH", "weights.shard0.phsh", rmp_serde::to_vec_named(&hashes).unwrap())
}

/// Builds a file of about 3 MB: a small tensor, a large tensor with rows of 1000 bytes, and another small tensor.
fn paged_file() -> (Vec<u8>, Vec<u8>) {
    let shard: Vec<u8> = (0..3_000_200u32).map(|i| (i ^ i >> 7) as u8).collect();
    let entries = json!([
        entry("before", json!([25]), 0, 100),
        entry("large", json!([3000, 250]), 100, 3_000_000),
        entry("after", json!([5, 5]), 3_000_100, 100),
    ]);
    let file = file(&[index(entries), (b"WTSH", "weights.shard0", shard.clone()), page_hashes(&shard)]);
    (file, shard)
}

async fn open(file: Vec<u8>) -> Result<Rc<Loader<MemorySource>>> {
    let source = MemorySource::new(vec![("m.aero".into(), file.into())])?;
    Loader::open(source, Options::default()).await.map(Rc::new)
}

async fn rows(loader: &Rc<Loader<MemorySource>>, rows: Range<u64>) -> Result<(Vec<u8>, Option<Algorithm>)> {
    let request = TensorRequest::default().with_rows(Some(rows));
    let loaded = loader.load_tensor("large", request, Rc::new(())).await?;
    Ok((loaded.components[0].buffer.clone(), loaded.verified))
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn a_slice_is_verified_by_its_pages_without_reading_the_rest() {
    let (file, shard) = paged_file();
    block_on(async {
        let loader = open(file).await.unwrap();
        rows(&loader, 0..1).await.unwrap(); // the table of pages is read once
        let before = loader.stats().bytes_received();
        let (bytes, verified) = rows(&loader, 1500..1520).await.unwrap();
        assert_eq!((bytes.as_slice(), verified), (&shard[1_500_100..1_520_100], Some(Algorithm::Blake3)));
        let received = loader.stats().bytes_received() - before;
        assert!(received <= 20_000 + 2 * PAGE_BYTES as u64, "{received}");
    });
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn only_slices_in_a_damaged_page_are_rejected() {
    let (mut file, shard) = paged_file();
    let start = file.windows(1000).position(|window| window == &shard[..1000]).unwrap();
    file[start + 1_510_000] ^= 1;
    block_on(async {
        let loader = open(file).await.unwrap();
        // The damaged byte is not in these rows, but in a page that they share.
        assert_eq!(rows(&loader, 1507..1509).await.map(|_| ()).unwrap_err().kind, ErrorKind::Checksum);
        assert!(rows(&loader, 0..1505).await.is_ok());
        let load =
            async |name| loader.load_tensor(name, TensorRequest::default(), Rc::new(())).await.map(|t| t.verified);
        assert_eq!(load("large").await.unwrap_err().kind, ErrorKind::Checksum);
        assert_eq!(load("after").await, Ok(Some(Algorithm::Blake3)));
        assert_eq!(loader.verify(Rc::new(())).await.unwrap_err().kind, ErrorKind::Checksum);
    });
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn tensors_that_share_a_page_stream_in_one_read_and_in_order() {
    let (file, shard) = paged_file();
    block_on(async {
        let loader = open(file).await.unwrap();
        let before = loader.stats().requests();
        let names = ["after", "large", "before"].map(str::to_owned).to_vec();
        let stream = loader.tensors(Some(names), Rc::new(())).await.unwrap();
        let loaded: Vec<_> = stream.try_collect().await.unwrap();
        let names: Vec<_> = loaded.iter().map(|loaded| loaded.tensor.name.as_str()).collect();
        assert_eq!(names, ["before", "large", "after"]);
        assert!(loaded.iter().all(|loaded| loaded.verified == Some(Algorithm::Blake3)));
        let bytes: Vec<u8> = loaded.iter().flat_map(|loaded| loaded.components[0].buffer.clone()).collect();
        assert!(bytes == shard);
        assert_eq!(loader.stats().requests() - before, 2); // the table of pages, the shard
    });
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn tensors_with_their_own_digest_and_with_pages_are_verified() {
    let shard = vec![1u8; 40_000];
    let mut own = entry("own", json!([5000]), 0, 20_000);
    own["hash_b3"] = blake3::hash(&shard[..20_000]).to_string().into();
    let entries = json!([own, entry("none", json!([5000]), 20_000, 20_000)]);
    let file = file(&[index(entries), (b"WTSH", "weights.shard0", shard.clone()), page_hashes(&shard)]);
    block_on(async {
        let loader = open(file).await.unwrap();
        let stream = loader.tensors(None, Rc::new(())).await.unwrap();
        let loaded: Vec<_> = stream.try_collect().await.unwrap();
        assert!(loaded.iter().all(|loaded| loaded.verified == Some(Algorithm::Blake3)));
        assert_eq!(loader.verify(Rc::new(())).await, Ok(Some(Algorithm::Blake3)));
    });
}

/// The digest of the chunk is wrong, so that an error shows whether it was computed.
#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn loads_compare_the_digest_of_a_chunk_only_if_its_tensors_have_none() {
    let shard = vec![1u8; 40_000];
    let tensors = |has_digest: [bool; 2], with_pages: bool| {
        let tensor = |at: usize| {
            let mut tensor = entry(["a", "b"][at], json!([5000]), at * 20_000, 20_000);
            if has_digest[at] {
                tensor["hash_b3"] = blake3::hash(&shard[..20_000]).to_string().into();
            }
            tensor
        };
        let chunks = [index(json!([tensor(0), tensor(1)])), (b"WTSH", "weights.shard0", shard.clone())];
        let pages = page_hashes(&shard);
        let mut file = if with_pages { file(&[&chunks[..], &[pages]].concat()) } else { file(&chunks) };
        file[96 + 16 + 80 + 48] ^= 1;
        block_on(async {
            let loader = open(file).await.unwrap();
            let stream = loader.tensors(None, Rc::new(())).await.unwrap();
            let loaded: Result<Vec<_>> = stream.try_collect().await;
            assert_eq!(loader.verify(Rc::new(())).await.unwrap_err().kind, ErrorKind::Checksum);
            loaded.map(|loaded| loaded.iter().map(|loaded| loaded.verified).collect::<Vec<_>>()).map_err(|e| e.kind)
        })
    };
    assert_eq!(tensors([true, true], false), Ok(vec![Some(Algorithm::Blake3); 2]));
    assert_eq!(tensors([true, false], true), Ok(vec![Some(Algorithm::Blake3); 2]), "with pages");
    assert_eq!(tensors([true, false], false), Err(ErrorKind::Checksum));
    assert_eq!(tensors([false, false], false), Err(ErrorKind::Checksum));
}

fn parse_file(file: &[u8]) -> Result<Index> {
    match parse(&Window::whole(file)) {
        Ok(Parsed::File(index)) => Ok(index),
        Err(Stop::Failed(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn rejects_tensors_outside_their_shard_and_with_wrong_lengths() {
    let with = |entry: Value| parse_file(&file(&[index(json!([entry])), (b"WTSH", "weights.shard0", vec![0; 100])]));
    assert!(with(entry("t", json!([25]), 0, 100)).is_ok());
    for (shape, data_off, data_len) in [(json!([25]), 1, 100), (json!([24]), 0, 100), (json!([25]), usize::MAX, 100)] {
        let error = with(entry("t", shape, data_off, data_len)).unwrap_err();
        assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Format, Some("t")));
    }
    let mut other = entry("t", json!([25]), 0, 100);
    other["shard_id"] = 1.into();
    assert!(with(other).unwrap_err().what.contains("weights.shard1"));
}

#[test]
fn accepts_unknown_dtypes_fields_and_chunks() {
    let mut other = entry("t", json!([7]), 0, 100);
    other["dtype"] = 99.into();
    other["vendor"] = json!({ "x": [1] });
    let extra = (b"XTRA", "extra", b"anything".to_vec());
    let file = file(&[extra, index(json!([other])), (b"WTSH", "weights.shard0", vec![0; 100])]);
    let tensor = parse_file(&file).unwrap().tensors.to_vec().remove(0);
    assert_eq!((tensor.dtype.name(), tensor.byte_length()), ("AERO_99", Some(100)));
}

#[test]
fn rejects_chunks_that_begin_in_the_table_of_contents() {
    let mut file = file(&[index(json!([])), (b"WTSH", "weights.shard0", vec![0; 100])]);
    file[96 + 16 + 80 + 8..][..8].copy_from_slice(&100u64.to_le_bytes());
    assert!(parse_file(&file).unwrap_err().what.contains("inside the header"));
}

proptest! {
    /// Damages the content before the digests are computed, as a forged file would, so that the digests match.
    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn damaged_chunks_with_matching_digests_never_panic(
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4), which in 0usize..3,
    ) {
        let shard = vec![1u8; 40_000];
        let entries = json!([entry("a", json!([5000]), 0, 20_000), entry("b", json!([50, 100]), 20_000, 20_000)]);
        let mut chunks = [index(entries), page_hashes(&shard), (b"MJSN", "meta.json", br#"{"a":[1,{}]}"#.to_vec())];
        for (at, byte) in flips {
            let content = &mut chunks[which].2;
            let at = at.index(content.len());
            content[at] = byte;
        }
        let [index, pages, json] = chunks;
        let file = file(&[json, index, (b"WTSH", "weights.shard0", shard), pages]);
        let outcome: Result<()> = block_on(async {
            let loader = open(file).await?;
            loader.load_metadata().await?;
            loader.tensors(None, Rc::new(())).await?.try_for_each(async |_| Ok(())).await
        });
        prop_assert!(!matches!(&outcome, Err(e) if e.kind == ErrorKind::Internal), "{:?}", outcome);
    }
}
