//! Dropping a load ends it immediately and stops its requests.

use super::bytes::{noise, safetensors};
use super::server::{Reply, Server, answer};
use super::{HttpLoader, load, run};
use futures::future::{self, Either};
use futures::{StreamExt, TryStreamExt};
use std::pin::pin;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;
use weightstream::internals::loader::{Loader, Options};
use weightstream::internals::source::http::HttpSource;

const LENGTH: usize = 12_000_000;

/// Two tensors. The buffers of a connection may hold all of them, so a response that must be stopped has to be slow.
static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let shape = [LENGTH as u64];
    safetensors(None, &[("a", "U8", &shape, noise(1, LENGTH)), ("b", "U8", &shape, noise(2, LENGTH))])
});

/// Opens the file with at most `concurrency` connections.
async fn open(server: &Server, concurrency: usize) -> HttpLoader {
    let options = Options::default().with_concurrency(concurrency).with_coalesce_gap_bytes(0);
    Rc::new(Loader::open(HttpSource::new(&server.url("/m"), &[]).unwrap(), options).await.unwrap())
}

async fn until_received(loader: &HttpLoader, bytes: u64) {
    while loader.stats().bytes_received() < bytes {
        tokio::task::yield_now().await;
    }
}

/// Runs the work until some bytes have arrived, then drops it.
async fn drop_after_start(loader: &HttpLoader, work: impl Future) {
    let (work, started) = (pin!(work), pin!(until_received(loader, 300_000)));
    assert!(matches!(future::select(work, started).await, Either::Right(_)), "the work ended too early");
}

/// Waits long enough for the server to send everything, and asserts that it stopped.
async fn assert_stopped(server: &Server, requests: usize) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    let sent = server.sent();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.sent(), sent, "the server is still sending");
    assert!(sent < LENGTH, "{sent} bytes were sent");
    assert_eq!(server.requests().len(), requests);
}

#[test]
fn a_shared_request_ends_with_its_last_waiter() {
    let server = Server::new(|request| match request.number {
        2 => answer(&FILE, request).slowly(1),
        _ => answer(&FILE, request),
    });
    run(async {
        let loader = open(&server, 1).await;
        let mut one = Box::pin(load(&loader, "a"));
        let mut other = Box::pin(load(&loader, "a"));
        drop_after_start(&loader, future::join(&mut one, &mut other)).await;
        drop(one);
        let before = loader.stats().bytes_received();
        let more = pin!(until_received(&loader, before + 1_000_000));
        assert!(matches!(future::select(&mut other, more).await, Either::Right(_)));
        drop(other);
        assert_stopped(&server, 2).await;
        assert!(load(&loader, "a").await.unwrap() == noise(1, LENGTH), "the second load has other bytes");
    });
}

#[test]
fn dropping_a_stream_stops_all_its_connections() {
    let server = Server::new(|request| answer(&FILE, request).slowly(4));
    run(async {
        let loader = open(&server, 3).await;
        let mut tensors = Box::pin(loader.tensors(None, Rc::new(())).await.unwrap());
        let several = async {
            while server.requests().len() < 3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(matches!(future::select(tensors.next(), pin!(several)).await, Either::Right(_)));
        drop(tensors);
        assert_stopped(&server, 3).await;
    });
}

#[test]
fn dropping_a_prefetch_stops_it_and_its_tensors_can_be_loaded() {
    let server = Server::new(|request| match request.number {
        2 => answer(&FILE, request).slowly(1),
        _ => answer(&FILE, request),
    });
    run(async {
        let loader = open(&server, 1).await;
        drop_after_start(&loader, loader.prefetch(vec!["a".to_owned(), "b".to_owned()], Rc::new(()))).await;
        assert_stopped(&server, 2).await;
        assert!(load(&loader, "b").await.unwrap() == noise(2, LENGTH));
    });
}

#[test]
fn dropping_a_load_during_a_retry_delay_stops_the_retries() {
    let server = Server::new(|request| match request.number {
        0 => answer(&FILE, request),
        _ => Reply::new(503, b"").with("Retry-After", "1"),
    });
    run(async {
        let loader = open(&server, 1).await;
        let responded = async {
            while server.requests().len() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert!(matches!(future::select(pin!(load(&loader, "a")), pin!(responded)).await, Either::Right(_)));
        tokio::time::sleep(Duration::from_millis(1200)).await;
    });
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn an_error_of_one_tensor_ends_the_stream_and_its_requests() {
    let server = Server::new(|request| match request.number {
        0 | 1 => answer(&FILE, request).slowly(4),
        _ => Reply::new(404, b""),
    });
    run(async {
        let loader = open(&server, 2).await;
        let tensors = loader.tensors(None, Rc::new(())).await.unwrap();
        let outcome: Result<Vec<_>, _> = tensors.try_collect().await;
        assert_eq!(outcome.unwrap_err().context.status, Some(404));
        assert_stopped(&server, 3).await;
    });
}
