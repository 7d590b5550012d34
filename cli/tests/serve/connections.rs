use std::net::TcpStream;
use std::time::Duration;

use weightstream_cli::serve::Server;

use crate::client::{Client, request};
use crate::{Site, noise};

fn site() -> Site {
    Site::with(&[("a", b"first"), ("b", b"second")])
}

#[test]
fn answers_many_requests_on_one_connection() {
    let site = site();
    let mut client = site.client();
    for _ in 0..3 {
        assert_eq!(client.ask("GET", "/a", &[]).text(), "first");
        assert_eq!(client.ask("GET", "/nowhere", &[]).status, 404);
        assert_eq!(client.ask("GET", "/b", &["Range: bytes=3-"]).text(), "ond");
    }
    assert_eq!(site.server.requests(), 9);
}

#[test]
fn answers_pipelined_requests_in_order() {
    let site = site();
    let mut client = site.client();
    client.send(&(request("GET", "/a", &[]) + &request("GET", "/b", &[])));
    assert_eq!(client.reply("GET").text(), "first");
    assert_eq!(client.reply("GET").text(), "second");
    // More pipelined bytes than the maximum length of a head.
    client.send(&request("GET", "/b", &[]).repeat(600));
    for _ in 0..600 {
        assert_eq!(client.reply("GET").text(), "second");
    }
}

#[test]
fn accepts_a_request_that_arrives_byte_by_byte() {
    let site = site();
    let mut client = site.client();
    let text = format!("\r\n{}{}", request("GET", "/a", &["X: y"]), request("GET", "/b", &[]));
    for at in 0..text.len() {
        client.send(&text[at..=at]);
    }
    assert_eq!(client.reply("GET").text(), "first");
    assert_eq!(client.reply("GET").text(), "second");
}

#[test]
fn closes_the_connection_when_asked_to() {
    let site = site();
    for header in ["Connection: close", "Connection: keep-alive, Close"] {
        let mut client = site.client();
        client.send(&(request("GET", "/a", &[header]) + &request("GET", "/b", &[])));
        let reply = client.reply("GET");
        assert_eq!((reply.text(), reply.header("connection")), ("first", Some("close")));
        assert!(client.ends_cleanly());
    }
}

#[test]
fn answers_http_1_0_and_closes() {
    let site = site();
    let mut client = site.client();
    client.send("GET /a HTTP/1.0\r\n\r\n");
    let reply = client.reply("GET");
    assert_eq!((reply.status, reply.text(), reply.header("connection")), (200, "first", Some("close")));
    assert_eq!(client.rest(), b"");
}

#[test]
fn never_parses_a_body_as_the_next_request() {
    let site = site();
    let inner = request("GET", "/b", &[]);
    for header in [format!("Content-Length: {}", inner.len()), "Transfer-Encoding: chunked".to_owned()] {
        let mut client = site.client();
        client.send(&(request("GET", "/a", &[&header]) + &inner));
        let reply = client.reply("GET");
        assert_eq!((reply.text(), reply.header("connection")), ("first", Some("close")));
        assert!(client.ends_cleanly());
    }
}

#[test]
fn rejects_a_head_over_16_kib() {
    let site = site();
    let long = format!("X: {}", "x".repeat(16 * 1024));
    // An endless head with as many headers as fit, and far more bytes than the server reads.
    let endless = "GET /a HTTP/1.1\r\n".to_owned() + &"Y: y\r\n".repeat(60_000);
    for head in [request("GET", "/a", &[&long]), request(&"M".repeat(17_000), "/a", &[]), endless] {
        let mut client = site.client();
        client.send(&head);
        let reply = client.reply("GET");
        assert_eq!((reply.status, reply.header("connection")), (431, Some("close")));
        assert!(client.ends_cleanly());
    }
    let fitting = format!("X: {}", "x".repeat(15 * 1024));
    assert_eq!(site.ask("GET", "/a", &[&fitting]).text(), "first");
}

#[test]
fn rejects_input_that_is_not_http() {
    let site = site();
    let cases = [
        ("\x16\x03\x01\x02 hello over tls\r\n\r\n", 400),
        ("GET /a\r\n\r\n", 400),
        ("GET /a HTTP/1.1\r\n\r\n", 400),
        ("GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET /a HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
        ("GET /a HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ];
    for (text, status) in cases {
        let mut client = site.client();
        client.send(text);
        assert_eq!(client.reply("GET").status, status, "{text:?}");
        assert_eq!(client.rest(), b"", "{text:?}");
    }
}

#[test]
fn closes_idle_connections_and_answers_408_to_slow_ones() {
    let site = Site::configured(&[("a", b"first")], |server| server.timeout(Duration::from_millis(500)));
    assert_eq!(site.client().rest(), b"", "nothing was asked");

    let mut idle = site.client();
    assert_eq!(idle.ask("GET", "/a", &[]).text(), "first");
    assert_eq!(idle.rest(), b"");

    let mut slow = site.client();
    slow.send("GET /a HTTP/1.1\r\nHost:");
    assert_eq!(slow.reply("GET").status, 408);
    assert_eq!(slow.rest(), b"");
}

#[test]
fn serves_many_clients_at_once() {
    let bytes = noise(3_000_000);
    let site = Site::with(&[("model", &bytes)]);
    std::thread::scope(|scope| {
        for part in 0..30 {
            let (site, bytes) = (&site, &bytes);
            scope.spawn(move || {
                let start = part * 100_000;
                let range = format!("Range: bytes={start}-{}", start + 99_999);
                let reply = site.ask("GET", "/model", &[&range]);
                assert!(reply.status == 206 && reply.body == bytes[start..start + 100_000]);
            });
        }
    });
}

#[test]
fn closes_the_port_and_all_connections_when_stopped() {
    let mut site = Site::with(&[("model", &noise(64 * 1024 * 1024))]);
    let mut idle = site.client();
    assert_eq!(idle.ask("HEAD", "/model", &[]).status, 200);
    let mut busy = site.client();
    busy.send(&request("GET", "/model", &[]));
    let promised = busy.head().content_length();
    site.server.stop();
    site.server.stop();
    assert_eq!(idle.rest(), b"");
    assert!((busy.rest().len() as u64) < promised);
    let address = site.server.url().strip_prefix("http://").unwrap().to_owned();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn stops_when_dropped_and_frees_the_port() {
    let server = Server::new().bind("127.0.0.1:0").unwrap().spawn();
    let address = server.url().strip_prefix("http://").unwrap().to_owned();
    let mut idle = Client::connect(&server);
    drop(server);
    assert_eq!(idle.rest(), b"");
    assert!(TcpStream::connect(address).is_err());
}
