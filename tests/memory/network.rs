//! A model of 12 GB at a URL, which a server makes up while it sends it.

use super::bytes::noise;
use super::server::{Reply, Server};
use super::{MIB, alone, peak_of};
use futures::TryStreamExt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;
use weightstream::loader::{Loaded, Loader, Options, TensorRequest};
use weightstream::source::http::HttpSource;

const TENSOR_BYTES: usize = 16 * MIB;
const TENSORS: usize = 760;

static HEAD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let tensor = |at: usize| {
        let (start, end) = (at * TENSOR_BYTES, (at + 1) * TENSOR_BYTES);
        format!(r#""{at}":{{"dtype":"U8","shape":[16,{MIB}],"data_offsets":[{start},{end}]}}"#)
    };
    let header = format!("{{{}}}", (0..TENSORS).map(tensor).collect::<Vec<_>>().join(","));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
});

/// What comes behind the head, over and over; its length is a prime, so that no two tensors are alike.
static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| noise(7, 999_983));

fn make(range: Range<usize>) -> Vec<u8> {
    let mut bytes = HEAD.get(range.start..range.end.min(HEAD.len())).unwrap_or_default().to_vec();
    while bytes.len() < range.len() {
        let pattern = &PATTERN[(range.start + bytes.len()) % PATTERN.len()..];
        bytes.extend(&pattern[..pattern.len().min(range.len() - bytes.len())]);
    }
    bytes
}

#[track_caller]
fn check(tensor: usize, bytes: &[u8]) {
    let start = HEAD.len() + tensor * TENSOR_BYTES;
    assert!(bytes == make(start..start + TENSOR_BYTES), "tensor {tensor} has other bytes");
}

fn server() -> Server {
    let length = HEAD.len() + TENSORS * TENSOR_BYTES;
    assert!(length > 12_000_000_000);
    Server::new(move |request| {
        let range = request.range.clone().unwrap();
        Reply::made(range.start..range.end.min(length), length, make)
    })
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn open(server: &Server, options: Options) -> Rc<Loader<HttpSource>> {
    let source = HttpSource::new(&server.url("/m.safetensors"), &[]).unwrap();
    Rc::new(Loader::open(source, options).await.unwrap())
}

/// Tensors so far from each other that each is a run of its own.
fn names() -> Vec<String> {
    (0..8).map(|at| (at * 90).to_string()).collect()
}

fn options(max_memory_bytes: usize) -> Options {
    Options::default().with_max_memory_bytes(max_memory_bytes as u64)
}

#[test]
fn a_tensor_of_a_model_of_12_gb_takes_its_own_size_and_little_more() {
    let _alone = alone();
    let server = server();
    let (loaded, peak) = peak_of(|| {
        run(async {
            let loader = open(&server, Options::default()).await;
            loader.load_tensor("150", TensorRequest::default(), Rc::new(())).await.unwrap()
        })
    });
    check(150, &loaded.components[0].buffer);
    assert!(peak < TENSOR_BYTES + 4 * MIB, "{peak} bytes");
    assert!(server.sent() < TENSOR_BYTES + MIB, "{} bytes were sent", server.sent());
}

#[test]
fn tensors_on_their_way_take_no_more_than_the_caller_allows() {
    let _alone = alone();
    let server = server();
    for bound in [40 * MIB, MIB] {
        let (count, peak) = peak_of(|| {
            run(async {
                let loader = open(&server, options(bound)).await;
                let mut tensors = Box::pin(loader.tensors(Some(names()), Rc::new(())).await.unwrap());
                let mut count = 0;
                while let Some(loaded) = tensors.try_next().await.unwrap() {
                    check_some(&loaded);
                    count += 1;
                }
                count
            })
        });
        assert_eq!(count, 8);
        // A tensor that is larger than the bound comes alone. How many come at once where there is room, the pace of
        // the line says.
        assert!(peak < bound.max(TENSOR_BYTES) + TENSOR_BYTES + 4 * MIB, "{peak} bytes where {bound} are allowed");
        assert!(peak > TENSOR_BYTES - MIB, "{peak} bytes do not hold one tensor: this is not measured");
    }
}

#[test]
fn what_is_prefetched_takes_no_more_either_and_every_tensor_can_still_be_had() {
    let _alone = alone();
    let server = server();
    let bound = 40 * MIB;
    let (_, peak) = peak_of(|| {
        run(async {
            let loader = open(&server, options(bound)).await;
            let all = async {
                let mut before = 0;
                while before < TENSOR_BYTES as u64 || loader.stats().bytes_received() > before {
                    before = loader.stats().bytes_received();
                    tokio::time::sleep(Duration::from_millis(300)).await;
                }
                assert!(loader.stats().bytes_received() < bound as u64 + MIB as u64);
                for name in names().into_iter().rev() {
                    check_some(&loader.load_tensor(&name, TensorRequest::default(), Rc::new(())).await.unwrap());
                }
            };
            futures::join!(loader.prefetch(names(), Rc::new(())), all)
        })
    });
    assert!(peak < bound + TENSOR_BYTES + 4 * MIB, "{peak} bytes where {bound} are allowed");
}

const SHARD_BYTES: usize = 2 * MIB;
const SHARDS: usize = 64;

/// A model of many files, each of one tensor, whose shard `at` the server makes up.
fn sharded_server() -> Server {
    let shard = |at: usize| format!("model-{at:05}-of-{SHARDS:05}.safetensors");
    let map: Vec<_> = (0..SHARDS).map(|at| format!(r#""{at}":"{}""#, shard(at))).collect();
    let manifest = format!(r#"{{"metadata":{{}},"weight_map":{{{}}}}}"#, map.join(","));
    Server::new(move |request| {
        let name = request.path.trim_start_matches('/');
        let file = match (0..SHARDS).find(|at| shard(*at) == name) {
            None => manifest.clone().into_bytes(),
            Some(at) => shard_bytes(at),
        };
        super::server::answer(&file, request)
    })
}

fn shard_bytes(at: usize) -> Vec<u8> {
    let header = format!(r#"{{"{at}":{{"dtype":"U8","shape":[{SHARD_BYTES}],"data_offsets":[0,{SHARD_BYTES}]}}}}"#);
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &noise(at as u64, SHARD_BYTES)].concat()
}

/// The server has its answers in this process' memory: up to three copies of a shard for each connection.
const SERVER_BYTES: usize = 4 * 3 * SHARD_BYTES;

#[test]
fn of_many_shards_no_more_are_in_memory_than_the_caller_allows() {
    let _alone = alone();
    let server = sharded_server();
    let bound = 5 * MIB;
    let ((), peak) = peak_of(|| {
        run(async {
            let source = HttpSource::new(&server.url("/model.safetensors.index.json"), &[]).unwrap();
            let loader = Rc::new(Loader::open(source, options(bound)).await.unwrap());
            let mut tensors = Box::pin(loader.tensors(None, Rc::new(())).await.unwrap());
            let mut count = 0;
            while let Some(loaded) = tensors.try_next().await.unwrap() {
                let at: usize = loaded.tensor.name.parse().unwrap();
                assert!(loaded.components[0].buffer == noise(at as u64, SHARD_BYTES), "shard {at}");
                count += 1;
            }
            assert_eq!(count, SHARDS);
        });
    });
    // The tensor that was handed out, and what it is compared with.
    let allowed = bound + 2 * SHARD_BYTES + SERVER_BYTES + 10 * MIB;
    assert!(peak < allowed, "{peak} bytes where {allowed} are allowed");
    assert!(allowed < SHARDS * SHARD_BYTES / 2, "all shards at once would go unnoticed");
}

#[test]
fn what_many_shards_prefetch_is_bounded_and_handed_out_tensors_are_the_callers() {
    let _alone = alone();
    let server = sharded_server();
    let bound = 5 * MIB;
    let (kept, peak) = peak_of(|| {
        run(async {
            let source = HttpSource::new(&server.url("/model.safetensors.index.json"), &[]).unwrap();
            let loader = Rc::new(Loader::open(source, options(bound)).await.unwrap());
            let names: Vec<_> = (0..SHARDS).map(|at| at.to_string()).collect();
            let all = async {
                let mut kept = Vec::new();
                for name in (0..SHARDS).step_by(4).map(|at| at.to_string()) {
                    kept.push(loader.load_tensor(&name, TensorRequest::default(), Rc::new(())).await.unwrap());
                }
                loader.forget_prefetched();
                kept
            };
            futures::join!(loader.prefetch(names, Rc::new(())), all).1
        })
    });
    let allowed = kept.len() * SHARD_BYTES + bound + 2 * SHARD_BYTES + SERVER_BYTES + 10 * MIB;
    assert!(peak < allowed, "{peak} bytes where {allowed} are allowed");
}

/// Compares without holding the tensor twice.
#[track_caller]
fn check_some(loaded: &Loaded<Vec<u8>>) {
    let (bytes, start) =
        (&loaded.components[0].buffer, HEAD.len() + loaded.tensor.name.parse::<usize>().unwrap() * TENSOR_BYTES);
    assert_eq!(bytes.len(), TENSOR_BYTES);
    for at in (0..TENSOR_BYTES).step_by(MIB / 2) {
        assert!(bytes[at..at + 1000] == make(start + at..start + at + 1000), "{}", loaded.tensor.name);
    }
}
