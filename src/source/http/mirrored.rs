//! A file at one of several URLs.

use super::client::parse_url;
use super::{BodyOrigin, HttpBody, HttpSource};
use crate::error::Result;
use crate::host::Host;
use crate::source::RangeResponse;
use crate::source::history::request_with_known_version;
use crate::source::mirrors::{Address, MirroredBody};
use reqwest::Url;
use std::ops::Range;
use std::rc::Rc;

impl HttpSource {
    /// The file at its own URL only.
    pub(super) fn alone(&self) -> Self {
        HttpSource { mirrored: None, ..self.clone() }
    }

    /// The URL of another file of the model, from an address of this one.
    pub(super) fn part_url(&self, address: &Url, path: &str) -> Result<Url> {
        let url = self.part_urls.url_of(address.as_str(), path, |part| address.join(part).ok())?;
        parse_url(url.as_str()).map_err(|error| error.in_file(url.as_str()))
    }
}

impl Address for HttpSource {
    type Body = HttpBody;

    fn at(&self, url: &str) -> Result<Self> {
        let (url, hub_file, history) = (parse_url(url)?, None, Rc::default());
        Ok(HttpSource { url, hub_file, history, ..self.alone() })
    }

    async fn request(&self, range: Range<u64>) -> Result<RangeResponse<HttpBody>> {
        request_with_known_version(&self.history, range, async |range| self.read_once(range).await).await
    }

    fn body(body: MirroredBody<Vec<u8>>, _: Option<u64>) -> HttpBody {
        HttpBody(BodyOrigin::Mirrored(body))
    }

    fn host(&self) -> &dyn Host {
        &self.shared.host
    }
}
