//! Decoding and digesting in a pool gives the same results as in the loader's own thread.

use crate::corpus;
use crate::corpus::root;
use futures::executor::block_on;
use futures::future::{self, FutureExt, LocalBoxFuture};
use futures::stream::StreamExt;
use std::cell::{Cell, RefCell};
use std::fs;
use std::rc::Rc;
use weightstream::internals::format::ztensor;
use weightstream::internals::index::Algorithm;
use weightstream::internals::loader::{Loaded, LoadedComponent, Loader, Options, TensorRequest};
use weightstream::internals::native::Reader;
use weightstream::internals::pool::{Job, Outcome, Pool, Received, StoredChunk, Task, TaskError, Work};
use weightstream::internals::source::memory::MemorySource;
use weightstream::internals::write::{Compression, ConvertOptions, DigestAlgorithm, convert};
use weightstream::{Error, Result};

/// The size of the chunks that the loader allocates. A buffer of another size belongs to a tensor.
const CHUNK_BYTES: usize = 256 << 10;

/// The state of a simulated pool. It does all work immediately, and reports the results later, in the opposite order.
#[derive(Default)]
struct PoolState {
    /// A worker is lost at every n-th request.
    lost_every: Option<usize>,
    /// The workers accept only whole components.
    only_whole: bool,
    requests: Cell<usize>,
    done: Cell<usize>,
    lost: Cell<usize>,
    /// Chunk buffers that can be reused.
    spare: RefCell<Vec<Vec<u8>>>,
    /// The number of bytes that were pushed in chunks.
    pushed_bytes: Cell<u64>,
}

struct RunningTask {
    state: Rc<PoolState>,
    job: RefCell<Result<Job<Vec<u8>>, TaskError>>,
}

struct TestPool(Rc<PoolState>);

impl PoolState {
    /// Counts a request. Fails if the worker is lost at this request.
    fn count_request(&self) -> Result<(), TaskError> {
        self.requests.set(self.requests.get() + 1);
        if self.lost_every.is_some_and(|every| self.requests.get().is_multiple_of(every)) {
            self.lost.set(self.lost.get() + 1);
            return Err(TaskError::WorkerLost);
        }
        Ok(())
    }
}

impl Pool<Vec<u8>> for TestPool {
    fn expect(&self, _: u64) {}

    fn chunk(&self) -> Option<Vec<u8>> {
        self.0.spare.borrow_mut().pop()
    }

    fn begin(&self, task: &Task, into: Option<Vec<u8>>) -> Option<Rc<dyn Work<Vec<u8>>>> {
        assert!(task.is_heavy() && into.is_none());
        if self.0.only_whole {
            return None;
        }
        let job = RefCell::new(Job::new(task.clone(), None).map_err(TaskError::Failed));
        Some(Rc::new(RunningTask { state: Rc::clone(&self.0), job }))
    }

    fn takes_whole(&self, task: &Task) -> bool {
        task.is_heavy()
    }

    fn digest(&self, task: &Task, buffer: Vec<u8>) -> Result<Outcome<Vec<u8>>, Vec<u8>> {
        let work = RunningTask {
            state: Rc::clone(&self.0),
            job: RefCell::new(Job::new(Task { stores_output: false, ..task.clone() }, None).map_err(TaskError::Failed)),
        };
        let length = buffer.len() as u64;
        let outcome = async move {
            Work::push(&work, StoredChunk::next(buffer.clone(), length)).await?;
            let verified = Rc::new(work).finish().await?.verified;
            Ok(Received { buffer: Some(buffer), verified, blocks: Vec::new() })
        };
        Ok(outcome.boxed_local())
    }
}

impl Work<Vec<u8>> for RunningTask {
    fn wants_more(&self) -> bool {
        self.job.borrow().as_ref().is_ok_and(Job::wants_more)
    }

    fn push(&self, chunk: StoredChunk<Vec<u8>>) -> LocalBoxFuture<'static, Result<bool, TaskError>> {
        let StoredChunk { buffer, length, at } = chunk;
        let mut held = self.job.borrow_mut();
        let outcome = match &mut *held {
            Ok(job) => {
                let counted = self.state.count_request();
                counted.and_then(|()| job.push_at(at, &buffer[..length as usize]).map_err(TaskError::Failed))
            }
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = &outcome {
            *held = Err(error.clone());
        }
        self.state.pushed_bytes.set(self.state.pushed_bytes.get() + length);
        if buffer.len() == CHUNK_BYTES {
            self.state.spare.borrow_mut().push(buffer);
        }
        future::ready(outcome.map(|()| true)).boxed_local()
    }

    fn finish(self: Rc<Self>) -> Outcome<Vec<u8>> {
        let later = 50 - self.state.done.get() % 50;
        let outcome = async move {
            for _ in 0..later {
                yield_now().await;
            }
            self.state.count_request()?;
            self.state.done.set(self.state.done.get() + 1);
            self.job.replace(Err(TaskError::WorkerLost))?.finish().map_err(TaskError::Failed)
        };
        outcome.boxed_local()
    }
}

async fn yield_now() {
    let mut has_yielded = false;
    future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut has_yielded, true) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

async fn open(source: MemorySource, pool: Option<&Rc<PoolState>>) -> Result<Rc<Loader<MemorySource>>> {
    let loader = Loader::open(source, Options::default()).await?;
    Ok(Rc::new(match pool {
        Some(pool) => loader.with_pool(Rc::new(TestPool(Rc::clone(pool)))),
        None => loader,
    }))
}

type Contents = Vec<(String, Option<Algorithm>, Vec<Vec<u8>>)>;

/// The results of `load_tensor` for each tensor, of `tensors()` for all tensors, and of `verify`.
fn contents(
    source: MemorySource,
    pool: Option<&Rc<PoolState>>,
) -> Result<(Contents, Contents, Option<Algorithm>), Error> {
    block_on(async {
        let loader = open(source, pool).await?;
        let (mut alone, mut streamed) = (Vec::new(), Vec::new());
        for tensor in loader.load_index().await? {
            alone.push(loader.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(())).await?);
        }
        let mut tensors = Box::pin(loader.tensors(None, Rc::new(())).await?);
        while let Some(loaded) = tensors.next().await {
            streamed.push(loaded?);
        }
        let plain = |loaded: Vec<Loaded<Vec<u8>>>| -> Contents {
            let bytes = |c: Vec<LoadedComponent<Vec<u8>>>| c.into_iter().map(|c| c.buffer).collect();
            loaded.into_iter().map(|t| (t.tensor.name.clone(), t.verified, bytes(t.components))).collect()
        };
        Ok((plain(alone), plain(streamed), loader.verify(Rc::new(())).await?))
    })
}

#[test]
fn pooled_fixtures_have_the_same_tensors_in_the_same_order() {
    let pool = Rc::new(PoolState::default());
    for fixture in corpus::fixtures() {
        assert_eq!(contents(fixture.source(), Some(&pool)), contents(fixture.source(), None), "{}", fixture.path);
    }
    assert!(pool.done.get() > 100, "{} tasks were done by the pool", pool.done.get());
}

#[test]
fn pooled_bad_files_give_the_same_error() {
    for entry in fs::read_dir(root().join("bad")).unwrap() {
        let path = entry.unwrap().path();
        let (name, bytes) = (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap());
        let source = || MemorySource::new(vec![(name.clone(), bytes.clone().into())]).unwrap();
        let pool = Rc::new(PoolState::default());
        assert_eq!(contents(source(), Some(&pool)), contents(source(), None), "{name}");
    }
}

#[test]
fn a_lost_worker_does_not_fail_a_load() {
    let losing = |lost_every| Rc::new(PoolState { lost_every: Some(lost_every), ..PoolState::default() });
    let pools: Vec<_> = (1..6).map(losing).collect();
    for fixture in corpus::fixtures() {
        let expected = contents(fixture.source(), None);
        for pool in &pools {
            assert!(contents(fixture.source(), Some(pool)) == expected, "{} {:?}", fixture.path, pool.lost_every);
        }
    }
    for pool in pools {
        assert!(pool.lost.get() > 100, "{} workers were lost", pool.lost.get());
    }
}

#[test]
fn a_component_read_in_parts_is_digested_as_a_whole_if_workers_accept_only_that() {
    let folder = tempfile::tempdir().unwrap();
    let (weights, converted) = (folder.path().join("model.safetensors"), folder.path().join("model.zt"));
    let length = 9 << 20;
    let header = format!(r#"{{"large":{{"dtype":"U8","shape":[{length}],"data_offsets":[0,{length}]}}}}"#);
    let data: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
    fs::write(&weights, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()).unwrap();
    let options = ConvertOptions::default().format(&ztensor::FORMAT).digest(DigestAlgorithm::Sha256);
    convert(&Reader::open(&weights).unwrap(), &converted, &options, &()).unwrap();
    let right = fs::read(&converted).unwrap();
    let mut wrong = right.clone();
    wrong[5 << 20] ^= 1;
    for (bytes, verified) in [(right, Some(Algorithm::Sha256)), (wrong, None)] {
        let source = || MemorySource::new(vec![("model.zt".to_owned(), bytes.clone().into())]).unwrap();
        for lost_every in [None, Some(1)] {
            let pool = Rc::new(PoolState { only_whole: true, lost_every, ..PoolState::default() });
            let found = contents(source(), Some(&pool));
            assert_eq!(found, contents(source(), None));
            assert_eq!(found.ok().and_then(|(alone, ..)| alone[0].1), verified);
            assert!(pool.requests.get() > 0, "the pool got no requests");
        }
    }
}

#[test]
fn streams_that_are_read_side_by_side_are_joined_by_workers() {
    let folder = tempfile::tempdir().unwrap();
    let (weights, converted) = (folder.path().join("model.safetensors"), folder.path().join("model.zt"));
    let count = 4 << 20;
    let header = format!(r#"{{"large":{{"dtype":"F32","shape":[{count}],"data_offsets":[0,{}]}}}}"#, 4 * count);
    let number = |at: u32| at.wrapping_mul(2_654_435_761) & 0x00ff_ffff | (at % 3) << 24;
    let data: Vec<u8> = (0..count).flat_map(|at| number(at).to_le_bytes()).collect();
    fs::write(&weights, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()).unwrap();
    let options = ConvertOptions::default().format(&ztensor::FORMAT).compression(Compression::Auto);
    convert(&Reader::open(&weights).unwrap(), &converted, &options, &()).unwrap();
    let bytes = fs::read(&converted).unwrap();
    for lost_every in [None, Some(1), Some(20)] {
        let pool = Rc::new(PoolState { lost_every, ..PoolState::default() });
        let source = MemorySource::new(vec![("model.zt".to_owned(), bytes.clone().into())]).unwrap();
        let (alone, streamed, verified) = contents(source, Some(&pool)).unwrap();
        assert!(alone[0].2[0] == data && alone == streamed && verified == Some(Algorithm::Crc32c));
        assert!(pool.pushed_bytes.get() > 0, "the pool got no bytes");
    }
}

#[test]
fn chunk_buffers_are_reused_between_tensors() {
    const TENSORS: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let (weights, converted) = (folder.path().join("model.safetensors"), folder.path().join("model.apr"));
    let length = 1000;
    let entries = (0..TENSORS).map(|at| {
        let range = [at * length, (at + 1) * length];
        format!(r#""t{at}":{{"dtype":"U8","shape":[{length}],"data_offsets":{range:?}}}"#)
    });
    let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    let data: Vec<u8> = (0..TENSORS * length).map(|at| (at / 7 % 251) as u8).collect();
    fs::write(&weights, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()).unwrap();
    let options = ConvertOptions::default().compression(Compression::Lz4);
    convert(&Reader::open(&weights).unwrap(), &converted, &options, &()).unwrap();
    let bytes = fs::read(&converted).unwrap();
    let pool = Rc::new(PoolState::default());
    let count = block_on(async {
        let source = MemorySource::new(vec![("model.apr".to_owned(), bytes.into())]).unwrap();
        let loader = open(source, Some(&pool)).await.unwrap();
        let tensors = Box::pin(loader.tensors(None, Rc::new(())).await.unwrap());
        tensors.map(|loaded| loaded.unwrap().components.len()).fold(0, async |sum, count| sum + count).await
    });
    assert_eq!((count, pool.done.get()), (TENSORS, TENSORS));
    assert!(pool.pushed_bytes.get() < (TENSORS * length) as u64, "nothing was compressed");
    let spare = pool.spare.borrow().len();
    assert!(spare <= 4, "{spare} buffers were allocated, but only one is needed at a time");
}
