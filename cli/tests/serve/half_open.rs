//! Clients that never finish what they began do not keep others from being answered.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use weightstream_cli::serve::Running;

use crate::client::{Client, request};
use crate::{Site, noise};

/// More than the server has threads for.
const MANY: usize = 320;

/// Far less than any timeout of the server, and enough for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(4);

fn connect(server: &Running) -> TcpStream {
    TcpStream::connect(server.url().strip_prefix("http://").unwrap()).unwrap()
}

/// Connections that have sent this and nothing more.
fn waiting(server: &Running, count: usize, text: &str) -> Vec<TcpStream> {
    let mut streams: Vec<_> = (0..count).map(|_| connect(server)).collect();
    for stream in &mut streams {
        let _ = stream.write_all(text.as_bytes()); // it may have been closed by now
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
fn answers_at_once_beside_half_open_requests() {
    let site = Site::with(&[("a", b"first")]);
    for begun in ["GET /a HTTP/1.1\r\nHost:", "G", ""] {
        let half_open = waiting(&site.server, MANY, begun);
        assert_answers_at_once(&site);
        drop(half_open);
    }
}

#[test]
fn answers_at_once_beside_heads_that_come_byte_by_byte() {
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
fn answers_at_once_beside_idle_connections() {
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
fn half_open_requests_end_no_download_and_no_connection_that_was_answered() {
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
fn clients_that_take_nothing_make_room_in_the_end() {
    let site = Site::with(&[("a", b"first"), ("model", &noise(8 * 1024 * 1024))]);
    let stalled = waiting(&site.server, 256, &request("GET", "/model", &[]));
    // Each of them gets what the buffers of the system hold.
    for mut stream in &stalled {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
    let began = Instant::now();
    assert_eq!(site.get("/a").text(), "first");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[test]
fn stops_at_once_beside_half_open_requests() {
    let mut site = Site::with(&[("a", b"first")]);
    let _half_open = waiting(&site.server, MANY, "GET");
    let began = Instant::now();
    site.server.stop();
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

#[test]
fn a_head_that_never_ends_is_given_up_long_before_a_silent_connection() {
    let site = Site::configured(&[("a", b"first")], |server| server.timeout(Duration::from_secs(120)));
    let mut slow = site.client();
    slow.send("GET /a HTTP/1.1\r\nHost:");
    let began = Instant::now();
    assert_eq!(slow.reply("GET").status, 408);
    assert!((5..25).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

/// Ends the process whatever happens.
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
fn answers_also_where_half_open_requests_take_all_files_of_the_process() {
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
