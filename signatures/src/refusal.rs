//! Why a signature is refused.

use std::fmt::{self, Display};

/// Why a signature is refused, and what the user can do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The kind of reason.
    pub kind: Kind,
    /// What is wrong, as a clause without a full stop.
    pub what: String,
    /// What the user can do, as full sentences.
    pub advice: &'static str,
}

/// The kinds of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The signature is invalid, contradicts itself, or was made by another key.
    Invalid,
    /// A key is trusted but a certificate has signed, or the other way round.
    OtherTrust,
    /// The signature is of a kind that is not supported.
    Unsupported,
    /// The signature is too long.
    TooLong,
    /// What the caller trusts cannot be read.
    Argument,
    /// A key is given in place of a certificate, or the other way round.
    OtherArgument,
}

impl Kind {
    /// The stable code of errors of this kind.
    pub fn code(self) -> &'static str {
        match self {
            Kind::Invalid | Kind::OtherTrust => "SIGNATURE",
            Kind::Unsupported => "UNSUPPORTED",
            Kind::TooLong => "LIMIT",
            Kind::Argument | Kind::OtherArgument => "INVALID_ARGUMENT",
        }
    }
}

const INVALID: &str = "Do not use the model: get it again, and the key, from where its publisher offers them.";

/// Advice for signatures that only another tool, or another version of it, can have made.
pub(crate) const SIGN_AGAIN: &str = "Sign the model again with weightstream, or with model-signing 1.0 or newer.";

pub(crate) fn invalid(what: impl Into<String>) -> Refusal {
    Refusal { kind: Kind::Invalid, what: what.into(), advice: INVALID }
}

pub(crate) fn unsupported(what: impl Into<String>, advice: &'static str) -> Refusal {
    Refusal { kind: Kind::Unsupported, what: what.into(), advice }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. {}", self.what, self.advice)
    }
}

impl std::error::Error for Refusal {}
