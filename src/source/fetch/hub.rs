//! Files on a hub: where they are, and the signed URLs that the hub redirects to.

use super::{Client, FetchSource, head_of, header, origin_of};
use crate::browser::host::BrowserHost;
#[cfg(feature = "web-workers")]
use crate::cache::key::without_fragment;
use crate::error::Result;
use crate::host::Host;
use crate::hub::{self, Address, HubFile, Redirect, Reply};
use crate::source::js_buffer::JsBuffer;
use crate::source::stream::StreamBody;
use crate::source::{Body, Buffer};
use futures::FutureExt;
use js_sys::Date;
use web_sys::{AbortController, Response, Url};

/// A header of a request.
pub(super) type Header<'a> = (&'a str, String);

impl Client {
    /// Sets the origin that receives the headers, unless it is set, to that of a URL or of a hub. An address or a URL
    /// on a hub adds the token to the headers.
    #[must_use]
    pub(crate) fn for_url(mut self, url: Option<&str>) -> Self {
        let is_on_hub = url.is_some_and(|url| hub::is_on_hub(url, &self.hub.endpoint));
        if self.origin.is_empty() {
            let url = if is_on_hub { Some(self.hub.endpoint.as_str()) } else { url };
            self.origin = url.and_then(|url| Url::new(url).ok()).map(|url| origin_of(&url)).unwrap_or_default();
        }
        let is_signed_in = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if let (Some(token), true, false) = (&self.hub.token, is_on_hub, is_signed_in) {
            self.headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        self
    }
}

impl FetchSource {
    /// Pins the revision of a file on a hub. Any other file stays as it is.
    ///
    /// # Errors
    /// Those of [`locate`](hub::locate); `INVALID_ARGUMENT` for a malformed address.
    pub(crate) async fn located(self) -> Result<Self> {
        if !hub::is_on_hub(&self.url, &self.client.hub.endpoint) {
            return Ok(self);
        }
        #[cfg(feature = "js")]
        crate::browser::deferred::load(crate::deferred::Code::Extras).await?;
        let Some(address) = Address::parse(&self.url, &self.client.hub.endpoint)? else { return Ok(self) };
        let located = hub::locate(&address, &Transport(&self)).boxed_local().await?;
        Ok(match located {
            Some(located) => {
                FetchSource { hub_file: HubFile::new(&located.repository, &located.url), url: located.url, ..self }
            }
            None => FetchSource { url: address.unpinned(), ..self },
        })
    }

    /// The URL that names the file in a cache: that of a pinned file does not contain the commit, so that it is found
    /// without a connection to the hub, too. It has no fragment.
    #[cfg(feature = "web-workers")]
    pub(crate) fn cache_url(&self) -> String {
        let unpinned = self.hub_file.as_ref().and_then(|file| file.repository.unpinned(&self.url));
        without_fragment(&unpinned.unwrap_or_else(|| self.url.clone())).to_owned()
    }

    /// Requests the URL that the hub redirected to before, while it is valid, and otherwise asks the hub.
    pub(super) async fn request_on_hub(
        &self,
        file: &HubFile,
        header: Option<Header<'_>>,
    ) -> Result<(Response, AbortController)> {
        let HubFile { redirect, .. } = file;
        if let Some(answer) = self.request_target(redirect, header.clone()).await {
            return Ok(answer);
        }
        let _asking = redirect.asking.lock().await;
        // Another connection may have asked.
        if let Some(answer) = self.request_target(redirect, header.clone()).await {
            return Ok(answer);
        }
        let (response, controller) = self.send(&self.url, header).await?;
        if response.ok() {
            redirect.record(&self.url, response.url(), Date::now() as u64);
        }
        Ok((response, controller))
    }

    /// Requests the URL that the hub redirected to. `None` if there is none, or if it does not work any more.
    async fn request_target(
        &self,
        redirect: &Redirect,
        header: Option<Header<'_>>,
    ) -> Option<(Response, AbortController)> {
        let target = redirect.target(Date::now() as u64)?;
        // A browser also hides the response to an expired signature if it has no CORS headers.
        if let Ok((response, controller)) = self.send(&target, header).await {
            if response.ok() || response.status() == 416 {
                return Some((response, controller));
            }
            controller.abort();
        }
        redirect.forget();
        None
    }
}

/// Sends requests to the hub with the settings of a source.
struct Transport<'a>(&'a FetchSource);

impl hub::Transport for Transport<'_> {
    async fn get(&self, url: &str, accept: &str) -> Result<Reply> {
        let (response, controller) = self.0.send(url, Some(("Accept", accept.to_owned()))).await?;
        let head = head_of(&response);
        let mut reply = Reply::new(head.status, head.retry_after_ms, |name| header(&response, name));
        if !reply.is_text() {
            controller.abort(); // it may be the whole file
            return Ok(reply);
        }
        let mut body = StreamBody::new(response.body(), None, Some(controller))?;
        let mut buffer = JsBuffer::allocate(hub::PIECE_BYTES)?;
        loop {
            let count = body.read(&mut buffer, 0..hub::PIECE_BYTES).await?;
            if count == 0 || !reply.can_take(count) {
                return Ok(reply);
            }
            buffer.inspect(0..count, &mut |bytes| {
                reply.body.extend_from_slice(bytes);
                Ok(())
            })?;
        }
    }

    fn host(&self) -> &dyn Host {
        &BrowserHost
    }
}
