//! A URL, read by `fetch` with Range requests.

mod hub;
mod mirrored;
mod on_hub;
mod scheme;

use super::exchange::exchange;
use super::history::{History, request_with_known_version};
use super::mirrors::MirroredFile;
use super::part_urls::{self, PartUrls};
use super::stream::{StreamBody, body_used_error, network_error};
use super::{RangeResponse, answer};
#[cfg(feature = "js")]
use crate::browser::csp;
use crate::browser::type_tag::tag;
#[cfg(feature = "web-workers")]
use crate::cache::key::partition;
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::hub::{Hub, HubFile};
#[cfg(feature = "web-workers")]
use crate::identity::Identity;
use futures::future::{FutureExt, LocalBoxFuture};
use js_sys::{Date, Function, Promise, Reflect};
use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, Headers, RequestCache, RequestCredentials, RequestInit, Response, ResponseType, Url};

/// Number of consecutive Range requests that fail without a response before the whole file is requested. It equals the
/// number of retries for a file without any response.
const FAILURES_BEFORE_WHOLE: u32 = 2;

/// A header of a request.
type Header<'a> = (&'a str, String);

/// Request settings.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Client {
    /// Replaces `globalThis.fetch`.
    pub fetch: Option<Function>,
    /// Headers that are sent only to `origin`.
    pub headers: Vec<(String, String)>,
    /// Credentials mode, applied only to requests to `origin`.
    pub credentials: Option<RequestCredentials>,
    /// The origin of the URL that the caller opened.
    pub origin: String,
    /// The hub that addresses such as `hf:owner/name/path` refer to.
    pub hub: Hub,
    /// Which URLs the other files of a model have.
    pub part_urls: PartUrls,
    /// Number of requests that were sent.
    pub requests: Rc<Cell<u64>>,
    /// The `Content-Type` of the first successful response.
    pub(crate) content_type: Rc<OnceCell<String>>,
}

/// A file at a URL.
#[derive(Debug, Clone)]
pub(crate) struct FetchSource {
    url: String,
    client: Rc<Client>,
    /// Whether the URL comes from a manifest, not from the caller.
    is_from_manifest: bool,
    /// The file on a hub, if it is one whose revision is pinned.
    hub_file: Option<Rc<HubFile>>,
    /// Number of Range requests that failed without a response; `None` after the first response.
    failures: Rc<Cell<Option<u32>>>,
    history: Rc<History>,
    /// The other addresses of the file, if there are any.
    mirrored: Option<Rc<MirroredFile<FetchSource>>>,
}

impl FetchSource {
    /// The file at an absolute URL.
    pub(crate) fn new(url: String, client: Rc<Client>) -> Self {
        FetchSource {
            url,
            client,
            is_from_manifest: false,
            hub_file: None,
            failures: no_failures(),
            history: Rc::default(),
            mirrored: None,
        }
    }

    /// Implements [`Source::stated_digest`](super::Source::stated_digest).
    pub(crate) fn stated_digest(&self) -> Option<Digest> {
        self.hub_file.as_ref()?.repository.digest_of(&self.url)
    }

    /// The URL, for error messages.
    pub(crate) fn name(&self) -> &str {
        &self.url
    }

    /// Implements [`Source::file_name`](super::Source::file_name).
    pub(crate) fn file_name(&self) -> Option<String> {
        part_urls::file_name(&self.url)
    }

    /// Implements [`Source::read`](super::Source::read). Every request follows the redirects again, because signed URLs
    /// expire; only a hub says when.
    ///
    /// # Errors
    /// Those of [`Source::read`](super::Source::read).
    pub(crate) fn read(&self, range: Range<u64>) -> LocalBoxFuture<'_, Result<RangeResponse<StreamBody>>> {
        match &self.mirrored {
            Some(mirrored) => mirrored.read(self.alone(), range),
            None => self.read_alone(range),
        }
    }

    /// Like [`FetchSource::read`], but from this URL only.
    ///
    /// # Errors
    /// Those of [`Source::read`](super::Source::read).
    #[inline(never)] // its callers would have its code otherwise
    pub(crate) fn read_alone(&self, range: Range<u64>) -> LocalBoxFuture<'_, Result<RangeResponse<StreamBody>>> {
        let request = async |range: &Range<u64>| self.read_once(range).await;
        async move { request_with_known_version(&self.history, range, request).await }.boxed_local()
    }

    /// Requests a range of the file, or the whole file if its ranges cannot be used.
    async fn read_once(&self, range: &Range<u64>) -> Result<RangeResponse<StreamBody>> {
        let (checked, mut head, mut unread) = exchange(&self.history, range, async |range| {
            let (response, controller) = self.request_range(range).await?;
            // Without a Range header, the browser decodes an encoded file.
            Ok((head_of(&response), Unread(Some((response, controller)))))
        })
        .await?;
        let Some((response, controller)) = unread.0.take() else {
            return Err(Error::new(ErrorKind::Internal, "a response is missing"));
        };
        if let Some(content_type) = head.content_type.take() {
            self.client.content_type.get_or_init(|| content_type);
        }
        let length = checked.end.map(|end| end - checked.start);
        let mut body = StreamBody::new(response.body(), length, Some(controller))?;
        body.must_end = head.content_length.is_none();
        Ok(checked.map(|()| body))
    }

    /// Implements [`CacheHints::reject`](super::CacheHints::reject).
    pub(crate) fn reject(&self) {
        if let Some(mirrored) = &self.mirrored {
            mirrored.reject();
        }
    }

    /// States which version is cached, and its first bytes, with which those of mirrors are compared.
    #[cfg(feature = "web-workers")]
    pub(crate) fn expect_cached(&self, identity: &Identity, first_bytes: &[u8]) {
        if let Some(mirrored) = &self.mirrored {
            mirrored.expect_cached(identity, first_bytes);
        }
    }

    /// Whether the file has other addresses.
    #[cfg(feature = "web-workers")]
    pub(crate) fn has_mirrors(&self) -> bool {
        self.mirrored.is_some()
    }

    /// Implements [`Source::part`](super::Source::part).
    ///
    /// # Errors
    /// Those of [`PartUrls::url_of`].
    pub(crate) fn part(&self, path: &str) -> Result<Self> {
        let url = self.part_url(&self.url, path)?;
        let hub_file = self.hub_file.as_ref().and_then(|file| HubFile::new(&file.repository, &url));
        let url_at = |address: &str| self.part_url(address, path);
        let mirrored = self.mirrored.as_ref().map(|mirrored| mirrored.part(url.clone(), &url_at));
        Ok(FetchSource { url, hub_file, failures: no_failures(), history: Rc::default(), mirrored, ..self.clone() })
    }

    /// The URL of another file of the model, from an address of this one.
    fn part_url(&self, address: &str, path: &str) -> Result<String> {
        let join = |part: &str| Url::new_with_base(part, address).ok().map(|url| url.href());
        self.client.part_urls.url_of(address, path, join)
    }

    /// Implements [`Source::part_at_url`](super::Source::part_at_url). The request carries neither headers nor
    /// credentials, not even to the caller's origin: the author of a manifest must not be able to send authenticated
    /// requests.
    pub(crate) fn part_at_url(&self, url: &str) -> Self {
        let source = FetchSource::new(url.to_owned(), Rc::clone(&self.client));
        FetchSource { is_from_manifest: true, ..source }
    }

    /// A hash of the headers and credentials of requests for this file, if any: see
    /// [`partition`](crate::cache::key::partition).
    #[cfg(feature = "web-workers")]
    pub(crate) fn partition(&self) -> Option<String> {
        let Client { headers, credentials, .. } = &*self.client;
        let includes_cookies = matches!(credentials, Some(RequestCredentials::Include));
        if self.is_from_manifest || !self.is_at_origin(&self.url) { None } else { partition(headers, includes_cookies) }
    }

    /// Whether the requests of the loader may have headers or credentials.
    #[cfg(feature = "js")]
    pub(crate) fn has_credentials(&self) -> bool {
        !self.client.headers.is_empty() || matches!(self.client.credentials, Some(RequestCredentials::Include))
    }

    /// Whether requests for this file have headers or credentials.
    #[cfg(feature = "js")]
    pub(crate) fn is_private(&self) -> bool {
        self.partition().is_some()
    }

    /// Whether a URL is at the origin that receives the caller's headers.
    fn is_at_origin(&self, url: &str) -> bool {
        Url::new(url).is_ok_and(|url| origin_of(&url) == self.client.origin)
    }

    /// Requests a range, or the whole file if no Range request ever got a response. Chromium rejects encoded responses
    /// to Range requests without a reason, because it sends `Accept-Encoding: identity` with them. It decodes whole
    /// files.
    async fn request_range(&self, range: Option<&Range<u64>>) -> Result<(Response, AbortController)> {
        let failures = self.failures.get();
        if range.is_none() || failures.is_some_and(|failures| failures >= FAILURES_BEFORE_WHOLE) {
            return self.request(None).await;
        }
        let result = self.request(range).await;
        self.failures.set(failures.filter(|_| result.is_err()).map(|failures| failures + 1));
        let never_answered = failures.is_some() && result.as_ref().is_err_and(|error| error.is_transient);
        if never_answered && self.client.fetch.is_none() && scheme::may_be_unknown(&self.url) {
            let whole = self.request(None).await;
            // The next call of the app tries both again.
            self.failures.set(Some(if whole.is_ok() { FAILURES_BEFORE_WHOLE } else { 0 }));
            return whole.map_err(|error| scheme::not_loaded(&self.url, error));
        }
        result
    }

    async fn request(&self, range: Option<&Range<u64>>) -> Result<(Response, AbortController)> {
        let header = range.map(|range| ("Range", answer::range_header(range)));
        match self.hub_file.as_deref() {
            Some(file) => on_hub::request(self, file, header).await,
            None => self.send(&self.url, header).await,
        }
    }

    async fn send(&self, url: &str, header: Option<Header<'_>>) -> Result<(Response, AbortController)> {
        let no_browser = |cause| network_error("`fetch` is not available", cause);
        let controller = AbortController::new().map_err(no_browser)?;
        let headers = Headers::new().map_err(no_browser)?;
        let init = RequestInit::new();
        if self.is_from_manifest {
            // By default, `fetch` sends cookies to the page's own origin.
            init.set_credentials(RequestCredentials::Omit);
        } else if self.is_at_origin(url) {
            for (name, value) in &self.client.headers {
                headers.set(name, value).map_err(|cause| {
                    let mut error = network_error(&format!("the header \"{name}\" is invalid"), cause);
                    (error.kind, error.is_transient) = (ErrorKind::InvalidArgument, false);
                    error
                })?;
            }
            if let Some(credentials) = self.client.credentials {
                init.set_credentials(credentials);
            }
        }
        if let Some((name, value)) = header {
            headers.set(name, &value).map_err(no_browser)?;
        }
        init.set_headers(&headers);
        // Chromium's HTTP cache serializes parallel Range requests for one URL, and a cache hit is slower than
        // loopback.
        init.set_cache(RequestCache::NoStore);
        init.set_signal(Some(&controller.signal()));
        self.client.requests.set(self.client.requests.get() + 1);
        let pending = Pending(Some(controller.clone()));
        let response = self.call_fetch(url, &init).await;
        pending.complete();
        let response = match response {
            Ok(response) => response,
            Err(cause) => return Err(request_error(url, cause).await),
        };
        if tag(&response) != "[object Response]" {
            return Err(Error::new(ErrorKind::InvalidArgument, "`fetch` did not return a Response"));
        }
        let response: Response = response.unchecked_into();
        if response.body_used() {
            return Err(body_used_error("`fetch` returned a Response whose body was already read", None));
        }
        Ok((response, controller))
    }

    async fn call_fetch(&self, url: &str, init: &RequestInit) -> Result<JsValue, JsValue> {
        let global = js_sys::global();
        let fetch = match &self.client.fetch {
            Some(fetch) => fetch.clone(),
            None => Reflect::get(&global, &"fetch".into())?.dyn_into::<Function>()?,
        };
        let promise = fetch.call2(&global, &url.into(), init)?;
        JsFuture::from(Promise::resolve(&promise)).await
    }
}

/// The origin of a URL. Unlike `origin` of `URL`, it distinguishes those of an app's own schemes.
fn origin_of(url: &Url) -> String {
    format!("{}//{}", url.protocol(), url.host())
}

/// The error for an exception of `fetch`.
async fn request_error(url: &str, cause: JsValue) -> Error {
    // The package's own `fetch` functions throw a LoadError, after their retries.
    let is_final = Reflect::get(&cause, &"name".into()).is_ok_and(|name| name == "LoadError");
    #[cfg(feature = "js")]
    let is_final = is_final || csp::forbids(url).await;
    #[cfg(not(feature = "js"))]
    let _ = url;
    let mut error = network_error("the request failed", cause);
    error.is_transient = !is_final;
    error
}

/// A request without a response yet. Dropping it aborts the request; otherwise the browser would download the whole
/// body.
struct Pending(Option<AbortController>);

impl Pending {
    fn complete(mut self) {
        self.0 = None;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(controller) = &self.0 {
            controller.abort();
        }
    }
}

/// A response whose body is not read yet. Dropping it aborts the request, and with it a body that may never end.
struct Unread(Option<(Response, AbortController)>);

impl Drop for Unread {
    fn drop(&mut self) {
        if let Some((_, controller)) = &self.0 {
            controller.abort();
        }
    }
}

fn no_failures() -> Rc<Cell<Option<u32>>> {
    Rc::new(Cell::new(Some(0)))
}

fn head_of(response: &Response) -> answer::Head {
    let header = |name| header(response, name);
    let content_encoding = header("Content-Encoding");
    // Cross-origin, the encoding may not be readable. The Content-Length is, but it is that of the encoded body.
    let may_be_encoded =
        response.status() == 200 && response.type_() == ResponseType::Cors && content_encoding.is_none();
    let content_length = header("Content-Length").filter(|_| !may_be_encoded);
    answer::Head {
        status: response.status(),
        content_range: header("Content-Range"),
        content_length: content_length.and_then(|value| value.parse().ok()),
        content_encoding,
        content_type: header("Content-Type"),
        etag: header("ETag"),
        last_modified: header("Last-Modified"),
        retry_after_ms: header("Retry-After")
            .and_then(|value| retry_after_ms(&value))
            .or_else(|| header("RateLimit").and_then(|value| answer::rate_limit_ms(&value))),
    }
}

/// Parses a `Retry-After` header: a number of seconds or a date.
fn retry_after_ms(value: &str) -> Option<u64> {
    match value.parse::<u64>() {
        Ok(seconds) => Some(seconds.saturating_mul(1000)),
        Err(_) => {
            let until = Date::parse(value);
            (!until.is_nan()).then(|| (until - Date::now()).max(0.0) as u64)
        }
    }
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).ok().flatten()
}
