//! Upper bounds of the memory for loading a model of 12 GB from a server, which generates it while it sends it.

use super::bytes::noise;
use super::server::{Reply, Server};
use super::{MIB, alone, peak_of};
use futures::TryStreamExt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;
use weightstream::internals::loader::{Loaded, Loader, Options, TensorRequest};
use weightstream::internals::source::http::HttpSource;

const TENSOR_BYTES: usize = 16 * MIB;
const TENSORS: usize = 760;

static HEADER: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let tensor = |at: usize| {
        let (start, end) = (at * TENSOR_BYTES, (at + 1) * TENSOR_BYTES);
        format!(r#""{at}":{{"dtype":"U8","shape":[16,{MIB}],"data_offsets":[{start},{end}]}}"#)
    };
    let header = format!("{{{}}}", (0..TENSORS).map(tensor).collect::<Vec<_>>().join(","));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
});

/// The bytes after the header, repeated. The length of the pattern is a prime, so no two tensors are equal.
static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| noise(7, 999_983));

fn generate(range: Range<usize>) -> Vec<u8> {
    let mut bytes = HEADER.get(range.start..range.end.min(HEADER.len())).unwrap_or_default().to_vec();
    while bytes.len() < range.len() {
        let pattern = &PATTERN[(range.start + bytes.len()) % PATTERN.len()..];
        bytes.extend(&pattern[..pattern.len().min(range.len() - bytes.len())]);
    }
    bytes
}

#[track_caller]
fn check(tensor: usize, bytes: &[u8]) {
    let start = HEADER.len() + tensor * TENSOR_BYTES;
    assert!(bytes == generate(start..start + TENSOR_BYTES), "tensor {tensor} has other bytes");
}

fn server() -> Server {
    let length = HEADER.len() + TENSORS * TENSOR_BYTES;
    assert!(length > 12_000_000_000);
    Server::new(move |request| {
        let range = request.range.clone().unwrap();
        Reply::generated(range.start..range.end.min(length), length, generate)
    })
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn open(server: &Server, options: Options) -> Rc<Loader<HttpSource>> {
    let source = HttpSource::new(&server.url("/m.safetensors"), &[]).unwrap();
    Rc::new(Loader::open(source, options).await.unwrap())
}

/// Tensors that are so far apart that each is read with its own request.
fn names() -> Vec<String> {
    (0..8).map(|at| (at * 90).to_string()).collect()
}

fn options(max_memory_bytes: usize) -> Options {
    Options::default().with_max_memory_bytes(max_memory_bytes as u64)
}

#[test]
fn loading_a_tensor_of_a_large_model_uses_little_more_than_its_size() {
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
fn undelivered_tensors_do_not_exceed_max_memory() {
    let _alone = alone();
    let server = server();
    for bound in [40 * MIB, MIB] {
        let (count, peak) = peak_of(|| {
            run(async {
                let loader = open(&server, options(bound)).await;
                let mut tensors = Box::pin(loader.tensors(Some(names()), Rc::new(())).await.unwrap());
                let mut count = 0;
                while let Some(loaded) = tensors.try_next().await.unwrap() {
                    check_samples(&loaded);
                    count += 1;
                }
                count
            })
        });
        assert_eq!(count, 8);
        // A tensor that is larger than the bound is loaded alone. The number of concurrent loads below the bound
        // depends on the throughput.
        assert!(peak < bound.max(TENSOR_BYTES) + TENSOR_BYTES + 4 * MIB, "{peak} bytes, but {bound} are allowed");
        assert!(peak > TENSOR_BYTES - MIB, "{peak} bytes do not hold one tensor: the measurement is wrong");
    }
}

#[test]
fn prefetched_tensors_do_not_exceed_max_memory_and_can_be_loaded() {
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
                    check_samples(&loader.load_tensor(&name, TensorRequest::default(), Rc::new(())).await.unwrap());
                }
            };
            futures::join!(loader.prefetch(names(), Rc::new(())), all)
        })
    });
    assert!(peak < bound + TENSOR_BYTES + 4 * MIB, "{peak} bytes, but {bound} are allowed");
}

const SHARD_BYTES: usize = 2 * MIB;
const SHARDS: usize = 64;

/// A server of a model with many shards of one tensor each, which it generates.
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

/// The memory of the server, which runs in this process: up to three copies of a shard for each connection.
const SERVER_BYTES: usize = 4 * 3 * SHARD_BYTES;

#[test]
fn tensors_of_many_shards_do_not_exceed_max_memory() {
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
    // The delivered tensor and the expected bytes are also in memory.
    let allowed = bound + 2 * SHARD_BYTES + SERVER_BYTES + 10 * MIB;
    assert!(peak < allowed, "{peak} bytes, but {allowed} are allowed");
    assert!(allowed < SHARDS * SHARD_BYTES / 2, "the limit is too high to detect that all shards are in memory");
}

#[test]
fn prefetched_tensors_of_many_shards_do_not_exceed_max_memory() {
    let _alone = alone();
    let server = sharded_server();
    let bound = 5 * MIB;
    let (loaded, peak) = peak_of(|| {
        run(async {
            let source = HttpSource::new(&server.url("/model.safetensors.index.json"), &[]).unwrap();
            let loader = Rc::new(Loader::open(source, options(bound)).await.unwrap());
            let names: Vec<_> = (0..SHARDS).map(|at| at.to_string()).collect();
            let all = async {
                let mut loaded = Vec::new();
                for name in (0..SHARDS).step_by(4).map(|at| at.to_string()) {
                    loaded.push(loader.load_tensor(&name, TensorRequest::default(), Rc::new(())).await.unwrap());
                }
                loader.forget_prefetched();
                loaded
            };
            futures::join!(loader.prefetch(names, Rc::new(())), all).1
        })
    });
    let allowed = loaded.len() * SHARD_BYTES + bound + 2 * SHARD_BYTES + SERVER_BYTES + 10 * MIB;
    assert!(peak < allowed, "{peak} bytes, but {allowed} are allowed");
}

/// Compares samples of a tensor, so that the expected bytes need little memory.
#[track_caller]
fn check_samples(loaded: &Loaded<Vec<u8>>) {
    let (bytes, start) =
        (&loaded.components[0].buffer, HEADER.len() + loaded.tensor.name.parse::<usize>().unwrap() * TENSOR_BYTES);
    assert_eq!(bytes.len(), TENSOR_BYTES);
    for at in (0..TENSOR_BYTES).step_by(MIB / 2) {
        assert!(bytes[at..at + 1000] == generate(start + at..start + at + 1000), "{}", loaded.tensor.name);
    }
}
