//! What tells one state of a file from another, and the conditional requests that ask for it (RFC
//! 9110, sections 8.8 and 13).

use std::fs::Metadata;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::request::Request;

/// The validators of an open file.
pub(super) struct Validators {
    /// Strong, and the same after a restart of the server: length, time of change in nanoseconds,
    /// and on Unix the inode, which tells apart two files that took the same name within one tick
    /// of the clock.
    pub(super) etag: String,
    /// In whole seconds, as the header says it; `None` for times which a `Last-Modified` may not
    /// say: before 1970 or in the future.
    modified: Option<SystemTime>,
}

/// Whether the conditions of a request let it be answered with the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
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

    /// Judges the preconditions of a GET or HEAD in the order of RFC 9110, section 13.2.2.
    pub(super) fn judge(&self, request: &Request) -> Verdict {
        let unchanged_since = |name| Some(self.modified? <= date(request, name)?);
        let passes = match any_tag(request, "if-match", |tag| tag == self.etag) {
            Some(matched) => matched,
            None => unchanged_since("if-unmodified-since").unwrap_or(true),
        };
        if !passes {
            return Verdict::Failed;
        }
        let known = match any_tag(request, "if-none-match", |tag| tag.strip_prefix("W/").unwrap_or(tag) == self.etag) {
            Some(matched) => matched,
            None => unchanged_since("if-modified-since").unwrap_or(false),
        };
        if known { Verdict::NotModified } else { Verdict::Proceed }
    }

    /// Whether a `Range` counts: without `If-Range`, or if that names exactly this state of the
    /// file. A date does so only once its second is over, since the file could have changed again
    /// within it (section 8.8.2.2).
    pub(super) fn heeds_range(&self, request: &Request) -> bool {
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

/// Whether a list of entity tags holds one that `matches`; `*` matches whatever exists. `None`
/// without such a header. Our own tags hold no comma, so a foreign one that does and is cut in two
/// cannot look like ours.
fn any_tag(request: &Request, name: &str, matches: impl Fn(&str) -> bool) -> Option<bool> {
    request.header(name)?;
    Some(request.headers(name).flat_map(|value| value.split(',')).map(str::trim).any(|tag| tag == "*" || matches(tag)))
}

/// A date header; one that cannot be read counts as absent.
fn date(request: &Request, name: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(request.header(name)?.trim()).ok()
}
