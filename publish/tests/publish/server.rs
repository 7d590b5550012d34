//! A web server that keeps the files that are sent with PUT, in memory.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use weightstream::internals::names;

/// A request: the method, the path as it was sent, the values of `Host` and `X-Secret`.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) host: String,
    pub(crate) secret: Option<String>,
    range: Option<(usize, usize)>,
}

/// Changes a file that is sent.
pub(crate) type Change = fn(&str, &mut Vec<u8>);

/// The status and the body with which a request is refused, by its method.
pub(crate) type Refusal = fn(&str) -> Option<(&'static str, &'static str)>;

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: String,
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    requests: Arc<Mutex<Vec<Request>>>,
    sent_bytes: Arc<Mutex<u64>>,
    change: Change,
    refusal: Refusal,
}

impl Server {
    /// Starts a server for the rest of the process.
    pub(crate) fn start() -> Self {
        Server::with_change(|_, _| {})
    }

    pub(crate) fn with_change(change: Change) -> Self {
        Server::with(change, |_| None)
    }

    pub(crate) fn refusing(refusal: Refusal) -> Self {
        Server::with(|_, _| {}, refusal)
    }

    fn with(change: Change, refusal: Refusal) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (files, requests, sent_bytes) = Default::default();
        let server = Server { address, files, requests, sent_bytes, change, refusal };
        let answering = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = answering.clone();
                thread::spawn(move || server.answer_all(stream));
            }
        });
        server
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The files by their decoded paths.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.files.lock().unwrap().clone()
    }

    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        self.files.lock().unwrap().insert(path.to_owned(), bytes.to_vec());
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The number of bytes of all responses.
    pub(crate) fn sent_bytes(&self) -> u64 {
        *self.sent_bytes.lock().unwrap()
    }

    fn answer_all(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some((request, body)) = read_request(&mut reader) {
            let response = self.answer(&request, body);
            self.requests.lock().unwrap().push(request);
            *self.sent_bytes.lock().unwrap() += response.len() as u64;
            if stream.write_all(&response).is_err() {
                return;
            }
        }
    }

    fn answer(&self, request: &Request, mut body: Vec<u8>) -> Vec<u8> {
        if let Some((status, text)) = (self.refusal)(&request.method) {
            return format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{text}", text.len()).into_bytes();
        }
        let mut files = self.files.lock().unwrap();
        let path = names::decoded(&request.path).unwrap();
        let found = files.get(&path).cloned();
        match (&*request.method, found, request.range) {
            ("PUT", ..) => {
                (self.change)(&path, &mut body);
                files.insert(path, body);
                b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n".to_vec()
            }
            ("DELETE", ..) => {
                files.remove(&path);
                b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()
            }
            ("HEAD", Some(file), _) => {
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", file.len()).into_bytes()
            }
            ("GET", Some(file), None) => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", file.len());
                [head.as_bytes(), &file].concat()
            }
            ("GET", Some(file), Some((start, end))) => {
                let end = end.min(file.len() - 1);
                let range = format!("content-range: bytes {start}-{end}/{}", file.len());
                let length = end + 1 - start;
                let head = format!("HTTP/1.1 206 Partial Content\r\ncontent-length: {length}\r\n{range}\r\n\r\n");
                [head.as_bytes(), &file[start..=end]].concat()
            }
            _ => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
        }
    }
}

/// Reads a request and its body.
fn read_request(reader: &mut impl BufRead) -> Option<(Request, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut parts = line.split(' ');
    let (method, path) = (parts.next()?.to_owned(), parts.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    let range = headers.get("range").map(|range| {
        let (start, end) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        (start.parse().unwrap(), end.parse().unwrap_or(usize::MAX - 1))
    });
    let (host, secret) = (headers.get("host").cloned().unwrap_or_default(), headers.get("x-secret").cloned());
    Some((Request { method, path, host, secret, range }, body))
}
