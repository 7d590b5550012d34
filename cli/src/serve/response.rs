//! Responses, and how they are sent.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::SystemTime;

use super::send::send_file;

/// The headers that pages of other origins may read.
const EXPOSED: &str = "Content-Range, Content-Length, ETag, Accept-Ranges, Last-Modified, Content-Encoding";

pub(super) struct Response {
    pub(super) status: u16,
    headers: Vec<(&'static str, Cow<'static, str>)>,
    body: Body,
    closing: bool,
}

pub(super) enum Body {
    /// No body and no Content-Length, as for 204 and 304.
    None,
    Text(String),
    File(File, Range<u64>),
}

impl Response {
    pub(super) fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Body::None, closing: false }
    }

    pub(super) fn text(status: u16, line: &str) -> Self {
        Self::empty(status).with("Content-Type", "text/plain; charset=utf-8").body(Body::Text(format!("{line}\n")))
    }

    pub(super) fn html(page: String) -> Self {
        Self::empty(200).with("Content-Type", "text/html; charset=utf-8").body(Body::Text(page))
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    /// Adds the headers for cross-origin isolation. COEP is `require-corp`, because not every browser supports
    /// `credentialless`; all responses have CORP.
    pub(super) fn isolated(self, isolated: bool) -> Self {
        if isolated {
            self.with("Cross-Origin-Opener-Policy", "same-origin").with("Cross-Origin-Embedder-Policy", "require-corp")
        } else {
            self
        }
    }

    /// Adds `Connection: close`.
    pub(super) fn closing(mut self) -> Self {
        self.closing = true;
        self
    }

    /// Sends the response to a request with this method. Calls `sent` with the number of body bytes as they are sent.
    pub(super) fn send(&self, mut stream: &TcpStream, method: &str, sent: &mut dyn FnMut(u64)) -> io::Result<()> {
        let mut head = self.head()?;
        match &self.body {
            Body::Text(text) if method != "HEAD" => {
                head.extend_from_slice(text.as_bytes());
                stream.write_all(&head)?;
                sent(text.len() as u64);
                Ok(())
            }
            Body::File(file, range) if method != "HEAD" => send_file(stream, head, file, range.clone(), sent),
            _ => stream.write_all(&head),
        }
    }

    fn head(&self) -> io::Result<Vec<u8>> {
        let mut head = Vec::with_capacity(1024);
        write!(head, "HTTP/1.1 {} {}\r\n", self.status, reason(self.status))?;
        write!(head, "Date: {}\r\n", httpdate::fmt_http_date(SystemTime::now()))?;
        write!(head, "Cache-Control: no-cache\r\n")?;
        write!(head, "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: {EXPOSED}\r\n")?;
        write!(head, "Cross-Origin-Resource-Policy: cross-origin\r\nTiming-Allow-Origin: *\r\n")?;
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n")?;
        }
        match &self.body {
            Body::None => {}
            Body::Text(text) => write!(head, "Content-Length: {}\r\n", text.len())?,
            Body::File(_, range) => write!(head, "Content-Length: {}\r\n", range.end.saturating_sub(range.start))?,
        }
        if self.closing {
            write!(head, "Connection: close\r\n")?;
        }
        write!(head, "\r\n")?;
        Ok(head)
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        412 => "Precondition Failed",
        416 => "Range Not Satisfiable",
        431 => "Request Header Fields Too Large",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}
