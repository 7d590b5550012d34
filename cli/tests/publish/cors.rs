//! What pages of other origins may read.

use super::{assert_found, finding, server};
use weightstream_publish::check::{CheckOptions, Severity, check};

#[test]
fn rejects_a_missing_or_different_allowed_origin() {
    assert_found("cors-origin", Severity::Error, |_, response| response.remove("access-control-allow-origin"));
    assert_found("cors-origin", Severity::Error, |_, response| {
        response.set("access-control-allow-origin", "https://other.example");
    });
}

#[test]
fn warns_of_hidden_headers() {
    assert_found("cors-expose", Severity::Warning, |_, response| response.remove("access-control-expose-headers"));
}

#[test]
fn warns_of_the_wildcard_with_credentials() {
    assert_found("cors-credentials", Severity::Warning, |_, response| {
        response.set("access-control-allow-credentials", "true");
    });
}

#[test]
fn warns_of_an_echoed_origin_without_vary() {
    assert_found("vary-origin", Severity::Warning, |request, response| {
        if let Some(origin) = request.headers.get("origin") {
            response.set("access-control-allow-origin", origin);
        }
    });
}

#[test]
fn mentions_missing_headers_of_isolated_pages_and_timings() {
    assert_found("timing-allow-origin", Severity::Info, |_, response| response.remove("timing-allow-origin"));
    assert_found("cross-origin-resource-policy", Severity::Info, |_, response| {
        response.remove("cross-origin-resource-policy");
    });
}

#[test]
fn rejects_a_redirect_that_pages_may_not_follow() {
    assert_found("cors-redirect", Severity::Error, |request, response| {
        if request.path == "/model.safetensors" {
            response.status = 307;
            response.set("location", "/moved");
            response.remove("access-control-allow-origin");
        }
    });
}

#[test]
fn sends_a_preflight_request_only_for_headers_of_the_page() {
    let mut options = CheckOptions::default();
    options.headers = vec![("Authorization".to_owned(), "Bearer secret".to_owned())];
    let url = format!("{}/model.safetensors", server::start(|_, _| {}));
    assert_eq!(finding(&check(&url, &options).unwrap(), "cors-preflight").severity, Severity::Ok);
    let without = check(&url, &CheckOptions::default()).unwrap();
    assert!(without.findings.iter().all(|finding| finding.name != "cors-preflight"));

    let refusing = server::start(|request, response| {
        if request.method == "OPTIONS" {
            response.status = 401;
        }
    });
    let report = check(&format!("{refusing}/model.safetensors"), &options).unwrap();
    assert_eq!(finding(&report, "cors-preflight").severity, Severity::Error);
    assert!(!format!("{report:?}").contains("secret"));
}

#[test]
fn rejects_an_origin_with_a_path() {
    let mut options = CheckOptions::default();
    options.origin = "https://app.example/page".to_owned();
    assert_eq!(check("http://127.0.0.1:1/x", &options).unwrap_err().code(), "INVALID_ARGUMENT");
}
