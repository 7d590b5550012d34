//! A file at one of several URLs. The code is deferred in the npm package.

use super::{FetchSource, no_failures};
use crate::browser::host::BrowserHost;
use crate::error::Result;
use crate::host::Host;
use crate::source::RangeResponse;
use crate::source::js_buffer::JsBuffer;
use crate::source::mirrors::{Address, MirroredBody, MirroredFile, Mirrors};
use crate::source::stream::StreamBody;
use std::ops::Range;
use std::rc::Rc;

impl FetchSource {
    /// Adds the addresses of the opened file.
    #[inline(never)]
    pub(crate) fn with_mirrors(self, mirrors: &Rc<Mirrors>) -> Self {
        FetchSource { mirrored: Some(MirroredFile::new(Rc::clone(mirrors))), ..self }
    }

    /// The file at its own URL only.
    #[inline(never)] // so that the code is deferred
    pub(super) fn alone(&self) -> Self {
        FetchSource { mirrored: None, ..self.clone() }
    }
}

impl Address for FetchSource {
    type Body = StreamBody;

    fn at(&self, url: &str) -> Result<Self> {
        let (url, failures, history) = (url.to_owned(), no_failures(), Rc::default());
        Ok(FetchSource { url, hub_file: None, failures, history, ..self.alone() })
    }

    async fn request(&self, range: Range<u64>) -> Result<RangeResponse<StreamBody>> {
        self.read_alone(range).await
    }

    fn body(body: MirroredBody<JsBuffer>, length: Option<u64>) -> StreamBody {
        StreamBody::mirrored(body, length)
    }

    fn host(&self) -> &dyn Host {
        &BrowserHost
    }
}
