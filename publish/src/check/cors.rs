//! CORS: whether a page of another origin may read the responses and their headers.

use super::finding::{Severity, Sheet};
use super::probe::{Exchange, Prober, joined, shown};
use reqwest::header::{self, HeaderMap, HeaderName};
use reqwest::{Method, Url};
use weightstream::Result;

const TIMING_ALLOW_ORIGIN: HeaderName = HeaderName::from_static("timing-allow-origin");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Checks that the page may read the response, also if it is an error, and follow the redirects to it.
pub(super) fn check_access(prober: &Prober, response: &Exchange, sheet: &mut Sheet) {
    let page = prober.origin.origin();
    for hop in &response.hops {
        if hop.url.origin() != page && !allows(&hop.headers, &hop.sent_origin) {
            let value = joined(&hop.headers, &header::ACCESS_CONTROL_ALLOW_ORIGIN).unwrap_or_else(|| "none".to_owned());
            let from = shown(&hop.url);
            let seen = format!("the redirect of {from} has Access-Control-Allow-Origin {value}");
            let advice = "Send Access-Control-Allow-Origin with redirects, too: browsers check each of them.";
            sheet.add(Severity::Error, "cors-redirect", response, seen, advice);
        }
    }
    if response.url.origin() == page {
        return;
    }
    let seen = response.line(&header::ACCESS_CONTROL_ALLOW_ORIGIN);
    if allows(&response.headers, &response.sent_origin) {
        sheet.add(Severity::Ok, "cors-origin", response, seen, "");
    } else {
        let seen = format!("{seen}, for Origin: {}", response.sent_origin);
        let advice = "Send `Access-Control-Allow-Origin: *`, or the origin of the page; also with error responses.";
        sheet.add(Severity::Error, "cors-origin", response, seen, advice);
    }
}

/// Checks the other headers of a successful response to another origin.
pub(super) fn check_headers(response: &Exchange, sheet: &mut Sheet) {
    let (allow, expose) = (header::ACCESS_CONTROL_ALLOW_ORIGIN, header::ACCESS_CONTROL_EXPOSE_HEADERS);
    let allowed = response.header(&allow);
    if allowed.as_deref() == Some("*") && response.lists(&header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true") {
        let advice = "Browsers reject `*` for requests with cookies: send the origin of the page instead, or leave \
                      out Access-Control-Allow-Credentials.";
        let seen = "access-control-allow-origin: *, access-control-allow-credentials: true";
        sheet.add(Severity::Warning, "cors-credentials", response, seen, advice);
    }
    if allowed.as_deref().is_some_and(|value| value != "*") && !response.lists(&header::VARY, "origin") {
        let advice = "Send `Vary: Origin`: otherwise caches hand this response to pages of other origins, where it \
                      fails.";
        let seen = format!("{}, {}", response.line(&allow), response.line(&header::VARY));
        sheet.add(Severity::Warning, "vary-origin", response, seen, advice);
    }
    let needed = [header::CONTENT_RANGE, header::ETAG];
    let is_exposed = |name: &HeaderName| response.lists(&expose, "*") || response.lists(&expose, name.as_str());
    let hidden: Vec<_> = needed.iter().filter(|name| !is_exposed(name)).map(HeaderName::as_str).collect();
    if hidden.is_empty() {
        sheet.add(Severity::Ok, "cors-expose", response, response.line(&expose), "");
    } else {
        let seen = format!("{}; pages cannot read {}", response.line(&expose), hidden.join(" and "));
        let advice = "Send `Access-Control-Expose-Headers: Content-Range, Content-Encoding, ETag, Retry-After`: with \
                      them, loads are checked, resumed and cached.";
        sheet.add(Severity::Warning, "cors-expose", response, seen, advice);
    }
    for (name, check, advice) in [
        (TIMING_ALLOW_ORIGIN, "timing-allow-origin", "Pages see detailed timings only with `Timing-Allow-Origin: *`."),
        (
            RESOURCE_POLICY,
            "cross-origin-resource-policy",
            "Only requests without CORS from cross-origin isolated pages need `cross-origin`.",
        ),
    ] {
        if !response.headers.contains_key(&name) {
            sheet.add(Severity::Info, check, response, response.line(&name), advice);
        }
    }
}

/// A single range is CORS-safelisted, so that only the headers of the page need a preflight request.
pub(super) async fn check_preflight(prober: &Prober, file: &Url, sheet: &mut Sheet) -> Result<()> {
    let is_sent = file.origin() == prober.model.origin() && file.origin() != prober.origin.origin();
    if prober.headers.is_empty() || !is_sent {
        return Ok(());
    }
    let mut names: Vec<_> = prober.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    let names = names.join(",");
    let asked =
        [(header::ACCESS_CONTROL_REQUEST_METHOD, "GET"), (header::ACCESS_CONTROL_REQUEST_HEADERS, names.as_str())];
    let response = prober.send(&Method::OPTIONS, file, &asked).await?;
    let list = header::ACCESS_CONTROL_ALLOW_HEADERS;
    // The wildcard does not include Authorization.
    let is_allowed =
        |name: &str| response.lists(&list, name) || (name != "authorization" && response.lists(&list, "*"));
    let are_allowed = names.split(',').all(is_allowed);
    let is_success = (200..300).contains(&response.status) && response.hops.is_empty();
    let seen = format!("{}, {}", response.status_line(), response.line(&list));
    if is_success && are_allowed && allows(&response.headers, &response.sent_origin) {
        sheet.add(Severity::Ok, "cors-preflight", &response, seen, "");
    } else {
        let advice = "Answer OPTIONS with 204, without asking for credentials, and list these headers in \
                      Access-Control-Allow-Headers.";
        sheet.add(Severity::Error, "cors-preflight", &response, seen, advice);
    }
    Ok(())
}

fn allows(headers: &HeaderMap, origin: &str) -> bool {
    joined(headers, &header::ACCESS_CONTROL_ALLOW_ORIGIN).is_some_and(|value| value == "*" || value == origin)
}
