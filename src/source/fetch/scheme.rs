//! URLs of other schemes than http(s). Only the platform knows which of them `fetch` loads: an app can register its
//! own.

use crate::error::{Error, ErrorKind};

/// Whether the platform may not load URLs of this scheme.
pub(super) fn may_be_unknown(url: &str) -> bool {
    !["http:", "https:"].iter().any(|scheme| url.starts_with(scheme))
}

/// The error for such a URL that has never got a response, with and without a range. No network is involved, so that a
/// later attempt would fail, too.
pub(super) fn not_loaded(url: &str, error: Error) -> Error {
    if error.kind != ErrorKind::Network {
        return error;
    }
    let scheme = url.split(':').next().unwrap_or_default();
    let mut error = error.advise(format!(
        "`fetch` does not load this URL here: use an http(s) URL instead of the scheme `{scheme}`, or pass a Blob."
    ));
    error.is_transient = false;
    error
}
