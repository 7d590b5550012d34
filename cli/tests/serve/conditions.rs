use std::fs::{self, File};
use std::time::{Duration, UNIX_EPOCH};

use weightstream_cli::serve::Server;

use crate::client::Client;
use crate::{Site, write};

const BEFORE: &str = "Tue, 13 Nov 2001 22:13:20 GMT";
const DATE: &str = "Wed, 14 Nov 2001 22:13:20 GMT";
const AFTER: &str = "Thu, 15 Nov 2001 22:13:20 GMT";

/// Serves a file modified half a second after `DATE`, which HTTP dates cannot represent.
fn dated_site() -> Site {
    let site = Site::with(&[("model", b"0123456789")]);
    set_date(&site, Duration::from_millis(1_005_776_000_500));
    site
}

fn set_date(site: &Site, since_1970: Duration) {
    let file = File::options().write(true).open(site.path("model")).unwrap();
    file.set_modified(UNIX_EPOCH + since_1970).unwrap();
}

fn status(site: &Site, headers: &[String]) -> u16 {
    let headers: Vec<_> = headers.iter().map(String::as_str).collect();
    site.ask("GET", "/model", &headers).status
}

fn etag(site: &Site) -> String {
    site.get("/model").header("etag").unwrap().to_owned()
}

#[test]
fn responses_have_a_strong_etag_and_a_date() {
    let site = dated_site();
    let reply = site.get("/model");
    let etag = reply.header("etag").unwrap();
    assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 2, "{etag}");
    assert_eq!(reply.header("last-modified"), Some(DATE));
}

#[test]
fn the_etag_is_the_same_after_a_restart() {
    let site = dated_site();
    let before = etag(&site);
    let again = Server::new().mount("/", site.folder.path()).bind("127.0.0.1:0").unwrap().spawn();
    let after = Client::connect(&again).ask("HEAD", "/model", &[]);
    assert_eq!(after.header("etag"), Some(before.as_str()));
}

#[test]
fn the_etag_changes_with_length_date_or_file() {
    let site = dated_site();
    let mut tags = vec![etag(&site)];
    set_date(&site, Duration::from_millis(1_005_776_000_501));
    tags.push(etag(&site));
    fs::write(site.path("model"), b"01234567890").unwrap();
    set_date(&site, Duration::from_millis(1_005_776_000_501));
    tags.push(etag(&site));
    if cfg!(unix) {
        write(site.folder.path(), "new", b"01234567890");
        fs::rename(site.path("new"), site.path("model")).unwrap();
        set_date(&site, Duration::from_millis(1_005_776_000_501));
        tags.push(etag(&site));
    }
    let count = tags.len();
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), count, "{tags:?}");
}

#[test]
fn answers_304_without_body_if_the_file_matches() {
    let site = dated_site();
    let etag = etag(&site);
    let known = [
        vec![format!("If-None-Match: {etag}")],
        vec![format!("If-None-Match: W/{etag}")],
        vec![format!("If-None-Match: \"other\", {etag}")],
        vec!["If-None-Match: \"other\"".to_owned(), format!("If-None-Match: {etag}")],
        vec!["If-None-Match: *".to_owned()],
        vec![format!("If-Modified-Since: {DATE}")],
        vec![format!("If-Modified-Since: {AFTER}")],
        vec![format!("If-None-Match: {etag}"), format!("If-Modified-Since: {BEFORE}")],
        vec![format!("If-None-Match: {etag}"), "Range: bytes=0-1".to_owned()],
    ];
    for headers in known {
        assert_eq!(status(&site, &headers), 304, "{headers:?}");
    }
    let mut client = site.client();
    let reply = client.ask("GET", "/model", &[&format!("If-None-Match: {etag}")]);
    assert_eq!(reply.header("etag"), Some(etag.as_str()));
    assert_eq!(reply.header("content-length"), None);
    assert_eq!(client.ask("GET", "/model", &[]).text(), "0123456789", "nothing came after the head");
}

#[test]
fn sends_the_file_if_it_does_not_match() {
    let site = dated_site();
    let other = [
        vec!["If-None-Match: \"other\"".to_owned()],
        vec![format!("If-Modified-Since: {BEFORE}")],
        vec!["If-Modified-Since: yesterday".to_owned()],
        // An ETag takes precedence over a date.
        vec!["If-None-Match: \"other\"".to_owned(), format!("If-Modified-Since: {DATE}")],
    ];
    for headers in other {
        assert_eq!(status(&site, &headers), 200, "{headers:?}");
    }
}

#[test]
fn answers_412_if_a_precondition_fails() {
    let site = dated_site();
    let etag = etag(&site);
    let failing = [
        vec!["If-Match: \"other\"".to_owned()],
        vec![format!("If-Match: W/{etag}")],
        vec!["If-Match: \"other\"".to_owned(), "Range: bytes=0-1".to_owned()],
        vec!["If-Match: \"other\"".to_owned(), "Range: bytes=10-".to_owned()],
        vec!["If-Match: \"other\"".to_owned(), format!("If-None-Match: {etag}")],
        vec![format!("If-Unmodified-Since: {BEFORE}")],
    ];
    for headers in failing {
        assert_eq!(status(&site, &headers), 412, "{headers:?}");
    }
    let holding = [
        vec![format!("If-Match: {etag}")],
        vec![format!("If-Match: \"other\", {etag}")],
        vec!["If-Match: *".to_owned()],
        vec![format!("If-Unmodified-Since: {DATE}")],
        // An ETag takes precedence over a date.
        vec![format!("If-Match: {etag}"), format!("If-Unmodified-Since: {BEFORE}")],
    ];
    for headers in holding {
        assert_eq!(status(&site, &headers), 200, "{headers:?}");
    }
}

#[test]
fn if_range_must_match_the_file() {
    let site = dated_site();
    let etag = etag(&site);
    for (condition, expected) in [
        (etag.as_str(), 206),
        (DATE, 206),
        ("\"other\"", 200),
        (&format!("W/{etag}"), 200),
        (BEFORE, 200),
        (AFTER, 200),
    ] {
        let headers = [format!("If-Range: {condition}"), "Range: bytes=2-4".to_owned()];
        assert_eq!(status(&site, &headers), expected, "{condition}");
    }
    // An ignored range cannot be unsatisfiable.
    let headers = ["If-Range: \"other\"".to_owned(), "Range: bytes=10-".to_owned()];
    assert_eq!(status(&site, &headers), 200);
}

#[test]
fn omits_dates_that_http_does_not_allow() {
    let site = dated_site();
    let year_9999 = Duration::from_secs(253_370_764_800);
    set_date(&site, year_9999);
    let reply = site.get("/model");
    assert_eq!((reply.status, reply.header("last-modified")), (200, None));
    assert!(reply.header("etag").is_some());
}
