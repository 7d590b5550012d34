//! Clients that never finish their requests do not block other clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use weightstream_cli::serve::Running;

use crate::client::{Client, request};
use crate::{Site, noise};

/// More connections than the server's limit.
const MANY: usize = 320;

/// Far less than any timeout of the server, and enough for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(4);

fn connect(server: &Running) -> TcpStream {
    TcpStream::connect(server.url().strip_prefix("http://").unwrap()).unwrap()
}

/// Opens connections that send only this text.
fn waiting(server: &Running, count: usize, text: &str) -> Vec<TcpStream> {
    let mut streams: Vec<_> = (0..count).map(|_| connect(server)).collect();
    for stream in &mut streams {
        let _ = stream.write_all(text.as_bytes()); // the connection may already be closed
    }
    streams
}

fn assert_answers_at_once(site: &Site) {
    for _ in 0..3 {
        let began = Instant::now();
        assert_eq!(site.get("/a").text(), "first");
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    }
}

#[test]
fn answers_immediately_despite_half_open_requests() {
    let site = Site::with(&[("a", b"first")]);
    for begun in ["GET /a HTTP/1.1\r\nHost:", "G", ""] {
        let half_open = waiting(&site.server, MANY, begun);
        assert_answers_at_once(&site);
        drop(half_open);
    }
}

#[test]
fn answers_immediately_despite_heads_that_arrive_byte_by_byte() {
    let site = Site::with(&[("a", b"first")]);
    let mut slow = waiting(&site.server, MANY, "GET /a HTTP/1.1\r\nX: ");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..5 {
                slow.iter_mut().for_each(|stream| drop(stream.write_all(b"x")));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        assert_answers_at_once(&site);
        writer.join().unwrap();
    });
}

#[test]
fn answers_immediately_despite_idle_connections() {
    let site = Site::with(&[("a", b"first")]);
    let mut idle: Vec<Client> = Vec::new();
    for _ in 0..MANY {
        let mut client = site.client();
        assert_eq!(client.ask("GET", "/a", &[]).text(), "first");
        idle.push(client);
    }
    assert_answers_at_once(&site);
}

#[test]
fn half_open_requests_do_not_evict_downloads_or_answered_connections() {
    let bytes = noise(32 * 1024 * 1024);
    let site = Site::with(&[("a", b"first"), ("model", &bytes)]);
    let mut idle = site.client();
    assert_eq!(idle.ask("GET", "/a", &[]).text(), "first");
    let mut busy = site.client();
    busy.send(&request("GET", "/model", &[]));
    let promised = busy.head().content_length();
    let _half_open = waiting(&site.server, MANY, "GET /a HTTP/1.1\r\n");
    assert_answers_at_once(&site);
    assert!(busy.read(promised) == bytes);
    assert_eq!(idle.ask("GET", "/a", &[]).text(), "first");
}

#[test]
fn stalled_clients_are_evicted_eventually() {
    let site = Site::with(&[("a", b"first"), ("model", &noise(8 * 1024 * 1024))]);
    let stalled = waiting(&site.server, 256, &request("GET", "/model", &[]));
    // Each client receives only what the system buffers.
    for mut stream in &stalled {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
    let began = Instant::now();
    assert_eq!(site.get("/a").text(), "first");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[test]
fn stops_immediately_despite_half_open_requests() {
    let mut site = Site::with(&[("a", b"first")]);
    let _half_open = waiting(&site.server, MANY, "GET");
    let began = Instant::now();
    site.server.stop();
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

#[test]
fn an_incomplete_head_times_out_long_before_an_idle_connection() {
    let site = Site::configured(&[("a", b"first")], |server| server.timeout(Duration::from_secs(120)));
    let mut slow = site.client();
    slow.send("GET /a HTTP/1.1\r\nHost:");
    let began = Instant::now();
    assert_eq!(slow.reply("GET").status, 408);
    assert!((5..25).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

/// Kills the process when dropped.
#[cfg(unix)]
struct Process(std::process::Child);

#[cfg(unix)]
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(unix)]
#[test]
fn answers_even_if_half_open_requests_exhaust_the_file_descriptors() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), b"first").unwrap();
    let script = format!("ulimit -n 64 && exec '{}' serve . --port 0", env!("CARGO_BIN_EXE_weightstream"));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(folder.path()).stdout(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap().split(' ').next().unwrap();
    let connect = || TcpStream::connect(address).unwrap();
    let mut half_open: Vec<_> = (0..120).map(|_| connect()).collect();
    half_open.iter_mut().for_each(|stream| drop(stream.write_all(b"GET /")));
    for _ in 0..3 {
        let began = Instant::now();
        let mut stream = connect();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request("GET", "/a", &["Connection: close"]).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("first"), "{answer}");
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    }
}
