//! The errors for signatures and keys that the crate `weightstream-signatures` refuses.

use crate::error::{Error, ErrorKind};
use weightstream_signatures::{Kind, Refusal};

/// The error for a refusal.
pub(super) fn refused(refusal: Refusal) -> Error {
    let kind = match refusal.kind {
        Kind::Unsupported => ErrorKind::Unsupported,
        Kind::TooLong => ErrorKind::Limit,
        Kind::Argument | Kind::OtherArgument => ErrorKind::InvalidArgument,
        _ => ErrorKind::Signature,
    };
    Error::new(kind, refusal.what).advise(refusal.advice)
}
