//! Delays between retries.

use super::server::{Reply, Server, answer};
use super::{FILE, open, run};
use std::time::{Duration, SystemTime};

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
    // HTTP dates have a resolution of one second: the delay is between 1 and 2 seconds.
    let waited = requests[1].at - requests[0].at;
    assert!(waited > Duration::from_millis(900) && waited < Duration::from_millis(2500), "{waited:?}");
}

#[test]
fn delays_grow_with_each_failure() {
    let server = Server::new(|_| Reply::new(503, b"busy"));
    run(async { open(&server.url("/m")).await.unwrap_err() });
    let requests = server.requests();
    let waits: Vec<_> = requests.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    // The delays are 1, 2, 4, 8 and 16 ms, each reduced by a random amount of at most a half.
    assert!(waits[4] >= Duration::from_millis(8), "{waits:?}");
}
