use crate::client::Reply;
use crate::{Site, noise};

const DIGITS: &[u8] = b"0123456789";

fn range_of(site: &Site, path: &str, range: &str) -> Reply {
    site.ask("GET", path, &[&format!("Range: {range}")])
}

#[test]
fn sends_exactly_the_range_asked_for_up_to_every_edge() {
    let site = Site::with(&[("digits", DIGITS)]);
    let cases = [
        ("bytes=0-0", "0", "0-0"),
        ("bytes=3-5", "345", "3-5"),
        ("bytes=0-9", "0123456789", "0-9"),
        ("bytes=9-9", "9", "9-9"),
        ("bytes=9-10", "9", "9-9"),
        ("bytes=0-99999999999999999999999", "0123456789", "0-9"),
        ("bytes=0-", "0123456789", "0-9"),
        ("bytes=9-", "9", "9-9"),
        ("bytes=-1", "9", "9-9"),
        ("bytes=-10", "0123456789", "0-9"),
        ("bytes=-11", "0123456789", "0-9"),
        ("bytes=-99999999999999999999999", "0123456789", "0-9"),
        ("BYTES=3-5", "345", "3-5"),
    ];
    for (range, body, content_range) in cases {
        let reply = range_of(&site, "/digits", range);
        assert_eq!((reply.status, reply.text()), (206, body), "{range}");
        let content_range = format!("bytes {content_range}/10");
        assert_eq!(reply.header("content-range"), Some(content_range.as_str()), "{range}");
        assert_eq!(reply.header("accept-ranges"), Some("bytes"));
    }
}

#[test]
fn answers_416_with_the_length_to_a_range_beyond_the_end() {
    let site = Site::with(&[("digits", DIGITS)]);
    for range in ["bytes=10-", "bytes=10-10", "bytes=-0", "bytes=99999999999999999999999-"] {
        let reply = range_of(&site, "/digits", range);
        assert_eq!(reply.status, 416, "{range}");
        assert_eq!(reply.header("content-range"), Some("bytes */10"), "{range}");
    }
}

#[test]
fn knows_no_range_of_an_empty_file_but_its_suffix() {
    let site = Site::with(&[("empty", b"")]);
    let whole = site.get("/empty");
    assert_eq!((whole.status, whole.header("content-length")), (200, Some("0")));

    let first = range_of(&site, "/empty", "bytes=0-");
    assert_eq!((first.status, first.header("content-range")), (416, Some("bytes */0")));

    let suffix = range_of(&site, "/empty", "bytes=-5");
    assert_eq!((suffix.status, suffix.header("content-length")), (200, Some("0")));
    assert_eq!(suffix.header("content-range"), None);
}

#[test]
fn ignores_a_range_that_is_malformed_or_in_another_unit() {
    let site = Site::with(&[("digits", DIGITS)]);
    let malformed = [
        "bytes=5-2",
        "bytes=a-b",
        "bytes=-",
        "bytes=3",
        "bytes=",
        "bytes",
        "bytes=--1",
        "bytes=+1-2",
        "bytes=1- 2",
        "items=0-1",
        "3-5",
    ];
    for range in malformed {
        let reply = range_of(&site, "/digits", range);
        assert_eq!((reply.status, reply.body.as_slice()), (200, DIGITS), "{range}");
        assert_eq!(reply.header("content-range"), None, "{range}");
    }
}

#[test]
fn answers_several_ranges_with_the_whole_file() {
    let site = Site::with(&[("digits", DIGITS)]);
    let reply = range_of(&site, "/digits", "bytes=0-1,4-5");
    assert_eq!((reply.status, reply.body.as_slice()), (200, DIGITS));
}

#[test]
fn sends_long_ranges_byte_for_byte() {
    let bytes = noise(9 * 1024 * 1024 + 7);
    let site = Site::with(&[("model", &bytes)]);
    assert!(site.get("/model").body == bytes);
    // Around the lengths at which the server changes how it sends.
    for byte_length in [32 * 1024, 32 * 1024 + 1, 4 * 1024 * 1024, 4 * 1024 * 1024 + 1, 9 * 1024 * 1024] {
        let reply = range_of(&site, "/model", &format!("bytes=5-{}", 5 + byte_length - 1));
        assert_eq!(reply.status, 206);
        assert!(reply.body == bytes[5..5 + byte_length], "{byte_length} bytes");
    }
}

#[test]
fn answers_head_as_get_but_without_body_or_range() {
    let site = Site::with(&[("digits", DIGITS)]);
    let mut client = site.client();
    let got = client.ask("GET", "/digits", &[]);
    let head = client.ask("HEAD", "/digits", &["Range: bytes=3-5"]);
    assert_eq!(head.status, 200);
    for name in ["content-length", "content-type", "etag", "last-modified", "accept-ranges"] {
        assert!(head.header(name).is_some(), "{name}");
        assert_eq!(head.header(name), got.header(name));
    }
    assert_eq!(client.ask("HEAD", "/nowhere", &[]).status, 404);
    // Had a body come with either, it would be read as the start of this.
    assert_eq!(client.ask("GET", "/digits", &[]).body, DIGITS);
}
