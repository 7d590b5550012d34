//! Files with several addresses, of which some are dead, slow, or have other bytes.

use super::bytes::{self, Apr, Entry, apr_manifest};
use super::server::{Link, Reply, Request, Server, answer, whole};
use super::{FILE, HttpLoader, assert_loads, load, options, run};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use weightstream::internals::index::Digest;
use weightstream::internals::loader::{Digests, Loader};
use weightstream::internals::source::http::HttpSource;
use weightstream::{Mirror, OpenOptions, Result};

/// Large enough that 3 % of it are worth something.
static LARGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let tensor = |number| (["t0", "t1", "t2", "t3"][number], "U8", &[LENGTH as u64][..], tensor(number));
    bytes::safetensors(None, &(0..4).map(tensor).collect::<Vec<_>>())
});

const LENGTH: usize = 2 << 20;

fn tensor(number: usize) -> Vec<u8> {
    bytes::noise(number as u64 + 1, LENGTH)
}

/// Answers with the bytes of another version: the same header and length, and other weights.
fn other_weights(file: &[u8]) -> Vec<u8> {
    let header = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    file.iter().enumerate().map(|(at, byte)| if at < header { *byte } else { byte ^ 1 }).collect()
}

fn source(first: &Server, mirrors: &[&Server]) -> HttpSource {
    let headers = [("Authorization".to_owned(), "Bearer s3cret".to_owned())];
    let urls = mirrors.iter().map(|server| server.url("/copies/m"));
    HttpSource::new(&first.url("/models/m"), &headers).unwrap().with_mirrors(urls).unwrap()
}

async fn open(first: &Server, mirrors: &[&Server]) -> Result<HttpLoader> {
    Loader::open(source(first, mirrors), options()).await.map(Rc::new)
}

fn report(loader: &HttpLoader) -> Vec<Mirror> {
    let reports = loader.mirrors();
    assert!(reports.len() > 1);
    reports
}

#[track_caller]
fn assert_failure(mirror: &Mirror, part: &str) {
    assert!(mirror.failure.as_deref().is_some_and(|failure| failure.contains(part)), "{mirror:?}");
}

/// Loads all tensors of [`LARGE`] and compares them.
async fn load_all(loader: &HttpLoader) {
    for number in 0..4 {
        assert!(load(loader, &format!("t{number}")).await.unwrap() == tensor(number), "t{number}");
    }
}

fn sent(servers: &[&Server]) -> usize {
    servers.iter().map(|server| server.sent()).sum()
}

/// A server whose port is closed.
fn refusing() -> Server {
    let server = Server::new(|request| answer(&FILE, request));
    server.close();
    server
}

fn serving(file: &'static [u8]) -> Server {
    Server::new(|request| answer(file, request))
}

#[test]
fn a_mirror_is_not_asked_while_the_first_address_works() {
    let (first, mirror) = (serving(&FILE), serving(&FILE));
    run(async {
        let loader = open(&first, &[&mirror]).await.unwrap();
        assert_loads(load(&loader, "second").await, "second");
        let report = report(&loader);
        assert_eq!((report[0].byte_length as usize, report[0].failure.clone()), (first.sent(), None));
        assert_eq!((report[1].byte_length, report[1].failure.clone()), (0, None));
        assert_eq!(report[1].url, mirror.url("/copies/m"));
    });
    assert_eq!(mirror.requests().len(), 0);
}

#[test]
fn a_mirror_replaces_a_first_address_that_refuses_connections_or_the_file() {
    let first = [refusing(), Server::new(|_| Reply::new(404, b"")), Server::new(|_| Reply::new(503, b""))];
    for (first, failure) in first.into_iter().zip(["refused", "404", "503"]) {
        let mirror = serving(&FILE);
        run(async {
            let loader = open(&first, &[&mirror]).await.unwrap();
            assert_loads(load(&loader, "second").await, "second");
            assert_failure(&report(&loader)[0], failure);
        });
    }
}

#[test]
fn an_address_that_stays_silent_costs_one_wait() {
    let (first, mirror) = (Server::new(|request| answer(&LARGE, request).silent()), serving(&LARGE));
    run(async {
        let loader = open(&first, &[&mirror]).await.unwrap();
        load_all(&loader).await;
        assert_failure(&report(&loader)[0], "did not answer");
    });
    assert_eq!(first.requests().len(), 1);
    assert!(mirror.sent() <= LARGE.len() * 102 / 100, "{} bytes", mirror.sent());
}

#[test]
fn a_dead_mirror_does_not_matter_to_a_late_range() {
    let first = Server::new(|request| match request.number {
        1 => answer(&LARGE, request).stall_after(100_000),
        _ => answer(&LARGE, request),
    });
    let (dead, mirror) = (refusing(), serving(&LARGE));
    run(async {
        let loader = open(&first, &[&dead, &mirror]).await.unwrap();
        load_all(&loader).await;
        let report = report(&loader);
        assert_failure(&report[1], "refused");
        assert_eq!((&report[0].failure, &report[2].failure), (&None, &None));
    });
    let received = sent(&[&first, &mirror]);
    assert!(received <= LARGE.len() * 103 / 100, "{received} bytes");
}

#[test]
fn the_rest_of_a_broken_response_comes_from_a_mirror() {
    let first = Server::new(|request| match request.number {
        0 => answer(&LARGE, request),
        _ => answer(&LARGE, request).cut_after(1_000_000),
    });
    let mirror = serving(&LARGE);
    run(async {
        let loader = open(&first, &[&mirror]).await.unwrap();
        load_all(&loader).await;
    });
    let received = sent(&[&first, &mirror]);
    assert!(mirror.sent() > 1_000_000 && received <= LARGE.len() * 102 / 100, "{received} bytes");
}

#[test]
fn bytes_of_a_mirror_with_another_version_are_never_used() {
    let first = Server::new(|request| match request.number {
        1 => answer(&LARGE, request).cut_after(1_000_000),
        _ => answer(&LARGE, request),
    });
    let others = other_weights(&LARGE);
    let (bad, good) = (Server::new(move |request| answer(&others, request)), serving(&LARGE));
    run(async {
        let loader = open(&first, &[&bad, &good]).await.unwrap();
        load_all(&loader).await;
        let report = report(&loader);
        assert_failure(&report[1], "differ");
        assert_eq!(report[2].failure, None);
    });
    assert_eq!(bad.requests().len(), 1, "it is not asked again");
}

#[test]
fn without_another_address_the_error_is_that_of_the_first_one() {
    let first = Server::new(|request| match request.number {
        0 => answer(&FILE, request),
        _ => Reply::new(403, b""),
    });
    let others = other_weights(&FILE);
    let bad = Server::new(move |request| answer(&others, request));
    run(async {
        let loader = open(&first, &[&bad]).await.unwrap();
        let error = load(&loader, "second").await.unwrap_err();
        assert_eq!(error.context.status, Some(403), "{error}");
        let report = report(&loader);
        assert_failure(&report[0], "403");
        assert_failure(&report[1], "differ");
    });
}

#[test]
fn a_new_range_is_taken_from_a_mirror_once_other_bytes_were_compared() {
    let first = Server::new(|request| match request.number {
        0 => answer(&LARGE, request),
        _ => Reply::new(403, b""),
    });
    let mirror = serving(&LARGE);
    run(async {
        let loader = open(&first, &[&mirror]).await.unwrap();
        load_all(&loader).await;
    });
    let compared = mirror.ranges().into_iter().filter(|range| range.end <= 65_536).count();
    assert_eq!(compared, 1, "{:?}", mirror.ranges());
}

#[test]
fn a_mirror_must_have_the_length_of_the_file_and_answer_ranges() {
    type Script = fn(&Request) -> Reply;
    let scripts: [(Script, &str); 4] = [
        (|request| answer(&[&LARGE[..], b"!"].concat(), request), "bytes instead of"),
        (|request| answer(&LARGE[..LARGE.len() - 9], request), "bytes instead of"),
        (|request| answer(&LARGE, request).without("Content-Range"), "not readable"),
        (|_| whole(&LARGE), "ranges"),
    ];
    for (script, failure) in scripts {
        let first = Server::new(|request| match request.number {
            1 => answer(&LARGE, request).cut_after(1_000_000),
            _ => answer(&LARGE, request),
        });
        let bad = Server::new(script);
        run(async {
            let loader = open(&first, &[&bad]).await.unwrap();
            load_all(&loader).await;
            assert_failure(&report(&loader)[1], failure);
        });
    }
}

#[test]
fn etags_of_two_addresses_are_not_compared() {
    let first = Server::new(|request| match request.number {
        2.. => answer(&LARGE, request).cut_after(700_000),
        _ => answer(&LARGE, request),
    });
    let mirror = Server::new(|request| answer(&LARGE, request).with("ETag", "\"another\"").with("Last-Modified", "x"));
    run(async {
        let loader = open(&first, &[&mirror]).await.unwrap();
        load_all(&loader).await;
    });
    assert!(mirror.sent() > 0);
}

#[test]
fn a_mirror_whose_file_changes_is_compared_again() {
    let first = Server::new(|request| match request.number {
        1 | 3 => answer(&LARGE, request).cut_after(1_000_000),
        _ => answer(&LARGE, request),
    });
    let others = other_weights(&LARGE);
    let mirror = Server::new(move |request| match request.number {
        0 => answer(&LARGE, request),
        _ => answer(&others, request).with("ETag", "\"v2\""),
    });
    run(async {
        let loader = open(&first, &[&mirror]).await.unwrap();
        load_all(&loader).await;
        assert!(report(&loader)[1].failure.is_some());
    });
}

#[test]
fn a_first_address_that_changes_during_a_range_fails_as_without_mirrors() {
    let first = Server::new(|request| match request.number {
        0 => answer(&LARGE, request),
        1 => answer(&LARGE, request).cut_after(1_000_000),
        _ => answer(&LARGE, request).with("ETag", "\"v2\""),
    });
    // The mirror breaks, too, so that the rest is requested from the first address again.
    let mirror = Server::new(|request| answer(&LARGE, request).cut_after(200_000));
    run(async {
        let loader = open(&first, &[&mirror]).await.unwrap();
        let error = load(&loader, "t3").await.unwrap_err();
        assert_eq!(error.code(), "CHANGED", "{error}");
    });
}

#[test]
fn a_first_address_without_ranges_can_have_mirrors() {
    let first = Server::new(|_| whole(&LARGE));
    let mirror = refusing();
    run(async {
        let loader = open(&first, &[&mirror]).await.unwrap();
        for number in [3, 1] {
            assert!(load(&loader, &format!("t{number}")).await.unwrap() == tensor(number), "t{number}");
        }
    });
}

/// Of four tensors, the third arrives at a fraction of the speed of the others.
#[test]
fn a_slow_range_is_asked_at_another_address() {
    let first = Server::new(|request| match request.number {
        0..4 => answer(&LARGE, request).over(&Link::new(2)),
        _ => answer(&LARGE, request).slowly(100),
    });
    let mirror = serving(&LARGE);
    run(async {
        let loader = open(&first, &[&mirror]).await.unwrap();
        load_all(&loader).await;
        assert!(report(&loader).iter().all(|mirror| mirror.failure.is_none()));
    });
    assert!(mirror.sent() > 1 << 20, "{} bytes", mirror.sent());
    let received = sent(&[&first, &mirror]);
    assert!(received <= LARGE.len() * 103 / 100 + 65_536, "{received} bytes");
    let slow = first.requests().into_iter().find(|request| request.number == 4).unwrap();
    assert!(slow.sent < 1 << 20, "it is cancelled: {} bytes", slow.sent);
}

#[test]
fn if_every_address_is_slow_little_is_received_twice() {
    let slow = || Server::new(|request| answer(&LARGE, request).slowly(if request.number < 4 { 1 } else { 8 }));
    let (first, mirror) = (slow(), slow());
    run(async {
        let loader = open(&first, &[&mirror]).await.unwrap();
        load_all(&loader).await;
    });
    let received = sent(&[&first, &mirror]);
    assert!(received <= LARGE.len() * 106 / 100, "{received} bytes, with those in buffers");
}

#[test]
fn headers_are_sent_only_to_the_first_origin() {
    let first = Server::new(|_| Reply::new(500, b""));
    let mirror = serving(&FILE);
    run(async { assert_loads(load(&open(&first, &[&mirror]).await.unwrap(), "second").await, "second") });
    assert!(first.requests().iter().all(|request| request.header("authorization") == Some("Bearer s3cret")));
    assert!(mirror.requests().iter().all(|request| request.header("authorization").is_none()));
    let own = Server::new(|request| match request.path.as_str() {
        "/models/m" => Reply::new(500, b""),
        _ => answer(&FILE, request),
    });
    run(async { assert_loads(load(&open(&own, &[&own]).await.unwrap(), "second").await, "second") });
    assert!(own.requests().iter().all(|request| request.header("authorization").is_some()), "the same origin");
}

#[test]
fn same_origin_only_sends_nothing_to_a_mirror_elsewhere() {
    let (first, mirror) = (Server::new(|_| Reply::new(404, b"")), serving(&FILE));
    let source = source(&first, &[&mirror]).same_origin_only();
    let error = run(async { Loader::open(source, options()).await.unwrap_err() });
    assert_eq!(error.context.status, Some(404), "{error}");
    assert_eq!(mirror.requests().len(), 0);
}

#[test]
fn the_files_of_a_model_are_found_relative_to_each_mirror() {
    let shard = Apr::new(vec![Entry::raw("t", 7, &[3], vec![1, 2, 3])]).build();
    let manifest = apr_manifest(&[("a.apr", &shard)], json!({ "t": 0 }));
    let served = manifest.clone();
    let first = Server::new(move |request| match request.path.as_str() {
        "/models/m" => answer(&served, request),
        _ => Reply::new(404, b""),
    });
    let mirror = Server::new(move |request| match request.path.as_str() {
        "/copies/m" => answer(&manifest, request),
        "/copies/a.apr" => answer(&shard, request),
        _ => Reply::new(404, b""),
    });
    run(async {
        let loader = open(&first, &[&mirror]).await.unwrap();
        assert_eq!(load(&loader, "t").await.unwrap(), [1, 2, 3]);
        assert_failure(&report(&loader)[0], "/models/a.apr");
    });
}

#[test]
fn loads_at_the_same_time_wait_for_a_silent_address_together() {
    let first = Server::new(|request| match request.number {
        0 => answer(&LARGE, request),
        _ => answer(&LARGE, request).silent(),
    });
    let mirror = serving(&LARGE);
    let start = Instant::now();
    run(async {
        let loader = open(&first, &[&mirror]).await.unwrap();
        let names = ["t0", "t1", "t2", "t3"];
        let loaded = futures::future::join_all(names.map(|name| load(&loader, name))).await;
        for (number, bytes) in loaded.into_iter().enumerate() {
            assert!(bytes.unwrap() == tensor(number));
        }
    });
    assert!(start.elapsed() < Duration::from_secs(20), "a stall was waited for");
}

#[test]
fn dropping_a_load_cancels_all_of_its_requests() {
    let (first, mirror) = (Server::new(|request| answer(&LARGE, request).silent()), serving(&FILE));
    let dead = Server::new(|request| answer(&LARGE, request).silent());
    run(async {
        let others = [&dead, &mirror];
        let opening = open(&first, &others);
        let timer = tokio::time::sleep(Duration::from_millis(1_300));
        assert!(matches!(
            futures::future::select(Box::pin(opening), Box::pin(timer)).await,
            futures::future::Either::Right(_)
        ));
        tokio::time::sleep(Duration::from_millis(100)).await;
    });
    let requests = [first.requests(), dead.requests()].concat();
    assert!(requests.len() == 2 && requests.iter().all(|request| request.is_abandoned), "{requests:?}");
    assert_eq!(mirror.requests().len(), 0);
}

/// Only bytes beyond those that are compared differ.
#[test]
fn after_a_wrong_digest_only_the_first_address_is_used() {
    let digest = Digest::Sha256(Sha256::digest(tensor(3)).into());
    let is_cut = Arc::new(AtomicBool::new(true));
    let cuts = Arc::clone(&is_cut);
    let first = Server::new(move |request| match request.number {
        0 => answer(&LARGE, request),
        _ if cuts.load(Ordering::Relaxed) => answer(&LARGE, request).cut_after(1_000_000),
        _ => answer(&LARGE, request),
    });
    let mut others = LARGE.clone();
    *others.last_mut().unwrap() ^= 1;
    let mirror = Server::new(move |request| answer(&others, request));
    run(async {
        let pinned = Digests::default().with_tensors([("t3".to_owned(), digest)].into());
        let loader =
            Loader::open(source(&first, &[&mirror]), options().with_digests(pinned)).await.map(Rc::new).unwrap();
        assert_eq!(load(&loader, "t3").await.unwrap_err().code(), "CHECKSUM");
        assert_failure(&report(&loader)[1], "digest");
        is_cut.store(false, Ordering::Relaxed);
        assert!(load(&loader, "t3").await.unwrap() == tensor(3));
    });
}

#[test]
fn a_model_reports_its_addresses() {
    let (first, mirror) = (Server::new(|_| Reply::new(404, b"")), serving(&FILE));
    let options = || OpenOptions::new().mirror(mirror.url("/copies/m"));
    let model = options().open_blocking(first.url("/models/m")).unwrap();
    assert_eq!(model.load("second").unwrap().bytes().unwrap().len(), 300_000);
    let mirrors = model.mirrors().unwrap();
    assert_failure(&mirrors[0], "404");
    assert!(mirrors[1].failure.is_none() && mirrors[1].byte_length >= 300_000);
    let error = options().open_blocking("model.safetensors").unwrap_err();
    assert!(error.code() == "INVALID_ARGUMENT" && error.what.contains("mirrors"), "{error}");
}

#[test]
fn what_is_no_url_cannot_be_a_mirror() {
    for url in ["", "model.apr", "file:///m.apr", "http://user:s3cret@127.0.0.1/m"] {
        let source = HttpSource::new("http://127.0.0.1/m", &[]).unwrap();
        let error = source.with_mirrors([url]).unwrap_err();
        assert_eq!(error.code(), "INVALID_ARGUMENT", "{url}");
        assert!(!error.to_string().contains("s3cret") && error.what.contains("mirror 1"), "{error}");
    }
}
