//! When to ask again, and when not.

use super::server::{Reply, Server, answer};
use super::{FILE, assert_loads, load, open, options, run};
use std::time::{Duration, Instant, SystemTime};
use weightstream::error::ErrorKind;

#[test]
fn fails_at_once_on_403_and_404() {
    for status in [400, 401, 403, 404, 410] {
        let server = Server::new(move |_| Reply::new(status, b"no"));
        let error = run(async { open(&server.url("/m")).await.unwrap_err() });
        assert_eq!((error.kind, error.place.status), (ErrorKind::Http, Some(status)), "{error}");
        assert_eq!(server.requests().len(), 1);

        let server = Server::new(move |request| match request.number {
            0 => answer(&FILE, request),
            _ => Reply::new(status, b"no"),
        });
        run(async {
            let loader = open(&server.url("/m")).await.unwrap();
            let error = load(&loader, "second").await.unwrap_err();
            assert_eq!((error.kind, error.place.status), (ErrorKind::Http, Some(status)), "{error}");
        });
        assert_eq!(server.requests().len(), 2);
    }
}

#[test]
fn waits_as_long_as_retry_after_says() {
    for status in [429, 503] {
        let server = Server::new(move |request| match request.number {
            1 => Reply::new(status, b"busy").with("Retry-After", "1"),
            _ => answer(&FILE, request),
        });
        run(async {
            let loader = open(&server.url("/m")).await.unwrap();
            assert_loads(load(&loader, "second").await, "second");
        });
        let requests = server.requests();
        assert_eq!(requests.len(), 3);
        let waited = requests[2].at - requests[1].at;
        assert!(waited >= Duration::from_secs(1) && waited < Duration::from_millis(1500), "{waited:?}");
    }
}

#[test]
fn retry_after_may_be_a_date() {
    let server = Server::new(|request| match request.number {
        0 => {
            let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(2));
            Reply::new(503, b"busy").with("Retry-After", &soon)
        }
        _ => answer(&FILE, request),
    });
    run(async { open(&server.url("/m")).await.unwrap() });
    let requests = server.requests();
    // Such dates have whole seconds: the wait is from 1 to 2 of them.
    let waited = requests[1].at - requests[0].at;
    assert!(waited > Duration::from_millis(900) && waited < Duration::from_millis(2500), "{waited:?}");
}

#[test]
fn a_server_that_asks_for_more_patience_than_we_have_is_told_at_once() {
    let server = Server::new(|_| Reply::new(429, b"busy").with("Retry-After", "3600"));
    let start = Instant::now();
    let error = run(async { open(&server.url("/m")).await.unwrap_err() });
    assert_eq!((error.kind, error.place.status), (ErrorKind::Http, Some(429)));
    assert_eq!(error.place.retry_after_ms, Some(3_600_000));
    assert_eq!(server.requests().len(), 1);
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_server_that_fails_for_a_while_is_asked_again_also_at_first() {
    for status in [408, 425, 429, 500, 502, 503, 504] {
        let attempts = options().retry.max_attempts as usize;
        let server = Server::new(move |request| match request.number {
            number if number < attempts => Reply::new(status, b"busy"),
            _ => answer(&FILE, request),
        });
        run(async { open(&server.url("/m")).await.unwrap() });
        assert_eq!(server.requests().len(), attempts + 1);
    }
}

#[test]
fn a_server_that_goes_on_failing_is_given_up() {
    let server = Server::new(|_| Reply::new(503, b"busy"));
    let error = run(async { open(&server.url("/m")).await.unwrap_err() });
    assert_eq!((error.kind, error.place.status), (ErrorKind::Http, Some(503)));
    assert_eq!(server.requests().len(), 1 + options().retry.max_attempts as usize);
}

#[test]
fn waits_grow_from_failure_to_failure() {
    let server = Server::new(|_| Reply::new(503, b"busy"));
    run(async { open(&server.url("/m")).await.unwrap_err() });
    let requests = server.requests();
    let waits: Vec<_> = requests.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(waits[4] >= Duration::from_millis(8), "the fifth of 1, 2, 4, 8, 16, less a random half: {waits:?}");
}
