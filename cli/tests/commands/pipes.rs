//! Commands do not block on pipes and devices in place of files.
#![cfg(unix)]

use super::Folder;
use super::bytes::{Apr, Entry, safetensors};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weightstream::ErrorKind;
use weightstream::internals::native::Reader;
use weightstream_cli::serve;

/// Long enough for a busy machine; blocking on a pipe would take forever.
const PATIENCE: Duration = Duration::from_secs(20);

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors(None, &[("a", "U8", &[1], vec![1])]));
    assert!(Command::new("mkfifo").arg(folder.path("pipe.apr")).status().unwrap().success());
    std::os::unix::fs::symlink("pipe.apr", folder.path("link.apr")).unwrap();
    let shard = Apr::new(vec![Entry::raw("t", 7, &[1], vec![1])]).build();
    folder.write("1.apr", &shard);
    folder.write("set.apr", json!({ "shards": [{ "file": "1.apr" }, { "file": "pipe.apr" }] }).to_string().as_bytes());
    folder
}

/// Runs a command that must fail soon. Returns its standard error.
#[track_caller]
fn fail(folder: &Folder, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
    command.args(arguments).current_dir(folder.0.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{arguments:?} waits");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn no_command_blocks_on_a_pipe() {
    let folder = folder();
    let cases: [&[&str]; 8] = [
        &["inspect", "pipe.apr"],
        &["inspect", "link.apr"],
        &["verify", "pipe.apr"],
        &["verify", "set.apr"],
        &["convert", "pipe.apr", "out.apr"],
        &["convert", "set.apr", "out.apr"],
        &["convert", "m.safetensors", "out.apr", "--metadata", "pipe.apr"],
        &["upgrade", "pipe.apr", "out.apr"],
    ];
    for arguments in cases {
        let error = fail(&folder, arguments);
        assert!(error.starts_with("weightstream: error[INVALID_ARGUMENT]: "), "{arguments:?}: {error}");
        assert!(error.contains(".apr: this is a pipe, not a file"), "{arguments:?}: {error}");
    }
    assert!(!folder.path("out.apr").exists());
}

#[test]
fn devices_and_sockets_are_rejected() {
    let folder = folder();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path("socket")).unwrap();
    for (path, kind) in [("/dev/zero", "a device"), ("socket", "a socket")] {
        for arguments in
            [&["verify", path][..], &["convert", "m.safetensors", "out.apr", "--metadata", path], &["inspect", path]]
        {
            let error = fail(&folder, arguments);
            assert!(error.contains(&format!("{path}: this is {kind}, not a file")), "{error}");
        }
    }
}

#[test]
fn the_reader_rejects_a_pipe() {
    let folder = folder();
    for name in ["pipe.apr", "set.apr"] {
        assert_eq!(Reader::open(folder.path(name)).unwrap_err().kind, ErrorKind::InvalidArgument, "{name}");
    }
}

#[test]
fn the_server_does_not_block_on_a_pipe() {
    let folder = folder();
    let server = serve::Server::new().mount("/", folder.0.path()).bind("127.0.0.1:0").unwrap().spawn();
    for path in ["/pipe.apr", "/link.apr"] {
        let mut stream = TcpStream::connect(server.url().strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    }
}
