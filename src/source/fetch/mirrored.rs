//! A file at one of several URLs. The code is deferred in the npm package.

use super::{FetchSource, no_failures};
use crate::browser::host::BrowserHost;
use crate::error::Result;
use crate::host::Host;
use crate::source::RangeResponse;
use crate::source::mirrors::{Address, MirroredFile, Mirrors};
use crate::source::stream::StreamBody;
use futures::future::{FutureExt, LocalBoxFuture};
use std::ops::Range;
use std::rc::Rc;

impl FetchSource {
    /// Adds the addresses of the opened file.
    #[inline(never)]
    pub(crate) fn with_mirrors(self, mirrors: &Rc<Mirrors>) -> Self {
        FetchSource { mirrored: Some(MirroredFile::new(Rc::clone(mirrors))), ..self }
    }

    fn alone(&self) -> Self {
        FetchSource { mirrored: None, ..self.clone() }
    }
}

/// Reads a range of the file from one of its addresses.
#[inline(never)]
pub(super) fn read(
    source: &FetchSource,
    file: &Rc<MirroredFile<FetchSource>>,
    range: Range<u64>,
) -> LocalBoxFuture<'static, Result<RangeResponse<StreamBody>>> {
    let reading = file.read(source.alone(), range);
    async move {
        let answer = reading.await?;
        let length = answer.end.map(|end| end - answer.start);
        Ok(answer.map(|body| StreamBody::mirrored(body, length)))
    }
    .boxed_local()
}

/// The addresses of another file of the model, which is at `url`.
#[inline(never)]
pub(super) fn part(
    source: &FetchSource,
    file: &MirroredFile<FetchSource>,
    url: &str,
    path: &str,
) -> Rc<MirroredFile<FetchSource>> {
    file.part(url.to_owned(), &|address| source.part_url(address, path))
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

    fn host(&self) -> &dyn Host {
        &BrowserHost
    }
}
