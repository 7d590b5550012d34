//! A server of one file with Range requests, for the tests of both crates.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Starts a server for the rest of the process, and returns its URL without a path. Every path is the file.
pub(crate) fn start(file: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let file = Arc::new(file);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let file = Arc::clone(&file);
            thread::spawn(move || answer(stream, &file));
        }
    });
    format!("http://{address}")
}

/// Answers one request, and closes the connection.
fn answer(mut stream: TcpStream, file: &[u8]) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).map(|line| line.to_ascii_lowercase()).collect();
    let range = lines.iter().find_map(|line| line.strip_prefix("range: bytes=")?.split_once('-'));
    let (status, start, end) = match range {
        Some((start, last)) => {
            let end = last.parse::<usize>().map_or(file.len(), |last| file.len().min(last + 1));
            ("206 Partial Content", start.parse().unwrap(), end)
        }
        None => ("200 OK", 0, file.len()),
    };
    let mut head =
        format!("HTTP/1.1 {status}\r\netag: \"1\"\r\nconnection: close\r\ncontent-length: {}\r\n", end - start);
    if range.is_some() {
        head.push_str(&format!("content-range: bytes {start}-{}/{}\r\n", end - 1, file.len()));
    }
    // A client that has what it needs closes the connection.
    stream.write_all(&[head.as_bytes(), b"\r\n", &file[start..end]].concat()).ok();
}
