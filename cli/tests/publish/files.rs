//! Ranges, validators, caching and delivery.

use super::server::{ETAG, model};
use super::{assert_found, finding, report};
use std::sync::atomic::{AtomicU32, Ordering};
use weightstream_publish::check::Severity::{Error, Info, Ok, Warning};

#[test]
fn warns_of_ignored_ranges() {
    assert_found("ranges", Warning, |_, response| {
        if response.status == 206 {
            (response.status, response.body) = (200, model());
            response.remove("content-range");
        }
    });
}

#[test]
fn rejects_a_content_range_that_was_not_requested() {
    assert_found("content-range", Error, |_, response| {
        if response.status == 206 {
            response.set("content-range", "bytes 1-64/1094");
        }
    });
}

#[test]
fn rejects_ranges_of_another_version_than_the_whole_file() {
    assert_found("ranges", Error, |_, response| {
        if response.status == 200 && !response.body.is_empty() {
            response.body[0] ^= 1;
        }
    });
}

#[test]
fn warns_of_compressed_responses() {
    assert_found("compressed-range", Warning, |_, response| {
        if response.status == 206 {
            response.set("content-encoding", "br");
        }
    });
    assert_found("compression", Warning, |_, response| {
        if response.status == 200 {
            response.set("content-encoding", "gzip");
        }
    });
}

#[test]
fn warns_of_missing_weak_and_changing_etags() {
    assert_found("etag", Warning, |_, response| response.remove("etag"));
    assert_found("etag", Warning, |_, response| response.set("etag", &format!("W/{ETAG}")));
    assert_found("etag", Warning, |_, response| {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        response.set("etag", &format!("\"{}\"", NUMBER.fetch_add(1, Ordering::Relaxed)));
    });
}

#[test]
fn warns_of_an_ignored_if_range() {
    assert_found("if-range", Warning, |request, response| {
        if request.headers.contains_key("if-range") {
            (response.status, response.body) = (206, model()[..64].to_vec());
        }
    });
}

#[test]
fn mentions_ignored_conditions_and_rejected_heads() {
    assert_found("not-modified", Info, |_, response| {
        if response.status == 304 {
            response.status = 200;
        }
    });
    assert_found("head", Info, |request, response| {
        if request.method == "HEAD" {
            response.status = 403;
        }
    });
}

#[test]
fn warns_of_a_range_beyond_the_end_that_is_not_416() {
    assert_found("range-beyond-end", Warning, |_, response| {
        if response.status == 416 {
            (response.status, response.body) = (200, model());
        }
    });
}

#[test]
fn rejects_immutable_for_names_without_a_hash() {
    assert_found("cache-control", Error, |_, response| {
        response.set("cache-control", "max-age=31536000, immutable, no-transform");
    });
}

#[test]
fn asks_for_immutable_for_names_with_a_hash() {
    let path = "/model-3f2a9c01.safetensors";
    assert_eq!(finding(&report(path, |_, _| {}), "cache-control").severity, Warning);
    let report = report(path, |_, response| response.set("cache-control", "public, immutable, no-transform"));
    assert_eq!(finding(&report, "cache-control").severity, Ok);
}

#[test]
fn warns_of_no_store_and_mentions_a_missing_no_transform() {
    assert_found("cache-control", Warning, |_, response| response.set("cache-control", "no-store"));
    assert_found("no-transform", Info, |_, response| response.set("cache-control", "no-cache"));
    assert_found("cache-control", Info, |_, response| response.remove("cache-control"));
}

#[test]
fn shows_what_a_cdn_says() {
    let report = report("/model.safetensors", |_, response| {
        response.set("age", "7");
        response.set("x-cache", "HIT");
    });
    assert_eq!(finding(&report, "cdn").seen, "age: 7, x-cache: HIT");
}

#[test]
fn rejects_a_page_in_place_of_the_file() {
    assert_found("content-type", Error, |_, response| response.set("content-type", "text/html; charset=utf-8"));
}

#[test]
fn rejects_a_missing_file() {
    assert_found("status", Error, |_, response| response.status = 404);
    assert_found("model-opens", Error, |_, response| response.status = 404);
}

#[test]
fn warns_of_connections_that_are_not_reused() {
    assert_found("http-version", Warning, |_, response| response.version = "HTTP/1.0");
    assert_found("keep-alive", Warning, |_, response| response.set("connection", "close"));
    assert_found("accept-ranges", Warning, |_, response| response.set("accept-ranges", "none"));
}

#[test]
fn mentions_redirects() {
    let report = report("/old", |request, response| {
        if request.path == "/old" {
            response.status = 302;
            response.set("location", "/model.safetensors");
        }
    });
    assert!(finding(&report, "redirect").seen.ends_with("/model.safetensors"));
    assert_eq!(finding(&report, "redirect").severity, Info);
    assert_eq!(finding(&report, "ranges").severity, Ok);
}
