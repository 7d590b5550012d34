//! What a page and the cache's worker say to each other: arrays, of which buffers are transferred.

use crate::error::{Error, ErrorKind, Result};
use js_sys::{Array, ArrayBuffer};
use wasm_bindgen::{JsCast, JsValue};

/// What a page asks for. The first element of a message is a number that the answer bears, too.
#[derive(Debug)]
pub(super) enum Request {
    /// Where are files kept? The first question to a worker: its answer says that it has started.
    Status,
    /// Which version of the file is kept?
    Open { url: String },
    /// Bytes of that version, from `start`, at most as many as the buffer takes and up to `end`; where there are none,
    /// all up to `end_of_interest` are of interest.
    Read { url: String, version: String, start: u64, end: u64, end_of_interest: u64, buffer: ArrayBuffer },
    /// The first `byte_length` bytes of the buffer are what the file has from `start`.
    Write { url: String, version: String, start: u64, byte_length: u64, buffer: ArrayBuffer },
    /// These bytes of that version have this content; no bytes: it is not there any more.
    Note { content: String, url: String, version: String, start: u64, byte_length: u64 },
    /// Where are these contents?
    Locate { contents: Array },
    /// Forget the file; only if it is of this version, where one is named.
    Delete { url: String, version: Option<String> },
    /// What is kept?
    List,
    /// Forget everything.
    Clear,
}

impl Request {
    pub(super) fn write(self) -> (Array, Option<ArrayBuffer>) {
        let number = |number: u64| JsValue::from_f64(number as f64);
        let array = |items: &[JsValue]| items.iter().collect::<Array>();
        match self {
            Request::Open { url } => (array(&["open".into(), url.into()]), None),
            Request::Read { url, version, start, end, end_of_interest, buffer } => {
                let [start, end, end_of_interest] = [start, end, end_of_interest].map(number);
                let (url, version, taken) = (url.into(), version.into(), JsValue::from(&buffer));
                (array(&["read".into(), url, version, start, end, taken, end_of_interest]), Some(buffer))
            }
            Request::Write { url, version, start, byte_length, buffer } => {
                let (start, byte_length) = (number(start), number(byte_length));
                let items = ["write".into(), url.into(), version.into(), start, byte_length, JsValue::from(&buffer)];
                (array(&items), Some(buffer))
            }
            Request::Note { content, url, version, start, byte_length } => {
                let (start, byte_length) = (number(start), number(byte_length));
                (array(&["note".into(), url.into(), version.into(), start, byte_length, content.into()]), None)
            }
            Request::Locate { contents } => (array(&["locate".into(), contents.into()]), None),
            Request::Delete { url, version } => (array(&["delete".into(), url.into(), version.into()]), None),
            Request::Status => (array(&["status".into()]), None),
            Request::List => (array(&["list".into()]), None),
            Request::Clear => (array(&["clear".into()]), None),
        }
    }

    pub(super) fn read(message: &Array) -> Result<Self> {
        let unreadable = || Error::new(ErrorKind::Internal, "the cache's worker was asked for what it does not know");
        let text = |at: u32| message.get(at).as_string().ok_or_else(unreadable);
        let number = |at: u32| message.get(at).as_f64().map(|number| number as u64).ok_or_else(unreadable);
        let buffer = || message.get(6).dyn_into::<ArrayBuffer>().map_err(|_| unreadable());
        Ok(match text(1)?.as_str() {
            "open" => Request::Open { url: text(2)? },
            "read" => Request::Read {
                url: text(2)?,
                version: text(3)?,
                start: number(4)?,
                end: number(5)?,
                end_of_interest: number(7)?,
                buffer: buffer()?,
            },
            "write" => Request::Write {
                url: text(2)?,
                version: text(3)?,
                start: number(4)?,
                byte_length: number(5)?,
                buffer: buffer()?,
            },
            "note" => Request::Note {
                url: text(2)?,
                version: text(3)?,
                start: number(4)?,
                byte_length: number(5)?,
                content: text(6)?,
            },
            "locate" => Request::Locate { contents: message.get(2).dyn_into().map_err(|_| unreadable())? },
            "delete" => Request::Delete { url: text(2)?, version: text(3).ok() },
            "status" => Request::Status,
            "list" => Request::List,
            "clear" => Request::Clear,
            _ => return Err(unreadable()),
        })
    }
}
