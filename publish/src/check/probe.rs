//! Sends requests as a page of another origin does, and records the responses, including those of redirects.

use super::CheckOptions;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, Url, Version};
use weightstream::internals::http::{
    MAX_REDIRECTS, checked_headers, client, network_error, parse_url, redirect_target,
};
use weightstream::{Error, ErrorKind, Result};

/// Bytes read of a body: more than any requested range, so that a longer body is detected.
const MAX_BODY: usize = 4096;

/// The value of browsers on https pages.
const ACCEPT_ENCODING: &str = "gzip, deflate, br, zstd";

#[derive(Debug)]
pub(super) struct Prober {
    client: Client,
    /// The page.
    pub(super) origin: Url,
    /// The file that was opened.
    pub(super) model: Url,
    /// Headers of the page, sent only to the origin of the model.
    pub(super) headers: HeaderMap,
    same_origin_only: bool,
}

/// A request and its final response.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) request: String,
    pub(super) hops: Vec<Hop>,
    pub(super) url: Url,
    /// The `Origin` of the last request. Browsers send `null` after redirects between other origins.
    pub(super) sent_origin: String,
    pub(super) status: u16,
    pub(super) version: Version,
    pub(super) headers: HeaderMap,
    /// The beginning of the body.
    pub(super) body: Vec<u8>,
}

/// A response that redirects.
#[derive(Debug)]
pub(super) struct Hop {
    pub(super) url: Url,
    pub(super) target: Url,
    pub(super) headers: HeaderMap,
    pub(super) sent_origin: String,
}

impl Prober {
    pub(super) fn new(url: &str, options: &CheckOptions) -> Result<Self> {
        let origin = parse_url(&options.origin).map_err(|_| invalid_origin())?;
        if origin.origin().ascii_serialization() != options.origin.trim_end_matches('/') {
            return Err(invalid_origin());
        }
        let (model, headers) = (parse_url(url)?, checked_headers(&options.headers)?);
        Ok(Prober { client: client()?, origin, model, headers, same_origin_only: options.same_origin_only })
    }

    pub(super) async fn range(&self, url: &Url, range: &str) -> Result<Exchange> {
        self.get(url, &[(header::RANGE, range)]).await
    }

    pub(super) async fn get(&self, url: &Url, headers: &[(HeaderName, &str)]) -> Result<Exchange> {
        self.send(&Method::GET, url, headers).await
    }

    /// Sends a request with the headers of a page, and follows redirects as browsers do.
    pub(super) async fn send(&self, method: &Method, url: &Url, headers: &[(HeaderName, &str)]) -> Result<Exchange> {
        let page = self.origin.origin();
        let (mut url, mut hops, mut origin) = (url.clone(), Vec::new(), page.ascii_serialization());
        let mut request = format!("{method} {}", shown(&url));
        for (name, value) in headers {
            request.push_str(&format!(", {name}: {value}"));
        }
        let mut is_trusted = true;
        for _ in 0..=MAX_REDIRECTS {
            is_trusted &= url.origin() == self.model.origin();
            if self.same_origin_only && url.origin() != self.model.origin() {
                let what = format!("the model leads to {}, which is another origin", shown(&url));
                return Err(Error::new(ErrorKind::Http, what)
                    .advise("Leave out `CheckOptions::same_origin_only` to check it, too."));
            }
            let response = self.send_once(method, &url, headers, &origin, is_trusted).await?;
            let Some(target) = redirect_target(&response, &url)? else {
                let (status, version) = (response.status().as_u16(), response.version());
                let headers = response.headers().clone();
                let body = beginning(response).await?;
                return Ok(Exchange { request, hops, url, sent_origin: origin, status, version, headers, body });
            };
            let is_tainted = target.origin() != url.origin() && url.origin() != page;
            let sent_origin = origin.clone();
            hops.push(Hop { url, target: target.clone(), headers: response.headers().clone(), sent_origin });
            if is_tainted {
                origin = "null".to_owned();
            }
            url = target;
        }
        Err(Error::new(ErrorKind::Http, format!("the server redirects more than {MAX_REDIRECTS} times")))
    }

    async fn send_once(
        &self,
        method: &Method,
        url: &Url,
        headers: &[(HeaderName, &str)],
        origin: &str,
        is_trusted: bool,
    ) -> Result<Response> {
        let mut request = self.client.request(method.clone(), url.clone());
        // Browsers send no credentials with a preflight request.
        if is_trusted && method != Method::OPTIONS {
            request = request.headers(self.headers.clone());
        }
        request = request.header(header::ORIGIN, origin).header(header::ACCEPT_ENCODING, ACCEPT_ENCODING);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        request.send().await.map_err(|error| network_error("the request failed", error).in_file(&shown(url)))
    }
}

impl Exchange {
    pub(super) fn header(&self, name: &HeaderName) -> Option<String> {
        joined(&self.headers, name)
    }

    /// The header as it is shown in findings.
    pub(super) fn line(&self, name: &HeaderName) -> String {
        self.header(name).map_or_else(|| format!("no {name}"), |value| format!("{name}: {value}"))
    }

    pub(super) fn status_line(&self) -> String {
        format!("{:?} {}", self.version, self.status)
    }

    /// Whether a header is a list that contains this item, ignoring case.
    pub(super) fn lists(&self, name: &HeaderName, item: &str) -> bool {
        self.header(name).is_some_and(|value| value.split(',').any(|one| one.trim().eq_ignore_ascii_case(item)))
    }
}

/// The value of a header; several lines of one name are joined, as RFC 9110 allows.
pub(super) fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let values: Vec<_> = headers.get_all(name).iter().map(text).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// A URL without its query, which contains secrets if the URL is signed.
pub(super) fn shown(url: &Url) -> String {
    weightstream::internals::http::without_query(url)
}

async fn beginning(mut response: Response) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    while body.len() < MAX_BODY {
        match response.chunk().await.map_err(|error| network_error("the connection broke", error))? {
            Some(chunk) => body.extend_from_slice(&chunk),
            None => break,
        }
    }
    body.truncate(MAX_BODY);
    Ok(body)
}

fn invalid_origin() -> Error {
    let error = Error::new(ErrorKind::InvalidArgument, "the origin of the page is not a scheme, a host and a port");
    error.advise("Write it as in `https://app.example`, without a path.")
}
