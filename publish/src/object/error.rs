//! Errors of object stores.

use weightstream::{Error, ErrorKind};

/// Converts an error of an object store. The store has already retried what may succeed later.
pub(crate) fn object_error(error: object_store::Error) -> Error {
    use object_store::Error as Kind;
    let reason = innermost(&error);
    match &error {
        Kind::NotFound { .. } => Error::new(ErrorKind::NotFound, "the store has no object of this name")
            .advise("Check the bucket and the path."),
        Kind::PermissionDenied { .. } | Kind::Unauthenticated { .. } => {
            let error = Error::new(ErrorKind::Http, format!("the store refuses access ({reason})"));
            error.advise("Check the credentials, and that they allow to read and write this path.")
        }
        Kind::InvalidPath { .. } => Error::new(ErrorKind::InvalidArgument, format!("the path is invalid ({reason})")),
        Kind::NotSupported { .. } | Kind::NotImplemented { .. } => {
            Error::new(ErrorKind::Unsupported, format!("the store does not support this operation ({reason})"))
        }
        Kind::UnknownConfigurationKey { .. } => Error::new(ErrorKind::InvalidArgument, reason),
        _ => Error::new(ErrorKind::Network, format!("the request to the store failed ({reason})"))
            .advise("Check the connection, the address of the store and the credentials, then try again."),
    }
    .with_cause(error)
}

/// The message of the innermost source error. The outer messages repeat it, or are not specific.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut reason = error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    reason.to_string()
}
