//! What other threads decode and digest is what the loader's own thread would have made of it.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod corpus;

use corpus::root;
use futures::executor::block_on;
use futures::future::{self, FutureExt, LocalBoxFuture};
use futures::stream::StreamExt;
use std::cell::{Cell, RefCell};
use std::fs;
use std::rc::Rc;
use weightstream::format::ztensor;
use weightstream::internals::pool::{Job, Outcome, Pool, Received, Task, TaskError, Work};
use weightstream::loader::{Loader, Options, TensorRequest};
use weightstream::native::Reader;
use weightstream::source::memory::MemorySource;
use weightstream::write::{Compression, ConvertOptions, DigestAlgorithm, convert};
use weightstream::{Error, Result};

/// The loader's own chunks. What is larger or smaller is a tensor.
const CHUNK_BYTES: usize = 256 << 10;

/// Does all that it is given, at once, and tells so later, in the opposite order.
#[derive(Default)]
struct Crew {
    /// After so many requests a thread is lost, and then again.
    patience: Option<usize>,
    /// Its threads take nothing but whole components.
    is_whole: bool,
    requests: Cell<usize>,
    done: Cell<usize>,
    lost: Cell<usize>,
    /// Buffers of chunks that were done with.
    spare: RefCell<Vec<Vec<u8>>>,
    /// Bytes of tensors that came in chunks.
    pushed_bytes: Cell<u64>,
}

struct Running {
    crew: Rc<Crew>,
    job: RefCell<Result<Job<Vec<u8>>, TaskError>>,
}

struct Threads(Rc<Crew>);

impl Crew {
    fn asked(&self) -> Result<(), TaskError> {
        self.requests.set(self.requests.get() + 1);
        if self.patience.is_some_and(|patience| self.requests.get().is_multiple_of(patience)) {
            self.lost.set(self.lost.get() + 1);
            return Err(TaskError::WorkerLost);
        }
        Ok(())
    }
}

impl Pool<Vec<u8>> for Threads {
    fn expect(&self, _: u64) {}

    fn chunk(&self) -> Option<Vec<u8>> {
        self.0.spare.borrow_mut().pop()
    }

    fn begin(&self, task: &Task, into: Option<Vec<u8>>) -> Option<Rc<dyn Work<Vec<u8>>>> {
        assert!(task.is_heavy() && into.is_none());
        if self.0.is_whole {
            return None;
        }
        let job = RefCell::new(Job::new(task.clone(), None).map_err(TaskError::Failed));
        Some(Rc::new(Running { crew: Rc::clone(&self.0), job }))
    }

    fn takes_whole(&self, task: &Task) -> bool {
        task.is_heavy()
    }

    fn digest(&self, task: &Task, buffer: Vec<u8>) -> Result<Outcome<Vec<u8>>, Vec<u8>> {
        let work = Running {
            crew: Rc::clone(&self.0),
            job: RefCell::new(Job::new(Task { keeps: false, ..task.clone() }, None).map_err(TaskError::Failed)),
        };
        let length = buffer.len() as u64;
        let outcome = async move {
            Work::push(&work, buffer.clone(), length).await?;
            let verified = Rc::new(work).finish().await?.verified;
            Ok(Received { buffer: Some(buffer), verified })
        };
        Ok(outcome.boxed_local())
    }
}

impl Work<Vec<u8>> for Running {
    fn wants_more(&self) -> bool {
        self.job.borrow().as_ref().is_ok_and(Job::wants_more)
    }

    fn push(&self, chunk: Vec<u8>, length: u64) -> LocalBoxFuture<'static, Result<bool, TaskError>> {
        let mut held = self.job.borrow_mut();
        let outcome = match &mut *held {
            Ok(job) => self.crew.asked().and_then(|()| job.push(&chunk[..length as usize]).map_err(TaskError::Failed)),
            Err(trouble) => Err(trouble.clone()),
        };
        if let Err(trouble) = &outcome {
            *held = Err(trouble.clone());
        }
        self.crew.pushed_bytes.set(self.crew.pushed_bytes.get() + length);
        if chunk.len() == CHUNK_BYTES {
            self.crew.spare.borrow_mut().push(chunk);
        }
        future::ready(outcome.map(|()| true)).boxed_local()
    }

    fn finish(self: Rc<Self>) -> Outcome<Vec<u8>> {
        let later = 50 - self.crew.done.get() % 50;
        let outcome = async move {
            for _ in 0..later {
                yield_now().await;
            }
            self.crew.asked()?;
            self.crew.done.set(self.crew.done.get() + 1);
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

async fn open(source: MemorySource, crew: Option<&Rc<Crew>>) -> Result<Rc<Loader<MemorySource>>> {
    let loader = Loader::open(source, Options::default()).await?;
    Ok(Rc::new(match crew {
        Some(crew) => loader.with_pool(Rc::new(Threads(Rc::clone(crew)))),
        None => loader,
    }))
}

type Contents = Vec<(String, Option<&'static str>, Vec<Vec<u8>>)>;

/// What `tensors()` over all of a model gives, and `loadTensor` of each, and the check of all of it.
fn contents(
    source: MemorySource,
    crew: Option<&Rc<Crew>>,
) -> Result<(Contents, Contents, Option<&'static str>), Error> {
    block_on(async {
        let loader = open(source, crew).await?;
        let (mut alone, mut streamed) = (Vec::new(), Vec::new());
        for tensor in loader.load_index().await? {
            alone.push(loader.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(())).await?);
        }
        let mut tensors = Box::pin(loader.tensors(None, Rc::new(())).await?);
        while let Some(loaded) = tensors.next().await {
            streamed.push(loaded?);
        }
        let plain = |loaded: Vec<weightstream::loader::Loaded<Vec<u8>>>| -> Contents {
            let bytes =
                |c: Vec<weightstream::loader::LoadedComponent<Vec<u8>>>| c.into_iter().map(|c| c.buffer).collect();
            loaded.into_iter().map(|t| (t.tensor.name.clone(), t.verified, bytes(t.components))).collect()
        };
        Ok((plain(alone), plain(streamed), loader.verify(Rc::new(())).await?))
    })
}

#[test]
fn every_fixture_is_the_same_and_in_the_same_order() {
    let crew = Rc::new(Crew::default());
    for fixture in corpus::fixtures() {
        assert_eq!(contents(fixture.source(), Some(&crew)), contents(fixture.source(), None), "{}", fixture.path);
    }
    assert!(crew.done.get() > 100, "{} tasks were given to threads", crew.done.get());
}

#[test]
fn every_bad_file_is_refused_in_the_same_words() {
    for entry in fs::read_dir(root().join("bad")).unwrap() {
        let path = entry.unwrap().path();
        let (name, bytes) = (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap());
        let source = || MemorySource::new(vec![(name.clone(), bytes.clone().into())]).unwrap();
        let crew = Rc::new(Crew::default());
        assert_eq!(contents(source(), Some(&crew)), contents(source(), None), "{name}");
    }
}

#[test]
fn a_thread_that_is_lost_fails_no_load() {
    for patience in 1..6 {
        let crew = Rc::new(Crew { patience: Some(patience), ..Crew::default() });
        for fixture in corpus::fixtures() {
            let pooled = contents(fixture.source(), Some(&crew));
            assert_eq!(pooled, contents(fixture.source(), None), "{} after {patience}", fixture.path);
        }
        assert!(crew.lost.get() > 100, "{} threads were lost", crew.lost.get());
    }
}

#[test]
fn a_component_that_came_in_parts_is_digested_as_a_whole_where_threads_take_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (weights, converted) = (folder.path().join("model.safetensors"), folder.path().join("model.zt"));
    let length = 9 << 20;
    let header = format!(r#"{{"large":{{"dtype":"U8","shape":[{length}],"data_offsets":[0,{length}]}}}}"#);
    let data: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
    fs::write(&weights, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()).unwrap();
    let options =
        ConvertOptions::default().with_format(Some(&ztensor::FORMAT)).with_digest(Some(DigestAlgorithm::Sha256));
    convert(&Reader::open(&weights).unwrap(), &converted, &options, &()).unwrap();
    let right = fs::read(&converted).unwrap();
    let mut wrong = right.clone();
    wrong[5 << 20] ^= 1;
    for (bytes, verified) in [(right, Some("sha256")), (wrong, None)] {
        let source = || MemorySource::new(vec![("model.zt".to_owned(), bytes.clone().into())]).unwrap();
        for patience in [None, Some(1)] {
            let crew = Rc::new(Crew { is_whole: true, patience, ..Crew::default() });
            let found = contents(source(), Some(&crew));
            assert_eq!(found, contents(source(), None));
            assert_eq!(found.ok().and_then(|(alone, ..)| alone[0].1), verified);
            assert!(crew.requests.get() > 0, "nothing was given to a thread");
        }
    }
}

#[test]
fn buffers_of_chunks_are_used_again_whatever_lies_between_tensors() {
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
    let options = ConvertOptions::default().with_compression(Compression::Lz4);
    convert(&Reader::open(&weights).unwrap(), &converted, &options, &()).unwrap();
    let bytes = fs::read(&converted).unwrap();
    let crew = Rc::new(Crew::default());
    let count = block_on(async {
        let source = MemorySource::new(vec![("model.apr".to_owned(), bytes.into())]).unwrap();
        let loader = open(source, Some(&crew)).await.unwrap();
        let tensors = Box::pin(loader.tensors(None, Rc::new(())).await.unwrap());
        tensors.map(|loaded| loaded.unwrap().components.len()).fold(0, async |sum, count| sum + count).await
    });
    assert_eq!((count, crew.done.get()), (TENSORS, TENSORS));
    assert!(crew.pushed_bytes.get() < (TENSORS * length) as u64, "nothing was compressed");
    let spare = crew.spare.borrow().len();
    assert!(spare <= 4, "{spare} buffers were made, of which one was needed at a time");
}
