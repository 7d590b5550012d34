//! Responses that do not match the request.

use super::server::{Reply, Server, answer, whole};
use super::{FILE, open, run};
use weightstream::error::ErrorKind;

#[test]
fn requests_identity_encoding() {
    let server = Server::new(|request| answer(&FILE, request));
    run(async { open(&server.url("/m")).await.unwrap() });
    assert_eq!(server.requests()[0].header("accept-encoding"), Some("identity"));
}

#[test]
fn a_content_encoding_is_rejected() {
    let server = Server::new(|_| whole(&FILE).with("Content-Encoding", "gzip"));
    let error = run(async { open(&server.url("/m")).await.unwrap_err() });
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    assert!(error.what.contains("gzip"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

const PORTAL: &[u8] = b"<!DOCTYPE html><html><title>Welcome to the hotel's Wi-Fi</title>";

#[test]
fn an_html_response_is_reported_as_a_web_page() {
    let server = Server::new(|_| Reply::new(200, PORTAL).with("Content-Type", "text/html"));
    let error = run(async { open(&server.url("/m")).await.unwrap_err() });
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("web page"), "{error}");
}
