//! Where files are cached, as a worker says it to its page.

use super::keep::Keep;
use crate::error::{Error, Result};
use js_sys::Array;
use wasm_bindgen::{JsCast, JsValue};

/// Where files are cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// In the origin private file system,
    Files,
    /// which the browser keeps in memory.
    Memory,
    /// In IndexedDB.
    Database,
    /// In what the caller gave.
    Own,
    /// Nowhere.
    Nothing,
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Files, "files"),
    (Kind::Memory, "memory"),
    (Kind::Database, "database"),
    (Kind::Own, "own"),
    (Kind::Nothing, "nothing"),
];

/// Where files are cached, and why not in the origin private file system.
#[derive(Debug, Clone)]
pub(super) struct Status {
    pub(super) kind: Kind,
    pub(super) why: String,
}

impl Status {
    pub(super) fn of(store: &Result<impl Keep>, why_not_files: Option<&Error>) -> Self {
        let mut reasons = why_not_files.into_iter().chain(store.as_ref().err()).map(|error| error.what.as_str());
        let first = reasons.next().unwrap_or_default().to_owned();
        let why = reasons.fold(first, |all, reason| format!("{all}; {reason}"));
        Status { kind: store.as_ref().map_or(Kind::Nothing, Keep::kind), why }
    }

    pub(super) fn nothing(why: &Error) -> Self {
        Status { kind: Kind::Nothing, why: why.what.clone() }
    }

    pub(super) fn write(&self) -> JsValue {
        let name = KINDS.iter().find(|(kind, _)| *kind == self.kind).map_or("", |(_, name)| name);
        Array::of2(&name.into(), &self.why.as_str().into()).into()
    }

    pub(super) fn read(answer: JsValue) -> Option<Self> {
        let fields: Array = answer.dyn_into().ok()?;
        let (name, why) = (fields.get(0).as_string()?, fields.get(1).as_string()?);
        let (kind, _) = KINDS.iter().find(|(_, known)| *known == name)?;
        Some(Status { kind: *kind, why })
    }
}
