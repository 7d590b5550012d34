//! To which URLs the headers of the caller are sent.

use super::bytes::{Apr, Entry, apr_manifest};
use super::server::{Reply, Server, answer, whole};
use super::{FILE, assert_loads, corpus, load, options, run};
use serde_json::json;
use std::fs;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::OnceLock;
use weightstream::internals::loader::Loader;
use weightstream::internals::source::http::HttpSource;
use weightstream::{Error, ErrorKind};

fn source(url: &str) -> HttpSource {
    let headers = [("Authorization", "Bearer s3cret"), ("X-Api-Key", "s3cret")];
    HttpSource::new(url, &headers.map(|(name, value)| (name.to_owned(), value.to_owned()))).unwrap()
}

async fn open(url: &str) -> Result<Rc<Loader<HttpSource>>, Error> {
    Loader::open(source(url), options()).await.map(Rc::new)
}

/// The requested paths, and whether the requests had the credentials.
fn requested(server: &Server) -> Vec<(String, bool)> {
    let of_request = |request: super::server::Request| {
        let credentials = [request.header("authorization"), request.header("x-api-key")];
        assert!(credentials[0].is_some() == credentials[1].is_some());
        (request.path.clone(), credentials[0] == Some("Bearer s3cret"))
    };
    let mut paths: Vec<_> = server.requests().into_iter().map(of_request).collect();
    paths.dedup();
    paths
}

fn path(path: &str, has_credentials: bool) -> (String, bool) {
    (path.to_owned(), has_credentials)
}

#[test]
fn headers_are_not_sent_to_other_origins() {
    let other = Server::new(|request| answer(&FILE, request));
    let target = other.url("/signed?sig=1");
    let server = Server::new(move |_| Reply::new(302, b"").with("Location", &target));
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        assert_loads(load(&loader, "second").await, "second");
    });
    assert_eq!(requested(&server), [path("/m", true)]);
    assert_eq!(requested(&other), [path("/signed?sig=1", false)]);
    assert_eq!(server.requests().len(), 2, "signed URLs expire, so each request must follow the redirect again");
}

#[test]
fn headers_are_not_sent_after_a_redirect_through_another_origin() {
    let back: Arc<OnceLock<String>> = Arc::default();
    let target = Arc::clone(&back);
    let other = Server::new(move |_| Reply::new(307, b"").with("Location", target.get().unwrap()));
    let away = other.url("/away");
    let server = Server::new(move |request| match request.path.as_str() {
        "/m" => Reply::new(301, b"").with("Location", "/moved"),
        "/moved" => Reply::new(308, b"").with("Location", &away),
        _ => answer(&FILE, request),
    });
    back.set(server.url("/chosen/by/others")).unwrap();
    run(async { open(&server.url("/m")).await.unwrap() });
    assert_eq!(requested(&server), [path("/m", true), path("/moved", true), path("/chosen/by/others", false)]);
}

#[test]
fn headers_are_sent_for_files_with_relative_paths() {
    let shard = Apr::new(vec![Entry::raw("t", 7, &[3], vec![1, 2, 3])]).build();
    let manifest = apr_manifest(&[("a b?.apr", &shard)], json!({ "t": 0 }));
    let server = Server::new(move |request| match request.path.as_str() {
        "/folder/m.apr" => answer(&manifest, request),
        _ => answer(&shard, request),
    });
    run(async {
        let loader = open(&server.url("/folder/m.apr")).await.unwrap();
        assert_eq!(load(&loader, "t").await.unwrap(), [1, 2, 3]);
    });
    assert_eq!(requested(&server), [path("/folder/m.apr", true), path("/folder/a%20b%3F.apr", true)]);
}

#[test]
fn headers_are_not_sent_to_absolute_urls_of_a_manifest() {
    let folder = corpus::root().join("aero/set");
    let own_url: Arc<OnceLock<String>> = Arc::default();
    let base = Arc::clone(&own_url);
    let server = Server::new(move |request| {
        let name = request.path.rsplit('/').next().unwrap();
        let file = fs::read(folder.join(name)).unwrap();
        if request.path != "/set/model.v02.aeroset.json" {
            return answer(&file, request);
        }
        let text = String::from_utf8(file).unwrap().replace("http://127.0.0.1:0/models/x", base.get().unwrap());
        answer(text.as_bytes(), request)
    });
    own_url.set(server.url("/elsewhere")).unwrap();
    run(async {
        let loader = open(&server.url("/set/model.v02.aeroset.json")).await.unwrap();
        assert_eq!(loader.load_index().await.unwrap().len(), 7);
    });
    let requested = requested(&server);
    assert_eq!(requested[0], path("/set/model.v02.aeroset.json", true));
    assert!(requested.len() > 3);
    let is_expected = |(path, has_credentials): &(String, bool)| path.starts_with("/elsewhere/") && !has_credentials;
    assert!(requested[1..].iter().all(is_expected), "{requested:?}");
}

#[test]
fn a_manifest_cannot_name_files_outside_its_folder() {
    for name in ["../secret.apr", "/secret.apr", "//127.0.0.1/x.apr", "file:///etc/passwd", "a\\..\\b.apr", "a/../../b"]
    {
        let shard = Apr::new(vec![Entry::raw("t", 7, &[1], vec![1])]).build();
        let manifest = apr_manifest(&[(name, &shard)], json!({ "t": 0 }));
        let server = Server::new(move |request| answer(&manifest, request));
        run(async {
            let outcome = open(&server.url("/folder/m.apr")).await;
            let outcome = match outcome {
                Ok(loader) => load(&loader, "t").await.map(drop),
                Err(error) => Err(error),
            };
            assert!(outcome.is_err(), "{name}");
        });
        assert!(server.requests().iter().all(|request| request.path.starts_with("/folder/")), "{name}");
    }
}

#[test]
fn errors_do_not_contain_headers() {
    let server = Server::new(|_| Reply::new(403, b"s3cret"));
    let error = run(async { open(&server.url("/m")).await.unwrap_err() });
    let shown = format!("{error} {error:?} {:?}", source(&server.url("/m")));
    assert!(!shown.contains("s3cret"), "{shown}");
    for (name, value) in [("X-Key", "s3cret\n"), ("s3cret value", "x"), ("", "s3cret")] {
        let error = HttpSource::new(&server.url("/m"), &[(name.to_owned(), value.to_owned())]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        assert!(!format!("{error:?}").contains("s3cret"), "{error}");
    }
}

#[test]
fn invalid_urls_and_urls_with_credentials_are_rejected() {
    for url in
        ["", "model.apr", "file:///m.apr", "http://", "data:,x", "http://user:s3cret@127.0.0.1/m", "http://s3cret@h/"]
    {
        let error = HttpSource::new(url, &[]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{url}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}

#[test]
fn invalid_and_cyclic_redirects_fail() {
    for location in ["/m", "file:///etc/passwd", "http://"] {
        let server = Server::new(move |_| Reply::new(302, b"").with("Location", location));
        let error = run(async { open(&server.url("/m")).await.unwrap_err() });
        assert_eq!(error.kind, ErrorKind::Http, "{location}: {error}");
        assert!(server.requests().len() < 30);
    }
    let server = Server::new(|_| whole(&FILE));
    assert!(run(open(&server.url("/m"))).is_ok());
}

fn same_origin(url: &str) -> Result<Rc<Loader<HttpSource>>, Error> {
    run(Loader::open(source(url).same_origin_only(), options())).map(Rc::new)
}

#[track_caller]
fn assert_rejected(outcome: Result<Rc<Loader<HttpSource>>, Error>, other: &str) {
    let error = outcome.err().unwrap();
    assert_eq!(error.kind, ErrorKind::Http, "{error}");
    assert!(error.what.contains(other) && error.what.contains("allowed"), "{error}");
}

#[test]
fn same_origin_follows_no_redirect_to_another_host() {
    let other = Server::new(|request| answer(&FILE, request));
    let (target, redirected) = (other.url("/m?sig=s3cret"), other.url("/m"));
    let server = Server::new(move |request| match request.path.as_str() {
        "/own" => Reply::new(302, b"").with("Location", "/there"),
        "/there" => answer(&FILE, request),
        "/far" => Reply::new(302, b"").with("Location", "/away"),
        _ => Reply::new(307, b"").with("Location", &target),
    });
    assert!(same_origin(&server.url("/own")).is_ok());
    for path in ["/away", "/far"] {
        let outcome = same_origin(&server.url(path));
        assert!(!outcome.as_ref().is_err_and(|error| error.to_string().contains("s3cret")));
        assert_rejected(outcome, &redirected);
    }
    assert_eq!(other.requests().len(), 0);
}

#[test]
fn same_origin_requests_no_files_of_a_manifest_from_another_host() {
    let folder = corpus::root().join("aero/set");
    let other = Server::new(|_| Reply::new(404, b""));
    let (own_url, base): (Arc<OnceLock<String>>, Arc<OnceLock<String>>) = Default::default();
    let urls = (Arc::clone(&own_url), Arc::clone(&base));
    let server = Server::new(move |request| {
        let file = fs::read(folder.join(request.path.rsplit('/').next().unwrap())).unwrap();
        let base = if request.path.starts_with("/other/") { &urls.1 } else { &urls.0 };
        match String::from_utf8(file) {
            Ok(text) => answer(text.replace("http://127.0.0.1:0/models/x", base.get().unwrap()).as_bytes(), request),
            Err(binary) => answer(binary.as_bytes(), request),
        }
    });
    own_url.set(server.url("/set")).unwrap();
    base.set(other.url("/set")).unwrap();
    run(async {
        let source = source(&server.url("/set/model.v02.aeroset.json")).same_origin_only();
        let loader = Loader::open(source, options()).await.map(Rc::new).unwrap();
        assert_eq!(loader.load_index().await.unwrap().len(), 7);
    });
    assert_rejected(same_origin(&server.url("/other/model.v02.aeroset.json")), &other.url(""));
    assert_eq!(other.requests().len(), 0);
}
