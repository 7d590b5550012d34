//! Traps that only pages fall into: other origins, encodings that the browser undoes, callers that go.

use std::io::Write;
use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::trap_test::traps::Load;
use crate::trap_test::traps::model::{FILE, place_of};
use crate::trap_test::traps::server::{Reply, Request, Server, answer, whole};
use crate::trap_test::{exposed, load, own_url, readable, sha256_of};
use crate::webdriver::Browser;

type BrowserTrap = (&'static str, fn(&Browser) -> Result<()>);

pub const ALL: [BrowserTrap; 14] = [
    ("hidden_headers_do_not_hinder", hidden_headers),
    ("a_body_that_breaks_is_resumed_also_with_hidden_headers", hidden_headers_and_cuts),
    ("a_server_that_admits_no_other_origin_is_told_as_such", no_cors),
    ("a_gzipped_file_is_read_as_a_whole", gzipped),
    ("a_gzipped_file_is_read_as_a_whole_also_with_hidden_headers", gzipped_and_hidden),
    ("a_gzipped_range_is_fetched_again_as_a_whole", gzipped_ranges),
    ("a_gzipped_range_with_hidden_headers_is_never_taken_for_the_files_bytes", gzipped_ranges_and_hidden),
    ("a_host_that_is_not_there_is_told_soon", nobody),
    ("an_abort_settles_promptly_and_stops_the_request", aborted),
    ("one_callers_abort_does_not_end_the_others_load", aborted_by_one_of_two),
    ("a_loop_whose_signal_aborts_stops_the_request", aborted_loop),
    ("a_loader_that_is_closed_stops_its_requests", closed),
    ("a_redirect_to_another_origin_gets_no_authorization", redirected),
    ("bodies_that_are_no_byte_streams_are_read_as_well", no_byte_streams),
];

const IN_ANY_ORDER: [Load; 4] = [Load::One("fourth"), Load::One("second"), Load::One("third"), Load::One("first")];

fn hidden_headers(browser: &Browser) -> Result<()> {
    all_arrives(browser, |request| readable(answer(&FILE, request)))
}

fn hidden_headers_and_cuts(browser: &Browser) -> Result<()> {
    all_arrives(browser, |request| readable(answer(&FILE, request).cut_after(400_000)))
}

fn no_cors(browser: &Browser) -> Result<()> {
    let server = Server::new(|request| answer(&FILE, request));
    let outcome = load(browser, "spring", &own_url(&server), &[])?;
    let failure = outcome.failure.context("it opened")?;
    ensure!(failure.code == "NETWORK" && failure.message.contains("CORS"), "{failure:?}");
    Ok(())
}

fn gzipped(browser: &Browser) -> Result<()> {
    let file = gzip(&FILE)?;
    all_arrives(browser, move |_| exposed(whole(&file).with("Content-Encoding", "gzip")))
}

fn gzipped_and_hidden(browser: &Browser) -> Result<()> {
    let file = gzip(&FILE)?;
    all_arrives(browser, move |_| readable(whole(&file).with("Content-Encoding", "gzip")))
}

fn gzipped_ranges(browser: &Browser) -> Result<()> {
    all_arrives(browser, |request| exposed(gzipped_range(request)))
}

/// Nothing but its end tells that such a body is not what it seems.
fn gzipped_ranges_and_hidden(browser: &Browser) -> Result<()> {
    let server = Server::new(|request| readable(gzipped_range(request)));
    let url = own_url(&server);
    for one in IN_ANY_ORDER {
        let outcome = load(browser, "spring", &url, &[one])?;
        let failing = outcome.failure.as_ref().map(|_| one);
        outcome.check(&[one], failing)?;
    }
    Ok(())
}

fn gzipped_range(request: &Request) -> Reply {
    let honest = answer(&FILE, request);
    match &request.range {
        None => honest,
        Some(range) => {
            let body = gzip(FILE.get(range.start..range.end.min(FILE.len())).unwrap_or_default()).unwrap_or_default();
            honest.with_body(&body).with("Content-Encoding", "gzip")
        }
    }
}

fn nobody(browser: &Browser) -> Result<()> {
    let server = Server::new(|request| answer(&FILE, request));
    let url = own_url(&server);
    drop(server);
    sleep(Duration::from_millis(50)); // until the port is closed
    let start = Instant::now();
    let failure = load(browser, "spring", &url, &[])?.failure.context("it opened")?;
    ensure!(failure.code == "NETWORK", "{failure:?}");
    ensure!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
    Ok(())
}

fn aborted(browser: &Browser) -> Result<()> {
    let server = endless();
    let told = browser.evaluate(&format!("abort({}, 'long')", json!(own_url(&server))))?;
    ensure!(told.get("outcome").is_some_and(|outcome| outcome == "its own reason"), "{told}");
    let milliseconds = told.get("milliseconds").and_then(Value::as_f64).unwrap_or(f64::MAX);
    ensure!(milliseconds < 500.0, "it took {milliseconds} ms");
    is_stopped(&server)
}

fn aborted_by_one_of_two(browser: &Browser) -> Result<()> {
    let server = Server::new(|request| exposed(answer(&FILE, request).slowly(2)));
    let told = browser.evaluate(&format!("abortOneOfTwo({}, 'third')", json!(own_url(&server))))?;
    ensure!(told == json!({ "one": "AbortError", "other": sha256_of("third") }), "{told}");
    let shared = server.ranges().iter().filter(|range| **range == place_of("third")).count();
    ensure!(shared == 1, "the tensor was asked for {shared} times");
    Ok(())
}

fn aborted_loop(browser: &Browser) -> Result<()> {
    let server = endless();
    let told = browser.evaluate(&format!("abortLoop({})", json!(own_url(&server))))?;
    ensure!(told == json!({ "arrived": ["short"], "isItsOwnReason": true }), "{told}");
    is_stopped(&server)
}

fn closed(browser: &Browser) -> Result<()> {
    let server = endless();
    let told = browser.evaluate(&format!("close({}, 'long')", json!(own_url(&server))))?;
    ensure!(told.get("code").is_some_and(|code| code == "CLOSED"), "{told}");
    is_stopped(&server)
}

/// Browsers follow redirects by themselves, and of all headers they hold back this one.
fn redirected(browser: &Browser) -> Result<()> {
    let other = Server::new(|request| admitting(request, answer(&FILE, request)));
    let target = other.url("/signed");
    let server = Server::new(move |request| admitting(request, Reply::new(302, b"").with("Location", &target)));
    let loads = [Load::One("second")];
    load(browser, "springWithSecrets", &own_url(&server), &loads)?.check(&loads, None)?;
    let tells = |server: &Server, name: &str| {
        let requests = server.requests();
        requests.iter().any(|request| request.method == "GET" && request.header(name).is_some())
    };
    ensure!(tells(&server, "authorization") && tells(&server, "x-api-key"), "the headers were not sent at all");
    ensure!(!tells(&other, "authorization"), "the authorization went on to another origin");
    Ok(())
}

/// Lets pages of other origins send whatever headers they like.
fn admitting(request: &Request, reply: Reply) -> Reply {
    match &*request.method {
        "OPTIONS" => {
            readable(Reply::new(204, b"")).with("Access-Control-Allow-Headers", "authorization, range, x-api-key")
        }
        _ => exposed(reply),
    }
}

fn no_byte_streams(browser: &Browser) -> Result<()> {
    let server = Server::new(|request| exposed(answer(&FILE, request).cut_after(300_000)));
    load(browser, "springWithoutByteStreams", &own_url(&server), &IN_ANY_ORDER)?.check(&IN_ANY_ORDER, None)
}

/// All tensors must come out of a server, one after the other and in one stream.
fn all_arrives(browser: &Browser, script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Result<()> {
    let server = Server::new(script);
    let mut loads = IN_ANY_ORDER.to_vec();
    loads.push(Load::Many(&["first", "second", "third", "fourth"]));
    load(browser, "spring", &own_url(&server), &loads)?.check(&loads, None)?;
    let requests = server.requests();
    ensure!(requests.iter().all(|request| request.method == "GET"), "it asked before it asked");
    Ok(())
}

const LONG_BYTES: usize = 400_000_000;

/// A model whose second tensor takes minutes.
fn endless() -> Server {
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
        exposed(Reply::made(range, length, zeros).with("ETag", "\"v1\"").slowly(1))
    })
}

fn zeros(range: Range<usize>) -> Vec<u8> {
    vec![0; range.len()]
}

/// The server must see the client go, soon.
fn is_stopped(server: &Server) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(3);
    let is_abandoned = || server.requests().last().is_some_and(|request| request.is_abandoned);
    while !is_abandoned() && Instant::now() < end {
        sleep(Duration::from_millis(20));
    }
    ensure!(is_abandoned(), "the request goes on; {} bytes were sent", server.sent());
    Ok(())
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}
