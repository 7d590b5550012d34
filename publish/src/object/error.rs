//! Errors of object stores, each with what to do about it.

use super::answer::Answer;
use weightstream::{Error, ErrorKind};

/// The codes of answers about a bucket or a container that does not exist.
const NO_BUCKET: [&str; 2] = ["NoSuchBucket", "ContainerNotFound"];

/// The codes of answers that refuse the credentials themselves, and not only access to one file.
const NO_CREDENTIALS: [&str; 7] = [
    "AuthenticationFailed",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
];

/// How the message of `object_store` about a redirect without a target begins. S3 sends it for another region.
const BARE_REDIRECT: &str = "Received redirect without LOCATION";

/// Converts an error of an object store. The store has already retried what may succeed later.
pub(crate) fn object_error(error: object_store::Error) -> Error {
    use object_store::Error as Kind;
    let reason = innermost(&error);
    let answer = Answer::of(&reason);
    let status = answer.as_ref().map(|answer| answer.status);
    let converted = match &error {
        _ if names_no_bucket(&error) => {
            let error = Error::new(ErrorKind::NotFound, "the store has no bucket of this name");
            error.advise("Create the bucket, or check its name, the region and the endpoint.")
        }
        Kind::NotFound { .. } => Error::new(ErrorKind::NotFound, "the store has no object of this name")
            .advise("Check the bucket and the path."),
        Kind::PermissionDenied { .. } | Kind::Unauthenticated { .. } => refused(answer.as_ref(), &reason),
        Kind::InvalidPath { .. } => Error::new(ErrorKind::InvalidArgument, format!("the path is invalid ({reason})")),
        Kind::NotSupported { .. } | Kind::NotImplemented { .. } => {
            Error::new(ErrorKind::Unsupported, format!("the store does not support this operation ({reason})"))
        }
        Kind::UnknownConfigurationKey { .. } => Error::new(ErrorKind::InvalidArgument, reason),
        _ => match &answer {
            Some(answer) => failed(answer),
            None if reason.starts_with(BARE_REDIRECT) => {
                let error = Error::new(ErrorKind::Http, "the bucket is in another region, or does not exist");
                error.advise("Set the region of the bucket, such as with AWS_REGION, and check its name.")
            }
            None => Error::new(ErrorKind::Network, format!("the request to the store failed ({reason})"))
                .advise("Check the connection, the address of the store and the credentials, then try again."),
        },
    };
    let converted = match status {
        Some(status) => converted.with_status(status),
        None => converted,
    };
    converted.with_cause(error)
}

/// Like [`object_error`], of a file that was sent: no object of its name is not what is wrong.
pub(crate) fn upload_error(error: object_store::Error) -> Error {
    if !matches!(error, object_store::Error::NotFound { .. }) || names_no_bucket(&error) {
        return object_error(error);
    }
    let refused = Error::new(ErrorKind::NotFound, "the server does not accept a file here");
    let advice = "Create the folder on the server, check the URL, and enable PUT, such as with WebDAV.";
    refused.advise(advice).with_status(404).with_cause(error)
}

/// Whether the store has no such file, or does not say so to those who may not list its files. Nothing can be written
/// if the bucket is missing or if the credentials are wrong: these are errors.
pub(crate) fn is_absent(error: &object_store::Error) -> bool {
    use object_store::Error as Kind;
    match error {
        Kind::NotFound { .. } => !names_no_bucket(error),
        Kind::PermissionDenied { .. } => !has_code(error, &NO_CREDENTIALS),
        Kind::NotSupported { .. } | Kind::NotImplemented { .. } => true,
        _ => false,
    }
}

fn names_no_bucket(error: &object_store::Error) -> bool {
    has_code(error, &NO_BUCKET)
}

fn has_code(error: &object_store::Error, codes: &[&str]) -> bool {
    let answer = Answer::of(&innermost(error));
    answer.and_then(|answer| answer.code).is_some_and(|code| codes.contains(&&*code))
}

/// 401 and 403.
fn refused(answer: Option<&Answer>, reason: &str) -> Error {
    let what = match answer {
        Some(answer) => format!("the store refuses access{answer}"),
        None => format!("the store refuses access ({reason})"),
    };
    let advice = match answer.map(|answer| (answer.status, answer.code.as_deref())) {
        Some((_, Some("RequestTimeTooSkewed"))) => "Set the clock of this machine.",
        Some((_, Some("ExpiredToken"))) => "Sign in to the store again: the credentials have expired.",
        Some((401, _)) => "Check the credentials: the store did not accept them.",
        _ => "Check the credentials, and that they allow to read and write this path.",
    };
    Error::new(ErrorKind::Http, what).advise(advice)
}

/// An answer with another status.
fn failed(answer: &Answer) -> Error {
    let (what, advice) = match answer.status {
        413 => (
            "the server does not accept files of this size",
            "Raise its limit (`client_max_body_size` of nginx), or publish smaller files: \
             `ConvertOptions::max_shard_bytes`.",
        ),
        507 => ("the store has no space left", "Delete files that no client needs, or raise the quota."),
        405 | 501 => (
            "the server does not accept this method",
            "Enable PUT and DELETE on it, such as with WebDAV, or choose another destination.",
        ),
        301 | 307 | 308 => ("the bucket is in another region", "Set the region of the bucket, such as AWS_REGION."),
        400 => ("the store does not understand the request", "Check the bucket, the region and the credentials."),
        429 | 503 => ("the store asks to send fewer requests", "Try again later."),
        500.. => ("the store failed", "Try again later. What was sent is kept."),
        _ => ("the store refuses the request", "Check the address of the store and the credentials."),
    };
    Error::new(ErrorKind::Http, format!("{what}{answer}")).advise(advice)
}

/// The message of the innermost source error. The outer messages repeat it, or are not specific.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut reason = error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    reason.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::Error as Kind;

    fn answered(status_and_body: &str) -> Box<dyn std::error::Error + Send + Sync> {
        format!("Server returned non-2xx status code: {status_and_body}").into()
    }

    fn generic(status: &str) -> Error {
        object_error(Kind::Generic { store: "HTTP", source: answered(status) })
    }

    #[test]
    fn an_answer_of_a_store_is_one_sentence_with_advice() {
        for (status, what, advice) in [
            ("413 Payload Too Large: <html>\n</html>", "does not accept files of this size", "client_max_body_size"),
            ("507 Insufficient Storage: ", "has no space left", "quota"),
            ("405 Method Not Allowed: ", "does not accept this method", "WebDAV"),
            ("503 Slow Down: <Code>SlowDown</Code>", "fewer requests (SlowDown) (HTTP status 503)", "later"),
            ("502 Bad Gateway: <html>", "the store failed (HTTP status 502)", "later"),
            ("409 Conflict: ", "refuses the request (HTTP status 409)", "address"),
        ] {
            let error = generic(status).to_string();
            assert!(error.contains(what) && error.contains(advice), "{error}");
            assert!(!error.contains('<') && !error.contains('\n'), "{error}");
        }
        let redirect = Kind::Generic { store: "S3", source: format!("{BARE_REDIRECT}, this normally").into() };
        assert!(object_error(redirect).to_string().contains("AWS_REGION"));
    }

    #[test]
    fn a_missing_bucket_and_wrong_credentials_are_no_absent_files() {
        let not_found = |body: &str| Kind::NotFound { path: "m.apr".to_owned(), source: answered(body) };
        let denied = |body: &str| Kind::PermissionDenied { path: "m.apr".to_owned(), source: answered(body) };
        assert!(is_absent(&not_found("404 Not Found: ")) && is_absent(&not_found("404 x: <Code>NoSuchKey</Code>")));
        assert!(is_absent(&denied("403 Forbidden: ")) && is_absent(&denied("403 x: <Code>AccessDenied</Code>")));
        for code in NO_BUCKET {
            let error = not_found(&format!("404 Not Found: <Code>{code}</Code>"));
            assert!(!is_absent(&error));
            assert!(object_error(error).to_string().contains("no bucket of this name"));
        }
        let error = denied("403 Forbidden: <Code>ExpiredToken</Code><Message>Expired.</Message>");
        assert!(!is_absent(&error));
        let message = object_error(error).to_string();
        assert!(message.contains("(ExpiredToken: Expired)") && message.contains("expired"), "{message}");
    }
}
