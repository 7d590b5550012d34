//! What the status of an HTTP response means.

use crate::error::{Error, ErrorKind};

/// The error for an unsuccessful status.
pub(crate) fn status_error(status: u16, retry_after_ms: Option<u64>) -> Error {
    let (what, advice) = match status {
        401 | 403 => ("the server denies access", "Provide valid credentials, or a URL that has not expired."),
        404 | 410 => ("the file does not exist on the server", "Check the URL."),
        429 => ("the server limits the request rate", "Wait a while, then try again."),
        500..=599 => ("the server failed", "Try again later, or from another host."),
        _ => ("the server did not send the file", "Check the URL."),
    };
    let mut error = Error::new(ErrorKind::Http, what).with_status(status).advise(advice);
    error.is_transient = matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504);
    error.context.retry_after_ms = retry_after_ms;
    error
}
