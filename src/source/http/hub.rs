//! Files on a hub: where they are, and the signed URLs that the hub redirects to.

use super::{HttpSource, MAX_REDIRECTS, head_of, network_error, parse_url, redirect_target, text};
use crate::error::Result;
use crate::host::Host;
use crate::hub::{self, HubFile, Redirect, Reply};
use crate::source::Source;
use reqwest::header::{self, HeaderName};
use reqwest::{Response, Url};
use std::time::SystemTime;

/// A header of a request.
pub(super) type Header = (HeaderName, String);

impl HttpSource {
    /// Pins the revision, if this is a file on a hub.
    ///
    /// # Errors
    /// Those of [`locate`](hub::locate).
    pub(super) async fn on_hub(self) -> Result<Self> {
        let Some(address) = self.shared.address.as_ref().filter(|_| self.hub_file.is_none()) else { return Ok(self) };
        Ok(match hub::locate(address, &Transport(&self)).await? {
            Some(located) => HttpSource {
                hub_file: HubFile::new(&located.repository, &located.url),
                url: parse_url(&located.url)?,
                ..self
            },
            None => self,
        })
    }

    /// Requests the URL that the hub redirected to before, while it is valid, and otherwise asks the hub.
    pub(super) async fn request_on_hub(&self, file: &HubFile, header: Option<Header>) -> Result<Response> {
        let HubFile { redirect, .. } = file;
        if let Some(response) = self.request_target(redirect, header.clone()).await {
            return Ok(response);
        }
        let _asking = redirect.asking.lock().await;
        // Another connection may have asked.
        if let Some(response) = self.request_target(redirect, header.clone()).await {
            return Ok(response);
        }
        let response = self.follow(&self.url, header).await?;
        if response.status().is_success() {
            redirect.record(self.url.as_str(), response.url().to_string(), now_ms());
        }
        Ok(response)
    }

    /// Requests the URL that the hub redirected to. `None` if there is none, or if it does not work any more.
    async fn request_target(&self, redirect: &Redirect, header: Option<Header>) -> Option<Response> {
        let target = parse_url(&redirect.target(now_ms())?).ok()?;
        match self.follow(&target, header).await {
            Ok(response) if response.status().is_success() || response.status().as_u16() == 416 => Some(response),
            _ => {
                redirect.forget();
                None
            }
        }
    }
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Sends requests to the hub with the settings of a source.
struct Transport<'a>(&'a HttpSource);

impl hub::Transport for Transport<'_> {
    async fn get(&self, url: &str, accept: &str) -> Result<Reply> {
        let mut url = parse_url(url)?;
        let send = async |url: &Url| {
            self.0.send(url, Some(&self.0.shared.headers), Some((header::ACCEPT, accept.to_owned()))).await
        };
        self.0.check_origin(&url)?;
        let mut response = send(&url).await?;
        for _ in 0..MAX_REDIRECTS {
            // The hub redirects the name of a renamed repository. A redirect to the storage is an answer: its headers
            // describe the file.
            let on_hub = redirect_target(&response, &url)?.filter(|target| target.origin() == url.origin());
            let Some(target) = on_hub else { break };
            url = target;
            response = send(&url).await?;
        }
        let head = head_of(&response);
        let header = |name: &str| text(&response, &HeaderName::from_bytes(name.as_bytes()).ok()?);
        let mut reply = Reply::new(head.status, head.retry_after_ms, header);
        if !reply.is_text() {
            return Ok(reply);
        }
        while let Some(chunk) = response.chunk().await.map_err(|error| network_error("the connection broke", error))? {
            if !reply.can_take(chunk.len() as u64) {
                break;
            }
            reply.body.extend_from_slice(&chunk);
        }
        Ok(reply)
    }

    fn host(&self) -> &dyn Host {
        self.0.host()
    }
}
