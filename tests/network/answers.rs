//! Answers that are not what was asked for.

use super::server::{Reply, Server, answer, whole};
use super::{FILE, assert_loads, load, open, place_of, run};
use weightstream::error::ErrorKind;

#[test]
fn one_request_opens_a_model() {
    let server = Server::new(|request| answer(&FILE, request));
    run(async { assert_eq!(open(&server.url("/m")).await.unwrap().load_index().await.unwrap().len(), 4) });
    assert_eq!(server.ranges(), [0..65_536]);
}

#[test]
fn refuses_a_206_for_another_range() {
    let lies: [fn(&mut std::ops::Range<usize>); 4] = [
        |range| *range = range.start + 1..range.end + 1,
        |range| range.end += 1, // an inclusive end taken for an exclusive one
        |range| range.end -= 1,
        |range| *range = 0..range.end - range.start,
    ];
    for lie in lies {
        let server = Server::new(move |request| {
            let mut lying = request.clone();
            if request.number > 0 {
                lying.range.as_mut().map(lie);
            }
            answer(&FILE, &lying)
        });
        run(async {
            let loader = open(&server.url("/m")).await.unwrap();
            let error = load(&loader, "second").await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::RangeUnsupported, "{error}");
            assert_eq!(error.place.tensor.as_deref(), Some("second"));
        });
        assert_eq!(server.requests().len(), 2, "asking again would not help");
    }
}

#[test]
fn refuses_a_206_whose_length_is_not_that_of_its_range() {
    let server = Server::new(|request| match request.number {
        0 => answer(&FILE, request),
        _ => answer(&FILE, request).with("Content-Range", &format!("bytes 0-9/{}", FILE.len())),
    });
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        assert_eq!(load(&loader, "second").await.unwrap_err().kind, ErrorKind::RangeUnsupported);
    });
}

#[test]
fn a_206_that_does_not_state_its_range_is_taken_by_its_length() {
    let server = Server::new(|request| answer(&FILE, request).without("Content-Range"));
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        for name in ["fourth", "second", "third"] {
            assert_loads(load(&loader, name).await, name);
        }
    });
}

#[test]
fn asks_for_bytes_as_they_are() {
    let server = Server::new(|request| answer(&FILE, request));
    run(async { open(&server.url("/m")).await.unwrap() });
    assert_eq!(server.requests()[0].header("accept-encoding"), Some("identity"));
}

#[test]
fn an_encoded_range_is_fetched_again_as_a_whole() {
    let server = Server::new(|request| match request.range {
        Some(_) => answer(&FILE, request).with("Content-Encoding", "gzip"),
        None => answer(&FILE, request),
    });
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        assert_loads(load(&loader, "second").await, "second");
    });
    assert_eq!(server.requests()[1].range, None);
}

#[test]
fn a_file_that_only_comes_encoded_is_refused() {
    let server = Server::new(|_| whole(&FILE).with("Content-Encoding", "gzip"));
    let error = run(async { open(&server.url("/m")).await.unwrap_err() });
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    assert!(error.what.contains("gzip"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

const PORTAL: &[u8] = b"<!DOCTYPE html><html><title>Welcome to the hotel's Wi-Fi</title>";

#[test]
fn an_error_page_with_status_200_is_no_model() {
    let server = Server::new(|_| Reply::new(200, PORTAL).with("Content-Type", "text/html"));
    let error = run(async { open(&server.url("/m")).await.unwrap_err() });
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("web page"), "{error}");
}

/// It has neither a validator nor a length that would give it away, and is longer than what is wanted of the file.
#[test]
fn an_error_page_in_the_middle_is_never_taken_for_bytes_of_the_file() {
    let server = Server::new(|request| match request.number {
        0 => answer(&FILE, request),
        _ => Reply::new(200, &PORTAL.repeat(50_000)).chunked(),
    });
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        let error = load(&loader, "second").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Changed, "{error}");
    });
    assert!(place_of("second").end < PORTAL.len() * 50_000);
}

#[test]
fn an_empty_file_is_told_as_one() {
    let server = Server::new(|request| answer(b"", request));
    let error = run(async { open(&server.url("/m")).await.unwrap_err() });
    assert_eq!((error.kind, error.place.status), (ErrorKind::Truncated, Some(416)));
}
