//! The HTTP client, and what all requests check: addresses, headers, redirects.

use crate::error::{Error, ErrorKind, Result};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Response, Url, redirect};
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Time limit for a connection, shorter than the stall timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of redirects, the same as in browsers.
pub const MAX_REDIRECTS: usize = 20;

/// A client that does not follow redirects.
///
/// # Errors
/// `IO` if TLS cannot be initialized.
pub fn client() -> Result<Client> {
    client_builder()?.build().map_err(|error| no_client(error.to_string()).with_cause(error))
}

/// A client that does not follow redirects. It uses HTTP/1.1 only: parallel range requests are faster because each
/// connection has its own TCP window.
///
/// # Errors
/// `IO` if TLS cannot be initialized.
pub fn client_builder() -> Result<ClientBuilder> {
    Ok(Client::builder()
        .tls_backend_preconfigured(TLS.clone().map_err(no_client)?)
        .http1_only()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("weightstream/", env!("CARGO_PKG_VERSION"))))
}

fn no_client(error: String) -> Error {
    Error::new(ErrorKind::Io, format!("TLS cannot be initialized: {error}"))
}

/// The TLS configuration. It is created once, because reading the system's certificates is slow.
static TLS: LazyLock<std::result::Result<ClientConfig, String>> = LazyLock::new(|| {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.and_then(BuilderVerifierExt::with_platform_verifier).map_err(|error| error.to_string())?;
    Ok(builder.with_no_client_auth())
});

/// Parses the URL of a file.
///
/// # Errors
/// `INVALID_ARGUMENT` for another scheme than http and https.
pub fn parse_url(url: &str) -> Result<Url> {
    let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    parsed.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "this is not an http or https URL"))
}

/// Parses a URL that the caller has passed.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is not an http(s) URL, or contains a user name or password.
pub(super) fn parse_own_url(url: &str) -> Result<Url> {
    let url = parse_url(url)?;
    if !url.username().is_empty() || url.password().is_some() {
        // Error messages contain the URL, so it must not contain secrets. Browsers reject such URLs, too.
        let error = Error::new(ErrorKind::InvalidArgument, "the URL contains a user name or a password");
        return Err(error.advise("Remove it from the URL and send it as a header."));
    }
    Ok(url)
}

/// Checks the headers (name and value) that a caller adds to requests.
///
/// # Errors
/// `INVALID_ARGUMENT` for a name or a value that no header can have.
pub fn checked_headers(headers: &[(String, String)]) -> Result<HeaderMap> {
    let mut checked = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| Error::new(ErrorKind::InvalidArgument, "a header has an invalid name"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            Error::new(ErrorKind::InvalidArgument, format!("the header \"{name}\" has an invalid value"))
        })?;
        value.set_sensitive(true);
        checked.append(name, value);
    }
    Ok(checked)
}

/// The target of a redirect, if the response is one.
///
/// # Errors
/// `HTTP` for a target that is not an http or https URL.
pub fn redirect_target(response: &Response, url: &Url) -> Result<Option<Url>> {
    let redirects = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = text(response, &header::LOCATION).filter(|_| redirects) else { return Ok(None) };
    let target = url.join(&location).ok().and_then(|target| parse_url(target.as_str()).ok());
    target.map(Some).ok_or_else(|| {
        let error = Error::new(ErrorKind::Http, "the server redirects to a target that is not an http or https URL");
        error.with_status(response.status().as_u16())
    })
}

pub(super) fn text(response: &Response, name: &HeaderName) -> Option<String> {
    let value = response.headers().get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// A URL without its query, which contains secrets if the URL is signed.
pub fn without_query(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// A network error with the message of the innermost source error. The outer messages are not specific.
pub fn network_error(what: &str, error: reqwest::Error) -> Error {
    let is_permanent = error.is_builder();
    let error = error.without_url();
    let mut reason: &dyn std::error::Error = &error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    let error = Error::new(ErrorKind::Network, format!("{what} ({reason})"))
        .advise("Check the connection and the name of the host, then try again.")
        .with_cause(error);
    if is_permanent { error } else { error.transient() }
}
