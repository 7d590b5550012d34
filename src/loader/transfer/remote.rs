//! The responses to requests for a range of a file.

use crate::algorithm::Algorithm;
use crate::error::Result;
use crate::loader::transfer::signed::StoredBody;
use crate::loader::transfer::stats::Stats;
use crate::loader::transfer::unpack::FileBody;
use crate::source::Body;
use futures::future::LocalBoxFuture;
use std::ops::Range;
use std::rc::Rc;

/// The body of one response.
pub(crate) struct Remote<B: Body> {
    pub(crate) body: FileBody<StoredBody<B>>,
    /// The offset of the body's next byte in the file.
    pub(crate) position: u64,
    /// The offset of the body's end in the file, if it is known.
    pub(crate) end: Option<u64>,
    /// Whether the body started at the file's start, whatever range was requested.
    pub(crate) is_from_start: bool,
    pub(crate) proof: Proof,
}

/// Files whose bytes follow each other.
pub(crate) trait Joined<B: Body> {
    /// Begins to read `range`. Also returns the length of all files together.
    fn request(self: Rc<Self>, range: Range<u64>) -> LocalBoxFuture<'static, Result<(Remote<B>, u64)>>;

    /// Requires that all later reads of each file are of one version.
    fn keep_one_version(&self);

    /// The algorithm of the signed digests of each file.
    fn signed_by(&self) -> Option<Algorithm>;
}

/// What proves that a response is of the same version of the file as the responses before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The same strong ETag.
    Strong,
    /// The same Last-Modified date, which counts in whole seconds.
    Weak,
    /// Nothing.
    None,
}

impl<B: Body> Remote<B> {
    /// Whether the rest of the body contains `range`. A body that started at the file's start contains the whole rest
    /// of the file.
    pub(crate) fn contains(&self, range: &Range<u64>) -> bool {
        if self.is_from_start {
            return self.position <= range.start;
        }
        self.position == range.start && self.end.is_some_and(|end| range.end <= end)
    }

    /// Like [`Body::read`], and counts the bytes.
    pub(crate) async fn read(&mut self, into: &mut B::Buffer, at: Range<u64>, stats: &Stats) -> Result<u64> {
        let count = self.body.read(into, at).await?;
        self.position += count;
        if let FileBody::Stored(body) = &self.body {
            stats.count_received(count, body.is_cached());
        }
        Ok(count)
    }
}
