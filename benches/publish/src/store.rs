//! A web server that keeps what is sent with PUT, as sparse files in memory.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

/// The size of the blocks that are kept unless they are zero.
const BLOCK_BYTES: u64 = 64 << 10;

/// The largest request head.
const MAX_HEAD_BYTES: usize = 16 << 10;

pub(crate) struct Store {
    address: SocketAddr,
    files: Arc<Mutex<HashMap<String, Arc<SparseFile>>>>,
}

/// The number and the total length of the files.
pub(crate) struct Stored {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

#[derive(Default)]
struct SparseFile {
    byte_length: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
}

struct Request {
    method: String,
    path: String,
    byte_length: u64,
    range: Option<Range<u64>>,
}

impl Store {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, files) = (listener.local_addr()?, Arc::default());
        let store = Store { address, files: Arc::clone(&files) };
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let files = Arc::clone(&files);
                thread::spawn(move || {
                    if let Err(error) = serve(connection, &files) {
                        eprintln!("store: {error:#}");
                    }
                });
            }
        });
        Ok(store)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub(crate) fn stored(&self) -> Stored {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        Stored { files: files.len(), bytes: files.values().map(|file| file.byte_length).sum() }
    }
}

/// Answers the requests of a connection.
fn serve(connection: TcpStream, files: &Mutex<HashMap<String, Arc<SparseFile>>>) -> Result<()> {
    connection.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::with_capacity(1 << 20, connection.try_clone()?), connection);
    while let Some(request) = read_head(&mut reader)? {
        let Request { method, path, byte_length, range } = request;
        let lock = || files.lock().unwrap_or_else(PoisonError::into_inner);
        match method.as_str() {
            "PUT" => {
                let file = SparseFile::read(&mut reader, byte_length)?;
                lock().insert(path, Arc::new(file));
                writer.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")?;
            }
            "DELETE" => {
                lock().remove(&path);
                writer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
            }
            "GET" | "HEAD" => {
                let found = lock().get(&path).cloned();
                match found {
                    Some(file) => {
                        file.answer(&mut writer, range, if method == "GET" { Content::All } else { Content::Head })?
                    }
                    None => writer.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?,
                }
            }
            _ => writer.write_all(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")?,
        }
    }
    Ok(())
}

/// Reads a request up to its body; `None` at the end of the connection.
fn read_head(reader: &mut impl Read) -> Result<Option<Request>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > MAX_HEAD_BYTES {
            bail!("a request head is too long");
        }
        if reader.read(&mut byte)? == 0 {
            return Ok(None);
        }
        head.extend_from_slice(&byte);
    }
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(&head)?;
    let header = |name: &str| {
        let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    let range = header("range").and_then(|range| {
        let (start, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some(start.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?)
    });
    Ok(Some(Request {
        method: request.method.context("no method")?.to_owned(),
        path: request.path.context("no path")?.to_owned(),
        byte_length: header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0),
        range,
    }))
}

/// What of a response is sent.
#[derive(Clone, Copy, PartialEq)]
enum Content {
    Head,
    All,
}

impl SparseFile {
    fn read(reader: &mut impl Read, byte_length: u64) -> Result<Self> {
        let mut file = SparseFile { byte_length, ..SparseFile::default() };
        let mut block = vec![0; BLOCK_BYTES as usize];
        for number in 0..byte_length.div_ceil(BLOCK_BYTES) {
            let length = BLOCK_BYTES.min(byte_length - number * BLOCK_BYTES) as usize;
            let block = block.get_mut(..length).context("a block is too long")?;
            reader.read_exact(block)?;
            if block.iter().any(|byte| *byte != 0) {
                file.blocks.insert(number, block.to_vec());
            }
        }
        Ok(file)
    }

    fn answer(&self, writer: &mut impl Write, range: Option<Range<u64>>, content: Content) -> io::Result<()> {
        let total = self.byte_length;
        let modified = "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: \"1\"\r\n";
        let range = match range.map(|range| range.start..range.end.min(total)) {
            Some(Range { start, end }) => {
                let content = format!("Content-Range: bytes {start}-{}/{total}\r\n", end.saturating_sub(1));
                write!(writer, "HTTP/1.1 206 Partial Content\r\n{content}")?;
                start..end
            }
            None => {
                write!(writer, "HTTP/1.1 200 OK\r\n")?;
                0..total
            }
        };
        write!(writer, "{modified}Content-Length: {}\r\n\r\n", range.end.saturating_sub(range.start))?;
        if content == Content::Head {
            return Ok(());
        }
        let zeros = vec![0; BLOCK_BYTES as usize];
        let mut position = range.start;
        while position < range.end {
            let (number, from) = (position / BLOCK_BYTES, position % BLOCK_BYTES);
            let to = BLOCK_BYTES.min(from + range.end - position);
            let block = self.blocks.get(&number).unwrap_or(&zeros);
            writer.write_all(block.get(from as usize..to as usize).unwrap_or_default())?;
            position += to - from;
        }
        Ok(())
    }
}
