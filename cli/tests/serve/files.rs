use std::fs::{self, File};
use std::sync::mpsc;
use std::time::Duration;

use weightstream_cli::serve::Server;

use crate::client::{Client, PATIENCE, request};
use crate::{Site, noise, write};

/// More bytes than the buffers of a loopback connection, so that the server is still sending when the client has
/// received the head.
const LONG_BYTES: usize = 64 * 1024 * 1024;

#[test]
fn responses_have_the_content_type_that_browsers_need() {
    let types = [
        ("index.html", "text/html; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.mjs", "text/javascript; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.json", "application/json"),
        ("a.wasm", "application/wasm"),
        ("a.svg", "image/svg+xml"),
        ("a.PNG", "image/png"),
        ("a.txt", "text/plain; charset=utf-8"),
        ("a.md", "text/markdown; charset=utf-8"),
        ("a.safetensors", "application/octet-stream"),
        ("none", "application/octet-stream"),
    ];
    let site = Site::with(&types.map(|(name, _)| (name, name.as_bytes())));
    for (name, expected) in types {
        let reply = site.get(&format!("/{name}"));
        assert_eq!(reply.header("content-type"), Some(expected), "{name}");
        assert_eq!(reply.text(), name);
    }
}

#[test]
fn all_responses_have_cors_headers() {
    let site = Site::with(&[("model", b"0123456789")]);
    let etag = site.get("/model").header("etag").unwrap().to_owned();
    let requests: [(&str, &str, &str, u16); 8] = [
        ("GET", "/model", "Range: bytes=0-1", 206),
        ("GET", "/model", "Range: bytes=10-", 416),
        ("GET", "/model", "If-Match: \"other\"", 412),
        ("GET", "/model", &format!("If-None-Match: {etag}"), 304),
        ("GET", "/nowhere", "Origin: null", 404),
        ("OPTIONS", "/model", "Origin: null", 204),
        ("DELETE", "/model", "Origin: null", 405),
        ("GET", "/model", "Host: twice", 400),
    ];
    for (method, path, header, status) in requests {
        let reply = site.ask(method, path, &[header]);
        assert_eq!(reply.status, status, "{method} {path} {header}");
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        assert_eq!(reply.header("cross-origin-resource-policy"), Some("cross-origin"));
        assert_eq!(reply.header("timing-allow-origin"), Some("*"));
        assert_eq!(reply.header("cache-control"), Some("no-cache"));
        let exposed = reply.header("access-control-expose-headers").unwrap();
        for name in ["Content-Range", "Content-Length", "ETag", "Accept-Ranges", "Last-Modified", "Content-Encoding"] {
            assert!(exposed.split(", ").any(|header| header == name), "{name}");
        }
        assert_eq!(reply.header("cross-origin-opener-policy"), None);
    }
}

#[test]
fn preflights_allow_the_requested_headers() {
    let site = Site::with(&[]);
    let asked = [
        "Origin: https://app.example",
        "Access-Control-Request-Method: GET",
        "Access-Control-Request-Headers: authorization, range",
    ];
    for path in ["/model", "*"] {
        let reply = site.ask("OPTIONS", path, &asked);
        assert_eq!(reply.status, 204);
        assert_eq!(reply.header("access-control-allow-headers"), Some("authorization, range"));
        assert_eq!(reply.header("access-control-allow-methods"), Some("GET, HEAD, OPTIONS"));
        assert!(reply.header("access-control-max-age").unwrap().parse::<u32>().unwrap() > 0);
        assert_eq!(reply.header("content-length"), None);
    }
}

#[test]
fn isolates_pages_if_configured() {
    let site = Site::configured(&[("index.html", b"")], |server| server.isolated(true));
    for path in ["/", "/nowhere"] {
        let reply = site.get(path);
        assert_eq!(reply.header("cross-origin-opener-policy"), Some("same-origin"));
        assert_eq!(reply.header("cross-origin-embedder-policy"), Some("require-corp"));
    }
}

#[test]
fn rejects_methods_other_than_get_head_and_options() {
    let site = Site::with(&[("model", b"weights")]);
    for method in ["PUT", "POST", "DELETE", "PATCH", "TRACE", "get"] {
        let reply = site.ask(method, "/model", &[]);
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD, OPTIONS")), "{method}");
    }
}

#[cfg(unix)]
#[test]
fn never_mixes_a_file_with_its_replacement() {
    let old = noise(LONG_BYTES);
    let site = Site::with(&[("model", &old)]);
    let mut client = site.client();
    client.send(&request("GET", "/model", &[]));
    assert_eq!(client.head().content_length(), LONG_BYTES as u64);
    write(site.folder.path(), "new", b"new");
    fs::rename(site.path("new"), site.path("model")).unwrap();
    assert!(client.read(LONG_BYTES as u64) == old);
    assert_eq!(client.ask("GET", "/model", &[]).text(), "new");
}

#[test]
fn closes_the_connection_if_a_file_is_truncated() {
    let site = Site::with(&[("model", &noise(LONG_BYTES))]);
    let mut client = site.client();
    client.send(&request("GET", "/model", &[]));
    assert_eq!(client.head().content_length(), LONG_BYTES as u64);
    File::options().write(true).open(site.path("model")).unwrap().set_len(1024).unwrap();
    assert!(client.rest().len() < LONG_BYTES);
}

#[test]
fn survives_a_client_that_disconnects() {
    let site = Site::with(&[("model", &noise(LONG_BYTES))]);
    for _ in 0..4 {
        let mut client = site.client();
        client.send(&request("GET", "/model", &[]));
        assert_eq!(client.head().status, 200);
        client.read(1000);
    }
    assert_eq!(site.ask("GET", "/model", &["Range: bytes=0-9"]).status, 206);
}

#[test]
fn times_out_a_client_that_stops_reading() {
    let (sender, exchanges) = mpsc::channel();
    let site = Site::configured(&[("model", &noise(LONG_BYTES))], |server| {
        server.timeout(Duration::from_millis(50)).on_request(move |exchange| sender.send(exchange.clone()).unwrap())
    });
    let mut client = site.client();
    client.send(&request("GET", "/model", &[]));
    assert_eq!(client.head().status, 200);
    let exchange = exchanges.recv_timeout(PATIENCE).unwrap();
    assert!(exchange.bytes_sent < LONG_BYTES as u64);
}

#[test]
fn counts_requests_and_bytes_and_reports_each() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "model", &noise(100_000));
    let (sender, exchanges) = mpsc::channel();
    let server =
        Server::new().mount("/", folder.path()).on_request(move |exchange| sender.send(exchange.clone()).unwrap());
    let mut server = server.bind("127.0.0.1:0").unwrap().spawn();
    let mut client = Client::connect(&server);
    client.ask("GET", "/model?v=1", &["Range: bytes=10-99"]);
    client.ask("GET", "/model", &[]);
    client.ask("HEAD", "/model", &[]);
    client.ask("GET", "/model", &["If-None-Match: *"]);
    server.stop();
    assert_eq!((server.requests(), server.bytes_sent()), (4, 100_090));

    let seen: Vec<_> =
        exchanges.try_iter().map(|it| (it.method, it.path, it.range, it.status, it.bytes_sent)).collect();
    let model = || "/model".to_owned();
    let expected = [
        ("GET".to_owned(), model(), Some("bytes=10-99".to_owned()), 206, 90),
        ("GET".to_owned(), model(), None, 200, 100_000),
        ("HEAD".to_owned(), model(), None, 200, 0),
        ("GET".to_owned(), model(), None, 304, 0),
    ];
    assert_eq!(seen, expected);
}
