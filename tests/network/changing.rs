//! Files that change under the load, and servers that tell little of which version they send.
#![allow(non_snake_case, reason = "CHANGED is how the error is spelled")]

use super::server::{Reply, Server, answer, whole};
use super::{FILE, assert_loads, load, open, run};
use weightstream::error::{Error, ErrorKind};

/// Loads a tensor that the server cuts after some bytes, and what comes then is of another version.
fn load_while_it_changes(change: impl Fn(Reply) -> Reply + Send + Sync + 'static, first: fn(Reply) -> Reply) -> Error {
    let server = Server::new(move |request| match request.number {
        0 => first(answer(&FILE, request)),
        1 => first(answer(&FILE, request)).cut_after(50_000),
        _ => change(answer(&FILE, request)),
    });
    let error = run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        load(&loader, "second").await.unwrap_err()
    });
    assert_eq!(server.requests().len(), 3, "it was noticed at once: {error}");
    assert_eq!(error.place.url, Some(server.url("/m")));
    error
}

#[test]
fn a_file_that_changes_is_CHANGED_and_never_a_mixture() {
    let other_etag = load_while_it_changes(|reply| reply.with("ETag", "\"v2\""), |reply| reply);
    assert_eq!(other_etag.kind, ErrorKind::Changed, "{other_etag}");

    let dated = |reply: Reply, day: u8| {
        reply.without("ETag").with("Last-Modified", &format!("Fri, {day:02} Nov 2026 00:00:00 GMT"))
    };
    let other_date = load_while_it_changes(
        move |reply| dated(reply, 20),
        |reply| reply.without("ETag").with("Last-Modified", "Fri, 13 Nov 2026 00:00:00 GMT"),
    );
    assert_eq!(other_date.kind, ErrorKind::Changed, "{other_date}");
}

#[test]
fn a_file_of_another_length_is_CHANGED() {
    let server = Server::new(move |request| match request.number {
        0 => answer(&FILE, request).without("ETag"),
        _ => answer(&[&FILE[..], b"more"].concat(), request).without("ETag"),
    });
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        assert_eq!(load(&loader, "second").await.unwrap_err().kind, ErrorKind::Changed);
    });
}

#[test]
fn a_version_that_is_told_late_counts_from_then_on() {
    let server = Server::new(move |request| match request.number {
        0 => answer(&FILE, request).without("ETag"),
        number => answer(&FILE, request).with("ETag", &format!("\"v{number}\"")),
    });
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        assert_loads(load(&loader, "second").await, "second");
        assert_eq!(load(&loader, "fourth").await.unwrap_err().kind, ErrorKind::Changed);
    });
}

/// The head is of one version and the whole body of another, which no header tells.
#[test]
fn a_whole_body_that_begins_otherwise_is_CHANGED() {
    let mut other = FILE.clone();
    other[60_000] ^= 1;
    let server = Server::new(move |request| match request.number {
        0 => answer(&FILE, request).without("ETag"),
        _ => whole(&other).without("ETag"),
    });
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        assert_eq!(load(&loader, "second").await.unwrap_err().kind, ErrorKind::Changed);
    });
}

/// Weak ETags differ from server to server of one host and say nothing about bytes.
#[test]
fn weak_or_missing_validators_do_not_hinder() {
    for weak in [true, false] {
        let server = Server::new(move |request| {
            let reply = answer(&FILE, request).cut_after(80_000).without("ETag");
            if weak { reply.with("ETag", &format!("W/\"{}\"", request.number)) } else { reply }
        });
        run(async {
            let loader = open(&server.url("/m")).await.unwrap();
            for name in ["second", "third"] {
                assert_loads(load(&loader, name).await, name);
            }
        });
    }
}
