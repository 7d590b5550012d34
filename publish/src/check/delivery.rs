//! How a response is delivered: redirects, protocol, connection and media type.

use super::finding::{Severity, Sheet};
use super::probe::{Exchange, Prober, shown};
use reqwest::{Url, Version, header};

pub(super) fn check(prober: &Prober, response: &Exchange, sheet: &mut Sheet) {
    check_redirects(response, sheet);
    let insecure = response.hops.iter().map(|hop| &hop.url).chain([&response.url]).find(|url| is_insecure(url));
    if let (Some(url), "https") = (insecure, prober.origin.scheme()) {
        let advice = "Serve the files over https: browsers block http on https pages.";
        sheet.add(Severity::Error, "mixed-content", response, shown(url), advice);
    }
    if response.header(&header::CONTENT_TYPE).is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/html")) {
        let advice = "This is a page, perhaps an error page or a login page with status 200. Answer 404 for missing \
                      files, and send weights as application/octet-stream.";
        sheet.add(Severity::Error, "content-type", response, response.line(&header::CONTENT_TYPE), advice);
    }
    let advice = "Each Range request then opens a new connection: use HTTP/1.1 with keep-alive, or HTTP/2.";
    if matches!(response.version, Version::HTTP_09 | Version::HTTP_10) {
        sheet.add(Severity::Warning, "http-version", response, response.status_line(), advice);
    } else if response.lists(&header::CONNECTION, "close") {
        sheet.add(Severity::Warning, "keep-alive", response, response.line(&header::CONNECTION), advice);
    }
}

fn check_redirects(response: &Exchange, sheet: &mut Sheet) {
    for hop in &response.hops {
        let seen = format!("redirect from {} to {}", shown(&hop.url), shown(&hop.target));
        let (from, to) = (hop.url.scheme(), hop.target.scheme());
        if from == "https" && to == "http" {
            let advice = "Redirect to https: others can modify what is sent over http.";
            sheet.add(Severity::Error, "redirect", response, seen, advice);
        } else if from == "http" && to == "https" {
            let advice = "Give apps the https URL: otherwise each Range request is redirected.";
            sheet.add(Severity::Warning, "redirect", response, seen, advice);
        } else {
            let advice = "Each Range request is redirected again. Give apps the final URL, unless it expires.";
            sheet.add(Severity::Info, "redirect", response, seen, advice);
        }
    }
}

/// Whether browsers treat the URL as mixed content on an https page. They trust this computer.
fn is_insecure(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let is_local = host == "localhost" || host.ends_with(".localhost") || host.starts_with("127.") || host == "[::1]";
    url.scheme() == "http" && !is_local
}
