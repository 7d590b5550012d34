//! What a check found: how severe it is, what was seen, and what to change.

use super::probe::{Exchange, shown};
use reqwest::Url;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// The server does this as it should.
    Ok,
    /// A fact that matters only in some cases.
    Info,
    /// Loads are slower, cannot be resumed, or cannot be cached.
    Warning,
    /// Loads fail, or return outdated files.
    Error,
}

impl Severity {
    /// The name in reports: `ok`, `info`, `warning` or `error`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The stable name of the check, such as `cors-origin`.
    pub name: &'static str,
    /// How much the finding matters.
    pub severity: Severity,
    /// The request, without the values of secret headers and without the query of the URL, which may be a signature.
    pub request: String,
    /// What the server answered.
    pub seen: String,
    /// What to change. Empty if nothing needs to change.
    pub advice: String,
}

/// Collects findings.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    pub(super) findings: Vec<Finding>,
}

impl Sheet {
    pub(super) fn add(
        &mut self,
        severity: Severity,
        name: &'static str,
        subject: &impl Subject,
        seen: impl Into<String>,
        advice: &str,
    ) {
        let (request, seen, advice) = (subject.request(), seen.into(), advice.to_owned());
        self.findings.push(Finding { name, severity, request, seen, advice });
    }
}

/// What a finding is about.
pub(super) trait Subject {
    fn request(&self) -> String;
}

impl Subject for Exchange {
    fn request(&self) -> String {
        self.request.clone()
    }
}

impl Subject for Url {
    fn request(&self) -> String {
        format!("GET {}", shown(self))
    }
}
