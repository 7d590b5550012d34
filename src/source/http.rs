//! A URL, read by a native HTTP client with Range requests.

pub(crate) mod client;
mod hub;
mod mirrored;

use super::exchange::exchange;
use super::history::History;
use super::mirror::Mirror;
use super::mirrors::{Address as _, MirroredBody, MirroredFile, Mirrors};
use super::part_urls::{self, PartUrls};
use super::{Body, Buffer, CacheHints, Host, ModelSource, RangeResponse, Source, answer};
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::host::TokioHost;
use crate::hub::{Address, Hub, HubFile, is_on_hub};
use bytes::Bytes;
use client::{
    MAX_REDIRECTS, checked_headers, client, network_error, parse_own_url, parse_url, redirect_target, text,
    without_query,
};
use hub::Header;
use reqwest::header::{self, HeaderMap, HeaderName};
use reqwest::{Client, Response, Url};
use std::ops::Range;
use std::rc::Rc;
use std::time::SystemTime;

/// See [`answer::rate_limit_ms`].
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// A file at a URL. Its futures require a tokio runtime with I/O and time; a current-thread runtime is sufficient.
#[derive(Debug, Clone)]
pub struct HttpSource {
    url: Url,
    shared: Rc<Shared>,
    /// Whether the URL comes from a manifest, not from the caller.
    is_from_manifest: bool,
    history: Rc<History>,
    /// The file on a hub, if it is one whose revision is pinned.
    hub_file: Option<Rc<HubFile>>,
    /// Whether requests to other origins than that of the caller's URL are rejected.
    same_origin_only: bool,
    part_urls: PartUrls,
    /// The other addresses of the file, if there are any.
    mirrored: Option<Rc<MirroredFile<HttpSource>>>,
}

/// Settings that all files of a model share.
#[derive(Debug)]
struct Shared {
    client: Client,
    /// The URL that the caller opened.
    url: Url,
    /// Headers that are sent only to the origin of that URL.
    headers: HeaderMap,
    /// The address on a hub that the caller opened, if it is one.
    address: Option<Address>,
    host: TokioHost,
}

impl HttpSource {
    /// The file at `url`, or at an address of the Hugging Face Hub such as `hf:owner/name/path`. `headers` (name and
    /// value) are sent only to its origin: not to the targets of redirects to other origins, and not to URLs in a
    /// manifest.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if `url` is not an http(s) URL or contains a user name or password, and for invalid headers.
    /// The error message does not contain header values.
    pub fn new(url: &str, headers: &[(String, String)]) -> Result<Self> {
        HttpSource::with_hub(url, headers, Hub::default())
    }

    /// Like [`HttpSource::new`], with the hub that addresses refer to. Its token is sent only to the hub.
    ///
    /// # Errors
    /// Those of [`HttpSource::new`]; `INVALID_ARGUMENT` for a malformed address.
    pub fn with_hub(url: &str, headers: &[(String, String)], hub: Hub) -> Result<Self> {
        let (address, is_on_hub) = (Address::parse(url, &hub.endpoint)?, is_on_hub(url, &hub.endpoint));
        let url = match &address {
            Some(address) => parse_own_url(&address.unpinned())?,
            None => parse_own_url(url)?,
        };
        let mut headers = checked_headers(headers)?;
        if let (Some(token), true, false) = (&hub.token, is_on_hub, headers.contains_key(header::AUTHORIZATION)) {
            headers.extend(checked_headers(&[("authorization".to_owned(), format!("Bearer {token}"))])?);
        }
        let shared = Shared { client: client()?, url: url.clone(), headers, address, host: TokioHost::default() };
        let (shared, history, part_urls) = (Rc::new(shared), Rc::default(), PartUrls::default());
        let (is_from_manifest, hub_file, same_origin_only, mirrored) = (false, None, false, None);
        Ok(HttpSource { url, shared, is_from_manifest, history, hub_file, same_origin_only, part_urls, mirrored })
    }

    /// Adds mirrors: other URLs of the same file. The other files of the model are found relative to each of them. A
    /// range is requested from the first address that works, and from another one if it fails or is late. A mirror
    /// must have the length of the file, and bytes that are compared before others are used. Headers are sent only to
    /// the origin of the first address. Replaces mirrors that were added before.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if a mirror is not an http(s) URL, or contains a user name or password.
    pub fn with_mirrors<U: AsRef<str>>(self, urls: impl IntoIterator<Item = U>) -> Result<Self> {
        let checked = |(number, url): (usize, U)| {
            let what = |error: &Error| format!("mirror {}: {}", number + 1, error.what);
            parse_own_url(url.as_ref()).map_err(|error| Error { what: what(&error), ..error })
        };
        let urls = urls.into_iter().enumerate().map(checked).collect::<Result<Vec<_>>>()?;
        let mirrors = Mirrors::new(self.url.to_string(), urls.into_iter().map(String::from));
        Ok(HttpSource { mirrored: Some(MirroredFile::new(mirrors)), ..self })
    }

    /// The addresses of the model: the URL that was opened, and the mirrors. None without mirrors.
    pub fn mirrors(&self) -> Vec<Mirror> {
        self.mirrored.as_ref().map_or_else(Vec::new, |file| file.shared().report())
    }

    /// Sets which URLs the other files of the model have. By default, they keep the query of the opened URL.
    #[must_use]
    pub fn with_part_urls(self, part_urls: PartUrls) -> Self {
        HttpSource { part_urls, ..self }
    }

    /// The scheme, host and port that the headers are sent to, such as `https://example.org`.
    pub fn origin(&self) -> String {
        self.shared.url.origin().ascii_serialization()
    }

    /// Rejects redirects and manifest entries that lead to another origin (scheme, host and port) than that of the
    /// opened URL. No request is sent to other origins. Use this in a server that loads models for its clients, to
    /// prevent server-side request forgery.
    ///
    /// By default, other origins are allowed: hubs redirect every download to a storage host.
    #[must_use]
    pub fn same_origin_only(self) -> Self {
        HttpSource { same_origin_only: true, ..self }
    }

    /// Requests a range of the file, or the whole file if its ranges cannot be used.
    async fn read_once(&self, range: &Range<u64>) -> Result<RangeResponse<HttpBody>> {
        let (checked, head, response) = exchange(&self.history, range, async |range| {
            let response = self.request_range(range).await?;
            Ok((head_of(&response), response))
        })
        .await?;
        if let (true, Some(encoding)) = (head.is_encoded(), &head.content_encoding) {
            let what =
                format!("the server sent the file with Content-Encoding {encoding}, although identity was requested");
            let error = Error::new(ErrorKind::Unsupported, what).with_status(head.status);
            return Err(error.advise("Disable compression for this file on the server."));
        }
        let left = checked.end.map(|end| end - checked.start);
        Ok(checked.map(|()| HttpBody(BodyOrigin::Response(ResponseBody { response, left, chunk: Bytes::new() }))))
    }

    /// Requests a range of the file, or the whole file. Every request follows the redirects again, because signed URLs
    /// expire; only a hub says when.
    async fn request_range(&self, range: Option<&Range<u64>>) -> Result<Response> {
        let header = range.map(|range| (header::RANGE, answer::range_header(range)));
        match self.hub_file.as_deref() {
            Some(file) => self.request_on_hub(file, header).await,
            None => self.follow(&self.url, header).await,
        }
    }

    /// Sends a request, and follows redirects.
    async fn follow(&self, url: &Url, header: Option<Header>) -> Result<Response> {
        let mut url = url.clone();
        // After a redirect to another origin, later redirects are not trusted either.
        let mut is_trusted = !self.is_from_manifest;
        for _ in 0..=MAX_REDIRECTS {
            self.check_origin(&url)?;
            is_trusted &= url.origin() == self.shared.url.origin();
            if self.shared.url.scheme() == "https" && url.scheme() != "https" {
                let target = without_query(&url);
                let what = format!("the https URL of the model leads to {target}, which others can modify in transit");
                let error = Error::new(ErrorKind::Http, what);
                return Err(error.advise("Use a host that serves all files over https."));
            }
            let headers = is_trusted.then_some(&self.shared.headers);
            let response = self.send(&url, headers, header.clone()).await?;
            match redirect_target(&response, &url)? {
                Some(target) => url = target,
                None => return Ok(response),
            }
        }
        Err(Error::new(ErrorKind::Http, format!("the server redirects more than {MAX_REDIRECTS} times")))
    }

    async fn send(&self, url: &Url, headers: Option<&HeaderMap>, header: Option<Header>) -> Result<Response> {
        let mut request = self.shared.client.get(url.clone());
        if let Some(headers) = headers {
            request = request.headers(headers.clone());
        }
        // A range of an encoded file cannot be decoded.
        request = request.header(header::ACCEPT_ENCODING, "identity");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        request.send().await.map_err(|error| network_error("the request failed", error))
    }

    /// Checks a URL before it is requested. This applies to all URLs, including those of redirects and manifests.
    fn check_origin(&self, url: &Url) -> Result<()> {
        let own = self.shared.url.origin();
        if !self.same_origin_only || url.origin() == own {
            return Ok(());
        }
        let (own, place) = (own.ascii_serialization(), without_query(url));
        let what = format!("the model references {place}, but only URLs of {own} are allowed");
        Err(Error::new(ErrorKind::Http, what).advise("Allow other origins only for models that you trust."))
    }
}

impl CacheHints for HttpSource {
    fn reject(&self) {
        if let Some(mirrored) = &self.mirrored {
            mirrored.reject();
        }
    }
}

impl Source for HttpSource {
    type Body = HttpBody;

    fn name(&self) -> &str {
        self.url.as_str()
    }

    async fn read(&self, range: Range<u64>) -> Result<RangeResponse<HttpBody>> {
        match &self.mirrored {
            Some(mirrored) => mirrored.read(self.alone(), range).await,
            None => self.request(range).await,
        }
    }

    fn host(&self) -> &dyn Host {
        &self.shared.host
    }
}

impl ModelSource for HttpSource {
    fn file_name(&self) -> Option<String> {
        part_urls::file_name(self.url.as_str())
    }

    fn part(&self, path: &str) -> Result<Self> {
        let url = self.part_url(&self.url, path)?;
        self.check_origin(&url)?;
        let hub_file = self.hub_file.as_ref().and_then(|file| HubFile::new(&file.repository, url.as_str()));
        let url_at = |address: &str| self.part_url(&parse_url(address)?, path).map(String::from);
        let mirrored = self.mirrored.as_ref().map(|mirrored| mirrored.part(url.to_string(), &url_at));
        Ok(HttpSource { url, hub_file, mirrored, history: Rc::default(), ..self.clone() })
    }

    fn part_at_url(&self, url: &str, _: &str) -> Result<Self> {
        let url = parse_url(url)?;
        self.check_origin(&url)?; // reports the error when the model is opened
        let (hub_file, mirrored, history) = (None, None, Rc::default());
        Ok(HttpSource { url, is_from_manifest: true, hub_file, mirrored, history, ..self.clone() })
    }

    async fn located(self) -> Result<Self> {
        self.on_hub().await
    }

    fn files_beside(&self) -> Vec<String> {
        let is_repository = self.shared.address.as_ref().is_some_and(|address| address.is_repository());
        match self.hub_file.as_ref().filter(|_| is_repository) {
            Some(file) => file.repository.files_beside(self.url.as_str()),
            None => Vec::new(),
        }
    }

    fn mirrors(&self) -> Vec<Mirror> {
        HttpSource::mirrors(self)
    }

    fn stated_digest(&self) -> Option<Digest> {
        self.hub_file.as_ref()?.repository.digest_of(self.url.as_str())
    }
}

/// The body of a file: that of one HTTP response, or those of several addresses.
#[derive(Debug)]
pub struct HttpBody(BodyOrigin);

#[derive(Debug)]
enum BodyOrigin {
    Response(ResponseBody),
    Mirrored(MirroredBody<Vec<u8>>),
}

#[derive(Debug)]
struct ResponseBody {
    response: Response,
    /// Number of remaining bytes, if known.
    left: Option<u64>,
    /// Received bytes that were not read yet.
    chunk: Bytes,
}

impl Body for HttpBody {
    type Buffer = Vec<u8>;

    async fn read(&mut self, into: &mut Vec<u8>, at: Range<u64>) -> Result<u64> {
        match &mut self.0 {
            BodyOrigin::Response(body) => body.read(into, at).await,
            BodyOrigin::Mirrored(body) => body.read(into, at).await,
        }
    }
}

impl ResponseBody {
    async fn read(&mut self, into: &mut Vec<u8>, at: Range<u64>) -> Result<u64> {
        if !self.receive().await? {
            return Ok(0);
        }
        let capacity = usize::try_from(at.end - at.start).unwrap_or(usize::MAX);
        let taken = self.chunk.split_to(capacity.min(self.chunk.len()));
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(taken.len() as u64).ok_or_else(answer::too_long)?;
            // Without Content-Length, only the end of the body shows that it is not longer than the requested range.
            if *left == 0 && self.response.content_length().is_none() && self.receive().await? {
                return Err(answer::too_long());
            }
        }
        into.write(at.start, &taken)?;
        Ok(taken.len() as u64)
    }

    /// Waits for the next bytes. Returns `false` at the end.
    async fn receive(&mut self) -> Result<bool> {
        while self.chunk.is_empty() {
            match self.response.chunk().await.map_err(|error| network_error("the connection broke", error))? {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

fn head_of(response: &Response) -> answer::Head {
    let text = |name: &HeaderName| text(response, name);
    answer::Head {
        status: response.status().as_u16(),
        content_range: text(&header::CONTENT_RANGE),
        content_length: text(&header::CONTENT_LENGTH).and_then(|value| value.parse().ok()),
        content_encoding: text(&header::CONTENT_ENCODING),
        content_type: text(&header::CONTENT_TYPE),
        etag: text(&header::ETAG),
        last_modified: text(&header::LAST_MODIFIED),
        retry_after_ms: text(&header::RETRY_AFTER)
            .and_then(|value| retry_after_ms(&value))
            .or_else(|| text(&RATE_LIMIT).and_then(|value| answer::rate_limit_ms(&value))),
    }
}

/// Parses a `Retry-After` header: a number of seconds or a date.
fn retry_after_ms(value: &str) -> Option<u64> {
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(seconds.saturating_mul(1000));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let wait = until.duration_since(SystemTime::now()).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}
