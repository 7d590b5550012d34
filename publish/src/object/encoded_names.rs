//! Requests to web servers, with the names of files as [`names`] encodes them. `object_store` leaves characters such as
//! `[` and `+` as they are, and a server or a cache that does not decode names would have two files.

use futures::future::BoxFuture;
use object_store::client::{HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService};
use reqwest::Client;
use weightstream::internals::names;

/// A client of the web server at `base`, a URL without a slash at its end. What follows it in the URL of a request is
/// the path of a file.
#[derive(Debug)]
pub(super) struct EncodedNames {
    pub(super) client: Client,
    pub(super) base: String,
}

impl HttpService for EncodedNames {
    // The signature is that of the macro `async_trait`.
    fn call<'this, 'call>(&'this self, mut request: HttpRequest) -> BoxFuture<'call, Result<HttpResponse, HttpError>>
    where
        'this: 'call,
        Self: 'call,
    {
        Box::pin(async move {
            if let Some(url) = self.encoded(&request.uri().to_string()) {
                *request.uri_mut() = url.parse().map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
            }
            self.client.call(request).await
        })
    }
}

impl EncodedNames {
    /// The URL of a request, with the path below the base as [`names`] encodes it.
    fn encoded(&self, url: &str) -> Option<String> {
        let path = names::decoded(url.strip_prefix(&self.base)?)?;
        Some(format!("{}{}", self.base, names::encoded(&path)))
    }
}
