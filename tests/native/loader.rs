//! The loader over sources of all manners gives what the reader gives.

use super::bytes::{Apr, Entry, apr_manifest, noise, ramp, safetensors, varied};
use super::{Content, Folder, content};
use futures::executor::block_on;
use futures::stream::TryStreamExt;
use proptest::prelude::*;
use serde_json::json;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::LazyLock;
use weightstream::error::{Error, ErrorKind, Result};
use weightstream::format::embd;
use weightstream::loader::{Loaded, Loader, Options, TensorRequest};
use weightstream::native::Reader;
use weightstream::source::memory::MemorySource;
use weightstream::source::{Answer, Body, Buffer, Source};
use weightstream::write::ConvertOptions;

/// How a body is cut: lengths in bytes, over and over.
#[derive(Debug, Clone)]
pub(crate) struct Chunks(Rc<[u64]>);

impl Chunks {
    pub(crate) fn new(lengths: &[u64]) -> Self {
        Chunks(lengths.into())
    }
}

type Files = Vec<(String, Vec<u8>)>;

/// Files in memory that come in chunks of any size, from a server of either kind.
#[derive(Clone)]
struct TestSource {
    files: Rc<Files>,
    at: usize,
    chunks: Chunks,
    /// As a server that does not know Range: each answer is the whole file.
    ignores_ranges: bool,
    /// As a body that is encoded on the way: its length is known at its end only.
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

impl Source for TestSource {
    type Body = TestBody;

    fn name(&self) -> &str {
        &self.files[self.at].0
    }

    fn file_name(&self) -> Option<String> {
        Some(self.files[self.at].0.clone())
    }

    async fn read(&self, range: Range<u64>) -> Result<Answer<TestBody>> {
        assert!(!range.is_empty(), "an empty range was asked for");
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
        let mut answer = Answer::new(sent.start, body);
        answer.end = file_length.map(|_| sent.end);
        answer.file_length = file_length;
        answer.is_whole_file = self.ignores_ranges;
        answer.identity.length = file_length;
        Ok(answer)
    }

    fn part(&self, path: &str) -> Result<Self> {
        match self.files.iter().position(|(name, _)| name == path) {
            Some(at) => Ok(TestSource { at, ..self.clone() }),
            None => Err(Error::new(ErrorKind::NotFound, format!("there is no file \"{path}\" beside it"))),
        }
    }

    async fn pause(&self, _: u64) {}

    /// Each look at the clock takes so long that connections are added after a few chunks.
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
        assert!(!at.is_empty(), "nothing was asked of a body");
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

fn open<S: Source>(source: S) -> Rc<Loader<S>> {
    Rc::new(block_on(Loader::open(source, Options::default())).unwrap())
}

/// Opens and verifies a model over a source.
pub(crate) fn check_with_loader(files: Files, chunks: Chunks) -> Result<Option<&'static str>> {
    block_on(async {
        let loader = Rc::new(Loader::open(source(&files, &chunks), Options::default()).await?);
        loader.verify(Rc::new(())).await
    })
}

fn loaded_content(loaded: &Loaded<Vec<u8>>) -> (String, String, Vec<u64>, Vec<u8>) {
    let tensor = &loaded.tensor;
    (tensor.name.clone(), tensor.dtype.to_string(), loaded.shape.clone(), loaded.components[0].buffer.clone())
}

/// Every tensor by itself.
fn by_name<S: Source<Body: Body<Buffer = Vec<u8>>>>(loader: &Rc<Loader<S>>) -> Content {
    block_on(async {
        let mut content = Vec::new();
        for tensor in loader.load_index().await.unwrap() {
            let loaded = loader.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(())).await.unwrap();
            content.push(loaded_content(&loaded));
        }
        content
    })
}

/// All tensors in one go, in the order of the index.
fn in_streams<S: Source<Body: Body<Buffer = Vec<u8>>>>(loader: &Rc<Loader<S>>) -> Content {
    block_on(async {
        let order: Vec<_> = loader.load_index().await.unwrap().iter().map(|tensor| tensor.name.clone()).collect();
        let tensors = loader.tensors(None, Rc::new(())).await.unwrap();
        let mut content: Content = tensors.map_ok(|loaded| loaded_content(&loaded)).try_collect().await.unwrap();
        content.sort_by_key(|(name, ..)| order.iter().position(|other| other == name));
        content
    })
}

/// A file of all kinds of tensors, the same as one of two shards, SafeTensors, and a model of nothing.
static MODELS: LazyLock<Vec<Files>> = LazyLock::new(models);

fn models() -> Vec<Files> {
    let name = |name: &str, bytes: Vec<u8>| (name.to_owned(), bytes);
    let shards = [varied().build(), Apr::new(vec![Entry::lz4("last", 7, &[90_000], &ramp(90_000))]).build()];
    let manifest = apr_manifest(&[("0.apr", &shards[0]), ("1.apr", &shards[1])], json!({ "last": 1, "scalar": 0 }));
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
fn memory_gives_what_the_reader_gives() {
    for files in &*MODELS {
        let reader = Reader::from_bytes(files.clone()).unwrap();
        let expected = content(&reader);
        let shared = files.iter().map(|(name, bytes)| (name.clone(), Rc::from(bytes.as_slice()))).collect();
        let loader = open(MemorySource::new(shared).unwrap());
        assert_eq!(by_name(&loader), expected);
        assert_eq!(in_streams(&loader), expected);
        assert_eq!(block_on(loader.load_metadata()).as_ref(), Ok(reader.metadata()));
        let index = block_on(loader.load_index()).unwrap();
        assert!(index.iter().map(|tensor| &**tensor).eq(reader.tensors()));
        let verified_by = reader.verify(&()).unwrap().checksums.first().copied();
        assert_eq!(block_on(loader.verify(Rc::new(()))), Ok(verified_by));
    }
}

#[test]
fn any_chunks_from_any_server_give_the_same() {
    let chunkings = [&[1, 31][..], &[7, 1, 65_536], &[64 << 10], &[1 << 30], &[100, 65_539, 1, 1]];
    for files in &*MODELS {
        let expected = content(&Reader::from_bytes(files.clone()).unwrap());
        for chunks in chunkings {
            for (ignores_ranges, hides_length) in [(false, false), (false, true), (true, false), (true, true)] {
                let source = TestSource { ignores_ranges, hides_length, ..source(files, &Chunks::new(chunks)) };
                let what = format!("{} {chunks:?} {ignores_ranges} {hides_length}", files[0].0);
                let loader = open(source.clone());
                assert_eq!(in_streams(&loader), expected, "{what}");
                assert_eq!(by_name(&open(source)), expected, "{what}");
            }
        }
    }
}

#[test]
fn a_server_that_ignores_ranges_sends_each_file_once() {
    for files in &*MODELS {
        let source = TestSource { ignores_ranges: true, ..source(files, &Chunks::new(&[1000])) };
        let loader = open(source.clone());
        in_streams(&loader);
        assert_eq!(source.whole_bodies.get(), files.len() as u64, "{}", files[0].0);
    }
}

#[test]
fn a_head_takes_few_requests_and_a_load_few_more() {
    let files = &MODELS[0];
    let loader = open(source(files, &Chunks::new(&[5000])));
    block_on(loader.load_index()).unwrap();
    assert!(loader.stats().requests() <= 3, "{}", loader.stats().requests());
    let before = loader.stats().requests();
    in_streams(&loader);
    assert!(loader.stats().requests() - before <= 3, "{}", loader.stats().requests());
}

#[test]
fn rows_are_those_rows() {
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
fn rows_of_a_raw_tensor_cost_their_own_bytes() {
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
fn a_buffer_that_was_given_is_filled() {
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
fn what_was_prefetched_is_not_fetched_again() {
    let files = &MODELS[0];
    let expected = content(&Reader::from_bytes(files.clone()).unwrap());
    let loader = open(source(files, &Chunks::new(&[999])));
    let names: Vec<_> = expected.iter().map(|(name, ..)| name.clone()).chain(["no such tensor".to_owned()]).collect();
    block_on(loader.prefetch(names, Rc::new(())));
    let before = loader.stats().requests();
    assert_eq!(by_name(&loader), expected);
    assert_eq!(loader.stats().requests(), before);
    let error = block_on(loader.load_tensor("no such tensor", TensorRequest::default(), Rc::new(()))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[test]
fn a_file_whose_head_says_what_is_summed_up_is_checked_though_nobody_says_how_long_it_is() {
    let folder = Folder::new();
    let tensors = [("a", "F32", &[300, 100][..], noise(1, 120_000)), ("b", "F32", &[5][..], noise(2, 20))];
    folder.write("m.safetensors", &safetensors(None, &tensors));
    let options = ConvertOptions::default().with_format(Some(&embd::FORMAT));
    folder.convert("m.safetensors", "m.weights", &options).unwrap();
    let whole = std::fs::read(folder.path("m.weights")).unwrap();
    for ignores_ranges in [false, true] {
        let verified = |file: &[u8]| {
            let files = vec![("m.weights".to_owned(), file.to_vec())];
            let source = TestSource { ignores_ranges, hides_length: true, ..source(&files, &Chunks::new(&[4000])) };
            block_on(open(source).verify(Rc::new(()))).map_err(|error| error.kind)
        };
        assert_eq!(verified(&whole), Ok(Some("crc32")), "{ignores_ranges}");
        let mut damaged = whole.clone();
        damaged[100_000] ^= 1;
        assert_eq!(verified(&damaged), Err(ErrorKind::Checksum), "{ignores_ranges}");
    }
}

#[test]
fn a_load_of_all_ends_in_an_error_where_a_checksum_is_wrong() {
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
    fn any_split_of_the_bytes_gives_the_same(
        lengths in proptest::collection::vec(prop_oneof![1u64..20, 1u64..5000, 60_000u64..70_000], 1..12),
        ignores_ranges in any::<bool>(), hides_length in any::<bool>(), concurrency in 1usize..6, gap in 0u64..100_000,
        which in 0usize..4,
    ) {
        let files = &MODELS[which];
        let expected = content(&Reader::from_bytes(files.clone()).unwrap());
        let source = TestSource { ignores_ranges, hides_length, ..source(files, &Chunks::new(&lengths)) };
        let options = Options::default().with_concurrency(concurrency).with_coalesce_gap_bytes(gap);
        let loader = Rc::new(block_on(Loader::open(source, options)).unwrap());
        prop_assert_eq!(in_streams(&loader), expected);
        prop_assert!(block_on(loader.verify(Rc::new(()))).is_ok());
    }
}
