//! Network traps that occur only in browsers: CORS, transparent content decoding, and aborted calls.

use std::io::Write;
use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::mirror_traps;
use crate::trap_test::traps::Load;
use crate::trap_test::traps::model::{FILE, range_of};
use crate::trap_test::traps::server::{Reply, Request, Server, answer, whole};
use crate::trap_test::{exposed, load, own_url, readable, sha256_of};
use crate::webdriver::Browser;

type BrowserTrap = (&'static str, fn(&Browser) -> Result<()>);

pub const ALL: [BrowserTrap; 16] = [
    ("loads_without_exposed_headers", hidden_headers),
    ("resumes_a_cut_body_without_exposed_headers", hidden_headers_and_cuts),
    ("reports_a_missing_cors_header", no_cors),
    ("reads_a_gzipped_file_whole", gzipped),
    ("reads_a_gzipped_file_whole_without_exposed_headers", gzipped_and_hidden),
    ("refetches_a_gzipped_range_as_a_whole_file", gzipped_ranges),
    ("rejects_a_gzipped_range_without_exposed_headers", gzipped_ranges_and_hidden),
    ("reports_an_unreachable_host_within_seconds", unreachable_host),
    ("an_abort_rejects_promptly_and_stops_the_request", aborted),
    ("an_abort_does_not_affect_a_concurrent_load_of_the_same_tensor", aborted_by_one_of_two),
    ("aborting_an_iteration_stops_the_request", aborted_loop),
    ("closing_a_loader_stops_its_requests", closed),
    ("a_cross_origin_redirect_drops_the_authorization_header", redirected),
    ("reads_bodies_that_are_not_byte_streams", plain_streams),
    ("a_mirror_replaces_an_unreachable_host_and_gets_no_credentials", mirror_traps::unreachable_host),
    ("the_rest_of_a_silent_response_comes_from_a_mirror_with_equal_bytes", mirror_traps::silent_response),
];

const IN_ANY_ORDER: [Load; 4] = [Load::One("fourth"), Load::One("second"), Load::One("third"), Load::One("first")];

fn hidden_headers(browser: &Browser) -> Result<()> {
    loads_all_tensors(browser, |request| readable(answer(&FILE, request)))
}

fn hidden_headers_and_cuts(browser: &Browser) -> Result<()> {
    loads_all_tensors(browser, |request| readable(answer(&FILE, request).cut_after(400_000)))
}

fn no_cors(browser: &Browser) -> Result<()> {
    let server = Server::new(|request| answer(&FILE, request));
    let outcome = load(browser, "loadAll", &own_url(&server), &[])?;
    let failure = outcome.failure.context("the model was opened")?;
    ensure!(failure.code == "NETWORK" && failure.message.contains("CORS"), "{failure:?}");
    Ok(())
}

fn gzipped(browser: &Browser) -> Result<()> {
    let file = gzip(&FILE)?;
    loads_all_tensors(browser, move |_| exposed(whole(&file).with("Content-Encoding", "gzip")))
}

fn gzipped_and_hidden(browser: &Browser) -> Result<()> {
    let file = gzip(&FILE)?;
    loads_all_tensors(browser, move |_| readable(whole(&file).with("Content-Encoding", "gzip")))
}

fn gzipped_ranges(browser: &Browser) -> Result<()> {
    loads_all_tensors(browser, |request| exposed(gzipped_range(request)))
}

/// The client cannot see `Content-Encoding`; only the length of the body reveals that it was decoded.
fn gzipped_ranges_and_hidden(browser: &Browser) -> Result<()> {
    let server = Server::new(|request| readable(gzipped_range(request)));
    let url = own_url(&server);
    for one in IN_ANY_ORDER {
        let outcome = load(browser, "loadAll", &url, &[one])?;
        let failing = outcome.failure.as_ref().map(|_| one);
        outcome.check(&[one], failing)?;
    }
    Ok(())
}

fn gzipped_range(request: &Request) -> Reply {
    let reply = answer(&FILE, request);
    match &request.range {
        None => reply,
        Some(range) => {
            let body = gzip(FILE.get(range.start..range.end.min(FILE.len())).unwrap_or_default()).unwrap_or_default();
            reply.with_body(&body).with("Content-Encoding", "gzip")
        }
    }
}

fn unreachable_host(browser: &Browser) -> Result<()> {
    let server = Server::new(|request| answer(&FILE, request));
    let url = own_url(&server);
    drop(server);
    sleep(Duration::from_millis(50)); // until the port is closed
    let start = Instant::now();
    let failure = load(browser, "loadAll", &url, &[])?.failure.context("the model was opened")?;
    ensure!(failure.code == "NETWORK", "{failure:?}");
    ensure!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
    Ok(())
}

fn aborted(browser: &Browser) -> Result<()> {
    let server = slow_server();
    let result = browser.evaluate(&format!("abort({}, 'long')", json!(own_url(&server))))?;
    ensure!(result.get("outcome").is_some_and(|outcome| outcome == "its own reason"), "{result}");
    let milliseconds = result.get("milliseconds").and_then(Value::as_f64).unwrap_or(f64::MAX);
    ensure!(milliseconds < 500.0, "it took {milliseconds} ms");
    ensure_aborted(&server)
}

fn aborted_by_one_of_two(browser: &Browser) -> Result<()> {
    let server = Server::new(|request| exposed(answer(&FILE, request).slowly(2)));
    let result = browser.evaluate(&format!("abortOneOfTwo({}, 'third')", json!(own_url(&server))))?;
    ensure!(result == json!({ "one": "AbortError", "other": sha256_of("third") }), "{result}");
    let shared = server.ranges().iter().filter(|range| **range == range_of("third")).count();
    ensure!(shared == 1, "the tensor was requested {shared} times");
    Ok(())
}

fn aborted_loop(browser: &Browser) -> Result<()> {
    let server = slow_server();
    let result = browser.evaluate(&format!("abortLoop({})", json!(own_url(&server))))?;
    ensure!(result == json!({ "arrived": ["short"], "isItsOwnReason": true }), "{result}");
    ensure_aborted(&server)
}

fn closed(browser: &Browser) -> Result<()> {
    let server = slow_server();
    let result = browser.evaluate(&format!("close({}, 'long')", json!(own_url(&server))))?;
    ensure!(result.get("code").is_some_and(|code| code == "CLOSED"), "{result}");
    ensure_aborted(&server)
}

/// Browsers follow redirects themselves. On a cross-origin redirect they remove only the `Authorization` header.
fn redirected(browser: &Browser) -> Result<()> {
    let other = Server::new(|request| with_preflight(request, answer(&FILE, request)));
    let target = other.url("/signed");
    let server = Server::new(move |request| with_preflight(request, Reply::new(302, b"").with("Location", &target)));
    let loads = [Load::One("second")];
    load(browser, "loadAllWithCredentials", &own_url(&server), &loads)?.check(&loads, None)?;
    let has_header = |server: &Server, name: &str| {
        let requests = server.requests();
        requests.iter().any(|request| request.method == "GET" && request.header(name).is_some())
    };
    let has_both = has_header(&server, "authorization") && has_header(&server, "x-api-key");
    ensure!(has_both, "the headers were not sent at all");
    ensure!(!has_header(&other, "authorization"), "the Authorization header was forwarded to another origin");
    Ok(())
}

/// Adds CORS headers and answers the preflight request for the custom headers.
fn with_preflight(request: &Request, reply: Reply) -> Reply {
    match &*request.method {
        "OPTIONS" => {
            readable(Reply::new(204, b"")).with("Access-Control-Allow-Headers", "authorization, range, x-api-key")
        }
        _ => exposed(reply),
    }
}

fn plain_streams(browser: &Browser) -> Result<()> {
    let server = Server::new(|request| exposed(answer(&FILE, request).cut_after(300_000)));
    load(browser, "loadAllWithoutByteStreams", &own_url(&server), &IN_ANY_ORDER)?.check(&IN_ANY_ORDER, None)
}

/// Loads all tensors from a server, first one by one and then in one stream.
fn loads_all_tensors(browser: &Browser, script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Result<()> {
    let server = Server::new(script);
    let mut loads = IN_ANY_ORDER.to_vec();
    loads.push(Load::Many(&["first", "second", "third", "fourth"]));
    load(browser, "loadAll", &own_url(&server), &loads)?.check(&loads, None)?;
    let requests = server.requests();
    ensure!(requests.iter().all(|request| request.method == "GET"), "the client sent a request other than GET");
    Ok(())
}

const LONG_BYTES: usize = 400_000_000;

/// A server whose model has a second tensor that takes minutes to send.
fn slow_server() -> Server {
    let long = format!(r#""long":{{"dtype":"U8","shape":[{LONG_BYTES}],"data_offsets":[1,{}]}}"#, LONG_BYTES + 1);
    let short = r#"{"short":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"#;
    let header = format!("{short}{long}}}");
    let head = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    let length = head.len() + 1 + LONG_BYTES;
    Server::new(move |request| {
        let range = request.range.clone().unwrap_or(0..length);
        let range = range.start..range.end.min(length);
        if range.start == 0 {
            let mut body = head.clone();
            body.resize(range.end, 0);
            let content_range = format!("bytes 0-{}/{length}", range.end - 1);
            return exposed(Reply::new(206, &body).with("Content-Range", &content_range).with("ETag", "\"v1\""));
        }
        exposed(Reply::generated(range, length, zeros).with("ETag", "\"v1\"").slowly(1))
    })
}

fn zeros(range: Range<usize>) -> Vec<u8> {
    vec![0; range.len()]
}

/// Waits until the server sees that the client has closed the connection.
fn ensure_aborted(server: &Server) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(3);
    let is_abandoned = || server.requests().last().is_some_and(|request| request.is_abandoned);
    while !is_abandoned() && Instant::now() < end {
        sleep(Duration::from_millis(20));
    }
    ensure!(is_abandoned(), "the request was not aborted; {} bytes were sent", server.sent());
    Ok(())
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}
