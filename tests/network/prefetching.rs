//! Prefetching has a lower priority than loading, and no tensor is fetched twice.

use super::bytes::{noise, safetensors};
use super::server::{Server, answer};
use super::{HttpLoader, options, run};
use futures::TryStreamExt;
use futures::future::{self, Either};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::sync::LazyLock;
use weightstream::internals::loader::{Loader, Options, TensorRequest};
use weightstream::internals::source::http::HttpSource;

const MB: usize = 1_000_000;

/// A tensor that is read together with the header, then tensors of 4 MB.
static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let tensor = |name, length: usize| (name, "U8", [length as u64], noise(length as u64, length));
    let tensors = [tensor("head", MB / 10), tensor("a", 4 * MB), tensor("b", 4 * MB), tensor("c", 4 * MB)];
    let tensors: Vec<_> =
        tensors.iter().map(|(name, dtype, shape, data)| (*name, *dtype, &shape[..], data.clone())).collect();
    safetensors(None, &tensors)
});

fn range_of(name: &str) -> Range<usize> {
    let following = match name {
        "a" => 2,
        "b" => 1,
        _ => 0,
    };
    let end = FILE.len() - following * 4 * MB;
    end - 4 * MB..end
}

async fn open(server: &Server, options: Options) -> HttpLoader {
    let retry = options.retry.stall_ms(20_000);
    let source = HttpSource::new(&server.url("/m"), &[]).unwrap();
    Rc::new(Loader::open(source, options.with_retry(retry)).await.unwrap())
}

async fn load_and_compare(loader: &HttpLoader, name: &str) {
    let loaded = loader.load_tensor(name, TensorRequest::default(), Rc::new(())).await.unwrap();
    assert!(loaded.components[0].buffer == FILE[range_of(name)], "{name} has other bytes");
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn until_received(loader: &HttpLoader, bytes: usize) {
    while (loader.stats().bytes_received() as usize) < bytes {
        tokio::task::yield_now().await;
    }
}

/// Runs the work concurrently with the prefetch, and waits for both.
async fn concurrently(prefetch: impl Future<Output = bool>, work: impl Future<Output = ()>) {
    future::join(prefetch, work).await;
}

#[test]
fn prefetch_reads_nothing_while_a_tensor_is_loaded() {
    let server = Server::new(|request| match request.number {
        2 => answer(&FILE, request).slowly(5), // takes more than a second
        _ => answer(&FILE, request),
    });
    run(async {
        let loader = open(&server, options().with_coalesce_gap_bytes(0)).await;
        let work = async {
            until_received(&loader, MB).await;
            let before = loader.stats().bytes_received() as usize;
            load_and_compare(&loader, "c").await;
            // Only that tensor arrived, and the read that was in progress, which fills a buffer of the HTTP client.
            let others = loader.stats().bytes_received() as usize - before - 4 * MB;
            assert!(others < MB, "{others} bytes");
        };
        concurrently(loader.prefetch(names(&["a", "b"]), Rc::new(())), work).await;
        load_and_compare(&loader, "a").await;
        load_and_compare(&loader, "b").await;
        assert_eq!(loader.stats().bytes_received(), 12 * MB as u64 + 65_536, "a byte was received twice");
    });
    assert_eq!(server.requests().len(), 3, "{:?}", server.ranges());
}

#[test]
fn prefetch_reads_in_the_given_order() {
    let server = Server::new(|request| answer(&FILE, request));
    run(async {
        let loader = open(&server, options().with_concurrency(1)).await;
        loader.prefetch(names(&["b", "c", "a"]), Rc::new(())).await;
        for name in ["a", "b", "c"] {
            load_and_compare(&loader, name).await;
        }
    });
    assert_eq!(server.ranges()[1..], [range_of("b").start..range_of("c").end, range_of("a")]);
}

#[test]
fn tensors_in_order_come_as_they_are_named_although_more_connections_are_allowed() {
    let server = Server::new(|request| answer(&FILE, request).slowly(1));
    run(async {
        let loader = open(&server, options()).await;
        let order = ["c", "head", "b", "a", "a", "b"];
        let loaded = loader.tensors_in_order(names(&order), Rc::new(())).await.unwrap();
        let loaded: Vec<_> = loaded.try_collect().await.unwrap();
        assert_eq!(loaded.iter().map(|loaded| &*loaded.tensor.name).collect::<Vec<_>>(), order);
        for loaded in loaded.iter().filter(|loaded| loaded.tensor.name != "head") {
            assert!(loaded.components[0].buffer == FILE[range_of(&loaded.tensor.name)]);
        }
    });
    let (a, b, c) = (range_of("a"), range_of("b"), range_of("c"));
    let ranges = server.ranges();
    let rest_of_head = ranges[0].end..a.start;
    assert_eq!(ranges[1..], [c, rest_of_head, b.clone(), a.clone(), a.start..b.end]);
}

#[test]
fn loading_a_tensor_that_is_being_prefetched_makes_no_request() {
    let server = Server::new(|request| answer(&FILE, request));
    run(async {
        let loader = open(&server, options()).await;
        let work = async {
            until_received(&loader, MB).await;
            future::join(load_and_compare(&loader, "a"), load_and_compare(&loader, "a")).await;
        };
        concurrently(loader.prefetch(names(&["a", "b"]), Rc::new(())), work).await;
        load_and_compare(&loader, "b").await;
    });
    assert_eq!(server.ranges()[1..], [range_of("a").start..range_of("b").end]);
}

#[test]
fn a_queued_tensor_is_loaded_immediately_and_not_prefetched_again() {
    let server = Server::new(|request| answer(&FILE, request).slowly(1));
    run(async {
        let loader = open(&server, options()).await;
        let work = async {
            until_received(&loader, MB).await;
            load_and_compare(&loader, "b").await;
        };
        concurrently(loader.prefetch(names(&["a", "b", "c"]), Rc::new(())), work).await;
        load_and_compare(&loader, "a").await;
        load_and_compare(&loader, "c").await;
        let payload = 12 * MB as u64 + 65_536;
        assert!(loader.stats().bytes_received() <= payload, "{} bytes", loader.stats().bytes_received());
    });
    let ranges = server.ranges();
    assert_eq!(ranges[2], range_of("b"), "{ranges:?}");
    assert_eq!(ranges.last(), Some(&range_of("c")), "the prefetch did not continue after it: {ranges:?}");
}

#[test]
fn a_tensor_that_exceeded_max_memory_and_was_loaded_is_not_fetched_again() {
    let server = Server::new(|request| answer(&FILE, request));
    run(async {
        let loader = open(&server, options().with_max_memory_bytes(5 * MB as u64)).await;
        let work = async {
            until_received(&loader, 4 * MB).await; // "a" has arrived, and "b" would exceed the limit
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            load_and_compare(&loader, "b").await;
            load_and_compare(&loader, "a").await;
            load_and_compare(&loader, "c").await;
        };
        concurrently(loader.prefetch(names(&["a", "b", "c"]), Rc::new(())), work).await;
        assert!(loader.stats().bytes_received() <= 12 * MB as u64 + 65_536 + (300 << 10));
    });
    let is_b = |range: &Range<usize>| range.start == range_of("b").start;
    assert_eq!(server.ranges().iter().filter(|range| is_b(range)).count(), 1, "{:?}", server.ranges());
}

#[test]
fn dropping_a_load_does_not_stop_its_prefetch() {
    let server = Server::new(|request| answer(&FILE, request).slowly(1));
    run(async {
        let loader = open(&server, options()).await;
        let work = async {
            until_received(&loader, MB).await;
            let received = pin!(until_received(&loader, 2 * MB));
            let load = pin!(load_and_compare(&loader, "a"));
            assert!(matches!(future::select(load, received).await, Either::Right(_)));
        };
        concurrently(loader.prefetch(names(&["a"]), Rc::new(())), work).await;
        load_and_compare(&loader, "a").await;
    });
    assert_eq!(server.ranges()[1..], [range_of("a")]);
}
