//! Files that may be on a hub.

use super::{Client, FetchSource, on_hub, origin_of};
#[cfg(feature = "web-workers")]
use crate::cache::key::without_fragment;
use crate::error::Result;
use crate::hub;
use web_sys::Url;

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
        on_hub::located(self).await
    }

    /// The URL that names the file in a cache: that of a pinned file does not contain the commit, so that it is found
    /// without a connection to the hub, too. It has no fragment.
    #[cfg(feature = "web-workers")]
    pub(crate) fn cache_url(&self) -> String {
        let unpinned = self.hub_file.as_ref().and_then(|file| file.repository.unpinned(&self.url));
        without_fragment(&unpinned.unwrap_or_else(|| self.url.clone())).to_owned()
    }
}
