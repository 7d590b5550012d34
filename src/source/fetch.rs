//! A URL, read by `fetch` with Range requests.

use super::history::{History, ask_until_settled};
use super::stream::{StreamBody, broken, used};
use super::{Answer, answer};
use crate::browser::type_tag::tag;
#[cfg(feature = "js")]
use crate::cache::key::partition;
use crate::error::{Error, ErrorKind, Result};
use js_sys::{Date, Function, Promise, Reflect, decode_uri_component, encode_uri_component};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, Headers, RequestCache, RequestCredentials, RequestInit, Response, ResponseType, Url};

/// A file whose first ranges were not answered at all, so many times in a row, is asked for as a whole. As often as a
/// file that never answered is asked again.
const FAILURES_BEFORE_WHOLE: u32 = 2;

/// How requests are made.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Client {
    /// Called in place of `globalThis.fetch`.
    pub fetch: Option<Function>,
    /// Sent to `origin` and to no other.
    pub headers: Vec<(String, String)>,
    /// Sent to `origin` and to no other.
    pub credentials: Option<RequestCredentials>,
    /// The origin of the URL that the caller named.
    pub origin: String,
    /// Counts the requests that are made.
    pub requests: Rc<Cell<u64>>,
}

/// A file at a URL.
#[derive(Debug, Clone)]
pub struct FetchSource {
    url: String,
    client: Rc<Client>,
    /// Whether a manifest named it, and not the caller.
    is_elsewhere: bool,
    /// How many requests for a range of it failed without an answer; `None` once one was answered.
    failures: Rc<Cell<Option<u32>>>,
    history: Rc<History>,
}

impl FetchSource {
    /// The file at an absolute URL.
    pub fn new(url: String, client: Rc<Client>) -> Self {
        FetchSource { url, client, is_elsewhere: false, failures: unanswered(), history: Rc::default() }
    }

    /// What errors call it.
    pub fn name(&self) -> &str {
        &self.url
    }

    /// As [`Source::file_name`](super::Source::file_name): the last segment of the path, unescaped.
    pub fn file_name(&self) -> Option<String> {
        let path = Url::new(&self.url).ok()?.pathname();
        let segment = path.rsplit('/').next()?;
        Some(decode_uri_component(segment).map_or_else(|_| segment.to_owned(), String::from))
    }

    /// As [`Source::read`](super::Source::read). Redirects are followed anew each time: signed URLs expire.
    ///
    /// # Errors
    /// As for [`Source::read`](super::Source::read).
    pub async fn read(&self, range: Range<u64>) -> Result<Answer<StreamBody>> {
        ask_until_settled(&self.history, range, async |range| self.ask(range).await).await
    }

    /// Asks for a range of the file; for all of it where ranges of it cannot be used.
    async fn ask(&self, range: &Range<u64>) -> Result<Answer<StreamBody>> {
        let (response, controller) = self.request_range(range).await?;
        let head = head_of(&response);
        if head.proves_nothing() {
            self.history.note_unproven_range();
        }
        // A range of an encoded file cannot be decoded from its middle. Without a Range header the browser
        // decodes the whole.
        if head.proves_nothing() || (head.status == 206 && head.content_encoding.is_some()) {
            controller.abort();
            let (response, controller) = self.request(None).await?;
            return into_answer(range, response, controller);
        }
        into_answer(range, response, controller)
    }

    /// As [`Source::part`](super::Source::part): a path is a file name, so what means something in a URL is escaped.
    ///
    /// # Errors
    /// `UNSUPPORTED` if the URL has no folder, as `data:` URLs.
    pub fn part(&self, path: &str) -> Result<Self> {
        let escaped: Vec<String> = path.split('/').map(|segment| encode_uri_component(segment).into()).collect();
        match Url::new_with_base(&escaped.join("/"), &self.url) {
            Ok(url) => {
                Ok(FetchSource { url: url.href(), failures: unanswered(), history: Rc::default(), ..self.clone() })
            }
            Err(_) => {
                let what = format!("a URL like this has no files beside it, so \"{path}\" cannot be found");
                Err(Error::new(ErrorKind::Unsupported, what))
            }
        }
    }

    /// As [`Source::elsewhere`](super::Source::elsewhere): neither headers nor credentials go there, also not where it
    /// is of the caller's origin. Whoever writes a manifest must not choose what is asked for in the caller's name.
    pub fn elsewhere(&self, url: &str) -> Self {
        let (client, failures, history) = (Rc::clone(&self.client), unanswered(), Rc::default());
        FetchSource { url: url.to_owned(), client, is_elsewhere: true, failures, history }
    }

    /// A hash of the caller's headers and credentials, where requests for this file carry any: see
    /// [`partition`](crate::cache::key::partition).
    #[cfg(feature = "js")]
    pub fn partition(&self) -> Option<String> {
        let Client { headers, credentials, .. } = &*self.client;
        let includes_cookies = matches!(credentials, Some(RequestCredentials::Include));
        if self.is_elsewhere || !self.is_at_origin() { None } else { partition(headers, includes_cookies) }
    }

    /// Whether the file is at the origin that the caller's headers are for.
    fn is_at_origin(&self) -> bool {
        Url::new(&self.url).is_ok_and(|url| url.origin() == self.client.origin)
    }

    /// Asks for a range; for all of the file where no answer to a range ever came through. Chromium fails where the
    /// answer is encoded, because it does not offer encodings along with ranges, and does not say why; the whole it
    /// decodes.
    async fn request_range(&self, range: &Range<u64>) -> Result<(Response, AbortController)> {
        let failures = self.failures.get();
        if self.history.wants_whole_file() || failures.is_some_and(|failures| failures >= FAILURES_BEFORE_WHOLE) {
            return self.request(None).await;
        }
        let answered = self.request(Some(range)).await;
        self.failures.set(failures.filter(|_| answered.is_err()).map(|failures| failures + 1));
        answered
    }

    async fn request(&self, range: Option<&Range<u64>>) -> Result<(Response, AbortController)> {
        let no_browser = |cause| broken("this environment has no fetch", cause);
        let controller = AbortController::new().map_err(no_browser)?;
        let headers = Headers::new().map_err(no_browser)?;
        let init = RequestInit::new();
        if self.is_elsewhere {
            init.set_credentials(RequestCredentials::Omit); // fetch would send the page's own origin its cookies
        } else if self.is_at_origin() {
            for (name, value) in &self.client.headers {
                headers.set(name, value).map_err(|cause| {
                    let mut error = broken(&format!("the header \"{name}\" cannot be sent"), cause);
                    (error.kind, error.is_transient) = (ErrorKind::InvalidArgument, false);
                    error
                })?;
            }
            if let Some(credentials) = self.client.credentials {
                init.set_credentials(credentials);
            }
        }
        if let Some(range) = range {
            let inclusive = format!("bytes={}-{}", range.start, range.end - 1);
            headers.set("Range", &inclusive).map_err(no_browser)?;
        }
        init.set_headers(&headers);
        // Chromium's HTTP cache serialises parallel ranges of one URL, and a warm one is slower than loopback.
        init.set_cache(RequestCache::NoStore);
        init.set_signal(Some(&controller.signal()));
        self.client.requests.set(self.client.requests.get() + 1);
        let pending = Pending(Some(controller.clone()));
        let response = self.call_fetch(&init).await;
        pending.has_ended();
        let response = response.map_err(|cause| broken("the request failed", cause))?;
        if tag(&response) != "[object Response]" {
            return Err(Error::new(ErrorKind::InvalidArgument, "`fetch` gave something that is not a Response"));
        }
        let response: Response = response.unchecked_into();
        if response.body_used() {
            return Err(used("`fetch` gave a Response whose body was read already", None));
        }
        Ok((response, controller))
    }

    async fn call_fetch(&self, init: &RequestInit) -> Result<JsValue, JsValue> {
        let global = js_sys::global();
        let fetch = match &self.client.fetch {
            Some(fetch) => fetch.clone(),
            None => Reflect::get(&global, &"fetch".into())?.dyn_into::<Function>()?,
        };
        let promise = fetch.call2(&global, &self.url.as_str().into(), init)?;
        JsFuture::from(Promise::resolve(&promise)).await
    }
}

/// A request without an answer yet. Dropping it aborts the request: the browser would go on and fetch all of the body,
/// for nobody.
struct Pending(Option<AbortController>);

impl Pending {
    fn has_ended(mut self) {
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

fn unanswered() -> Rc<Cell<Option<u32>>> {
    Rc::new(Cell::new(Some(0)))
}

fn head_of(response: &Response) -> answer::Head {
    let header = |name| header(response, name);
    let content_encoding = header("Content-Encoding");
    // Of another origin the encoding may be hidden, but not the length, which is then that of the encoded body.
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
        retry_after_ms: header("Retry-After").and_then(|value| retry_after_ms(&value)),
    }
}

fn into_answer(asked: &Range<u64>, response: Response, controller: AbortController) -> Result<Answer<StreamBody>> {
    let head = head_of(&response);
    let checked = answer::check(asked, &head, ()).inspect_err(|_| controller.abort())?;
    let length = checked.end.map(|end| end - checked.start);
    let mut body = StreamBody::new(response.body(), length, Some(controller))?;
    body.must_end = head.content_length.is_none();
    Ok(checked.map(|()| body))
}

/// A number of seconds, or the date until which to wait.
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
