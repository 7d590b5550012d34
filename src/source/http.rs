//! A URL, read natively by an HTTP client with Range requests.

use super::history::{History, ask_until_settled};
use super::{Answer, Body, Buffer, Source, answer};
use crate::error::{Error, ErrorKind, Result};
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url, redirect};
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

/// A host that does not take a connection within so long is taken for dead: shorter than a stall.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// As many as browsers follow.
const MAX_REDIRECTS: usize = 20;

/// What a file's name may hold as it is when it is a segment of a URL's path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A file at a URL. Its futures want a tokio runtime with I/O and time; one of a single thread is enough.
#[derive(Debug, Clone)]
pub struct HttpSource {
    url: Url,
    caller: Rc<Caller>,
    /// Whether a manifest named it, and not the caller.
    is_elsewhere: bool,
    history: Rc<History>,
    /// Whether other origins than that of the caller's URL are refused.
    same_origin_only: bool,
}

/// What all files of a model have in common.
#[derive(Debug)]
struct Caller {
    client: Client,
    /// The URL that the caller named.
    url: Url,
    /// Sent to the origin of that URL and to no other.
    headers: HeaderMap,
    /// When time began.
    start: Instant,
}

impl HttpSource {
    /// The file at `url`, with headers (name and value) that are sent to its origin and to no other: neither to where
    /// the server redirects, nor to where a manifest says that files are.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for what is no http(s) URL, or holds a password, and for headers that cannot be sent. The
    /// error does not tell a header's value.
    pub fn new(url: &str, headers: &[(String, String)]) -> Result<Self> {
        let url = parse_url(url)?;
        if !url.username().is_empty() || url.password().is_some() {
            // Errors tell the URL, so it is no place for secrets. Browsers refuse them, too.
            let error = Error::new(ErrorKind::InvalidArgument, "the URL holds a name or a password");
            return Err(error.advise("Take it out of the URL and send it as a header."));
        }
        let caller =
            Caller { client: client()?, url: url.clone(), headers: checked_headers(headers)?, start: Instant::now() };
        let (caller, history) = (Rc::new(caller), Rc::default());
        Ok(HttpSource { url, caller, is_elsewhere: false, history, same_origin_only: false })
    }

    /// Refuses redirects to, and files that a manifest has at, any other origin (scheme, host and port) than that of
    /// the URL which was opened: nothing is asked of them. Meant for servers that read models for others, where a model
    /// must not choose which hosts of the network are asked.
    ///
    /// Without this call they are followed: hubs redirect every download to the host that stores it.
    #[must_use]
    pub fn same_origin_only(self) -> Self {
        HttpSource { same_origin_only: true, ..self }
    }

    /// Asks for a range of the file; for all of it where ranges of it cannot be used.
    async fn ask(&self, range: &Range<u64>) -> Result<Answer<HttpBody>> {
        let wanted = Some(range).filter(|_| !self.history.wants_whole_file());
        let response = self.request(wanted).await?;
        let head = head_of(&response);
        if head.proves_nothing() {
            self.history.note_unproven_range();
        }
        // Some hosts encode ranges only.
        if head.proves_nothing() || (head.status == 206 && head.content_encoding.is_some()) {
            drop(response);
            return into_answer(range, self.request(None).await?);
        }
        into_answer(range, response)
    }

    /// Asks for a range of the file, or all of it. Redirects are followed anew each time: signed URLs expire.
    async fn request(&self, range: Option<&Range<u64>>) -> Result<Response> {
        let mut url = self.url.clone();
        // Once a redirect has led away, nothing that follows is the caller's choice.
        let mut is_trusted = !self.is_elsewhere;
        for _ in 0..=MAX_REDIRECTS {
            self.check_origin(&url)?;
            is_trusted &= url.origin() == self.caller.url.origin();
            if self.caller.url.scheme() == "https" && url.scheme() != "https" {
                let what = format!("it leads from https to {}, where anybody on the way can change it", place(&url));
                return Err(Error::new(ErrorKind::Http, what).advise("Use a host that stays with https."));
            }
            let mut request = self.caller.client.get(url.clone());
            if is_trusted {
                request = request.headers(self.caller.headers.clone());
            }
            // The bytes of an encoded range cannot be decoded from its middle.
            request = request.header(header::ACCEPT_ENCODING, "identity");
            if let Some(range) = range {
                request = request.header(header::RANGE, format!("bytes={}-{}", range.start, range.end - 1));
            }
            let response = request.send().await.map_err(|error| broken("the request failed", error))?;
            match redirect_target(&response, &url)? {
                Some(target) => url = target,
                None => return Ok(response),
            }
        }
        Err(Error::new(ErrorKind::Http, format!("the server redirects more than {MAX_REDIRECTS} times")))
    }

    /// Asked of every URL before it is requested, whoever named it.
    fn check_origin(&self, url: &Url) -> Result<()> {
        let own = self.caller.url.origin();
        if !self.same_origin_only || url.origin() == own {
            return Ok(());
        }
        let (own, place) = (own.ascii_serialization(), place(url));
        let what = format!("the model leads to {place}, and only files of {own} are allowed");
        Err(Error::new(ErrorKind::Http, what).advise("Allow other origins only for models that you trust."))
    }
}

impl Source for HttpSource {
    type Body = HttpBody;

    fn name(&self) -> &str {
        self.url.as_str()
    }

    fn file_name(&self) -> Option<String> {
        let segment = self.url.path_segments()?.next_back()?;
        Some(percent_decode_str(segment).decode_utf8().map_or_else(|_| segment.to_owned(), String::from))
    }

    async fn read(&self, range: Range<u64>) -> Result<Answer<HttpBody>> {
        ask_until_settled(&self.history, range, async |range| self.ask(range).await).await
    }

    fn part(&self, path: &str) -> Result<Self> {
        let escaped: Vec<String> =
            path.split('/').map(|segment| utf8_percent_encode(segment, SEGMENT).to_string()).collect();
        match self.url.join(&escaped.join("/")) {
            Ok(url) => Ok(HttpSource { url, history: Rc::default(), ..self.clone() }),
            Err(_) => {
                let what = format!("a URL like this has no files beside it, so \"{path}\" cannot be found");
                Err(Error::new(ErrorKind::Unsupported, what))
            }
        }
    }

    fn elsewhere(&self, url: &str, _: &str) -> Result<Self> {
        let url = parse_url(url)?;
        self.check_origin(&url)?; // told by the opening already
        Ok(HttpSource { url, is_elsewhere: true, history: Rc::default(), ..self.clone() })
    }

    async fn pause(&self, delay_ms: u64) {
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    }

    fn now_ms(&self) -> u64 {
        self.caller.start.elapsed().as_millis() as u64
    }

    fn random(&self) -> f64 {
        RandomState::new().hash_one(0) as f64 / u64::MAX as f64
    }
}

/// The body of an HTTP answer.
#[derive(Debug)]
pub struct HttpBody {
    response: Response,
    /// How many bytes are still to come, where that is known.
    left: Option<u64>,
    /// What has come and was not taken yet.
    chunk: Bytes,
}

impl Body for HttpBody {
    type Buffer = Vec<u8>;

    async fn read(&mut self, into: &mut Vec<u8>, at: Range<u64>) -> Result<u64> {
        if !self.receive().await? {
            return Ok(0);
        }
        let room = usize::try_from(at.end - at.start).unwrap_or(usize::MAX);
        let taken = self.chunk.split_to(room.min(self.chunk.len()));
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(taken.len() as u64).ok_or_else(answer::too_long)?;
            // A body without Content-Length ends where it ends: nothing may follow the bytes that were asked for.
            if *left == 0 && self.response.content_length().is_none() && self.receive().await? {
                return Err(answer::too_long());
            }
        }
        into.write(at.start, &taken)?;
        Ok(taken.len() as u64)
    }
}

impl HttpBody {
    /// Waits for the next bytes; false at the end.
    async fn receive(&mut self) -> Result<bool> {
        while self.chunk.is_empty() {
            match self.response.chunk().await.map_err(|error| broken("the connection broke", error))? {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

fn client() -> Result<Client> {
    let no_client = |error: String| Error::new(ErrorKind::Io, format!("no secure connections can be made: {error}"));
    Client::builder()
        .tls_backend_preconfigured(TLS.clone().map_err(no_client)?)
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("weightstream/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| no_client(error.to_string()).with_cause(error))
}

/// To read the system's certificates takes long enough to do it once.
static TLS: LazyLock<std::result::Result<ClientConfig, String>> = LazyLock::new(|| {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.and_then(BuilderVerifierExt::with_platform_verifier).map_err(|error| error.to_string())?;
    Ok(builder.with_no_client_auth())
});

fn parse_url(url: &str) -> Result<Url> {
    let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    parsed.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "this is no http or https URL"))
}

fn checked_headers(headers: &[(String, String)]) -> Result<HeaderMap> {
    let mut checked = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| Error::new(ErrorKind::InvalidArgument, "a header has a name that cannot be sent"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            Error::new(ErrorKind::InvalidArgument, format!("the header \"{name}\" has a value that cannot be sent"))
        })?;
        value.set_sensitive(true);
        checked.append(name, value);
    }
    Ok(checked)
}

/// Where a redirect leads.
fn redirect_target(response: &Response, url: &Url) -> Result<Option<Url>> {
    let redirects = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = text(response, &header::LOCATION).filter(|_| redirects) else { return Ok(None) };
    let target = url.join(&location).ok().and_then(|target| parse_url(target.as_str()).ok());
    target.map(Some).ok_or_else(|| {
        let error = Error::new(ErrorKind::Http, "the server redirects to something that is no http or https URL");
        error.with_status(response.status().as_u16())
    })
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
        retry_after_ms: text(&header::RETRY_AFTER).and_then(|value| retry_after_ms(&value)),
    }
}

fn into_answer(asked: &Range<u64>, response: Response) -> Result<Answer<HttpBody>> {
    let head = head_of(&response);
    let checked = answer::check(asked, &head, ())?;
    if let (true, Some(encoding)) = (head.is_encoded(), &head.content_encoding) {
        let what =
            format!("the server sends the file with Content-Encoding {encoding}, though asked for the plain bytes");
        let error = Error::new(ErrorKind::Unsupported, what).with_status(head.status);
        return Err(error.advise("Switch compression off for this file on the server."));
    }
    let left = checked.end.map(|end| end - checked.start);
    Ok(checked.map(|()| HttpBody { response, left, chunk: Bytes::new() }))
}

/// A number of seconds, or the date until which to wait.
fn retry_after_ms(value: &str) -> Option<u64> {
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(seconds.saturating_mul(1000));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let wait = until.duration_since(SystemTime::now()).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}

fn text(response: &Response, name: &HeaderName) -> Option<String> {
    let value = response.headers().get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// A URL without what may be secret in it: the query of a signed one.
fn place(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// A network error, with the innermost reason for it: the outer ones only say that there is one.
fn broken(what: &str, error: reqwest::Error) -> Error {
    let lasting = error.is_builder();
    let error = error.without_url();
    let mut reason: &dyn std::error::Error = &error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    let error = Error::new(ErrorKind::Network, format!("{what} ({reason})"))
        .advise("Check the connection and the name of the host, then try again.")
        .with_cause(error);
    if lasting { error } else { error.transient() }
}
