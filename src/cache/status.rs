//! The location of the cache, which the worker reports to its page.

use super::backend::{CacheBackend, Kind};
use crate::browser::message::Fields;
use crate::error::{Error, Result};

const KINDS: [(Kind, &str); 5] = [
    (Kind::Files, "files"),
    (Kind::Memory, "memory"),
    (Kind::Database, "database"),
    (Kind::UserCache, "userCache"),
    (Kind::Unavailable, "unavailable"),
];

/// The location of the cache, and the reason if it is not OPFS.
#[derive(Debug, Clone)]
pub(super) struct Status {
    pub(super) kind: Kind,
    pub(super) reason: String,
}

impl Status {
    pub(super) fn of(store: &Result<Box<dyn CacheBackend>>, opfs_error: Option<&Error>) -> Self {
        let mut reasons = opfs_error.into_iter().chain(store.as_ref().err()).map(|error| error.what.as_str());
        let first = reasons.next().unwrap_or_default().to_owned();
        let reason = reasons.fold(first, |all, reason| format!("{all}; {reason}"));
        Status { kind: store.as_ref().map_or(Kind::Unavailable, |store| store.kind()), reason }
    }

    pub(super) fn unavailable(reason: &Error) -> Self {
        Status { kind: Kind::Unavailable, reason: reason.what.clone() }
    }

    /// The type of its message.
    pub(super) const TYPE: &str = "status";

    pub(super) fn encode(self) -> Fields {
        let name = KINDS.iter().find(|(kind, _)| *kind == self.kind).map_or("", |(_, name)| name);
        Fields::of_type(Self::TYPE).with("kind", name).with("reason", self.reason)
    }

    pub(super) fn decode(fields: &Fields) -> Option<Self> {
        let name = fields.text("kind")?;
        let (kind, _) = KINDS.iter().find(|(_, known)| *known == name)?;
        Some(Status { kind: *kind, reason: fields.text("reason")? })
    }
}
