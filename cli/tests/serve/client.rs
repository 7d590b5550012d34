//! A raw HTTP client that parses responses strictly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use weightstream_cli::serve::Running;

/// Long enough for a busy machine; only a hanging server exceeds it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

/// A response, as far as it was received.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Client {
    pub(crate) fn connect(server: &Running) -> Self {
        let stream = TcpStream::connect(server.url().strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &[&str]) -> Reply {
        self.send(&request(method, path, headers));
        self.reply(method)
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Reads the response to a request with this method, with its complete body.
    pub(crate) fn reply(&mut self, method: &str) -> Reply {
        let mut reply = self.head();
        let byte_length = if method == "HEAD" { 0 } else { reply.content_length() };
        reply.body = self.read(byte_length);
        reply
    }

    pub(crate) fn head(&mut self) -> Reply {
        let line = self.line();
        let status = line.strip_prefix("HTTP/1.1 ").unwrap().get(..3).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else {
                assert_eq!(line, "", "a header or the end of the head");
                return Reply { status, headers, body: Vec::new() };
            };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }

    pub(crate) fn read(&mut self, byte_length: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(byte_length).unwrap()];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads until the server closes or resets the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("{error}"),
            _ => bytes,
        }
    }

    /// Whether the server closed the connection without a reset: after a reset, the client can lose unread bytes.
    pub(crate) fn ends_cleanly(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").unwrap().to_owned()
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(key, _)| key == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} comes twice");
        value
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn content_length(&self) -> u64 {
        self.header("content-length").map_or(0, |value| value.parse().unwrap())
    }
}

pub(crate) fn request(method: &str, path: &str, headers: &[&str]) -> String {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\nHost: weights\r\n{headers}\r\n")
}
