//! Connections that break and stall.

use super::server::{Server, answer};
use super::{FILE, assert_loads, bytes, load, open, options, place_of, run};
use std::time::{Duration, Instant};
use weightstream::error::ErrorKind;

#[test]
fn resumes_a_broken_body_at_the_next_byte() {
    let server = Server::new(|request| match request.number {
        1 => answer(&FILE, request).cut_after(123_456),
        _ => answer(&FILE, request),
    });
    run(async {
        let loader = open(&server.url("/m.safetensors")).await.unwrap();
        assert_loads(load(&loader, "third").await, "third");
    });
    let third = place_of("third");
    assert_eq!(server.ranges()[1..], [third.clone(), third.start + 123_456..third.end]);
    assert_eq!(server.sent(), 65_536 + third.len(), "no byte was sent twice");
}

#[test]
fn resumes_the_head_as_well() {
    let server = Server::new(|request| match request.number {
        0 => answer(&FILE, request).cut_after(100),
        _ => answer(&FILE, request),
    });
    run(async { assert_eq!(open(&server.url("/m")).await.unwrap().load_index().await.unwrap().len(), 4) });
    assert_eq!(server.ranges(), [0..65_536, 100..65_536]);
}

#[test]
fn a_body_that_ends_early_is_never_handed_out() {
    let server = Server::new(|request| match request.number {
        0 => answer(&FILE, request),
        _ => answer(&FILE, request).cut_after(0),
    });
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        let error = load(&loader, "third").await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Network | ErrorKind::Truncated), "{error}");
        assert_eq!(error.place.tensor.as_deref(), Some("third"));
    });
    let attempts = options().retry.max_attempts as usize;
    assert_eq!(server.requests().len(), 1 + 1 + attempts, "a first try and so many more");
}

/// A body without `Content-Length` whose connection closes: only its range tells that it is not whole.
#[test]
fn a_body_that_ends_early_without_a_length_is_resumed() {
    let server = Server::new(|request| match request.number {
        1 => answer(&FILE, request).without("Content-Length").with("Connection", "close").cut_after(70_000),
        _ => answer(&FILE, request),
    });
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        assert_loads(load(&loader, "second").await, "second");
    });
    assert_eq!(server.ranges()[2].start, place_of("second").start + 70_000);
}

#[test]
fn a_long_download_over_a_line_that_breaks_often_still_ends() {
    let server = Server::new(|request| match request.number {
        0 => answer(&FILE, request),
        // Three of four requests bring nothing at all.
        number if number % 4 > 0 => answer(&FILE, request).cut_after(0),
        _ => answer(&FILE, request).cut_after(60_000),
    });
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        assert_loads(load(&loader, "third").await, "third");
    });
    let third = place_of("third");
    assert!(server.requests().len() > 100, "far more failures than are borne in a row");
    assert_eq!(server.sent(), 65_536 + third.len(), "no byte was sent twice");
}

#[test]
fn a_stalled_connection_is_replaced() {
    let server = Server::new(|request| match request.number {
        1 => answer(&FILE, request).stall_after(50_000),
        _ => answer(&FILE, request),
    });
    let start = Instant::now();
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        assert_loads(load(&loader, "second").await, "second");
    });
    assert_eq!(server.ranges()[2].start, place_of("second").start + 50_000);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn a_server_that_never_sends_what_it_promised_is_an_error_in_the_end() {
    let server = Server::new(|request| answer(&FILE, request).stall_after(0));
    run(async {
        let error = open(&server.url("/m")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Network, "{error}");
    });
    assert_eq!(server.requests().len(), 1 + options().retry.max_attempts as usize);
}

#[test]
fn a_host_that_is_not_there_is_told_soon() {
    let start = Instant::now();
    let server = Server::new(|request| answer(&FILE, request));
    let url = server.url("/m");
    drop(server);
    std::thread::sleep(Duration::from_millis(50)); // until the port is closed
    let error = run(async { open(&url).await.unwrap_err() });
    assert_eq!((error.kind, error.place.url.as_deref()), (ErrorKind::Network, Some(url.as_str())));
    assert!(error.to_string().to_lowercase().contains("refused"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn a_load_that_nobody_waits_for_stops_its_request() {
    let file = bytes::safetensors(None, &[("t", "U8", &[40_000_000], vec![0; 40_000_000])]);
    let length = file.len();
    let server = Server::new(move |request| answer(&file, request));
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        let impatient = async {
            while loader.stats().bytes_received() < 200_000 {
                tokio::task::yield_now().await;
            }
        };
        futures::future::select(std::pin::pin!(load(&loader, "t")), std::pin::pin!(impatient)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    });
    assert_eq!(server.requests().len(), 2);
    assert!(server.sent() < length / 2, "{} bytes were sent to nobody", server.sent());
}

#[test]
fn two_callers_of_one_tensor_share_its_request_and_one_that_goes_leaves_the_other() {
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
    assert_eq!(server.ranges().iter().filter(|range| **range == place_of("second")).count(), 1);
}
