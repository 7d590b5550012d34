//! The HTTP client of object stores: the same TLS as [`HttpSource`](weightstream::internals::source::http::HttpSource),
//! instead of the provider that `object_store` would bring.

use super::encoded_names::EncodedNames;
use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpConnector};
use reqwest::header::HeaderMap;
use std::time::Duration;
use weightstream::internals::http::client_builder;

/// The time without any byte after which a request has failed. A part of 8 MiB must arrive within it, and the store
/// must answer.
const STALL_TIMEOUT: Duration = Duration::from_secs(300);

/// Connects to a store, and sends these headers with every request.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) headers: HeaderMap,
    /// The URL of a web server, without a slash at its end. Stores sign the paths as `object_store` writes them.
    pub(super) web_server: Option<String>,
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed =
            |source: Box<dyn std::error::Error + Send + Sync>| object_store::Error::Generic { store: "HTTP", source };
        let builder = client_builder().map_err(|error| failed(error.into()))?;
        let builder = builder.default_headers(self.headers.clone()).read_timeout(STALL_TIMEOUT);
        let client = builder.build().map_err(|error| failed(error.into()))?;
        Ok(match self.web_server.clone() {
            Some(base) => HttpClient::new(EncodedNames { client, base }),
            None => HttpClient::new(client),
        })
    }
}
