//! Validators of files, and conditional requests (RFC 9110, sections 8.8 and 13).

use std::fs::Metadata;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::request::Request;

/// The validators of an open file.
pub(super) struct Validators {
    /// A strong ETag, the same after a restart of the server. It consists of the length, the modification time in
    /// nanoseconds, and on Unix the inode, which distinguishes files that replaced each other within one clock tick.
    pub(super) etag: String,
    /// The modification time in whole seconds, like the header. `None` for times that `Last-Modified` does not allow:
    /// before 1970 or in the future.
    modified: Option<SystemTime>,
}

/// The result of evaluating the preconditions of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Precondition {
    Proceed,
    NotModified,
    Failed,
}

impl Validators {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let modified = metadata.modified().unwrap_or(UNIX_EPOCH);
        let since_1970 = modified.duration_since(UNIX_EPOCH);
        let nanoseconds = since_1970.clone().unwrap_or_else(|earlier| earlier.duration()).as_nanos();
        let second = since_1970.ok().and_then(|age| UNIX_EPOCH.checked_add(Duration::from_secs(age.as_secs())));
        Self {
            etag: format!("\"{:x}-{nanoseconds:x}-{:x}\"", metadata.len(), inode(metadata)),
            modified: second.filter(|second| *second <= SystemTime::now()),
        }
    }

    /// The value of `Last-Modified`.
    pub(super) fn last_modified(&self) -> Option<String> {
        self.modified.map(httpdate::fmt_http_date)
    }

    /// Evaluates the preconditions of a GET or HEAD in the order of RFC 9110, section 13.2.2.
    pub(super) fn evaluate(&self, request: &Request) -> Precondition {
        let unchanged_since = |name| Some(self.modified? <= date(request, name)?);
        let passes = match any_tag(request, "if-match", |tag| tag == self.etag) {
            Some(matched) => matched,
            None => unchanged_since("if-unmodified-since").unwrap_or(true),
        };
        if !passes {
            return Precondition::Failed;
        }
        let known = match any_tag(request, "if-none-match", |tag| tag.strip_prefix("W/").unwrap_or(tag) == self.etag) {
            Some(matched) => matched,
            None => unchanged_since("if-modified-since").unwrap_or(false),
        };
        if known { Precondition::NotModified } else { Precondition::Proceed }
    }

    /// Whether `Range` applies: there is no `If-Range`, or it matches the file. A date matches only after its second
    /// has ended, because the file could change again within that second (section 8.8.2.2).
    pub(super) fn range_applies(&self, request: &Request) -> bool {
        let Some(condition) = request.header("if-range") else {
            return true;
        };
        if condition.trim() == self.etag {
            return true;
        }
        let second_is_over =
            self.modified.and_then(|modified| modified.elapsed().ok()).is_some_and(|age| age >= Duration::from_secs(1));
        second_is_over && self.modified == date(request, "if-range")
    }
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

/// Whether a list of entity tags contains one that `matches`; `*` matches every existing file. Returns `None` without
/// such a header. This server's tags contain no comma, so the parts of another tag that is split at a comma cannot
/// match.
fn any_tag(request: &Request, name: &str, matches: impl Fn(&str) -> bool) -> Option<bool> {
    request.header(name)?;
    Some(request.headers(name).flat_map(|value| value.split(',')).map(str::trim).any(|tag| tag == "*" || matches(tag)))
}

/// Returns the value of a date header; an invalid one counts as absent.
fn date(request: &Request, name: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(request.header(name)?.trim()).ok()
}
