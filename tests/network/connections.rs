//! Connections that fail, and requests that are cancelled or shared.

use super::bytes::{Apr, Entry, apr_manifest};
use super::server::{Reply, Server, answer};
use super::{FILE, assert_loads, bytes, load, open, range_of, run};
use serde_json::json;
use std::time::{Duration, Instant};
use weightstream::ErrorKind;

#[test]
fn a_refused_connection_fails_fast() {
    let start = Instant::now();
    let server = Server::new(|request| answer(&FILE, request));
    let url = server.url("/m");
    drop(server);
    std::thread::sleep(Duration::from_millis(50)); // until the port is closed
    let error = run(async { open(&url).await.unwrap_err() });
    assert_eq!((error.kind, error.context.url.as_deref()), (ErrorKind::Network, Some(url.as_str())));
    assert!(error.to_string().to_lowercase().contains("refused"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn a_file_of_a_model_whose_host_has_responded_is_retried_often() {
    let shard = Apr::new(vec![Entry::raw("t", 7, &[3], vec![1, 2, 3])]).build();
    let manifest = apr_manifest(&[("a.apr", &shard)], json!({ "t": 0 }));
    let server = Server::new(move |request| match (request.path.as_str(), request.number) {
        ("/m.apr", _) => answer(&manifest, request),
        // Not a response: the client closes the connection, as if it had broken.
        (_, 1..5) => Reply::new(206, b"").with("Content-Length", "?"),
        _ => answer(&shard, request),
    });
    run(async {
        let loader = open(&server.url("/m.apr")).await.unwrap();
        assert_eq!(load(&loader, "t").await.unwrap(), [1, 2, 3]);
    });
    assert_eq!(server.requests().len(), 6);
}

#[test]
fn dropping_a_load_stops_its_request() {
    let file = bytes::safetensors(None, &[("t", "U8", &[40_000_000], vec![0; 40_000_000])]);
    let length = file.len();
    let server = Server::new(move |request| answer(&file, request));
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        let received = async {
            while loader.stats().bytes_received() < 200_000 {
                tokio::task::yield_now().await;
            }
        };
        futures::future::select(std::pin::pin!(load(&loader, "t")), std::pin::pin!(received)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    });
    assert_eq!(server.requests().len(), 2);
    assert!(server.sent() < length / 2, "{} bytes were sent", server.sent());
}

#[test]
fn concurrent_loads_of_a_tensor_share_its_request_and_survive_a_drop() {
    let server = Server::new(|request| answer(&FILE, request));
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        let (one, other) = (load(&loader, "third"), load(&loader, "third"));
        let mut one = Box::pin(one);
        futures::future::select(&mut one, std::pin::pin!(tokio::task::yield_now())).await;
        drop(one);
        assert_loads(other.await, "third");
        let (one, other) = futures::join!(load(&loader, "second"), load(&loader, "second"));
        assert_loads(one, "second");
        assert_loads(other, "second");
    });
    assert_eq!(server.ranges().iter().filter(|range| **range == range_of("second")).count(), 1);
}
