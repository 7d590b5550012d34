//! The messages between a page and the cache worker.

use super::backend::{CachedFile, ContentLocation};
use super::status::Status;
use crate::browser::message::{Body, Fields};
use js_sys::{Array, ArrayBuffer};
use wasm_bindgen::JsValue;

/// A request of the page.
#[derive(Debug)]
pub(super) enum Request {
    /// Asks where the files are stored. It is the first request to a worker: the answer shows that it has started.
    Status,
    /// Asks which version of the file is cached.
    Open { url: String },
    /// Reads bytes of a version from `start`, as many as the buffer holds and at most up to `end`. If the first byte is
    /// not cached, the answer says up to where nothing is cached, at most `end_of_interest`.
    Read { url: String, version: String, start: u64, end: u64, end_of_interest: u64, buffer: ArrayBuffer },
    /// Writes the first `byte_length` bytes of the buffer at the offset `start` of the file.
    Write { url: String, version: String, start: u64, byte_length: u64, buffer: ArrayBuffer },
    /// Records the content ID of a range of a version. An empty range removes the record.
    Note { content: String, url: String, version: String, start: u64, byte_length: u64 },
    /// Asks for the locations of contents.
    Locate { contents: Vec<String> },
    /// Deletes the file. If `version` is given, deletes only that version.
    Delete { url: String, version: Option<String> },
    /// Asks for a list of all files.
    List,
    /// Deletes all files.
    Clear,
}

/// An answer of the worker.
#[derive(Debug)]
pub(super) enum CacheReply {
    /// To [`Request::Status`].
    Status(Status),
    /// To [`Request::Open`].
    Version(Option<String>),
    /// To [`Request::Read`]: the number of bytes, and the position after them or after the gap.
    Read { count: u64, next: u64, buffer: ArrayBuffer },
    /// To [`Request::Write`]: the buffer, for reuse.
    Written { buffer: ArrayBuffer },
    /// To [`Request::Locate`], in the same order.
    Locations(Vec<Option<ContentLocation>>),
    /// To [`Request::List`].
    Files(Vec<CachedFile>),
    /// To requests without a result.
    Done,
    /// To any request that failed.
    Failed { message: String },
}

impl Body for Request {
    fn encode(self) -> (Fields, Array) {
        let fields = |name: &str, url: String| Fields::of_type(name).with("url", url);
        match self {
            Request::Status => (Fields::of_type("status"), Array::new()),
            Request::Open { url } => (fields("open", url), Array::new()),
            Request::Read { url, version, start, end, end_of_interest, buffer } => {
                let fields = fields("read", url).with("version", version).with_number("start", start);
                let fields = fields.with_number("end", end).with_number("endOfInterest", end_of_interest);
                (fields.with("buffer", &buffer), Array::of1(&buffer))
            }
            Request::Write { url, version, start, byte_length, buffer } => {
                let fields = fields("write", url).with("version", version).with_number("start", start);
                (fields.with_number("byteLength", byte_length).with("buffer", &buffer), Array::of1(&buffer))
            }
            Request::Note { content, url, version, start, byte_length } => {
                let fields = fields("note", url).with("version", version).with_number("start", start);
                (fields.with_number("byteLength", byte_length).with("content", content), Array::new())
            }
            Request::Locate { contents } => {
                let contents: Array = contents.into_iter().map(JsValue::from).collect();
                (Fields::of_type("locate").with("contents", contents), Array::new())
            }
            Request::Delete { url, version } => (fields("delete", url).with("version", version), Array::new()),
            Request::List => (Fields::of_type("list"), Array::new()),
            Request::Clear => (Fields::of_type("clear"), Array::new()),
        }
    }

    fn decode(fields: &Fields) -> Option<Self> {
        let url = || fields.text("url");
        let version = || fields.text("version");
        let number = |name| fields.number(name);
        Some(match fields.kind()?.as_str() {
            "status" => Request::Status,
            "open" => Request::Open { url: url()? },
            "read" => Request::Read {
                url: url()?,
                version: version()?,
                start: number("start")?,
                end: number("end")?,
                end_of_interest: number("endOfInterest")?,
                buffer: fields.object("buffer")?,
            },
            "write" => Request::Write {
                url: url()?,
                version: version()?,
                start: number("start")?,
                byte_length: number("byteLength")?,
                buffer: fields.object("buffer")?,
            },
            "note" => Request::Note {
                content: fields.text("content")?,
                url: url()?,
                version: version()?,
                start: number("start")?,
                byte_length: number("byteLength")?,
            },
            "locate" => {
                let contents: Array = fields.object("contents")?;
                Request::Locate { contents: contents.iter().filter_map(|content| content.as_string()).collect() }
            }
            "delete" => Request::Delete { url: url()?, version: version() },
            "list" => Request::List,
            "clear" => Request::Clear,
            _ => return None,
        })
    }
}

impl Body for CacheReply {
    fn encode(self) -> (Fields, Array) {
        match self {
            CacheReply::Status(status) => (status.encode(), Array::new()),
            CacheReply::Version(version) => (Fields::of_type("version").with("version", version), Array::new()),
            CacheReply::Read { count, next, buffer } => {
                let fields = Fields::of_type("read").with_number("count", count).with_number("next", next);
                (fields.with("buffer", &buffer), Array::of1(&buffer))
            }
            CacheReply::Written { buffer } => (Fields::of_type("written").with("buffer", &buffer), Array::of1(&buffer)),
            CacheReply::Locations(locations) => {
                let item = |location: Option<ContentLocation>| location.map_or(JsValue::UNDEFINED, encode_location);
                let items: Array = locations.into_iter().map(item).collect();
                (Fields::of_type("locations").with("items", items), Array::new())
            }
            CacheReply::Files(files) => {
                let items: Array = files.into_iter().map(encode_file).collect();
                (Fields::of_type("files").with("items", items), Array::new())
            }
            CacheReply::Done => (Fields::of_type("done"), Array::new()),
            CacheReply::Failed { message } => (Fields::of_type("failed").with("message", message), Array::new()),
        }
    }

    fn decode(fields: &Fields) -> Option<Self> {
        let items = || fields.object::<Array>("items").map(|items| items.into_iter().map(Fields::of));
        Some(match fields.kind()?.as_str() {
            Status::TYPE => CacheReply::Status(Status::decode(fields)?),
            "version" => CacheReply::Version(fields.text("version")),
            "read" => CacheReply::Read {
                count: fields.number("count")?,
                next: fields.number("next")?,
                buffer: fields.object("buffer")?,
            },
            "written" => CacheReply::Written { buffer: fields.object("buffer")? },
            "locations" => CacheReply::Locations(items()?.map(|item| decode_location(&item?)).collect()),
            "files" => CacheReply::Files(items()?.map(|item| decode_file(&item?)).collect::<Option<_>>()?),
            "done" => CacheReply::Done,
            "failed" => CacheReply::Failed { message: fields.text("message")? },
            _ => return None,
        })
    }
}

fn encode_location(ContentLocation { key, version, start, byte_length }: ContentLocation) -> JsValue {
    let fields = Fields::new().with("key", key).with("version", version).with_number("start", start);
    fields.with_optional("byteLength", byte_length).into()
}

fn decode_location(fields: &Fields) -> Option<ContentLocation> {
    Some(ContentLocation {
        key: fields.text("key")?,
        version: fields.text("version")?,
        start: fields.number("start")?,
        byte_length: fields.number("byteLength"),
    })
}

fn encode_file(CachedFile { key, version, cached_bytes, byte_length, last_used_ms }: CachedFile) -> JsValue {
    let fields = Fields::new().with("key", key).with("version", version).with_number("cachedBytes", cached_bytes);
    fields.with_optional("byteLength", byte_length).with_number("lastUsed", last_used_ms).into()
}

fn decode_file(fields: &Fields) -> Option<CachedFile> {
    Some(CachedFile {
        key: fields.text("key")?,
        version: fields.text("version")?,
        cached_bytes: fields.number("cachedBytes")?,
        byte_length: fields.number("byteLength"),
        last_used_ms: fields.number("lastUsed")?,
    })
}
