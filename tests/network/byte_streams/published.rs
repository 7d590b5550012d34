//! Published files with streams. The entry states the SHA-256 of each file, which needs the bytes in order, and the
//! states of its computation at the starts of streams, from which it can be continued.

use super::*;
use futures::future::{self, FutureExt, LocalBoxFuture};
use serde_json::{Value, json};
use weightstream::internals::codec::digest::{Hasher, digest_of};
use weightstream::internals::index::Digest;
use weightstream::internals::pool::{Outcome, Pool, StoredChunk, Task, TaskError, Work};
use weightstream::internals::publication::{KEY, STATES};
use weightstream::internals::source::http::HttpSource;

const SHA256: Digest = Digest::Sha256([0; 32]);

/// An entry as `publish` writes it. `state` returns the text of the state at an offset.
fn entry(file: &[u8], state: &dyn Fn(usize) -> String) -> Vec<u8> {
    let reader = Reader::from_bytes(vec![("m.zt".to_owned(), FILE.clone())]).unwrap();
    let streams = reader.tensor("t").unwrap().components[0].streams().unwrap().clone();
    let states: Vec<_> = streams.later_starts().map(|at| json!([at, state(at as usize)])).collect();
    assert_eq!(states.len(), 3);
    let stated = json!({ "size": file.len(), "sha256": digest_of(file, SHA256).to_string(), STATES: states });
    let map: Value = ["first", "t", "z"].iter().map(|name| ((*name).to_owned(), json!("m.zt"))).collect();
    json!({ "weight_map": map, KEY: { "version": 1, "files": { "m.zt": stated } } }).to_string().into_bytes()
}

fn state_of(file: &[u8], at: usize) -> String {
    let mut hasher = Hasher::new(SHA256);
    hasher.update(&file[..at]);
    hasher.state(at as u64).unwrap().to_string()
}

fn serve(entry: Vec<u8>, file: Vec<u8>) -> Server {
    Server::new(move |request| answer(if request.path.ends_with(".json") { &entry } else { &file }, request))
}

/// Loads all tensors. Returns the outcome, the bytes that arrived, and the number of requests.
fn loaded(server: &Server) -> (weightstream::Result<Vec<u8>>, u64, usize) {
    loaded_by(server, |loader| loader)
}

fn loaded_by(
    server: &Server,
    with: impl FnOnce(Loader<HttpSource>) -> Loader<HttpSource>,
) -> (weightstream::Result<Vec<u8>>, u64, usize) {
    run(async {
        let source = HttpSource::new(&server.url("/m.zt.index.json"), &[]).unwrap();
        let loader = Rc::new(with(Loader::open(source, crate::options()).await.unwrap()));
        let tensors = loader.tensors(None, Rc::new(())).await.unwrap().try_collect::<Vec<_>>();
        let (tensors, bytes) = received(&loader, tensors).await;
        let data = tensors.map(|mut tensors| {
            let at = tensors.iter().position(|loaded| loaded.tensor.name == "t").unwrap();
            tensors.swap_remove(at).components.swap_remove(0).buffer
        });
        assert!(data.is_err() || loader.verified_by().is_some_and(|by| by.name() == "sha256"));
        (data, bytes, server.requests().len())
    })
}

#[test]
fn streams_of_a_published_file_are_read_side_by_side_and_its_digest_is_compared() {
    let server = serve(entry(&FILE, &|at| state_of(&FILE, at)), FILE.clone());
    let (data, bytes, requests) = loaded(&server);
    assert!(data.unwrap() == *DATA);
    assert!(bytes < FILE.len() as u64 + (1 << 20), "{bytes} bytes");
    assert!(requests > 8, "{requests} requests");
}

#[test]
fn a_damaged_byte_is_found_by_the_digest_of_the_file() {
    let entry = entry(&FILE, &|at| state_of(&FILE, at));
    for at in [100, FILE.len() / 3, FILE.len() / 2, FILE.len() * 9 / 10] {
        let mut damaged = FILE.clone();
        damaged[at] ^= 1;
        let (data, ..) = loaded(&serve(entry.clone(), damaged));
        assert!(matches!(data.unwrap_err().kind, ErrorKind::Checksum | ErrorKind::Format), "byte {at}");
    }
}

#[test]
fn wrong_states_cost_bytes_and_no_correctness() {
    let mut other = FILE.clone();
    other[9] ^= 1;
    let (data, bytes, _) = loaded(&serve(entry(&FILE, &|at| state_of(&other, at)), FILE.clone()));
    assert!(data.unwrap() == *DATA, "the file is the stated one");
    assert!(bytes > FILE.len() as u64 + (4 << 20), "{bytes} bytes: streams are read again for the digest");
}

/// A worker that takes some chunks and is then lost.
struct LostWorker(Cell<usize>);

impl Work<Vec<u8>> for LostWorker {
    fn wants_more(&self) -> bool {
        true
    }

    fn push(&self, _: StoredChunk<Vec<u8>>) -> LocalBoxFuture<'static, Result<bool, TaskError>> {
        self.0.set(self.0.get() + 1);
        future::ready(if self.0.get() < 5 { Ok(true) } else { Err(TaskError::WorkerLost) }).boxed_local()
    }

    fn finish(self: Rc<Self>) -> Outcome<Vec<u8>> {
        future::ready(Err(TaskError::WorkerLost)).boxed_local()
    }
}

struct LosingPool;

impl Pool<Vec<u8>> for LosingPool {
    fn expect(&self, _: u64) {}

    fn chunk(&self) -> Option<Vec<u8>> {
        None
    }

    fn begin(&self, task: &Task, _: Option<Vec<u8>>) -> Option<Rc<dyn Work<Vec<u8>>>> {
        let work: Rc<dyn Work<Vec<u8>>> = Rc::new(LostWorker(Cell::new(0)));
        task.component.streams().map(|_| work)
    }

    fn takes_whole(&self, _: &Task) -> bool {
        false
    }

    fn digest(&self, _: &Task, buffer: Vec<u8>) -> Result<Outcome<Vec<u8>>, Vec<u8>> {
        Err(buffer)
    }
}

#[test]
fn a_lost_worker_does_not_fail_the_digest_of_the_file() {
    let server = serve(entry(&FILE, &|at| state_of(&FILE, at)), FILE.clone());
    let (data, bytes, _) = loaded_by(&server, |loader| loader.with_pool(Rc::new(LosingPool)));
    assert!(data.unwrap() == *DATA);
    assert!(bytes < 2 * FILE.len() as u64 + (1 << 20), "{bytes} bytes: the tensor is read again once");
}
