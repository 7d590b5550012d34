//! A server that answers correctly, except for what a test changes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

pub(crate) const ETAG: &str = "\"version-1\"";

pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// The names are in lower case.
    pub(crate) headers: HashMap<String, String>,
}

pub(crate) struct Response {
    pub(crate) version: &'static str,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

/// Changes a correct response.
pub(crate) type Change = fn(&Request, &mut Response);

/// Starts a server for the rest of the process, and returns its URL without a path.
pub(crate) fn start(change: Change) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_all(stream, change));
        }
    });
    format!("http://{address}")
}

/// A SafeTensors file of one tensor.
pub(crate) fn model() -> Vec<u8> {
    let header = r#"{"bias":{"dtype":"F32","shape":[256],"data_offsets":[0,1024]}}"#;
    let data: Vec<u8> = (0..1024).map(|at| (at % 251) as u8).collect();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

impl Response {
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.remove(name);
        self.headers.push((name, value.to_owned()));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.headers.retain(|(one, _)| *one != name);
    }
}

fn answer_all(mut stream: TcpStream, change: Change) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read(&mut reader) {
        let mut response = correct(&request);
        change(&request, &mut response);
        let mut head = format!("{} {} Status\r\n", response.version, response.status);
        for (name, value) in &response.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if response.status != 304 && response.status != 204 {
            head.push_str(&format!("content-length: {}\r\n", response.body.len()));
        }
        let body = if request.method == "HEAD" { &[][..] } else { &response.body };
        if stream.write_all(&[head.as_bytes(), b"\r\n", body].concat()).is_err() || response.version == "HTTP/1.0" {
            return;
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut lines = reader.lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let first = lines.next()?;
    let (method, rest) = first.split_once(' ')?;
    let (path, _) = rest.split_once(' ')?;
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    Some(Request { method: method.to_owned(), path: path.to_owned(), headers: headers.collect() })
}

fn correct(request: &Request) -> Response {
    let model = model();
    let mut response = Response { version: "HTTP/1.1", status: 200, headers: Vec::new(), body: model.clone() };
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("access-control-expose-headers", "Content-Range, ETag"),
        ("cache-control", "no-cache, no-transform"),
        ("cross-origin-resource-policy", "cross-origin"),
        ("content-type", "application/octet-stream"),
        ("etag", ETAG),
        ("timing-allow-origin", "*"),
    ] {
        response.set(name, value);
    }
    if request.method == "OPTIONS" {
        response.status = 204;
        response.set("access-control-allow-headers", "authorization");
    } else if request.headers.get("if-none-match").is_some_and(|value| value == ETAG) {
        response.status = 304;
    } else if let Some(range) = request.headers.get("range")
        && request.headers.get("if-range").is_none_or(|value| value == ETAG)
    {
        answer_range(&mut response, range, &model);
    }
    response
}

fn answer_range(response: &mut Response, range: &str, model: &[u8]) {
    let (start, end) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let (start, end) = match (start.parse::<usize>(), end.parse::<usize>()) {
        (Ok(start), end) => (start, end.map_or(model.len(), |end| (end + 1).min(model.len()))),
        (Err(_), end) => (model.len() - end.unwrap(), model.len()),
    };
    if start >= model.len() {
        (response.status, response.body) = (416, Vec::new());
        response.set("content-range", &format!("bytes */{}", model.len()));
        return;
    }
    response.status = 206;
    response.set("content-range", &format!("bytes {start}-{}/{}", end - 1, model.len()));
    response.body = model[start..end].to_vec();
}
