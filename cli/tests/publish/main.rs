//! Tests of `weightstream publish --check` and of the library's check behind it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod command;
mod cors;
mod files;
mod server;

use server::Change;
use weightstream_publish::check::{CheckOptions, Finding, Report, Severity, check};

fn report(path: &str, change: Change) -> Report {
    check(&format!("{}{path}", server::start(change)), &CheckOptions::default()).unwrap()
}

/// The most severe finding of this name.
#[track_caller]
fn finding<'a>(report: &'a Report, name: &str) -> &'a Finding {
    let named = report.findings.iter().filter(|finding| finding.name == name);
    named.max_by_key(|finding| finding.severity).unwrap_or_else(|| panic!("no {name} in {:#?}", report.findings))
}

/// Asserts the severity of a check of `/model.safetensors`, and that it tells what to change.
#[track_caller]
fn assert_found(name: &str, severity: Severity, change: Change) {
    let report = report("/model.safetensors", change);
    let finding = finding(&report, name);
    assert_eq!(finding.severity, severity, "{finding:?}");
    assert!(!finding.advice.is_empty() && finding.request.contains("/model.safetensors"), "{finding:?}");
}

#[test]
fn finds_nothing_wrong_with_a_correct_server() {
    let report = report("/model.safetensors", |_, _| {});
    assert_eq!(report.severity(), Severity::Ok, "{:#?}", report.findings);
    for name in ["model-opens", "ranges", "etag", "cors-origin", "cors-expose", "cache-control"] {
        assert_eq!(finding(&report, name).severity, Severity::Ok);
    }
}
