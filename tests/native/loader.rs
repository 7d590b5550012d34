//! The loader gives the same results as the reader, with sources of different behaviour.

use super::bytes::{Apr, Entry, apr_manifest, noise, ramp, safetensors, shard_map, varied};
use super::{Content, Folder, content};
use futures::FutureExt;
use futures::executor::block_on;
use futures::future::{self, LocalBoxFuture};
use futures::stream::TryStreamExt;
use proptest::prelude::*;
use serde_json::json;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::LazyLock;
use weightstream::internals::format::embd;
use weightstream::internals::index::Algorithm;
use weightstream::internals::loader::{Loaded, Loader, Options, TensorRequest};
use weightstream::internals::native::Reader;
use weightstream::internals::progress::Progress;
use weightstream::internals::source::memory::MemorySource;
use weightstream::internals::source::{Body, Buffer, CacheHints, Host, ModelSource, RangeResponse, Source};
use weightstream::internals::write::ConvertOptions;
use weightstream::{Error, ErrorKind, Result};

/// The lengths of the chunks of a body in bytes, repeated cyclically.
#[derive(Debug, Clone)]
pub(crate) struct Chunks(Rc<[u64]>);

impl Chunks {
    pub(crate) fn new(lengths: &[u64]) -> Self {
        Chunks(lengths.into())
    }
}

type Files = Vec<(String, Vec<u8>)>;

/// Files in memory that are delivered in chunks, with or without support for ranges.
#[derive(Clone)]
struct TestSource {
    files: Rc<Files>,
    at: usize,
    chunks: Chunks,
    /// Each response is the whole file, like that of a server without support for Range.
    ignores_ranges: bool,
    /// The length of a body is unknown until its end, like that of a body with a content encoding.
    hides_length: bool,
    whole_bodies: Rc<Cell<u64>>,
    clock_ms: Rc<Cell<u64>>,
}

struct TestBody {
    files: Rc<Files>,
    at: usize,
    left: Range<usize>,
    chunks: Chunks,
    next_chunk: usize,
}

impl CacheHints for TestSource {}

impl Source for TestSource {
    type Body = TestBody;

    fn name(&self) -> &str {
        &self.files[self.at].0
    }

    async fn read(&self, range: Range<u64>) -> Result<RangeResponse<TestBody>> {
        assert!(!range.is_empty(), "an empty range was requested");
        let length = self.files[self.at].1.len() as u64;
        let sent = if self.ignores_ranges { 0..length } else { range.start..range.end.min(length) };
        if sent.start >= length && length > 0 {
            return Err(Error::new(ErrorKind::Truncated, "the file has no such bytes").at(range));
        }
        self.whole_bodies.set(self.whole_bodies.get() + u64::from(self.ignores_ranges));
        let file_length = (!self.hides_length).then_some(length);
        let body = TestBody {
            files: Rc::clone(&self.files),
            at: self.at,
            left: sent.start as usize..sent.end as usize,
            chunks: self.chunks.clone(),
            next_chunk: 0,
        };
        let mut answer = RangeResponse::new(sent.start, body);
        answer.end = file_length.map(|_| sent.end);
        answer.file_length = file_length;
        answer.is_whole_file = self.ignores_ranges;
        answer.identity.length = file_length;
        Ok(answer)
    }

    fn host(&self) -> &dyn Host {
        self
    }
}

impl ModelSource for TestSource {
    fn file_name(&self) -> Option<String> {
        Some(self.files[self.at].0.clone())
    }

    fn part(&self, path: &str) -> Result<Self> {
        match self.files.iter().position(|(name, _)| name == path) {
            Some(at) => Ok(TestSource { at, ..self.clone() }),
            None => Err(Error::new(ErrorKind::NotFound, format!("there is no file \"{path}\" beside it"))),
        }
    }
}

impl Host for TestSource {
    fn pause(&self, _: u64) -> LocalBoxFuture<'static, ()> {
        future::ready(()).boxed_local()
    }

    /// Each call advances the clock by 100 ms, so that connections are added after a few chunks.
    fn now_ms(&self) -> u64 {
        self.clock_ms.set(self.clock_ms.get() + 100);
        self.clock_ms.get()
    }

    fn random(&self) -> f64 {
        0.5
    }
}

impl Body for TestBody {
    type Buffer = Vec<u8>;

    async fn read(&mut self, into: &mut Vec<u8>, at: Range<u64>) -> Result<u64> {
        assert!(!at.is_empty(), "an empty range was requested of a body");
        let chunk = self.chunks.0[self.next_chunk % self.chunks.0.len()];
        self.next_chunk += 1;
        let length = (self.left.len() as u64).min(at.end - at.start).min(chunk);
        let taken = self.left.start..self.left.start + length as usize;
        into.write(at.start, &self.files[self.at].1[taken.clone()])?;
        self.left.start = taken.end;
        Ok(length)
    }
}

fn source(files: &Files, chunks: &Chunks) -> TestSource {
    let files = Rc::new(files.clone());
    TestSource {
        files,
        at: 0,
        chunks: chunks.clone(),
        ignores_ranges: false,
        hides_length: false,
        whole_bodies: Rc::default(),
        clock_ms: Rc::default(),
    }
}

/// A body that is kept for later reads must not keep the file alive.
#[test]
fn a_dropped_loader_leaves_no_body() {
    let fixture = |name: &str| (name.to_owned(), std::fs::read(format!("tests/fixtures/{name}")).unwrap());
    for name in ["apr_legacy/aprender0240_apr1_zstd.apr", "apr/basic.apr"] {
        for ignores_ranges in [false, true] {
            let files = vec![fixture(name)];
            let source = TestSource { ignores_ranges, ..source(&files, &Chunks::new(&[100])) };
            let held = Rc::clone(&source.files);
            let loader = open(source);
            block_on(loader.load_index()).unwrap();
            assert!(Rc::strong_count(&held) > 1);
            drop(loader);
            assert_eq!(Rc::strong_count(&held), 1, "{name}, {ignores_ranges}");
        }
    }
}

fn open<S: ModelSource>(source: S) -> Rc<Loader<S>> {
    Rc::new(block_on(Loader::open(source, Options::default())).unwrap())
}

/// Opens and verifies a model with the loader.
pub(crate) fn check_with_loader(files: Files, chunks: Chunks) -> Result<Option<Algorithm>> {
    block_on(async {
        let loader = Rc::new(Loader::open(source(&files, &chunks), Options::default()).await?);
        loader.verify(Rc::new(())).await
    })
}

fn loaded_content(loaded: &Loaded<Vec<u8>>) -> (String, String, Vec<u64>, Vec<u8>) {
    let tensor = &loaded.tensor;
    (tensor.name.clone(), tensor.dtype.to_string(), loaded.shape.clone(), loaded.components[0].buffer.clone())
}

/// Loads each tensor with a separate call.
fn load_each<S: ModelSource<Body: Body<Buffer = Vec<u8>>>>(loader: &Rc<Loader<S>>) -> Content {
    block_on(async {
        let mut content = Vec::new();
        for tensor in loader.load_index().await.unwrap() {
            let loaded = loader.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(())).await.unwrap();
            content.push(loaded_content(&loaded));
        }
        content
    })
}

/// Loads all tensors with `tensors()`, and sorts them in the order of the index.
fn load_all<S: ModelSource<Body: Body<Buffer = Vec<u8>>>>(loader: &Rc<Loader<S>>) -> Content {
    block_on(async {
        let order: Vec<_> = loader.load_index().await.unwrap().iter().map(|tensor| tensor.name.clone()).collect();
        let tensors = loader.tensors(None, Rc::new(())).await.unwrap();
        let mut content: Content = tensors.map_ok(|loaded| loaded_content(&loaded)).try_collect().await.unwrap();
        content.sort_by_key(|(name, ..)| order.iter().position(|other| other == name));
        content
    })
}

/// Streams all tensors in pieces.
fn stream_each<S: ModelSource<Body: Body<Buffer = Vec<u8>>>>(loader: &Rc<Loader<S>>) -> Content {
    block_on(async {
        let mut content = Vec::new();
        let mut reader = loader.read_tensors(None, None).await.unwrap();
        while let Some(begun) = reader.next().await.unwrap() {
            let mut bytes = Vec::new();
            loop {
                let mut piece = vec![0; 30_011];
                let count = reader.fill(&mut piece, 0..30_011).await.unwrap();
                bytes.extend_from_slice(&piece[..count as usize]);
                if bytes.len() as u64 == begun.byte_length {
                    break;
                }
            }
            content.push((begun.tensor.name.clone(), begun.tensor.dtype.to_string(), begun.shape, bytes));
        }
        content
    })
}

/// A file with all kinds of tensors, the same file as one of two shards, a SafeTensors file, and a model without
/// tensors.
static MODELS: LazyLock<Vec<Files>> = LazyLock::new(models);

fn models() -> Vec<Files> {
    let name = |name: &str, bytes: Vec<u8>| (name.to_owned(), bytes);
    let shards = [varied(), Apr::new(vec![Entry::lz4("last", 7, &[90_000], &ramp(90_000))])];
    let map = shard_map(&[&shards[0], &shards[1]]);
    let shards = shards.map(|shard| shard.build());
    let manifest = apr_manifest(&[("0.apr", &shards[0]), ("1.apr", &shards[1])], map);
    let [first, second] = shards;
    let tensors = [
        ("b", "F32", &[50, 400][..], noise(1, 80_000)),
        ("empty", "F32", &[0], vec![]),
        ("s", "I64", &[], noise(2, 8)),
    ];
    vec![
        vec![name("m.apr", varied().build())],
        vec![name("m.apr", manifest), name("0.apr", first), name("1.apr", second)],
        vec![name("m.safetensors", safetensors(Some(json!({ "format": "pt" })), &tensors))],
        vec![name("m.apr", Apr::new(Vec::new()).build())],
    ]
}

#[test]
fn memory_source_equals_reader() {
    for files in &*MODELS {
        let reader = Reader::from_bytes(files.clone()).unwrap();
        let expected = content(&reader);
        let shared = files.iter().map(|(name, bytes)| (name.clone(), Rc::from(bytes.as_slice()))).collect();
        let loader = open(MemorySource::new(shared).unwrap());
        assert_eq!(load_each(&loader), expected);
        assert_eq!(load_all(&loader), expected);
        assert_eq!(block_on(loader.load_metadata()).as_ref(), Ok(reader.metadata()));
        let index = block_on(loader.load_index()).unwrap();
        assert!(index.to_vec().iter().map(|tensor| &**tensor).eq(reader.tensors()));
        let verified_by = reader.verify(&()).unwrap().checksums.first().copied();
        assert_eq!(block_on(loader.verify(Rc::new(()))), Ok(verified_by));
    }
}

#[test]
fn verify_names_the_algorithm_of_digests_that_all_tensors_have() {
    let verified = |path: &str| {
        let file = format!("{}/tests/fixtures/{path}", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(file).unwrap();
        let progress = Rc::new(Checked::default());
        let loader = open(MemorySource::new(vec![(path.to_owned(), bytes.into())]).unwrap());
        let verified = block_on(loader.verify(Rc::clone(&progress) as Rc<_>)).unwrap();
        assert_eq!(loader.verified_by(), verified);
        assert_eq!(progress.0.get(), Some(verified));
        verified
    };
    assert_eq!(verified("ztensor/zt123_alltypes_sha.zt"), Some(Algorithm::Sha256));
    assert_eq!(verified("ztensor/zt111_zstd_sha.zt"), Some(Algorithm::Sha256));
    assert_eq!(verified("ztensor/zt010_alltypes_crc.zt"), Some(Algorithm::Crc32c));
    assert_eq!(verified("ztensor/zt212_basic.zt"), Some(Algorithm::Xxh3));
    assert_eq!(verified("ztensor/zt123_sparse_quant.zt"), None, "some tensors have no digest");
    assert_eq!(verified("ztensor/zt123_basic.zt"), None, "no tensor has a digest");
    assert_eq!(verified("ztensor/zt010_empty.zt"), None, "there is no tensor");
}

/// The algorithm that was reported at the end of a load of the whole model.
#[derive(Default)]
struct Checked(Cell<Option<Option<Algorithm>>>);

impl Progress for Checked {
    fn checked(&self, verified_by: Option<Algorithm>) {
        self.0.set(Some(verified_by));
    }
}

#[test]
fn all_chunk_sizes_and_server_types_give_the_same_tensors() {
    let chunkings = [&[1, 31][..], &[7, 1, 65_536], &[64 << 10], &[1 << 30], &[100, 65_539, 1, 1]];
    for files in &*MODELS {
        let expected = content(&Reader::from_bytes(files.clone()).unwrap());
        for chunks in chunkings {
            for (ignores_ranges, hides_length) in [(false, false), (false, true), (true, false), (true, true)] {
                let source = TestSource { ignores_ranges, hides_length, ..source(files, &Chunks::new(chunks)) };
                let what = format!("{} {chunks:?} {ignores_ranges} {hides_length}", files[0].0);
                let loader = open(source.clone());
                assert_eq!(load_all(&loader), expected, "{what}");
                assert_eq!(load_each(&open(source.clone())), expected, "{what}");
                assert_eq!(stream_each(&open(source)), expected, "{what}");
            }
        }
    }
}

#[test]
fn a_server_that_ignores_ranges_sends_each_file_once() {
    for files in &*MODELS {
        let source = TestSource { ignores_ranges: true, ..source(files, &Chunks::new(&[1000])) };
        let loader = open(source.clone());
        load_all(&loader);
        assert_eq!(source.whole_bodies.get(), files.len() as u64, "{}", files[0].0);
    }
}

#[test]
fn opening_and_loading_need_few_requests() {
    let files = &MODELS[0];
    let loader = open(source(files, &Chunks::new(&[5000])));
    block_on(loader.load_index()).unwrap();
    assert!(loader.stats().requests() <= 3, "{}", loader.stats().requests());
    let before = loader.stats().requests();
    load_all(&loader);
    assert!(loader.stats().requests() - before <= 3, "{}", loader.stats().requests());
}

#[test]
fn rows_are_the_requested_rows() {
    let files = &MODELS[0];
    let reader = Reader::from_bytes(files.clone()).unwrap();
    let loader = open(source(files, &Chunks::new(&[999])));
    for (name, row_bytes) in [("blocks", 40_000), ("lz4.Q4_1", 2000), ("raw.F32", 4), ("重み/übung \u{1f9e0}\n", 2)]
    {
        let (whole, shape) = (reader.tensor_slice(name).unwrap(), reader.tensor(name).unwrap().shape.clone());
        for rows in (0..=shape[0]).flat_map(|start| (start..=shape[0]).map(move |end| start..end)) {
            let request = TensorRequest::default().with_rows(Some(rows.clone()));
            let loaded = block_on(loader.load_tensor(name, request, Rc::new(()))).unwrap();
            let expected = &whole[rows.start as usize * row_bytes..rows.end as usize * row_bytes];
            assert_eq!(loaded.components[0].buffer, expected, "{name} {rows:?}");
            assert_eq!((loaded.shape[0], &loaded.shape[1..]), (rows.end - rows.start, &shape[1..]));
        }
        let request = TensorRequest::default().with_rows(Some(0..shape[0] + 1));
        let error = block_on(loader.load_tensor(name, request, Rc::new(()))).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
    }
}

#[test]
fn streaming_takes_one_request_and_verifies() {
    let mut files = MODELS[0].clone();
    let loader = open(source(&files, &Chunks::new(&[5000])));
    let before = loader.stats().requests();
    stream_each(&loader);
    assert!(loader.stats().requests() - before <= 2, "{}", loader.stats().requests() - before);

    let reader = Reader::from_bytes(files.clone()).unwrap();
    let options = ConvertOptions::default().digest(weightstream::internals::write::DigestAlgorithm::Sha256);
    let folder = Folder::new();
    let path = folder.path("m.zt");
    weightstream::internals::write::convert(&reader, &path, &options.allow_loss(true), &()).unwrap();
    files = vec![("m.zt".to_owned(), std::fs::read(path).unwrap())];
    let sound = open(source(&files, &Chunks::new(&[5000])));
    let tensor =
        block_on(sound.load_index()).unwrap().iter().max_by_key(|tensor| tensor.byte_length()).unwrap().clone();
    files[0].1[tensor.first_byte() as usize + 20] ^= 1;
    let damaged = open(source(&files, &Chunks::new(&[5000])));
    let outcome = block_on(async {
        let mut reader = damaged.read_tensors(Some(vec![tensor.name.clone()]), None).await?;
        let length = reader.next().await?.unwrap().byte_length;
        reader.fill(&mut vec![0; length as usize], 0..length).await
    });
    let error = outcome.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Checksum | ErrorKind::Format), "{error}");
    assert_eq!(error.context.tensor, Some(tensor.name.clone()));
}

#[test]
fn rows_of_a_raw_tensor_read_only_their_bytes() {
    let rows = noise(1, 4 << 20);
    let files = vec![("m.apr".to_owned(), Apr::new(vec![Entry::raw("t", 7, &[1024, 4096], rows)]).build())];
    let loader = open(source(&files, &Chunks::new(&[4096])));
    block_on(loader.load_index()).unwrap();
    let before = loader.stats().bytes_received();
    let request = TensorRequest::default().with_rows(Some(500..510));
    block_on(loader.load_tensor("t", request, Rc::new(()))).unwrap();
    assert_eq!(loader.stats().bytes_received() - before, 10 * 4096);
}

#[test]
fn a_buffer_of_the_caller_is_filled() {
    let files = &MODELS[0];
    let reader = Reader::from_bytes(files.clone()).unwrap();
    let loader = open(source(files, &Chunks::new(&[999])));
    for name in ["blocks", "raw.F32"] {
        let whole = reader.tensor_slice(name).unwrap();
        let into = |length| TensorRequest::default().with_into(Some(vec![9; length]));
        let loaded = block_on(loader.load_tensor(name, into(whole.len()), Rc::new(()))).unwrap();
        assert_eq!(loaded.components[0].buffer, whole);
        let error = block_on(loader.load_tensor(name, into(whole.len() + 1), Rc::new(()))).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
    }
}

#[test]
fn prefetched_tensors_are_not_fetched_again() {
    let files = &MODELS[0];
    let expected = content(&Reader::from_bytes(files.clone()).unwrap());
    let loader = open(source(files, &Chunks::new(&[999])));
    let names: Vec<_> = expected.iter().map(|(name, ..)| name.clone()).chain(["no such tensor".to_owned()]).collect();
    block_on(loader.prefetch(names, Rc::new(())));
    let before = loader.stats().requests();
    assert_eq!(load_each(&loader), expected);
    assert_eq!(loader.stats().requests(), before);
    let error = block_on(loader.load_tensor("no such tensor", TensorRequest::default(), Rc::new(()))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[test]
fn a_checksum_over_a_stated_range_is_verified_if_the_file_length_is_unknown() {
    let folder = Folder::new();
    let tensors = [("a", "F32", &[300, 100][..], noise(1, 120_000)), ("b", "F32", &[5][..], noise(2, 20))];
    folder.write("m.safetensors", &safetensors(None, &tensors));
    let options = ConvertOptions::default().format(&embd::FORMAT).omit_metadata(true);
    folder.convert("m.safetensors", "m.weights", &options).unwrap();
    let whole = std::fs::read(folder.path("m.weights")).unwrap();
    for ignores_ranges in [false, true] {
        let verified = |file: &[u8]| {
            let files = vec![("m.weights".to_owned(), file.to_vec())];
            let source = TestSource { ignores_ranges, hides_length: true, ..source(&files, &Chunks::new(&[4000])) };
            block_on(open(source).verify(Rc::new(()))).map_err(|error| error.kind)
        };
        assert_eq!(verified(&whole), Ok(Some(Algorithm::Crc32)), "{ignores_ranges}");
        let mut corrupted = whole.clone();
        corrupted[100_000] ^= 1;
        assert_eq!(verified(&corrupted), Err(ErrorKind::Checksum), "{ignores_ranges}");
    }
}

#[test]
fn loading_all_tensors_fails_if_a_file_checksum_is_wrong() {
    let mut files = MODELS[0].clone();
    let footer = files[0].1.len() - 16;
    files[0].1[footer] ^= 1;
    for ignores_ranges in [false, true] {
        let loader = open(TestSource { ignores_ranges, ..source(&files, &Chunks::new(&[4000])) });
        let loaded: Result<Vec<_>> = block_on(async {
            loader.tensors(None, Rc::new(())).await?.map_ok(|loaded| loaded_content(&loaded)).try_collect().await
        });
        assert_eq!(loaded.unwrap_err().kind, ErrorKind::Checksum);
        let error = block_on(loader.verify(Rc::new(()))).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Checksum, "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_split_of_the_bytes_gives_the_same_tensors(
        lengths in proptest::collection::vec(prop_oneof![1u64..20, 1u64..5000, 60_000u64..70_000], 1..12),
        ignores_ranges in any::<bool>(), hides_length in any::<bool>(), concurrency in 1usize..6, gap in 0u64..100_000,
        which in 0usize..4,
    ) {
        let files = &MODELS[which];
        let expected = content(&Reader::from_bytes(files.clone()).unwrap());
        let source = TestSource { ignores_ranges, hides_length, ..source(files, &Chunks::new(&lengths)) };
        let options = Options::default().with_concurrency(concurrency).with_coalesce_gap_bytes(gap);
        let loader = Rc::new(block_on(Loader::open(source, options)).unwrap());
        prop_assert_eq!(load_all(&loader), expected);
        prop_assert!(block_on(loader.verify(Rc::new(()))).is_ok());
    }
}
