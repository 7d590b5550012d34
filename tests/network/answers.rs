//! Answers that are not what was asked for.

use super::server::{Reply, Server, answer, whole};
use super::{FILE, open, run};
use weightstream::error::ErrorKind;

#[test]
fn asks_for_bytes_as_they_are() {
    let server = Server::new(|request| answer(&FILE, request));
    run(async { open(&server.url("/m")).await.unwrap() });
    assert_eq!(server.requests()[0].header("accept-encoding"), Some("identity"));
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
fn an_error_page_is_called_a_web_page() {
    let server = Server::new(|_| Reply::new(200, PORTAL).with("Content-Type", "text/html"));
    let error = run(async { open(&server.url("/m")).await.unwrap_err() });
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("web page"), "{error}");
}
