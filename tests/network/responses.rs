//! Responses that do not match the request.

use super::server::{Reply, Server, answer, limited, whole};
use super::{FILE, open, options, run};
use futures::TryStreamExt;
use std::rc::Rc;
use std::sync::Arc;
use weightstream::ErrorKind;
use weightstream::internals::loader::Loader;
use weightstream::internals::native::Reader;
use weightstream::internals::source::http::HttpSource;
use weightstream::internals::write::{ConvertOptions, convert};

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

/// Raw data has no magic. Some servers send every file as a page, so that the media type alone proves nothing.
#[test]
fn a_text_that_is_sent_as_a_web_page_is_no_raw_data() {
    let graph = Arc::new(std::fs::read("tests/fixtures/foreign_data/model.onnx").unwrap());
    let page = format!("{}{}", " ".repeat(600), "<html>Sign in</html>".repeat(200));
    let weights: Vec<u8> = (0..page.len()).map(|at| (at * 37 % 251) as u8).collect();
    let load = |data: Vec<u8>, media_type: &'static str| {
        let graph = Arc::clone(&graph);
        let server = Server::new(move |request| match request.path.as_str() {
            "/model.onnx" => answer(&graph, request),
            _ => answer(&data, request).with("Content-Type", media_type),
        });
        run(async {
            let tensors = open(&server.url("/model.onnx")).await?.tensors(None, Rc::new(())).await?;
            tensors.try_collect::<Vec<_>>().await.map(|tensors| tensors.len())
        })
    };
    let error = load(page.clone().into_bytes(), "text/html; charset=utf-8").unwrap_err();
    assert!(error.kind == ErrorKind::Unsupported && error.to_string().contains("web page"), "{error}");
    assert!(load(weights, "text/html").unwrap() > 0);
    assert!(load(page.into_bytes(), "application/octet-stream").unwrap() > 0, "spaces are valid weights");
}

/// Old tools compress the whole file, so that it can only be read from its start.
#[test]
fn limited_responses_of_a_compressed_file_are_continued() {
    for name in ["aprender0240_apr1_lz4.apr", "aprender0240_apr1_zstd.apr"] {
        let file = Arc::new(std::fs::read(format!("tests/fixtures/apr_legacy/{name}")).unwrap());
        let load = |limit: usize, has_etag: bool| {
            let served = Arc::clone(&file);
            let server = Server::new(move |request| {
                let reply = answer(&served, &limited(request, limit));
                if has_etag { reply } else { reply.without("ETag") }
            });
            let loader_options = options().with_retry(options().retry.max_attempts(0));
            run(async {
                let loader = Loader::open(HttpSource::new(&server.url("/m.apr"), &[])?, loader_options).await?;
                let tensors = Rc::new(loader).tensors(None, Rc::new(())).await?;
                tensors.map_ok(|tensor| tensor.components[0].buffer.clone()).try_collect::<Vec<_>>().await
            })
        };
        let whole = load(file.len(), true).unwrap();
        assert!(!whole.is_empty());
        for limit in [100, 1000, 4000] {
            assert_eq!(load(limit, true).unwrap(), whole, "{name}, {limit}");
        }
        let error = load(1000, false).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Truncated, "{error}");
        assert!(error.to_string().contains("strong ETag"), "{error}");
    }
}

/// The index of zTensor is read from the end of the file, in a range that is found backwards.
#[test]
fn limited_responses_with_an_index_at_the_end_are_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    convert(&Reader::from_bytes(vec![("m".to_owned(), FILE.clone())]).unwrap(), &path, &ConvertOptions::default(), &())
        .unwrap();
    let file = Arc::new(std::fs::read(&path).unwrap());
    for limit in [4_000, 20_000, 50_000, 300_000] {
        for has_etag in [true, false] {
            let served = Arc::clone(&file);
            let server = Server::new(move |request| {
                let reply = answer(&served, &limited(request, limit));
                if has_etag { reply } else { reply.without("ETag") }
            });
            run(async {
                let loader = open(&server.url("/m.zt")).await;
                let loader =
                    loader.unwrap_or_else(|error| panic!("{limit}, {has_etag}: {error} {:?}", server.ranges()));
                let tensors = loader.tensors(None, Rc::new(())).await.unwrap();
                let tensors = tensors.try_collect::<Vec<_>>().await;
                tensors.unwrap_or_else(|error| panic!("{limit}, {has_etag}: {error} {:?}", server.ranges()));
            });
        }
    }
}
